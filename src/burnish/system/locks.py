"""A lock on a path, held by one process and released when it ends."""

import contextlib
import fcntl
import json
import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ValidationError

from burnish.core.errors import RunLocked
from burnish.system.files import file_trouble


class _Holder(BaseModel):
    pid: int
    host: str
    since: str


@dataclass(frozen=True, kw_only=True)
class FileLock:
    """Held from `acquire` to `release`, or until the process ends."""

    path: Path
    file: FileIO

    @classmethod
    def acquire(cls, path: Path, *, holding: str) -> Self:
        """Lock `path`, or report who holds it; `holding` is what the message calls it."""
        try:
            # Python opens files as not inheritable, so no program started later keeps the lock.
            file = FileIO(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+")
        except OSError as error:
            raise file_trouble("lock", path, error) from error
        try:
            _take(file.fileno(), holding)
        except BaseException as error:  # whatever it was, the file is closed
            file.close()
            if isinstance(error, OSError):
                raise file_trouble("lock", path, error) from error
            raise
        return cls(path=path, file=file)

    def release(self) -> None:
        """Unlock; the file remains, since removing it would let two processes lock two files."""
        if self.file.closed:
            return
        with self.file, contextlib.suppress(OSError):
            self.file.truncate(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


def is_held(path: Path) -> bool:
    """Whether a process holds the lock on `path` right now."""
    try:
        with FileIO(path) as file:
            return not _lock_at_once(file.fileno(), fcntl.LOCK_SH)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise file_trouble("look at the lock", path, error) from error


def _take(descriptor: int, holding: str) -> None:
    if not _lock_patiently(descriptor):
        raise _refusal(descriptor, holding)
    since = datetime.now(UTC).isoformat(timespec="seconds")
    holder = {"pid": os.getpid(), "host": os.uname().nodename, "since": since}
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(holder).encode(), 0)


def _lock_at_once(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_patiently(descriptor: int) -> bool:
    # `is_held` takes the lock for an instant; that must not look like a holder.
    for _ in range(5):
        if _lock_at_once(descriptor, fcntl.LOCK_EX):
            return True
        time.sleep(0.01)
    return False


def _refusal(descriptor: int, holding: str) -> RunLocked:
    try:
        holder = _Holder.model_validate_json(os.pread(descriptor, 4096, 0))
    except ValidationError:
        message = f"{holding} is in use by another process"
        return RunLocked(message, remedy="Wait until it ends, or end it.")
    who = f"process {holder.pid} on {holder.host}, since {holder.since}"
    where = "" if holder.host == os.uname().nodename else f" on {holder.host}"
    remedy = f"Wait until it ends, or stop it: `kill -INT {holder.pid}`{where}."
    return RunLocked(f"{holding} is in use by {who}", remedy=remedy)
