"""Independent copies of a folder, and writing into them without leaving them."""

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from burnish.core.errors import FileTrouble
from burnish.system.files import file_trouble, remove_tree
from burnish.system.workspaces.snapshots import Entry, covers, entered, path_problem, shown

DEFAULT_EXCLUDE = (
    "**/.git", "**/.hg", "**/.svn", "**/.venv", "**/venv", "**/node_modules", "**/__pycache__",
    "**/*.pyc", "**/.pytest_cache", "**/.ruff_cache", "**/.mypy_cache", "**/.tox", "**/.nox",
    "**/.burnish", "**/.*.burnish-tmp",
)  # fmt: skip
"""What a copy leaves out: repositories, installed packages, caches."""
_ALL_MODES = 0o777


@dataclass(frozen=True, kw_only=True)
class WorkspaceCopy:
    """What a copy contains."""

    folder: Path
    files: int
    bytes: int
    cloned: int
    """Files whose blocks are shared with the original until one side is written."""
    notes: tuple[str, ...]
    """What differs from the original, each with the reason."""


def copy_workspace(
    source: Path, destination: Path, *, exclude: Sequence[str] = DEFAULT_EXCLUDE
) -> WorkspaceCopy:
    """Copy a folder, including uncommitted changes, to a new place.

    Left out: what `exclude` names, run folders, the copy itself, sockets and devices. Links
    that leave the folder become the file they point to, or are left out.
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
    except BaseException as error:  # Ctrl-C too: no half copy stays
        remove_tree(destination)
        if isinstance(error, OSError):
            raise file_trouble("copy", Path(error.filename or source), error) from error
        raise
    return WorkspaceCopy(folder=destination, files=copying.files, bytes=copying.bytes,
                         cloned=copying.cloned, notes=tuple(copying.notes))  # fmt: skip


def is_run_folder(folder: Path) -> bool:
    """Whether a folder holds a run, with its journal or a pointer to it: they appear together."""
    journals = (folder / name for name in ("journal.db", "journal.json"))
    return (folder / "run.json").is_file() and any(map(Path.is_file, journals))


def carry_over(source: Path, destination: Path, entries: Mapping[str, Entry]) -> None:
    """Copy these files and folders into another workspace; what is there already stays.

    Links are left out: one could lead to a file that only the other workspace has.
    """
    copying = _Copying(source=source, destination=destination, exclude=())
    for path, entry in sorted(entries.items()):
        target = destination / path
        try:
            if entry.kind == "folder":
                target.mkdir(parents=True, exist_ok=True)
            elif entry.kind == "file" and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                copying.copy_file(source / path, path)
        except OSError as error:
            raise file_trouble("copy", source / path, error) from error


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
                elif not entry.is_file(follow_symlinks=False):
                    self._note(path, "it is a socket, a pipe or a device")
                else:
                    self.copy_file(Path(entry.path), path)
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
        return place == self.destination or is_run_folder(place)

    def copy_file(self, origin: Path, path: str) -> None:
        target = self.destination / path
        try:
            with origin.open("rb") as file, target.open("xb") as copy:
                status = os.fstat(file.fileno())
                if not self._clone(file.fileno(), copy.fileno()):
                    shutil.copyfileobj(file, copy, 1024 * 1024)
                # Nobody runs a copy as somebody else.
                os.fchmod(copy.fileno(), status.st_mode & _ALL_MODES)
                copy.flush()
                os.utime(copy.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
                if os.fstat(file.fileno()).st_mtime_ns != status.st_mtime_ns:
                    self._note(path, "it was being written while it was copied")
        except PermissionError:
            self._note(path, "the file cannot be read")
            return
        except FileNotFoundError:
            self._note(path, "it was removed while the folder was copied")
            return
        self.files, self.bytes = self.files + 1, self.bytes + status.st_size

    def _clone(self, file: int, copy: int) -> bool:
        if not self.can_clone:
            return False
        try:
            # FICLONE of Linux: the copy shares the disk's blocks until one of them is written.
            fcntl.ioctl(copy, 0x40049409, file)
        except OSError:
            self.can_clone = False
            return False
        self.cloned += 1
        return True

    def _link(self, path: str) -> None:
        """A link inside the folder stays a link; one that leaves it cannot."""
        place = self.source / path
        text, real = place.readlink(), Path(os.path.realpath(place))
        spelled = Path(os.path.normpath(place.parent / text))
        if real.is_relative_to(self.source):
            straight = not text.is_absolute() and spelled.is_relative_to(self.source)
            near = os.path.relpath(real, Path(os.path.realpath(place.parent)))
            (self.destination / path).symlink_to(text if straight else near)
        elif real.is_file():
            self.copy_file(real, path)
            self._note(path, "it was a link to a file elsewhere: the copy holds the content")
        else:
            self._note(path, "it is a link to a place outside of the folder: left out")

    def _note(self, path: str, reason: str) -> None:
        self.notes.append(f"{shown(path) or '.'}: {reason}")


@dataclass(frozen=True, kw_only=True)
class _Spare:
    """A temporary file that waits to be renamed; without `spare`, a file to be removed."""

    folder: int
    name: str
    spare: str = ""


def write_files(folder: Path, texts: Mapping[str, str | None]) -> None:
    """Write these texts to files below `folder`; None removes a file.

    Everything is written before the first file changes. Folders are created as needed; modes are
    kept. No link is followed, neither to a file nor to a folder.
    """
    for path in texts:
        if problem := path_problem(path):
            raise FileTrouble(f"cannot write '{shown(path)}' in {folder}: {problem}")
    with contextlib.ExitStack() as opened:
        spares: list[_Spare] = []
        try:
            for path, text in texts.items():
                spares.append(_prepared(opened, folder, path, text))
            while spares:
                _put(spares[0])
                del spares[0]
        except OSError as error:
            raise file_trouble("write in", folder, error) from error
        finally:
            for spare in spares:
                _drop(spare)


def _prepared(opened: contextlib.ExitStack, folder: Path, path: str, text: str | None) -> _Spare:
    *above, name = path.split("/")
    place = opened.enter_context(entered(folder, above, make=text is not None))
    status = _seen(place, name)
    if status is not None and not stat.S_ISREG(status.st_mode):
        remedy = "Only plain files are written, through no link."
        raise FileTrouble(f"cannot write {shown(path)} in {folder}: not a file", remedy=remedy)
    if text is None:
        return _Spare(folder=place, name=name)
    spare = f".{os.getpid()}-{secrets.token_hex(8)}.burnish-tmp"
    made = _Spare(folder=place, name=name, spare=spare)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        descriptor = os.open(spare, flags, 0o666, dir_fd=place)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_encoded(path, text))
            if status is not None:
                os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
    except BaseException:  # Ctrl-C too: no half file stays
        _drop(made)
        raise
    return made


def _seen(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _put(spare: _Spare) -> None:
    if spare.spare:
        os.rename(spare.spare, spare.name, src_dir_fd=spare.folder, dst_dir_fd=spare.folder)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(spare.name, dir_fd=spare.folder)


def _drop(spare: _Spare) -> None:
    if spare.spare:
        with contextlib.suppress(OSError):
            os.unlink(spare.spare, dir_fd=spare.folder)


def _encoded(path: str, text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        message = f"cannot write {shown(path)}: character {error.start} is no valid text"
        raise FileTrouble(message, remedy="Remove the lone surrogate.") from error
