"""What an operating system's refusal means, in words and with what to do about it."""

import errno
from pathlib import Path

from burnish.core.errors import FileTrouble

_CAUSES = {
    errno.ENOSPC: ("the disk is full", "Free some space and try again."),
    errno.EDQUOT: ("the disk quota is used up", "Free some space and try again."),
    errno.EFBIG: ("the file would pass the size limit", "Raise the limit: see `ulimit -f`."),
    errno.EROFS: ("the file system is read-only", "Choose a folder that can be written to."),
    errno.EACCES: ("permission denied", "Check who owns it and its mode: `ls -ld`."),
    errno.EPERM: ("permission denied", "Check who owns it and its mode: `ls -ld`."),
    errno.ENOENT: ("it does not exist", "Check the path, and that its folder exists."),
    errno.ENOTDIR: ("a part of its path is a file, not a folder", "Check the path."),
    errno.EISDIR: ("it is a folder, not a file", "Name a file."),
    errno.ENAMETOOLONG: ("its name is too long", "Choose a shorter name."),
    errno.ELOOP: ("its symbolic links lead in a circle", "Mend the links."),
    errno.EMFILE: ("too many files are open", "Raise the limit: see `ulimit -n`."),
    errno.ENOLCK: ("this file system has no locks", "Put the run on a local disk."),
    errno.EOPNOTSUPP: ("this file system cannot do that", "Put the run on a local disk."),
}


class Unreadable(Exception):
    """Says why a document cannot be read; whoever knows its name makes an error of it."""

    def __init__(self, cause: str, *, remedy: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy


def file_trouble(action: str, path: Path, error: OSError) -> FileTrouble:
    """The error to raise when `action` ('write', 'read', …) on `path` was refused."""
    unknown = (error.strerror or str(error), "Check the path and the disk.")
    cause, remedy = _CAUSES.get(error.errno or 0, unknown)
    return FileTrouble(f"cannot {action} {path}: {cause}", remedy=remedy)
