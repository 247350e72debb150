"""The files of an adoption: changed together, and the record that undoes it.

adopted.json holds hashes of the files before and after and the lines that differ, nothing of what
stayed. It is written before anything is changed. A file is found to be the one or the other by its
hash, so the record is true at every instant of an adoption and of its undoing.
"""

import contextlib
import difflib
import json
import os
import stat
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from burnish.core.content import codec
from burnish.core.errors import FileTrouble, JournalTrouble
from burnish.core.trials import TrialRow
from burnish.runs.homes import FileChange, changed_meanwhile, lines_of
from burnish.system import read_bytes, write_atomic
from burnish.system.files import file_trouble, spare_beside
from burnish.system.restoration import digest

NAME = "adopted.json"
_SCHEMA = 1

# -- lines: hunks that can be undone, an edit carried over to another spelling -----------------


@dataclass(frozen=True, kw_only=True)
class _Hunk:
    """Lines that took the place of others."""

    line: int
    """Where they begin in the new text, from 0."""
    before: tuple[str, ...]
    after: tuple[str, ...]


def hunks(before: str, after: str) -> tuple[_Hunk, ...]:
    """What makes the new text from the old one, with nothing of what stayed."""
    old, new = lines_of(before), lines_of(after)
    return tuple(
        _Hunk(line=j1, before=tuple(old[i1:i2]), after=tuple(new[j1:j2]))
        for i1, i2, j1, j2 in _edits(old, new)
    )


def without(after: str, done: Sequence[_Hunk]) -> str:
    """The old text, given the new one."""
    lines = lines_of(after)
    for hunk in reversed(done):
        lines[hunk.line : hunk.line + len(hunk.after)] = hunk.before
    return "".join(lines)


def carried_over(original: str, plain: str, edited: str) -> str | None:
    """The edit from `plain` to `edited`, done to the original, which is `plain` in other spelling.

    So what a YAML writer would only spell differently stays as the user has it. None where the
    edit touches lines that the two spell differently.
    """
    if original == plain:
        return edited
    lines, levelled, new = lines_of(original), _levelled(plain), lines_of(edited)
    places = _places(levelled, _levelled(original))
    for i1, i2, j1, j2 in reversed(_edits(levelled, _levelled(edited))):
        start, end = _place(places, i1), _end(places, i1, i2)
        if start is None or end is None or end - start != i2 - i1:
            return None
        lines[start:end] = new[j1:j2]
    return _joined(lines)


def _places(plain: list[str], original: list[str]) -> dict[int, int]:
    """Where each line of `plain`, and its end, stands in the original, if it is the same there."""
    matcher = difflib.SequenceMatcher(None, plain, original, autojunk=False)
    blocks = matcher.get_matching_blocks()
    same = {block.a + n: block.b + n for block in blocks for n in range(block.size)}
    return {**same, len(plain): len(original)}


def _place(places: dict[int, int], line: int) -> int | None:
    if line in places:
        return places[line]
    above = places.get(line - 1)
    if above is None:
        return 0 if line == 0 else None
    return above + 1


def _end(places: dict[int, int], start: int, end: int) -> int | None:
    if start == end:
        return _place(places, start)
    last = places.get(end - 1)
    return None if last is None else last + 1


def _edits(old: list[str], new: list[str]) -> list[tuple[int, int, int, int]]:
    """Which lines become which: from, to, in the old and in the new."""
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [code[1:] for code in codes if code[0] != "equal"]


def _levelled(text: str) -> list[str]:
    return [line.rstrip("\r\n") for line in lines_of(text)]


def _joined(lines: list[str]) -> str:
    """The text; a last line that had no end gets one when something now follows it."""
    ended = (line if line.endswith("\n") else f"{line}\n" for line in lines[:-1])
    return "".join([*ended, *lines[-1:]])


# -- the record --------------------------------------------------------------------------------


class AdoptionState(StrEnum):
    """How the files of an adoption stand now."""

    BEFORE = "before"
    AFTER = "after"
    BETWEEN = "between"
    """Some are as before, some as after."""
    CHANGED = "changed"
    """At least one is neither."""


