"""The line of a round of back-propagation: what was patched, and the scores before and after.

Scores, not losses: this strategy is told what to gain, and PromptIter speaks so.
"""

from collections.abc import Mapping, Sequence

from burnish.core.comparisons import amount, tied
from burnish.core.content import Json
from burnish.core.words import duration, money, number, padded
from burnish.reports.trial_line import fitted, outcome, shorten_after
from burnish.runs.standing import BASELINE
from burnish.strategies.backprop.rounds import PHASE

_NOTE, _WIDEST_NOTE = 24, 36
_REST = 76
"""What a whole line takes beside its note."""


def is_round(data: Mapping[str, Json]) -> bool:
    """Whether a trial is a round of back-propagation."""
    return data.get("phase") == PHASE


def round_line(data: Mapping[str, Json], width: int) -> str:
    """One candidate of a round in one line; what matters least is left out for want of room."""
    index = data.get("index")
    label = f"[r{data.get('cycle')}]" if index in (None, 1) else f"[r{data.get('cycle')}.{index}]"
    room = min(_WIDEST_NOTE, max(_NOTE, width - _REST))
    name = f"{label:<6} {padded(touched_words(_list(data.get('touched'))), room)}"
    if data.get("holdout") is None and not isinstance(data.get("train"), int | float):
        return shorten_after(f"{name} {outcome(data)}  ", str(data.get("reason") or ""), width)
    usd, seconds = data.get("usd"), data.get("seconds")
    parts = [
        (0, name),
        (2, f"train {number(data.get('train_score'))} "),
        (0, f"{_held(data):<26}"),
        (0, f"{outcome(data):<9}"),
        (3, f"{money(usd if isinstance(usd, int | float) else None):>7}"),
        (4, duration(float(seconds)) if isinstance(seconds, int | float) else ""),
    ]
    return fitted(parts, width)


def baseline_score(data: Mapping[str, Json]) -> dict[str, Json]:
    """The baseline's row with its score where other strategies show the loss."""
    loss = data.get("holdout")
    score = 1 - loss if isinstance(loss, int | float) else None
    told: dict[str, Json] = {**data, "holdout": score, "in_scores": True}
    return told if data.get("phase") == BASELINE else {**data}


def touched_words(surfaces: Sequence[Json]) -> str:
    """`planner#instruction +1`: the first surface, without the way to its node."""
    names = [short(str(name)) for name in surfaces]
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return f"{names[0]}{more}" if names else "—"


def short(surface: str) -> str:
    """A surface without the names of graphs before its node."""
    node, mark, part = surface.partition("#")
    return f"{node.rpartition('/')[2]}{mark}{part}" if mark else surface


def _held(data: Mapping[str, Json]) -> str:
    """`hold 0.350→0.810 (▲0.460)`; before is the incumbent."""
    loss, before = data.get("holdout"), _before(data)
    if not isinstance(loss, int | float):
        return "hold ——"
    now = 1 - loss
    if before is None:
        return f"hold {number(now)}"
    gain = now - before
    sign = "=" if tied(gain) else f"{'▲' if gain > 0 else '▼'}{amount(abs(gain))}"
    return f"hold {number(before)}→{number(now)} ({sign})"


def _before(data: Mapping[str, Json]) -> float | None:
    """The incumbent's score on holdout as the gate saw it."""
    numbers = data.get("numbers")
    told = numbers if isinstance(numbers, dict) else {}
    score = told.get("best_score_before")
    if isinstance(score, int | float):
        return float(score)
    losses = (told.get("best_holdout_mean_before"), told.get("primary_before"))
    known = [loss for loss in losses if isinstance(loss, int | float)]
    return 1 - known[0] if known else None


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
