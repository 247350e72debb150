"""Copies of a folder as it is on disk, from which no way leads back to the original."""

import fcntl
import os
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from burnish.system.file_trouble import file_trouble
from burnish.system.workspaces.paths import covers, shown
from burnish.system.workspaces.removal import remove_tree

DEFAULT_EXCLUDE = (
    "**/.git", "**/.hg", "**/.svn", "**/.venv", "**/venv", "**/node_modules", "**/__pycache__",
    "**/*.pyc", "**/.pytest_cache", "**/.ruff_cache", "**/.mypy_cache", "**/.tox", "**/.nox",
    "**/.burnish", "**/.*.burnish-tmp",
)  # fmt: skip
"""What a copy goes without: histories, installed packages, caches."""
_CLONE = 0x40049409
"""FICLONE of Linux: the copy shares the disk's blocks until one of them is written."""
_RUN_FILES = ("run.json", "journal.db")
_ALL_MODES = 0o777


@dataclass(frozen=True, kw_only=True)
class WorkspaceCopy:
    """What a copy holds."""

    folder: Path
    files: int
    bytes: int
    cloned: int
    """Files whose blocks are shared with the original until one side is written."""
    notes: tuple[str, ...]
    """What is not in the copy as it is in the original, each with the reason."""


def copy_workspace(
    source: Path, destination: Path, *, exclude: Sequence[str] = DEFAULT_EXCLUDE
) -> WorkspaceCopy:
    """Copy a folder, uncommitted changes included, to a place where nothing is yet.

    Left out: what `exclude` names, folders of runs, the copy itself, sockets and devices. Links
    that lead out of the folder become the file they lead to, or are left out.
    """
    try:
        source = source.resolve(strict=True)
        destination.mkdir(parents=True)
        destination = destination.resolve()
    except OSError as error:
        raise file_trouble("copy to", destination, error) from error
    copying = _Copying(source=source, destination=destination, exclude=tuple(exclude))
    try:
        copying.copy_all()
    except BaseException as error:
        remove_tree(destination)
        if isinstance(error, OSError):
            raise file_trouble("copy", Path(error.filename or source), error) from error
        raise
    return WorkspaceCopy(folder=destination, files=copying.files, bytes=copying.bytes,
                         cloned=copying.cloned, notes=tuple(copying.notes))  # fmt: skip


@dataclass(kw_only=True)
class _Copying:
    source: Path
    destination: Path
    exclude: tuple[str, ...]
    files: int = 0
    bytes: int = 0
    cloned: int = 0
    can_clone: bool = True
    notes: list[str] = field(default_factory=list[str])

    def copy_all(self) -> None:
        todo, modes = [""], list[tuple[Path, int]]()
        while todo:
            inside = todo.pop()
            for entry in self._entries(inside):
                path = f"{inside}/{entry.name}" if inside else entry.name
                if self._is_left_out(entry, path):
                    continue
                if entry.is_symlink():
                    self._link(path)
                elif entry.is_dir():
                    target = self.destination / path
                    target.mkdir()
                    modes.append((target, entry.stat().st_mode & _ALL_MODES))
                    todo.append(path)
                else:
                    self._file(entry, path)
        # Last: a folder that may not be written could not have been filled.
        for target, mode in modes:
            target.chmod(mode)

    def _entries(self, inside: str) -> "list[os.DirEntry[str]]":
        try:
            return list(os.scandir(self.source / inside))
        except PermissionError:
            self._note(inside, "the folder cannot be read")
            return []

    def _is_left_out(self, entry: "os.DirEntry[str]", path: str) -> bool:
        if covers(self.exclude, path):
            return True
        if entry.name == ".git" and not entry.is_dir(follow_symlinks=False):
            self._note(path, "it points to a repository elsewhere, which must not be written")
            return True
        if not entry.is_dir(follow_symlinks=False):
            return False
        place = Path(entry.path)
        return place == self.destination or all((place / name).exists() for name in _RUN_FILES)

    def _file(self, entry: "os.DirEntry[str]", path: str) -> None:
        seen = entry.stat(follow_symlinks=False)
        if not stat.S_ISREG(seen.st_mode):
            self._note(path, "it is a socket, a pipe or a device")
            return
        self._content(Path(entry.path), path)

    def _content(self, origin: Path, path: str) -> None:
        target = self.destination / path
        try:
            with origin.open("rb") as file, target.open("xb") as copy:
                seen = os.fstat(file.fileno())
                if not self._clone(file.fileno(), copy.fileno()):
                    shutil.copyfileobj(file, copy, 1024 * 1024)
                # Nobody runs a copy as somebody else.
                os.fchmod(copy.fileno(), seen.st_mode & _ALL_MODES)
                copy.flush()
                os.utime(copy.fileno(), ns=(seen.st_atime_ns, seen.st_mtime_ns))
                if os.fstat(file.fileno()).st_mtime_ns != seen.st_mtime_ns:
                    self._note(path, "it was being written while it was copied")
        except PermissionError:
            self._note(path, "the file cannot be read")
            return
        except FileNotFoundError:
            self._note(path, "it was removed while the folder was copied")
            return
        self.files, self.bytes = self.files + 1, self.bytes + seen.st_size

    def _clone(self, file: int, copy: int) -> bool:
        if not self.can_clone:
            return False
        try:
            fcntl.ioctl(copy, _CLONE, file)
        except OSError:
            self.can_clone = False
            return False
        self.cloned += 1
        return True

    def _link(self, path: str) -> None:
        """A link that stays in the folder stays a link; one that leaves it cannot."""
        place = self.source / path
        text, real = place.readlink(), Path(os.path.realpath(place))
        spelled = Path(os.path.normpath(place.parent / text))
        if real.is_relative_to(self.source):
            straight = not text.is_absolute() and spelled.is_relative_to(self.source)
            near = os.path.relpath(real, Path(os.path.realpath(place.parent)))
            (self.destination / path).symlink_to(text if straight else near)
        elif real.is_file():
            self._content(real, path)
            self._note(path, "it was a link to a file elsewhere: the copy holds the content")
        else:
            self._note(path, "it is a link to a place outside of the folder: left out")

    def _note(self, path: str, reason: str) -> None:
        self.notes.append(f"{shown(path) or '.'}: {reason}")
