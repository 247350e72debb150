"""The line of an edit of files: the primary number in its own unit, and keep, discard or crash."""

from collections.abc import Mapping

from burnish.core.content import Json
from burnish.core.words import padded
from burnish.reports.edits_page import plain
from burnish.reports.trial_line import shorten_after
from burnish.runs.standing import BASELINE

_NOTE = 24


def is_edit(data: Mapping[str, Json]) -> bool:
    """Whether a trial tells of a primary number."""
    return isinstance(data.get("primary"), dict)


def edit_line(data: Mapping[str, Json], width: int) -> str:
    """One edit in one line; why it was decided so, as far as there is room."""
    numbers = _numbers(data)
    if data.get("phase") == BASELINE:
        return f"{'what was there':<{_NOTE + 8}} {numbers}".rstrip()
    label = f"[{data.get('cycle')!s:>3}.{data.get('index')}]"
    reason = str(data.get("reason") or "").split("\n")[0]
    head = f"{label} {padded(str(data.get('note') or '—'), _NOTE)} {numbers:<28} {_word(data):<10}"
    return shorten_after(head, reason, width).rstrip()


def _numbers(data: Mapping[str, Json]) -> str:
    told = data.get("primary")
    given = told if isinstance(told, dict) else {}
    shown = {side: _shown(given[side]) for side in ("train", "holdout") if side in given}
    parts = [f"{given.get('name')} {shown['train']}"] if "train" in shown else []
    return "  ".join([*parts, *([f"hold {shown['holdout']}"] if "holdout" in shown else [])])


def _shown(value: Json) -> str:
    return plain(value if isinstance(value, int | float) else None)


def _word(data: Mapping[str, Json]) -> str:
    if data.get("accepted") is True:
        return "keep ✓"
    return "crash ✗" if str(data.get("code")).endswith("crash") else "discard ✗"
