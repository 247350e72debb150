"""Restores borrowed files; as a script, it is the guard of a process that borrows files.

A guard must start fast, and every command runs this first, so only the standard library is
imported at the top.
"""

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
import select
import signal
import stat
import sys
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

if TYPE_CHECKING:
    from burnish.system.processes import Owner

SCHEMA = 1
"""The version of the records; other versions are left alone."""

_Fate: TypeAlias = Literal["put back", "left alone", "failed"]
_SPARE_NAME = re.compile(r"\.(?P<pid>\d{1,10})-[0-9a-f]{16}\.burnish-tmp")
_LOOK = 0.5
"""Seconds between checks of the owner: a forked child of it may keep the pipe open."""
_BEAT = 10.0
"""Seconds between signs of life on the record, for those who cannot see the owner."""


def borrowed_folder(home: Path | None = None) -> Path:
    """Where records of borrowed files are; `home` is the state folder by default."""
    if home is None:
        from burnish.system.files import state_folder

        home = state_folder()
    return home / "borrowed"


def records_in(folder: Path, pattern: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The readable records in a folder, with their content."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - one call that fails at once
    except OSError:
        return
    for path in sorted(folder / name for name in names):
        if path.match(pattern):
            try:
                record: Any = json.loads(path.read_bytes())
            except (OSError, ValueError, RecursionError):
                continue  # somebody else was faster, or it is none of ours
            fields = cast("dict[str, Any]", record) if isinstance(record, dict) else {}
            if fields.get("schema") == SCHEMA:
                yield path, fields


@dataclass(frozen=True, kw_only=True)
class PutBack:
    """What happened to one borrowed file that did not have its own content."""

    path: str
    fate: _Fate
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def digest(content: bytes) -> str:
    """The hash by which a record identifies content that burnish wrote."""
    return hashlib.sha256(content).hexdigest()


def put_back(record: Path) -> list[PutBack]:
    """Restore each file of a record that still contains what burnish wrote.

    Changes by others are left alone. The record is deleted when nothing is left to do.
    """
    with _claimed(record) as content:
        if content is None:
            return []
        places = [Path(file["path"]) for file in content["files"]]
        for folder in {place.parent for place in places}:
            _remove_spares(folder, content["owner"]["pid"])
        fates = [fate for file in content["files"] if (fate := _restored(file)) is not None]
        if not any(fate.fate == "failed" for fate in fates):
            with contextlib.suppress(OSError):
                record.unlink(missing_ok=True)
    return fates


@contextlib.contextmanager
def _claimed(record: Path) -> Generator[dict[str, Any] | None, None, None]:
    """The locked record; None if it is gone."""
    try:
        file = record.open("rb")
    except FileNotFoundError:
        yield None
        return
    with file:
        # Where a file system has no locks, two may do the same: the outcome is one.
        with contextlib.suppress(OSError):
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        yield json.load(file) if record.exists() else None


def _restored(file: dict[str, Any]) -> PutBack | None:
    if file["original"] is None:
        return _removed(file)
    path, original = Path(file["path"]), base64.b64decode(file["original"])
    fate: _Fate = "left alone"
    try:
        now = path.read_bytes()
        if now == original:
            return None
        if digest(now) in file["written"]:
            before = path.stat()
            _write(path, original, mode=before.st_mode, owner=before)
            fate, message = "put back", "its own content was put back"
        else:
            message = "somebody changed it meanwhile, so it was left alone"
    except FileNotFoundError:
        return _written_again(path, original, file.get("removed"))
    except OSError as error:
        fate = "failed"
        message = f"its own content could not be put back: {error.strerror or error}"
    return PutBack(path=str(path), fate=fate, message=message)


def _written_again(path: Path, original: bytes, mode: int | None) -> PutBack:
    """Put back a file that burnish removed; `mode` is None for one that it did not."""
    fate: _Fate = "left alone"
    message = "somebody deleted it meanwhile, so it was left alone"
    try:
        if mode is not None and path.parent.is_dir():
            _write(path, original, mode=mode)
            fate, message = "put back", "it had been removed, and was put back"
    except OSError as error:
        fate, message = "failed", f"it could not be put back: {error.strerror or error}"
    return PutBack(path=str(path), fate=fate, message=message)


def _removed(file: dict[str, Any]) -> PutBack | None:
    """Remove a file that was not there before, if it still contains what burnish wrote."""
    path = Path(file["path"])
    fate: _Fate = "left alone"
    try:
        if digest(path.read_bytes()) in file["written"]:
            path.unlink()
            fate, message = "put back", "it was not there before, so it was removed"
        else:
            message = "somebody changed it meanwhile, so it was left alone"
    except FileNotFoundError:
        return None
    except OSError as error:
        fate, message = "failed", f"it could not be removed: {error.strerror or error}"
    return PutBack(path=str(path), fate=fate, message=message)


def _write(path: Path, content: bytes, *, mode: int, owner: os.stat_result | None = None) -> None:
    """Write the content in one step, with this mode and the owner of the file before."""
    spare = path.parent / f".{os.getpid()}-{secrets.token_hex(8)}.burnish-tmp"
    try:
        descriptor = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            if owner is not None:
                with contextlib.suppress(PermissionError):
                    os.fchown(descriptor, owner.st_uid, owner.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(mode))
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        spare.replace(path)
    except BaseException:  # Ctrl-C too: no spare file stays
        with contextlib.suppress(OSError):
            spare.unlink(missing_ok=True)
        raise


def _remove_spares(folder: Path, owner: int) -> None:
    """Remove temporary files of the owner, and of other processes that are gone."""
    with contextlib.suppress(OSError):
        for entry in folder.iterdir():
            match = _SPARE_NAME.fullmatch(entry.name)
            if match and (int(match["pid"]) == owner or not _is_alive(int(match["pid"]))):
                entry.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _guard(owner: int, record: Path) -> None:
    """Wait for the owner to end, then restore what it borrowed."""
    open_pipe, pause, beat = True, 0.005, time.monotonic()
    while os.getppid() == owner:
        if open_pipe:
            readable, _, _ = select.select([sys.stdin.fileno()], [], [], _LOOK)
            open_pipe = not readable or bool(os.read(sys.stdin.fileno(), 1))
        elif not record.exists():
            return
        else:
            # The pipe closes a moment before its owner is gone; or the owner lost it.
            time.sleep(pause)
            pause = min(2 * pause, _LOOK)
        if time.monotonic() - beat > _BEAT:
            beat = time.monotonic()
            with contextlib.suppress(OSError):
                os.utime(record)
    put_back(record)


def restore_abandoned(folder: Path | None = None) -> "list[PutBack]":
    """Restore what killed processes borrowed; return what was done, file by file.

    If nothing was ever borrowed, this costs one look at a missing folder.
    """
    fates: list[PutBack] = []
    for record, content in records_in(folder or borrowed_folder(), "[0-9]*.json"):
        from burnish.system.processes import Owner

        if Owner.parse(content["owner"]).is_gone(record):
            fates += put_back(record)
    return fates


def borrower_of(path: Path, folder: Path) -> "Owner | None":
    """The living process that has borrowed a file; None if there is none."""
    for record, content in records_in(folder, "[0-9]*.json"):
        from burnish.system.processes import Owner

        owner = Owner.parse(content["owner"])
        paths = {file["path"] for file in content["files"]}
        if str(path) in paths and not owner.is_gone(record):
            return owner
    return None


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # It ends by itself as soon as its owner does, and not before.
        signal.signal(number, signal.SIG_IGN)
    _guard(int(sys.argv[1]), Path(sys.argv[2]))
