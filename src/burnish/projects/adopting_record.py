"""adopted.json: what an adoption changed in the user's files, written before it changes anything.

It holds hashes of the files before and after and the lines that differ, nothing of what stayed.
A file is found to be the one or the other by its hash, so the record is true at every instant of
an adoption and of its undoing.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from burnish.core.codec import codec
from burnish.core.errors import JournalTrouble
from burnish.core.trials import TrialRow
from burnish.projects.adopting_files import FileChange
from burnish.projects.adopting_lines import Hunk, hunks, without
from burnish.system import read_bytes, write_atomic

NAME = "adopted.json"
SCHEMA = 1


class Standing(StrEnum):
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
    hunks: tuple[Hunk, ...]

    @classmethod
    def of(cls, change: FileChange) -> "AdoptedFile":
        """What is kept of a change."""
        return cls(
            path=str(change.path),
            before=_hash(change.before),
            after=_hash(change.after),
            hunks=hunks(change.before.decode(), change.after.decode()),
        )

    @property
    def standing(self) -> Standing:
        """How the file stands now."""
        if not Path(self.path).is_file():
            return Standing.CHANGED
        now = _hash(read_bytes(Path(self.path)))
        known = {self.before: Standing.BEFORE, self.after: Standing.AFTER}
        return known.get(now, Standing.CHANGED)

    def put_back(self) -> FileChange:
        """The change from what was written to what was there."""
        path = Path(self.path)
        now = read_bytes(path)
        before = without(now.decode(), self.hunks).encode()
        if _hash(before) != self.before:
            raise JournalTrouble(
                f"{NAME} does not tell how {path} was before",
                remedy="put the file back from your version control",
            )
        return FileChange(path=path, before=now, after=before)


@dataclass(frozen=True, kw_only=True)
class Adopted:
    """The last adoption of a run."""

    schema: int = SCHEMA
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
    def standing(self) -> Standing:
        """How its files stand now, taken together."""
        found = {file.standing for file in self.files}
        if Standing.CHANGED in found:
            return Standing.CHANGED
        return found.pop() if len(found) == 1 else Standing.BETWEEN

    @property
    def cut_off(self) -> bool:
        """Whether it, or its undoing, was killed between two files."""
        return not self.done and self.standing is Standing.BETWEEN

    def put_back(self) -> tuple[FileChange, ...]:
        """What puts every file back that is as the adoption left it."""
        return tuple(f.put_back() for f in self.files if f.standing is Standing.AFTER)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
