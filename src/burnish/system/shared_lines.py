"""Lines of a file to which several processes add."""

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

from burnish.system.file_trouble import file_trouble
from burnish.system.files import read_bytes


def add_lines(path: Path, lines: Sequence[str]) -> None:
    """Add lines, all together and after whole lines only: a torn one at the end is cut off."""
    if not lines:
        return
    payload = "".join(f"{line}\n" for line in lines).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            file.truncate(file.read().rfind(b"\n") + 1)
            file.seek(0, os.SEEK_END)
            while payload:
                payload = payload[file.write(payload) or 0 :]
            os.fsync(descriptor)
    except OSError as error:
        raise file_trouble("append to", path, error) from error


def whole_lines(path: Path) -> list[str]:
    """The lines of a file; none where it is not there. A torn one at the end is left out."""
    if not path.exists():
        return []
    return read_bytes(path).decode(errors="replace").split("\n")[:-1]
