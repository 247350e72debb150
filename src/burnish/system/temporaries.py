"""Spare files that become the real ones in one step, and those that a killed writer left."""

import contextlib
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path

_NAME = re.compile(r"\.(?P<pid>\d{1,10})-[0-9a-f]{16}\.burnish-tmp")


def spare_beside(path: Path) -> Path:
    """A name for a spare in the same folder.

    The name of the target is not in it: a name of 255 bytes has no room for more.
    """
    return path.parent / f".{os.getpid()}-{secrets.token_hex(8)}.burnish-tmp"


def put_in_place(path: Path, make: Callable[[Path], None]) -> None:
    """Let `make` create a spare file beside `path`, then rename it to `path`."""
    spare = spare_beside(path)
    try:
        make(spare)
        spare.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            spare.unlink(missing_ok=True)
        raise


def is_abandoned(name: str, *, shared: bool = False) -> bool:
    """Whether a file of this name is a spare whose writer is gone, or was an earlier self.

    In a container the number of this process may well have been its predecessor's; where the
    folder is `shared` with others in this process, it is taken for theirs.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        return False
    pid = int(found["pid"])
    return not shared if pid == os.getpid() else not _is_alive(pid)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
