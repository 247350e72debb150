"""Numbers, texts and differences for people, and the sections and drawings of reports."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from rich.cells import cell_len, set_cell_size

from burnish.core.comparisons import amount, tied, versus
from burnish.core.content import Json
from burnish.core.money import Spend
from burnish.core.surfaces import Change


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """One or more series of numbers over the same labels."""

    title: str
    labels: tuple[str, ...]
    """What the numbers belong to: rounds, iterations, surfaces."""
    series: Mapping[str, tuple[float | None, ...]]
    """By name, one number for each label; None where there is none."""
    unit: str
    kind: Literal["bars", "lines"] = "lines"
    """Bars of several series are stacked."""
    label: str = ""
    """What one label is, as the head of the table."""
    of_surfaces: bool = False
    """Whether the labels are surfaces: then they are also shown on the graph of the steps."""
    note: str = ""


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the title."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    """A paragraph of lines."""

    lines: tuple[str, ...]

    @classmethod
    def of(cls, *lines: str) -> "Text":
        """A paragraph of these lines."""
        return cls(lines)


@dataclass(frozen=True)
class Listing:
    """A list, whose items may have several lines."""

    items: tuple[str, ...]
    lead: str = ""
    """A line above the list."""


@dataclass(frozen=True)
class Facts:
    """Names with values."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Table:
    """Rows under named columns."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Diff:
    """Lines of a unified diff."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Code:
    """Lines of code."""

    lines: tuple[str, ...]
    language: str = ""


@dataclass(frozen=True)
class Series:
    """Numbers in the order of the trials, and a drawing of them for plain text."""

    values: Mapping[str, tuple[float | None, ...]] = field(
        default_factory=dict[str, tuple[float | None, ...]]
    )
    """By name, one value per trial; None if it was not measured."""
    drawing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Page:
    """A Markdown page that the run has written, included as it is."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Space:
    """Extra space before the next section."""


Section: TypeAlias = Heading | Text | Listing | Facts | Table | Diff | Code | Series | Page | Space

_BARS = "▁▂▃▄▅▆▇█"
_CONTROLS = (
    {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
    | {127: 0x2421}
    | dict.fromkeys(range(128, 160), 0xFFFD)
    | dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)
    | dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD)
)
"""Visible signs for control characters, half surrogates, and what turns the writing around."""
_UNESCAPED = re.compile(f"[{''.join(re.escape(chr(code)) for code in _CONTROLS if code > 31)}]")
"""Those that `json.dumps` leaves as they are."""


def money(usd: float | None) -> str:
    """`$0.0123`; `$?` for an unknown price, `<$0.0001` for a very small one."""
    if usd is None:
        return "$?"
    if 0 < usd < 0.00005:
        return "<$0.0001"
    return f"${usd:,.2f}" if usd >= 1 or usd == 0 else f"${usd:.4f}"


def duration(seconds: float) -> str:
    """`0.4s`, `14s`, `3m 20s`, `2h 05m`."""
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m {rest:02d}s" if minutes < 60 else f"{minutes // 60}h {minutes % 60:02d}m"


def moment(at: str) -> str:
    """`2026-11-17 07:58 UTC` for a time in ISO 8601; any other text as it is."""
    try:
        time = datetime.fromisoformat(at)
    except ValueError:
        return at
    return at if time.tzinfo is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def alternatives(names: Iterable[str]) -> str:
    """`a, b or c`."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def counted(n: int, what: str) -> str:
    """`1 case`, `1,346 cases`."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def paid(billed: Spend, *, used: Spend) -> str:
    """All that was paid, in one number; it says so where some of it is in no result."""
    lost = "" if billed == used else ", with calls that were lost or not used"
    return f"{spending(billed)}{lost}"


def spending(spend: Spend, *, tokens: bool = True) -> str:
    """Calls, tokens and USD on one line."""
    parts = [counted(spend.calls, "call")]
    if tokens and spend.tokens:
        parts.append(counted(spend.tokens, "token"))
    parts.append(money(spend.usd))
    return " · ".join(parts)


def number(value: Json) -> str:
    """Three decimals, or a dash."""
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:z.3f}" if numeric else "—"


def sparkline(values: Sequence[float | None], among: Sequence[float | None] | None = None) -> str:
    """One block per value, from low to high; a space for None.

    `among` are the values that define the scale, for comparing several lines.
    """
    scale_values = [value for value in (values if among is None else among) if value is not None]
    if not scale_values:
        return ""
    low, high = min(scale_values), max(scale_values)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(" " if v is None else _BARS[round((v - low) * scale)] for v in values)


_JOINS_NOTHING = re.compile(r"(?<!\u200d)(?:(?<!\S)\u200d++|\u200d++(?!\S))")
"""Joiners without a character on both sides: rich counts such a text in two ways, and fails."""


def visible(text: str) -> str:
    """The text with visible signs for control characters, safe for a terminal."""
    return _JOINS_NOTHING.sub("", text.translate(_CONTROLS))


def visible_json(text: str) -> str:
    """A JSON document, safe for a terminal: control characters become escapes such as `\\u009b`."""
    return _UNESCAPED.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)


def shorten(text: str, width: int) -> str:
    """The text in one line of at most so many columns."""
    line = visible(" ".join(text.split()))
    return line if cell_len(line) <= width else f"{set_cell_size(line, max(0, width - 1))}…"


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first of these names in a list, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def cell(text: str, width: int = 60) -> str:
    """The text, shortened and escaped for a cell of a Markdown table."""
    return shorten(text, width).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def padded(text: str, width: int) -> str:
    """The text in one line of exactly so many columns."""
    return set_cell_size(shorten(text, width), width)


def gain_words(numbers: Mapping[str, Json]) -> str:
    """`▼0.034 > bar 0.013`: how much the loss fell, against the noise it had to clear."""
    gain, bar = numbers.get("train_improvement"), numbers.get("noise_bar")
    if not isinstance(gain, int | float) or not isinstance(bar, int | float):
        return ""
    if tied(gain):
        return "no change"
    if gain < 0:
        return f"▲{amount(-gain)}"
    shown, sign, against = versus(gain, bar)
    return f"▼{shown} {sign} bar {against}"


CHANGED = "~"
"""What a line begins with that is partly the same before and after."""
_ALIKE = 0.4
"""From this share of common words on, two lines are shown as one."""
_CONTEXT, _QUOTED = 3, 70


def word_diff(before: Sequence[str], after: Sequence[str], name: str) -> list[str]:
    """A diff for people, with unchanged lines around each change.

    A line that changed in part is shown once, with `[-old-]` and `{+new+}` words.
    """
    old, new = ([line.rstrip("\r\n") for line in lines] for lines in (before, after))
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    lines: list[str] = []
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        lines.append(f"@@ line {group[0][3] + 1} @@")
        for tag, start, end, new_start, new_end in group:
            if tag == "equal":
                lines += [f" {line}" for line in old[start:end]]
            else:
                lines += _block(old[start:end], new[new_start:new_end])
    return [f"--- {name}", f"+++ {name}", *lines] if lines else []


def _block(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Lines that differ: those that are alike as one, in order, the others as they are."""
    paired = 0
    for line in old:
        partner = next((i for i in range(paired, len(new)) if _share(line, new[i]) >= _ALIKE), None)
        if partner is None:
            yield f"-{line}"
            continue
        yield from (f"+{other}" for other in new[paired:partner])
        yield f"{CHANGED}{_marked(line, new[partner])}"
        paired = partner + 1
    yield from (f"+{line}" for line in new[paired:])


