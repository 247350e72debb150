"""Changed lines, counted and shown by one and the same comparison, after Myers (1986)."""

import itertools
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from burnish.system.workspaces.paths import shown

_MOST = 1000
"""Lines added and removed up to which the shortest way is looked for; the time grows with the
square."""

_AROUND = 3
_NO_END = "\\ No newline at end of file\n"
Contents: TypeAlias = Mapping[str, bytes]


@dataclass(frozen=True, kw_only=True)
class _LineEdit:
    """Lines [before, before_end) become lines [after, after_end)."""

    before: int
    before_end: int
    after: int
    after_end: int


def _line_edits(before: Sequence[str], after: Sequence[str]) -> list[_LineEdit]:
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
    steps: list[tuple[int, int, bool]] = []
    for edits in range(len(trace) - 1, 0, -1):
        diagonal = x - y
        came_from = _came_from(trace[edits], diagonal, edits)
        x = trace[edits][came_from + edits + 1]
        y = x - came_from
        steps.append((x, y, came_from < diagonal))
    return steps[::-1]


def _joined(start: int, steps: list[tuple[int, int, bool]]) -> list[_LineEdit]:
    """Steps that follow each other without a line in between become one edit."""
    edits: list[_LineEdit] = []
    for x, y, is_removed in steps:
        edit = _edit(start, x, x + is_removed, y, y + (not is_removed))
        last = edits[-1] if edits else None
        if last and (last.before_end, last.after_end) == (edit.before, edit.after):
            edits[-1] = _LineEdit(before=last.before, before_end=edit.before_end,
                                 after=last.after, after_end=edit.after_end)  # fmt: skip
        else:
            edits.append(edit)
    return edits


def _edit(start: int, before: int, before_end: int, after: int, after_end: int) -> _LineEdit:
    return _LineEdit(before=start + before, before_end=start + before_end,
                    after=start + after, after_end=start + after_end)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LineCount:
    """How many lines were added and removed; a line that is different is one of each."""

    added: int = 0
    removed: int = 0

    @property
    def changed(self) -> int:
        """Both together, as a unified diff counts."""
        return self.added + self.removed

    def __add__(self, other: "LineCount") -> "LineCount":
        return LineCount(added=self.added + other.added, removed=self.removed + other.removed)


@dataclass(frozen=True, kw_only=True)
class DiffSummary:
    """What an edit did, for the record: counts that hold for all, and as much text as fits."""

    files: Mapping[str, LineCount]
    text: str
    truncated: bool

    @property
    def total(self) -> LineCount:
        """All files together."""
        return sum(self.files.values(), LineCount())


def count_changed_lines(before: str, after: str) -> LineCount:
    """How many lines differ; a file that is not there has none."""
    edits = _line_edits(_lines(before), _lines(after))
    return LineCount(
        added=sum(edit.after_end - edit.after for edit in edits),
        removed=sum(edit.before_end - edit.before for edit in edits),
    )


def summarize_diff(before: Contents, after: Contents, *, max_chars: int = 20_000) -> DiffSummary:
    """The unified diff of files by path; a path that only one side has was made or removed."""
    counts: dict[str, LineCount] = {}
    parts: list[str] = []
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if old != new:
            counts[path] = count_changed_lines(_text(old), _text(new))
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
    before, after = _lines(_text(old)), _lines(_text(new))
    for hunk in _hunks(_line_edits(before, after)):
        yield from _hunk(hunk, before, after)


def _hunks(edits: list[_LineEdit]) -> Iterator[list[_LineEdit]]:
    """Edits whose surroundings touch belong together."""
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
    return itertools.chain.from_iterable(
        (mark + line,) if line.endswith("\n") else (f"{mark}{line}\n", _NO_END) for line in lines
    )


def _range(begin: int, end: int) -> str:
    size = end - begin
    first = begin + 1 if size else begin
    return str(first) if size == 1 else f"{first},{size}"


def _text(content: bytes | None) -> str:
    return "" if content is None else content.decode("utf-8", "replace")


def _lines(text: str) -> list[str]:
    """Lines end with a newline and with nothing else, as everywhere in diffs."""
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])
