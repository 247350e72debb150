"""Changed lines, counted and shown by one comparison, after Myers (1986)."""

import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from burnish.system.workspaces.paths import shown

_MOST = 1000
"""How many changed lines are compared exactly; the time grows with the square."""

_AROUND = 3
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
Contents: TypeAlias = Mapping[str, bytes]


class _LineEdit(NamedTuple):
    """Lines [before, before_end) become lines [after, after_end)."""

    before: int
    before_end: int
    after: int
    after_end: int


def _line_edits(before: Sequence[str], after: Sequence[str]) -> list[_LineEdit]:
    """The replacements, in order.

    Very different texts give one edit from the first difference to the last: never too few lines.
    """
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if not old and not new:
        return []
    trace = _trace(old, new) if old and new else None
    if trace is None:
        return [_LineEdit(start, start + len(old), start, start + len(new))]
    return _joined(start, _steps(trace, len(old), len(new)))


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _trace(old: Sequence[str], new: Sequence[str]) -> "list[array[int]] | None":
    """How far each diagonal reached before each edit; None if there are too many edits.

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
    """Single lines as (position before, position after, is it removed), in order."""
    steps: list[tuple[int, int, bool]] = []
    for edits in range(len(trace) - 1, 0, -1):
        diagonal = x - y
        came_from = _came_from(trace[edits], diagonal, edits)
        x = trace[edits][came_from + edits + 1]
        y = x - came_from
        steps.append((x, y, came_from < diagonal))
    return steps[::-1]


def _joined(start: int, steps: list[tuple[int, int, bool]]) -> list[_LineEdit]:
    """Joins steps without a line between them into one edit."""
    edits: list[_LineEdit] = []
    for x, y, is_removed in steps:
        before, after = start + x, start + y
        edit = _LineEdit(before, before + is_removed, after, after + (not is_removed))
        last = edits[-1] if edits else None
        if last and (last.before_end, last.after_end) == (before, after):
            edits[-1] = _LineEdit(last.before, edit.before_end, last.after, edit.after_end)
        else:
            edits.append(edit)
    return edits


@dataclass(frozen=True, kw_only=True)
class LineCount:
    """How many lines were added and removed; a changed line counts as one of each."""

    added: int = 0
    removed: int = 0

    @property
    def changed(self) -> int:
        return self.added + self.removed

    def __add__(self, other: "LineCount") -> "LineCount":
        return LineCount(added=self.added + other.added, removed=self.removed + other.removed)


@dataclass(frozen=True, kw_only=True)
class DiffSummary:
    """What an edit changed: exact counts, and as much of the diff as fits."""

    files: Mapping[str, LineCount]
    text: str
    truncated: bool

    @property
    def total(self) -> LineCount:
        return sum(self.files.values(), LineCount())


def count_changed_lines(before: str, after: str) -> LineCount:
    """How many lines differ; a missing file has none.

    A line also ends with a lone carriage return, which the text of a diff does not show as an end:
    a file that has no other is not one line.
    """
    edits = _line_edits(_LINE.findall(before), _LINE.findall(after))
    return LineCount(
        added=sum(edit.after_end - edit.after for edit in edits),
        removed=sum(edit.before_end - edit.before for edit in edits),
    )


def summarize_diff(before: Contents, after: Contents, *, max_chars: int = 20_000) -> DiffSummary:
    """The unified diff of files by path; a path on only one side was added or removed."""
    counts: dict[str, LineCount] = {}
    parts: list[str] = []
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if old != new:
            counts[path] = count_changed_lines(text_of(old), text_of(new))
            parts += _file_diff(path, old, new)
    whole = "".join(parts)
    if len(whole) <= max_chars:
        return DiffSummary(files=counts, text=whole, truncated=False)
    shortened = whole[:max_chars].rpartition("\n")[0]
    mark = f"\n[… {len(whole) - len(shortened):,} characters left out …]\n"
    return DiffSummary(files=counts, text=shortened + mark, truncated=True)


def _file_diff(path: str, old: bytes | None, new: bytes | None) -> Iterator[str]:
    name = shown(path)
    yield f"--- {'/dev/null' if old is None else f'a/{name}'}\n"
    yield f"+++ {'/dev/null' if new is None else f'b/{name}'}\n"
    if any(b"\0" in side for side in (old, new) if side is not None):
        yield "Binary files differ\n"
        return
    before, after = _lines(text_of(old)), _lines(text_of(new))
    for hunk in _hunks(_line_edits(before, after)):
        yield from _hunk(hunk, before, after)


def _hunks(edits: list[_LineEdit]) -> Iterator[list[_LineEdit]]:
    """Groups edits whose context lines touch."""
    hunk: list[_LineEdit] = []
    for edit in edits:
        if hunk and edit.before - hunk[-1].before_end > 2 * _AROUND:
            yield hunk
            hunk = []
        hunk.append(edit)
    if hunk:
        yield hunk


def _hunk(hunk: list[_LineEdit], before: list[str], after: list[str]) -> Iterator[str]:
    lead = min(_AROUND, hunk[0].before)
    trail = min(_AROUND, len(before) - hunk[-1].before_end)
    old = (hunk[0].before - lead, hunk[-1].before_end + trail)
    new = (hunk[0].after - lead, hunk[-1].after_end + trail)
    yield f"@@ -{_range(*old)} +{_range(*new)} @@\n"
    at = old[0]
    for edit in hunk:
        yield from _marked(" ", before[at : edit.before])
        yield from _marked("-", before[edit.before : edit.before_end])
        yield from _marked("+", after[edit.after : edit.after_end])
        at = edit.before_end
    yield from _marked(" ", before[at : old[1]])


def _marked(mark: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield mark + line
        if not line.endswith("\n"):
            yield "\n\\ No newline at end of file\n"


def _range(begin: int, end: int) -> str:
    size = end - begin
    first = begin + 1 if size else begin
    return str(first) if size == 1 else f"{first},{size}"


def text_of(content: bytes | None) -> str:
    """The content of a file as text; a missing file is empty."""
    return "" if content is None else content.decode("utf-8", "replace")


def _lines(text: str) -> list[str]:
    """Lines end with a newline and nothing else, as everywhere in diffs."""
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])
