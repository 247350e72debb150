"""Several files of the user changed together: all or none, and none that someone else changed."""

import contextlib
import os
import stat
from collections.abc import Generator, Sequence
from pathlib import Path

from burnish.core.errors import FileTrouble
from burnish.projects.adopting_files import FileChange, changed_meanwhile
from burnish.system import read_bytes, write_atomic
from burnish.system.files import file_trouble, spare_beside


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