def _share(old: str, new: str) -> float:
    """How much of two lines is the same, spaces aside."""
    words = ([word for word in _words(text) if not word.isspace()] for text in (old, new))
    return difflib.SequenceMatcher(None, *words, autojunk=False).ratio()


def _words(text: str) -> list[str]:
    """Numbers, words, signs and the spaces between them."""
    return re.findall(r"\d+(?:[.,]\d+)*|\w+|\s+|[^\w\s]", text)


def _marked(old: str, new: str) -> str:
    before, after = _words(old), _words(new)
    parts: list[str] = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            parts.append("".join(before[start:end]))
            continue
        if end > start:
            parts.append(f"[-{''.join(before[start:end])}-]")
        if new_end > new_start:
            parts.append(f"{{+{''.join(after[new_start:new_end])}+}}")
    return "".join(parts)


def _change_words(change: Change) -> str:
    """What changed in one surface, in a few words."""
    before, after = change.before, change.after
    if before is None and isinstance(after, str):
        before = ""  # A new file.
    if isinstance(before, str) and isinstance(after, str) and not _single(before, after):
        return f"{change.surface}: {_text_words(before, after)}"
    if isinstance(before, tuple) or isinstance(after, tuple):
        sizes = (len(value) if isinstance(value, tuple) else 0 for value in (before, after))
        return f"{change.surface}: {' → '.join(map(str, sizes))} examples"
    values = ("—" if value is None else str(value) for value in (before, after))
    return f"{change.surface}: {' → '.join(shorten(value, 40) for value in values)}"


def _single(*texts: str) -> bool:
    """Whether these are values of one word each, such as a choice."""
    return all(len(text.split()) == 1 for text in texts)


def _text_words(before: str, after: str) -> str:
    old, new = before.split(), after.split()
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    removed = [old[i] for tag, start, end, *_ in codes if tag != "equal" for i in range(start, end)]
    runs = [new[start:end] for tag, _, _, start, end in codes if tag != "equal" and end > start]
    added = sum(map(len, runs))
    counts = [f"{counted(added, 'word')} added" if added else ""]
    counts.append(f"{len(removed)} removed" if added and removed else "")
    counts.append(f"{counted(len(removed), 'word')} removed" if removed and not added else "")
    told = ", ".join(filter(None, counts)) or "only spaces and line ends differ"
    longest = max(runs, key=len, default=removed)
    return f"{told}: “{shorten(' '.join(longest), _QUOTED)}”" if longest else told


def changes_words(changes: Sequence[Change], most: int = 3) -> list[str]:
    """What changed, a line for each surface."""
    shown = [_change_words(change) for change in changes[:most]]
    more = len(changes) - most
    return [*shown, f"and {more} more"] if more > 0 else shown
