"""The shortest way from some lines to others, after Myers (1986)."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

_MOST = 1000
"""Lines added and removed up to which the shortest way is looked for; the time grows with the
square."""


@dataclass(frozen=True, kw_only=True)
class LineEdit:
    """Lines [before, before_end) become lines [after, after_end)."""

    before: int
    before_end: int
    after: int
    after_end: int


def line_edits(before: Sequence[str], after: Sequence[str]) -> list[LineEdit]:
    """What to replace by what, in order.

    Very different texts give one edit from the first difference to the last: never too few lines.
    """
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if not old and not new:
        return []
    trace = _trace(old, new) if old and new else None
    if trace is None:
        return [_edit(start, 0, len(old), 0, len(new))]
    return _joined(start, _steps(trace, len(old), len(new)))


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _trace(old: Sequence[str], new: Sequence[str]) -> "list[array[int]] | None":
    """How far each diagonal reached before the edit of that number; None where there are too many.

    Row n holds the diagonals from -n-1 to n+1.
    """
    most = min(_MOST, len(old) + len(new))
    reach, trace = [0] * (2 * most + 3), list["array[int]"]()
    zero = most + 1
    for edits in range(most + 1):
        trace.append(array("l", reach[zero - edits - 1 : zero + edits + 2]))
        for diagonal in range(-edits, edits + 1, 2):
            came_from = _came_from(trace[edits], diagonal, edits)
            x = reach[zero + came_from] + (came_from < diagonal)
            y = x - diagonal
            while x < len(old) and y < len(new) and old[x] == new[y]:
                x, y = x + 1, y + 1
            reach[zero + diagonal] = x
            if x >= len(old) and y >= len(new):
                return trace
    return None


def _came_from(row: "array[int]", diagonal: int, edits: int) -> int:
    """The neighbour that is further: the one above adds a line, the one below removes one."""
    at = diagonal + edits + 1
    if diagonal == -edits or (diagonal != edits and row[at - 1] < row[at + 1]):
        return diagonal + 1
    return diagonal - 1


def _steps(trace: "list[array[int]]", x: int, y: int) -> list[tuple[int, int, bool]]:
    """Single lines as (place before, place after, is it removed), from first to last."""
    found: list[tuple[int, int, bool]] = []
    for edits in range(len(trace) - 1, 0, -1):
        diagonal = x - y
        came_from = _came_from(trace[edits], diagonal, edits)
        x = trace[edits][came_from + edits + 1]
        y = x - came_from
        found.append((x, y, came_from < diagonal))
    return found[::-1]


def _joined(start: int, steps: list[tuple[int, int, bool]]) -> list[LineEdit]:
    """Steps that follow each other without a line in between become one edit."""
    found: list[LineEdit] = []
    for x, y, is_removed in steps:
        edit = _edit(start, x, x + is_removed, y, y + (not is_removed))
        last = found[-1] if found else None
        if last and (last.before_end, last.after_end) == (edit.before, edit.after):
            found[-1] = LineEdit(before=last.before, before_end=edit.before_end,
                                 after=last.after, after_end=edit.after_end)  # fmt: skip
        else:
            found.append(edit)
    return found


def _edit(start: int, before: int, before_end: int, after: int, after_end: int) -> LineEdit:
    return LineEdit(before=start + before, before_end=start + before_end,
                    after=start + after, after_end=start + after_end)  # fmt: skip
