"""How far a journal had come, in a small file beside it: one that holds less has lost something.

The newest part of a SQLite journal lies in its `-wal` file until it is moved into `journal.db`.
Where a process was killed and that file is deleted, cut or damaged afterwards, SQLite opens what is
left without a word, and everything since would be paid again. So the number of results is written
down after each commit, without waiting for the disk: it may say too little, never too much.
"""

import os
from contextlib import suppress
from pathlib import Path

NAME = "journal.count"
_DIGITS = 20
"""Always as many, so that one small write replaces the number: a kill cannot tear it."""


class Position:
    """The file while a journal is driven. A journal works without it, so trouble is not fatal."""

    def __init__(self, folder: Path, count: int) -> None:
        self._handle: int | None = None
        self._count = -1
        with suppress(OSError):
            self._handle = os.open(folder / NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self.reach(count)

    def reach(self, count: int) -> None:
        """So many results are on disk."""
        if self._handle is not None and count > self._count:
            self._count = count
            with suppress(OSError):
                os.pwrite(self._handle, b"%0*d\n" % (_DIGITS, count), 0)

    def close(self) -> None:
        """Let go of the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def reached(folder: Path) -> int:
    """How many results were on disk; 0 where nobody wrote that down."""
    try:
        return max(0, int((folder / NAME).read_bytes()))
    except (OSError, ValueError):
        return 0


def how_to_mend(path: Path | str) -> str:
    """What probably happened to a journal, and what to put back."""
    if isinstance(path, Path):
        wal = f"{path.name}-wal"
        return f"{wal} was probably deleted, damaged, or left out of a copy: put it back"
    return "the database was probably set back to an earlier state: restore the newer one"
