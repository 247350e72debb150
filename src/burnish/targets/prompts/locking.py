"""Locks on prompt files: two runs that write the same file would measure each other's texts."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from burnish.core.errors import RunLocked
from burnish.system.borrowing import make_private_folder
from burnish.system.locks import FileLock
from burnish.system.restoration import borrowed_folder, borrower_of, digest
from burnish.targets.prompts.fields import FileField


def lock_files(files: Sequence[FileField], home: Path) -> ExitStack:
    """Lock all of the files or none; close what is given back to let go of them."""
    folder = home / "locks"
    with ExitStack() as locks:
        for file in sorted(files, key=lambda each: each.home):
            make_private_folder(folder)
            lock = folder / f"prompt-{digest(str(file.home).encode())[:32]}.lock"
            locks.enter_context(FileLock.acquire(lock, holding=f"the prompt file {file.given}"))
        return locks.pop_all()


def require_unborrowed(files: Sequence[FileField], home: Path) -> None:
    """Refuse to take a candidate of another run for what the file says."""
    for file in files:
        if (owner := borrower_of(file.home, borrowed_folder(home))) is not None:
            raise RunLocked(
                f"the prompt file {file.given} is in use by process {owner.pid} on {owner.host}, "
                "which has a candidate in it",
                remedy="Wait until it ends, or end it.",
            )
