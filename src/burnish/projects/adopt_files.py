"""The files of an adoption, changed together, and the record that undoes it.

adopted.json has hashes of the files before and after, and the lines that differ. It is written
before any change. The hash of a file tells its state, so the record is right at every instant.
"""

import contextlib
import difflib
import json
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import Field

from burnish.core.content import codec, from_json
from burnish.core.errors import FileTrouble, JournalTrouble
from burnish.core.trials import TrialRow
from burnish.runs.homes import ADOPTED, FileChange, changed_meanwhile, lines_of
from burnish.system import read_bytes, write_atomic, write_inside
from burnish.system.borrowed_files import undone_if_killed
from burnish.system.files import file_trouble, spare_beside
from burnish.system.restoration import digest


@dataclass(frozen=True, kw_only=True)
class _Hunk:
    line: int
    """Where they begin in the new text, from 0."""
    before: tuple[str, ...]
    after: tuple[str, ...]


def hunks(before: str, after: str) -> tuple[_Hunk, ...]:
    """The changes from the old text to the new one, without unchanged lines."""
    old, new = lines_of(before), lines_of(after)
    return tuple(
        _Hunk(line=j1, before=tuple(old[i1:i2]), after=tuple(new[j1:j2]))
        for i1, i2, j1, j2 in _edits(old, new)
    )


def without(after: str, done: Sequence[_Hunk]) -> str:
    """The old text, computed from the new one."""
    lines = lines_of(after)
    for hunk in reversed(done):
        lines[hunk.line : hunk.line + len(hunk.after)] = hunk.before
    return "".join(lines)


def carried_over(original: str, plain: str, edited: str) -> str | None:
    """Apply the edit from `plain` to `edited` to the original, which is `plain` in other spelling.

    So lines that a YAML writer would only reformat stay as they are. None if the edit touches lines
    that the two spell differently.
    """
    if original == plain:
        return edited
    lines, levelled, new = lines_of(original), _levelled(plain), lines_of(edited)
    matcher = difflib.SequenceMatcher(None, levelled, _levelled(original), autojunk=False)
    blocks = matcher.get_matching_blocks()
    # Where each line of `plain`, and its end, stands in the original, if it is the same there.
    places = {block.a + n: block.b + n for block in blocks for n in range(block.size)}
    places[len(levelled)] = len(lines)
    for i1, i2, j1, j2 in reversed(_edits(levelled, _levelled(edited))):
        start, last = _place(places, i1), places.get(i2 - 1)
        end = start if i1 == i2 else None if last is None else last + 1
        if start is None or end is None or end - start != i2 - i1:
            return None
        lines[start:end] = new[j1:j2]
    # A last line that had no end gets one where something now follows it.
    ended = (line if line.endswith("\n") else f"{line}\n" for line in lines[:-1])
    return "".join([*ended, *lines[-1:]])


def _place(places: dict[int, int], line: int) -> int | None:
    if line in places:
        return places[line]
    above = places.get(line - 1)
    if above is None:
        return 0 if line == 0 else None
    return above + 1


def _edits(old: list[str], new: list[str]) -> list[tuple[int, int, int, int]]:
    """The ranges of lines that differ: start and end in the old and in the new text."""
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [code[1:] for code in codes if code[0] != "equal"]


def _levelled(text: str) -> list[str]:
    return [line.rstrip("\r\n") for line in lines_of(text)]


class AdoptionState(StrEnum):
    """The current state of the files of an adoption."""

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
    after: str
    hunks: tuple[_Hunk, ...]
    # Left out where nothing was added, as before files could be.
    added: Annotated[bool, Field(exclude_if=lambda added: not added)] = False
    """Whether the file was not there before."""
    folders: Annotated[tuple[str, ...], Field(exclude_if=lambda folders: not folders)] = ()
    """The folders that were made for it, the innermost first."""

    @property
    def standing(self) -> AdoptionState:
        if self.added and not os.path.lexists(self.path):
            return AdoptionState.BEFORE
        if not Path(self.path).is_file():
            return AdoptionState.CHANGED
        now = digest(read_bytes(Path(self.path)))
        states = {self.after: AdoptionState.AFTER}
        if not self.added:  # A file that was added and is empty now is not as it was before.
            states = {self.before: AdoptionState.BEFORE, **states}
        return states.get(now, AdoptionState.CHANGED)

    def put_back(self) -> FileChange:
        path = Path(self.path)
        now = read_bytes(path)
        if self.added:
            return FileChange(path=path, before=now, after=b"", removes=True)
        before = without(now.decode(), self.hunks).encode()
        if digest(before) != self.before:
            raise JournalTrouble(
                f"{ADOPTED} does not contain the earlier content of {path}",
                remedy="put the file back from your version control",
            )
        return FileChange(path=path, before=now, after=before)


