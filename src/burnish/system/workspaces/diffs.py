"""What changed in a workspace: lines counted and shown, after Myers (1986), and bounds exceeded."""

import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from burnish.core.errors import Problem
from burnish.system.workspaces.snapshots import (
    Bounds,
    EntryChange,
    Snapshot,
    diff_snapshots,
    folders_of,
    look_alike,
    path_problem,
    shown,
)

_MOST = 1000
"""How many changed lines are compared exactly; the time grows with the square."""

_AROUND = 3
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_Contents: TypeAlias = Mapping[str, bytes]


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


def summarize_diff(before: _Contents, after: _Contents, *, max_chars: int = 20_000) -> DiffSummary:
    """The unified diff of files by path; a path on only one side was added or removed."""
    counts: dict[str, LineCount] = {}
    parts: list[str] = []
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if old != new:
            counts[path] = count_changed_lines(_text_of(old), _text_of(new))
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
    before, after = _lines(_text_of(old)), _lines(_text_of(new))
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


def _text_of(content: bytes | None) -> str:
    """The content of a file as text; a missing file is empty."""
    return "" if content is None else content.decode("utf-8", "replace")


def _lines(text: str) -> list[str]:
    """Lines end with a newline and nothing else, as everywhere in diffs."""
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


ViolationKind: TypeAlias = Literal[
    "outside",  # a new file, or a path, that is not among the declared artifacts
    "tampering",  # something that is not an artifact, or is protected, was changed or removed
    "file_type",
    "file_count",
    "changed_lines",
    "binary",
    "mode",
    "link",  # a symbolic or hard link in the place of a file, or a folder in it
    "name",  # a name that some file systems take for another one's
]

_OURS = "edit the artifacts only"


@dataclass(frozen=True, kw_only=True)
class Violation:
    """One bound that was broken, where, and what would be allowed."""

    kind: ViolationKind
    message: str
    path: str = ""
    remedy: str = ""

    @property
    def problem(self) -> Problem:
        return Problem(where=shown(self.path), message=self.message, remedy=self.remedy)

    def __str__(self) -> str:
        return str(self.problem)


def edit_violations(
    bounds: Bounds, before: Snapshot, after: Snapshot, *, old: _Contents, new: _Contents
) -> list[Violation]:
    """What an edit changed that it may not change.

    `old` and `new` hold the contents of the artifacts that differ (more does no harm).
    """
    changes = [c for c in diff_snapshots(before, after) if not bounds.is_scratch(c.path)]
    edited = [c for c in changes if bounds.is_artifact(c.path) and not c.is_folder]
    others = [c for c in changes if c not in edited and not _is_way_to(c, edited)]
    violations = [_foreign(bounds, change) for change in others]
    for change in edited:
        violations += _wrong_with(bounds, change, new.get(change.path))
    violations += _confusable(before, after)
    return [*violations, *_too_much(bounds, [change.path for change in edited], old, new)]


def run_violations(bounds: Bounds, before: Snapshot, after: Snapshot) -> list[Violation]:
    """What a run changed outside its scratch folders, including artifacts."""
    changes = [c for c in diff_snapshots(before, after) if not bounds.is_scratch(c.path)]
    own = [c for c in diff_snapshots(before, after) if bounds.is_scratch(c.path)]
    return [
        Violation(kind=_foreign(bounds, c).kind, path=c.path, message=f"a run {_did(c)} it",
                  remedy="list it as scratch if the run is meant to write it")
        for c in changes if not _is_way_to(c, own)
    ]  # fmt: skip


def proposal_violations(
    bounds: Bounds, texts: Mapping[str, str | None], *, old: _Contents
) -> list[Violation]:
    """What is wrong with new texts before they are written; None removes a file."""
    violations: list[Violation] = []
    for path, text in texts.items():
        if problem := path_problem(path):
            violations.append(Violation(kind="outside", path=path, message=problem, remedy=_OURS))
        elif not bounds.is_artifact(path):
            kind = "tampering" if bounds.is_protected(path) else "outside"
            violations.append(
                Violation(kind=kind, path=path, message=_not_declared(kind), remedy=_OURS)
            )
        elif text is not None:
            violations += _wrong_content(bounds, path, text.encode("utf-8", "surrogatepass"))
            violations += _wrong_type(bounds, path)
    new = {p: t.encode("utf-8", "surrogatepass") for p, t in texts.items() if t is not None}
    changed = [path for path in texts if old.get(path) != new.get(path)]
    return [*violations, *_too_much(bounds, changed, old, new)]