@dataclass(frozen=True, kw_only=True)
class AdoptedFile:
    """What an adoption did to one file."""

    path: str
    before: str
    """SHA-256."""
    after: str
    hunks: tuple[_Hunk, ...]

    @classmethod
    def of(cls, change: FileChange) -> "AdoptedFile":
        """What is kept of a change."""
        return cls(
            path=str(change.path),
            before=digest(change.before),
            after=digest(change.after),
            hunks=hunks(change.before.decode(), change.after.decode()),
        )

    @property
    def standing(self) -> AdoptionState:
        """How the file stands now."""
        if not Path(self.path).is_file():
            return AdoptionState.CHANGED
        now = digest(read_bytes(Path(self.path)))
        states = {self.before: AdoptionState.BEFORE, self.after: AdoptionState.AFTER}
        return states.get(now, AdoptionState.CHANGED)

    def put_back(self) -> FileChange:
        """The change from what was written to what was there."""
        path = Path(self.path)
        now = read_bytes(path)
        before = without(now.decode(), self.hunks).encode()
        if digest(before) != self.before:
            raise JournalTrouble(
                f"{NAME} does not tell how {path} was before",
                remedy="put the file back from your version control",
            )
        return FileChange(path=path, before=now, after=before)


@dataclass(frozen=True, kw_only=True)
class Adopted:
    """The last adoption of a run."""

    schema: int = _SCHEMA
    trial: int
    candidate: str
    at: str
    done: bool = False
    """Whether it, or its undoing, came to its end."""
    files: tuple[AdoptedFile, ...]

    @classmethod
    def of(cls, row: TrialRow, changes: Sequence[FileChange], at: str) -> "Adopted":
        """What is kept of an adoption."""
        files = tuple(AdoptedFile.of(change) for change in changes)
        return cls(trial=row.number, candidate=row.trial.candidate.id, at=at, files=files)

    @classmethod
    def read(cls, folder: Path) -> "Adopted | None":
        """The record of a run, if it was ever adopted."""
        path = folder / NAME
        if not path.exists():
            return None
        try:
            return codec(Adopted).decode(json.loads(read_bytes(path)))
        except ValueError as error:
            remedy = "put the agent's files back from your version control, then remove it"
            raise JournalTrouble(f"{path} is damaged", remedy=remedy) from error

    def write(self, folder: Path) -> None:
        """Keep it, on the disk when this returns."""
        data = codec(Adopted).encode(self)
        write_atomic(folder / NAME, json.dumps(data, indent=2, ensure_ascii=False) + "\n")

    @property
    def standing(self) -> AdoptionState:
        """How its files stand now, taken together."""
        states = {file.standing for file in self.files}
        if AdoptionState.CHANGED in states:
            return AdoptionState.CHANGED
        return states.pop() if len(states) == 1 else AdoptionState.BETWEEN

    @property
    def cut_off(self) -> bool:
        """Whether it, or its undoing, was killed between two files."""
        return not self.done and self.standing is AdoptionState.BETWEEN

    def put_back(self) -> tuple[FileChange, ...]:
        """What puts every file back that is as the adoption left it."""
        return tuple(f.put_back() for f in self.files if f.standing is AdoptionState.AFTER)


# -- writing: all files or none, and none that someone else changed ----------------------------


def require_writable(changes: Sequence[FileChange]) -> None:
    """Refuse files that their owner protects: a rename would not care."""
    for change in changes:
        mode = change.path.stat().st_mode
        if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not _may_write(change.path):
            remedy = f"allow it: `chmod u+w {change.path}`, then give the command again"
            raise FileTrouble(f"{change.path} is read-only", remedy=remedy)


def write_together(changes: Sequence[FileChange]) -> None:
    """Give every file its new content; on any trouble all are as they were.

    New contents are written beside the files first, so that a full disk or a folder that cannot
    be written to shows before the first file is changed.
    """
    require_writable(changes)
    with _spares(changes) as spares:
        for change in changes:
            _require_untouched(change)
        _rename(list(zip(changes, spares, strict=True)))


@contextlib.contextmanager
def _spares(changes: Sequence[FileChange]) -> Generator[list[Path], None, None]:
    spares = [spare_beside(change.path) for change in changes]
    try:
        for change, spare in zip(changes, spares, strict=True):
            mode = stat.S_IMODE(change.path.stat().st_mode)
            write_atomic(spare, change.after, mode=mode)
        yield spares
    finally:
        for spare in spares:
            spare.unlink(missing_ok=True)


def _rename(pairs: Sequence[tuple[FileChange, Path]]) -> None:
    done: list[FileChange] = []
    try:
        for change, spare in pairs:
            _require_untouched(change)
            done.append(change)
            spare.replace(change.path)
        for folder in {change.path.parent for change in done}:
            _sync(folder)
    except BaseException as error:
        for change in done:
            if read_bytes(change.path) == change.after:
                write_atomic(change.path, change.before)
        if isinstance(error, OSError):
            raise file_trouble("change", done[-1].path, error) from error
        raise


def _require_untouched(change: FileChange) -> None:
    if read_bytes(change.path) != change.before:
        raise changed_meanwhile(change.path)


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Where a folder cannot be synced, the record still tells how each file stands.
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
