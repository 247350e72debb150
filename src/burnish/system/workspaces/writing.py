"""Writing files into a workspace without ever leaving it."""

import contextlib
import os
import secrets
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from burnish.core.errors import FileTrouble
from burnish.system.file_trouble import file_trouble
from burnish.system.workspaces.paths import path_problem, shown

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@dataclass(frozen=True, kw_only=True)
class _Spare:
    """A file that was written and waits for its name; without one, a name to be removed."""

    folder: int
    name: str
    spare: str = ""


def write_files(folder: Path, texts: Mapping[str, str | None]) -> None:
    """Give files below `folder` these texts; None removes a file.

    Everything is written before the first file changes. Folders are made as needed; modes stay.
    No link is followed: neither in the place of a file nor in that of a folder.
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
    place = opened.enter_context(_entered(folder, above, make=text is not None))
    seen = _seen(place, name)
    if seen is not None and not stat.S_ISREG(seen.st_mode):
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
            if seen is not None:
                os.fchmod(descriptor, stat.S_IMODE(seen.st_mode))
    except BaseException:
        _drop(made)
        raise
    return made


@contextmanager
def _entered(folder: Path, above: list[str], *, make: bool) -> Generator[int, None, None]:
    """The folder that a file lies in, entered step by step so that no link leads elsewhere."""
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in above:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=here)
            there = os.open(name, _FOLDER, dir_fd=here)
            os.close(here)
            here = there
        yield here
    finally:
        os.close(here)


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