def _is_way_to(change: EntryChange, others: Sequence[EntryChange]) -> bool:
    """Whether a folder was added or removed only because of an allowed file in it."""
    if not change.is_folder or change.kind not in ("added", "removed"):
        return False
    return any(other.kind == change.kind and change.path in folders_of(other.path)
               for other in others)  # fmt: skip


def _foreign(bounds: Bounds, change: EntryChange) -> Violation:
    touched = bounds.is_protected(change.path) or change.kind != "added"
    kind = "tampering" if touched else "outside"
    message = f"{_not_declared(kind)}, and the candidate {_did(change)} it"
    return Violation(kind=kind, path=change.path, message=message, remedy=_OURS)


def _not_declared(kind: str) -> str:
    return "it is not yours to touch" if kind == "tampering" else "it is not a declared artifact"


def _did(change: EntryChange) -> str:
    if change.renamed_from:
        return f"renamed {shown(change.renamed_from)} to"
    if change.kind == "kind" and change.before and change.after:
        return f"made a {change.after.kind} of the {change.before.kind}: changed"
    words = {"mode": "changed the mode of", "links": "linked", "content": "changed"}
    return words.get(change.kind, change.kind)


def _wrong_with(bounds: Bounds, change: EntryChange, content: bytes | None) -> Iterator[Violation]:
    path, after = change.path, change.after
    if after is None:
        yield from _wrong_type(bounds, path)
        return
    if after.kind != "file" or after.links > 1:
        message = f"it became a {'hard link' if after.kind == 'file' else after.kind}"
        yield Violation(kind="link", path=path, message=message, remedy="write a plain file")
        return
    before = change.before
    if after.mode & 0o7111 if before is None else before.mode != after.mode:
        mode = "644 or 664" if before is None else f"{before.mode:o}"
        message = f"its mode is {after.mode:o}"
        yield Violation(kind="mode", path=path, message=message, remedy=f"leave it at {mode}")
    yield from _wrong_type(bounds, path)
    if content is None:
        message = "its content cannot be read"
        yield Violation(kind="binary", path=path, message=message, remedy="write UTF-8 text")
    else:
        yield from _wrong_content(bounds, path, content)


def _wrong_type(bounds: Bounds, path: str) -> Iterator[Violation]:
    if not bounds.allows_type(path):
        remedy = f"allowed are: {', '.join(bounds.file_types)}"
        message = "files of this type may not be edited"
        yield Violation(kind="file_type", path=path, message=message, remedy=remedy)


def _wrong_content(bounds: Bounds, path: str, content: bytes) -> Iterator[Violation]:
    if len(content) > bounds.max_file_bytes:
        message = f"it has {len(content):,} bytes, {bounds.max_file_bytes:,} are allowed"
        yield Violation(kind="binary", path=path, message=message, remedy="shorten it")
        return
    try:
        is_text = "\0" not in content.decode("utf-8")
    except UnicodeDecodeError:
        is_text = False
    if not is_text:
        message = "its content is binary"
        yield Violation(kind="binary", path=path, message=message, remedy="write UTF-8 text")


def _confusable(before: Snapshot, after: Snapshot) -> Iterator[Violation]:
    """New names that some file system would treat as the same as an existing name."""
    taken: dict[str, list[str]] = {}
    for path in after.entries:
        taken.setdefault(look_alike(path), []).append(path)
    for path in after.entries:
        twins = [other for other in taken[look_alike(path)] if other != path]
        if path not in before.entries and twins:
            message = f"its name differs from '{shown(twins[0])}' only as some file systems ignore"
            yield Violation(kind="name", path=path, message=message, remedy="choose another name")


def _too_much(
    bounds: Bounds, paths: Sequence[str], old: _Contents, new: _Contents
) -> Iterator[Violation]:
    if bounds.max_files is not None and len(paths) > bounds.max_files:
        message = f"{len(paths)} files were changed, {bounds.max_files} are allowed"
        yield Violation(kind="file_count", message=message, remedy="change fewer files")
    if bounds.max_changed_lines is None:
        return
    counts = (count_changed_lines(_text_of(old.get(p)), _text_of(new.get(p))) for p in paths)
    changed = sum(counts, LineCount()).changed
    if changed > bounds.max_changed_lines:
        message = f"{changed} lines were changed (added and removed), "
        message += f"{bounds.max_changed_lines} are allowed"
        yield Violation(kind="changed_lines", message=message, remedy="make a smaller edit")
