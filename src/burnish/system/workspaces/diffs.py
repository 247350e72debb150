"""Changed lines: counted and shown by one and the same comparison."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from burnish.system.workspaces.line_edits import LineEdit, line_edits
from burnish.system.workspaces.paths import shown

_AROUND = 3
_NO_END = "\\ No newline at end of file\n"

Contents: TypeAlias = Mapping[str, bytes]


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
    edits = line_edits(_lines(before), _lines(after))
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
    kept = whole[:max_chars].rpartition("\n")[0]
    mark = f"\n[… {len(whole) - len(kept):,} characters left out …]\n"
    return DiffSummary(files=counts, text=kept + mark, truncated=True)


def _file_diff(path: str, old: bytes | None, new: bytes | None) -> Iterator[str]:
    name = shown(path)
    yield f"--- {'/dev/null' if old is None else f'a/{name}'}\n"
    yield f"+++ {'/dev/null' if new is None else f'b/{name}'}\n"
    if any(b"\0" in side for side in (old, new) if side is not None):
        yield "Binary files differ\n"
        return
    before, after = _lines(_text(old)), _lines(_text(new))
    for hunk in _hunks(line_edits(before, after)):
        yield from _hunk(hunk, before, after)


def _hunks(edits: list[LineEdit]) -> Iterator[list[LineEdit]]:
    """Edits whose surroundings touch belong together."""
    hunk: list[LineEdit] = []
    for edit in edits:
        if hunk and edit.before - hunk[-1].before_end > 2 * _AROUND:
            yield hunk
            hunk = []
        hunk.append(edit)
    if hunk:
        yield hunk


def _hunk(hunk: list[LineEdit], before: list[str], after: list[str]) -> Iterator[str]:
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
