"""Puts borrowed files back; run by its path it is the guard of a process that borrows files.

A guard must start fast and outlive whatever happened to the process, and every command looks here
before anything else: so nothing but Python itself is imported here, and the rest loads late.
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
"""Of the records: those of another burnish are left to it."""

_Fate: TypeAlias = Literal["put back", "left alone", "failed"]
_SPARE = re.compile(r"\.(?P<pid>\d{1,10})-[0-9a-f]{16}\.burnish-tmp")
_LOOK = 0.5
"""Seconds between two looks at the owner: a forked child of it may keep the pipe open."""
_BEAT = 10.0
"""Seconds between two signs of life on the record, for those who cannot see the owner."""


def borrowed_folder(home: Path | None = None) -> Path:
    """Where records of borrowed files lie; `home` is the state folder unless it is given."""
    if home is None:
        from burnish.system.files import state_folder

        home = state_folder()
    return home / "borrowed"


def records_in(folder: Path, pattern: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The records in a folder, each with what it says; those that say nothing are passed over."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - one call that fails at once
    except OSError:
        return
    for path in sorted(folder / name for name in names):
        if path.match(pattern):
            try:
                record: Any = json.loads(path.read_bytes())
            except (OSError, ValueError):
                continue  # somebody else was faster, or it is none of ours
            fields = cast("dict[str, Any]", record) if isinstance(record, dict) else {}
            if fields.get("schema") == SCHEMA:
                yield path, fields


@dataclass(frozen=True, kw_only=True)
class PutBack:
    """What became of one borrowed file that did not hold its own content."""

    path: str
    fate: _Fate
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def digest(content: bytes) -> str:
    """What a record keeps of a content that burnish wrote."""
    return hashlib.sha256(content).hexdigest()


def put_back(record: Path) -> list[PutBack]:
    """Give each file of a record its own content back, where it holds what burnish wrote.

    What somebody else wrote, or deleted, is theirs. The record goes when nothing is left to do.
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
    """The record while nobody else puts its files back; None when it is gone."""
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
    path, original = Path(file["path"]), base64.b64decode(file["original"])
    try:
        now = path.read_bytes()
        if now == original:
            return None
        if digest(now) not in file["written"]:
            message = "somebody changed it meanwhile, so it was left alone"
            return PutBack(path=str(path), fate="left alone", message=message)
        _replace(path, original)
    except FileNotFoundError:
        message = "somebody deleted it meanwhile, so it was left alone"
        return PutBack(path=str(path), fate="left alone", message=message)
    except OSError as error:
        message = f"its own content could not be put back: {error.strerror or error}"
        return PutBack(path=str(path), fate="failed", message=message)
    return PutBack(path=str(path), fate="put back", message="its own content was put back")


def _replace(path: Path, content: bytes) -> None:
    """Another content in one step; mode and owner stay."""
    before = path.stat()
    spare = path.parent / f".{os.getpid()}-{secrets.token_hex(8)}.burnish-tmp"
    try:
        descriptor = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            with contextlib.suppress(PermissionError):
                os.fchown(descriptor, before.st_uid, before.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        spare.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            spare.unlink(missing_ok=True)
        raise


def _remove_spares(folder: Path, owner: int) -> None:
    """What the owner, or somebody else who is gone, was writing when it was killed."""
    with contextlib.suppress(OSError):
        for entry in folder.iterdir():
            match = _SPARE.fullmatch(entry.name)
            if match and (int(match["pid"]) == owner or not _is_alive(int(match["pid"]))):
                entry.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _guard(owner: int, record: Path) -> None:
    """Wait for the end of the owner, then put back what it borrowed."""
    open_pipe, pause, beat = True, 0.005, time.monotonic()
    while os.getppid() == owner:
        if open_pipe:
            open_pipe = not _ended(sys.stdin.fileno(), _LOOK)
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


def _ended(pipe: int, seconds: float) -> bool:
    readable, _, _ = select.select([pipe], [], [], seconds)
    return bool(readable) and not os.read(pipe, 1)


def restore_abandoned(folder: Path | None = None) -> "list[PutBack]":
    """Put back what killed processes borrowed; what was done, file by file.

    Where nothing was ever borrowed this costs one look at a folder that is not there.
    """
    fates: list[PutBack] = []
    for record, content in records_in(folder or borrowed_folder(), "[0-9]*.json"):
        from burnish.system.processes import Owner

        if Owner.parse(content["owner"]).is_gone(record):
            fates += put_back(record)
    return fates


def borrower_of(path: Path, folder: Path) -> "Owner | None":
    """The living process that has borrowed a file; None where nobody has."""
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