@dataclass(frozen=True, kw_only=True)
class Adopted:
    """The last adoption of a run."""

    schema: int = 1
    trial: int
    candidate: str
    at: str
    done: bool = False
    """Whether it, or its undoing, came to its end."""
    files: tuple[AdoptedFile, ...]

    @classmethod
    def of(cls, row: TrialRow, changes: Sequence[FileChange], at: str) -> "Adopted":
        files = tuple(
            AdoptedFile(
                path=str(change.path),
                before=digest(change.before),
                after=digest(change.after),
                hunks=hunks(change.before.decode(), change.after.decode()),
                added=change.adds,
                folders=tuple(map(str, _missing_folders(change))),
            )
            for change in changes
        )
        return cls(trial=row.number, candidate=row.trial.candidate.id, at=at, files=files)

    @classmethod
    def read(cls, folder: Path) -> "Adopted | None":
        path = folder / ADOPTED
        if not path.exists():
            return None
        try:
            return codec(Adopted).decode(from_json(read_bytes(path)))
        except ValueError as error:
            remedy = "put the agent's files back from your version control, then remove it"
            raise JournalTrouble(f"{path} is damaged", remedy=remedy) from error

    def write(self, folder: Path) -> None:
        data = codec(Adopted).encode(self)
        text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
        write_inside(folder, ADOPTED, text)

    @property
    def standing(self) -> AdoptionState:
        states = {file.standing for file in self.files}
        if AdoptionState.CHANGED in states:
            return AdoptionState.CHANGED
        return states.pop() if len(states) == 1 else AdoptionState.BETWEEN

    @property
    def places(self) -> tuple[Path, ...]:
        """Every file and folder that undoing it may write or remove."""
        names = (name for file in self.files for name in (file.path, *file.folders))
        return tuple(map(Path, names))

    def put_back(self) -> tuple[FileChange, ...]:
        return tuple(f.put_back() for f in self.files if f.standing is AdoptionState.AFTER)

    def remove_folders(self) -> None:
        """Remove the folders that were made for files which are not there any more, if empty."""
        folders = {
            Path(folder)
            for file in self.files
            if file.added and not os.path.lexists(file.path)
            for folder in file.folders
            # Nobody checked the record: only the file's own folders are believed.
            if Path(folder) in Path(file.path).parents
        }
        for folder in sorted(folders, key=lambda each: len(each.parts), reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _missing_folders(change: FileChange) -> list[Path]:
    """The folders that a file to be added still needs, the innermost first."""
    return [each for each in change.path.parents if not each.exists()] if change.adds else []


def require_writable(changes: Sequence[FileChange]) -> None:
    """Reject read-only files: a rename would replace them."""
    for change in changes:
        if change.adds:
            _require_room(change)
            continue
        mode = change.path.stat().st_mode
        may_write = all(os.access(path, os.W_OK) for path in (change.path, change.path.parent))
        if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not may_write:
            remedy = f"allow it: `chmod u+w {change.path}`, then run the command again"
            raise FileTrouble(f"{change.path} is read-only", remedy=remedy)


def _require_room(change: FileChange) -> None:
    """Reject a file in a folder that cannot be written to."""
    home = next(each for each in change.path.parents if each.exists())
    if not home.is_dir() or not os.access(home, os.W_OK):
        raise FileTrouble(
            f"{change.path} cannot be added: {home} is not a folder that can be written to",
            remedy=f"allow it: `chmod u+w {home}`, then run the command again",
        )


def write_together(changes: Sequence[FileChange]) -> None:
    """Write all files; on any error, and after a kill, all are as they were.

    New contents are written next to the files first, so a full disk or a read-only folder shows
    before the first file changes.
    """
    require_writable(changes)
    made = [folder for change in changes for folder in _missing_folders(change)]
    pairs = [(change, spare_beside(change.path)) for change in changes]
    try:
        for change, spare in pairs:
            _prepare(change, spare)
        for change in changes:
            _require_untouched(change)
        with _as_one(changes):
            _rename(pairs)
    finally:
        for _, spare in pairs:
            spare.unlink(missing_ok=True)
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()  # It is empty only if the file did not come.


def _prepare(change: FileChange, spare: Path) -> None:
    """Write the new content next to the file."""
    if change.adds:
        try:
            change.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise file_trouble("make", change.path.parent, error) from error
        write_atomic(spare, change.after)
    elif not change.removes:
        write_atomic(spare, change.after, mode=stat.S_IMODE(change.path.stat().st_mode))


def _as_one(changes: Sequence[FileChange]) -> contextlib.AbstractContextManager[None]:
    """One file is changed by one rename, which a kill cannot cut."""
    if len(changes) < 2:
        return contextlib.nullcontext()
    return undone_if_killed(
        {change.path: None if change.adds else change.before for change in changes},
        {change.path: None if change.removes else change.after for change in changes},
    )


def _rename(pairs: Sequence[tuple[FileChange, Path]]) -> None:
    """Put each new content in its place; a file that is removed goes where its spare would be."""
    done: list[tuple[FileChange, Path]] = []
    try:
        for change, spare in pairs:
            _require_untouched(change)
            done.append((change, spare))
            if change.removes:
                change.path.replace(spare)
            else:
                spare.replace(change.path)
        for folder in {change.path.parent for change, _ in done}:
            _sync(folder)
    except BaseException as error:  # Ctrl-C too: all files change or none
        for change, spare in done:
            _take_back(change, spare)
        if isinstance(error, OSError):
            raise file_trouble("change", done[-1][0].path, error) from error
        raise


def _take_back(change: FileChange, spare: Path) -> None:
    """Undo one change, unless somebody else has written the file meanwhile."""
    if change.removes:
        if spare.exists() and not os.path.lexists(change.path):
            spare.replace(change.path)
    elif not change.adds:
        if read_bytes(change.path) == change.after:
            write_atomic(change.path, change.before)
    elif change.path.is_file() and read_bytes(change.path) == change.after:
        change.path.unlink(missing_ok=True)


def _require_untouched(change: FileChange) -> None:
    there = os.path.lexists(change.path)
    if there == change.adds or (there and read_bytes(change.path) != change.before):
        raise changed_meanwhile(change.path)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Where a folder cannot be synced, the record still tells how each file stands.
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
