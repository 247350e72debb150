"""Numbers and short texts as people read them."""

from collections.abc import Mapping, Sequence

from burnish.core.content import Json
from burnish.core.money import Spend
from burnish.runs.driving import SealedResult

_BARS = "▁▂▃▄▅▆▇█"


def money(usd: float | None) -> str:
    """`$0.0123`; an unknown price is unknown."""
    if usd is None:
        return "$?"
    return f"${usd:.2f}" if usd >= 1 or usd == 0 else f"${usd:.4f}"


def duration(seconds: float) -> str:
    """`0.4s`, `14s`, `3m 20s`, `2h 05m`."""
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m {rest:02d}s" if minutes < 60 else f"{minutes // 60}h {minutes % 60:02d}m"


def spending(spend: Spend) -> str:
    """Calls, tokens and USD on one line."""
    parts = [f"{spend.calls:,} calls"]
    if spend.tokens:
        parts.append(f"{spend.tokens:,} tokens")
    parts.append(money(spend.usd))
    return " · ".join(parts)


def number(value: Json) -> str:
    """Three decimals, or a dash."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:.3f}" if known else "—"


def sparkline(values: Sequence[float | None]) -> str:
    """One block a value, low to high; a space where there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(" " if v is None else _BARS[round((v - low) * scale)] for v in values)


def shorten(text: str, width: int) -> str:
    """The text in one line of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: max(0, width - 1)]}…"


def gain_words(numbers: Mapping[str, Json]) -> str:
    """`▼0.034 > bar 0.013`: how much the loss fell, against the noise it had to clear."""
    gain, bar = numbers.get("train_improvement"), numbers.get("noise_bar")
    if not isinstance(gain, int | float) or not isinstance(bar, int | float):
        return ""
    if gain <= 0:
        return f"▲{-gain:.3f}"
    return f"▼{gain:.3f} {'≥' if gain >= bar else '<'} bar {bar:.3f}"


def sealed_words(sealed: SealedResult) -> str:
    """The headline: what the sealed test said, and whether it says anything."""
    before, after = number(sealed.baseline_score), number(sealed.best_score)
    gain = sealed.gain
    if gain is None:
        return f"score {before} (the baseline is the best found)"
    told = f"score {before} → {after}   gain {gain.mean:.3f} [{gain.low:.3f}, {gain.high:.3f}]"
    return told if gain.distinguishable else f"{told}, not distinguishable from noise"
