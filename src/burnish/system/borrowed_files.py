"""Files of the user that hold something else for a while, and are put back however it ends."""

import base64
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from burnish.system import restoration
from burnish.system.files import file_trouble, remove_stale_temporaries, write_atomic
from burnish.system.processes import Owner
from burnish.system.restoration import SCHEMA, PutBack, digest, put_back


class Borrowing:
    """Files on loan, each with the content that is its own.

    Before anything else is written to one of them, a record on disk says what it is to get back,
    and a guard process waits for the end of this one. Should the guard be killed too, whoever
    calls `restore_abandoned` next does its work.
    """

    def __init__(self, originals: Mapping[Path, bytes], folder: Path) -> None:
        self.record = folder / f"{os.getpid()}-{secrets.token_hex(8)}.json"
        self._originals = dict(originals)
        self._written: dict[Path, set[str]] = {path: set() for path in originals}
        self._guard: subprocess.Popen[bytes] | None = None

    def knows(self, path: Path, content: bytes) -> bool:
        """Whether a content is the file's own, or was written here."""
        return content == self._originals[path] or digest(content) in self._written[path]

    def note(self, contents: Mapping[Path, bytes]) -> None:
        """Put on record what is about to be written, and see that the guard is there."""
        new = {path: digest(content) for path, content in contents.items()}
        if any(mark not in self._written[path] for path, mark in new.items()):
            for path, mark in new.items():
                self._written[path].add(mark)
            self._write_record()
        if self._guard is not None and self._guard.poll() is not None:
            self._dismiss_guard()  # somebody killed it
        self._guard = self._guard or _start_guard(self.record)

    def put_back(self) -> list[PutBack]:
        """Give every file its own content back and let the guard go; what did not go as wished.

        Should a file refuse, the record stays for whoever tries next. May be called again.
        """
        if any(self._written.values()) and not self.record.exists():
            self._write_record()
        fates = put_back(self.record)
        self._dismiss_guard()
        return fates

    def _write_record(self) -> None:
        files = [
            {
                "path": str(path),
                "original": base64.b64encode(original).decode(),
                "written": sorted(self._written[path]),
            }
            for path, original in self._originals.items()
        ]
        record = {"schema": SCHEMA, "owner": Owner.here().as_json(), "files": files}
        make_private_folder(self.record.parent)
        remove_stale_temporaries(self.record.parent, shared=True)
        write_atomic(self.record, json.dumps(record), mode=0o600)

    def _dismiss_guard(self) -> None:
        if self._guard is None or self._guard.stdin is None:
            return
        # Not by closing the pipe: it may still be starting, and has nothing to do any more.
        self._guard.kill()
        self._guard.stdin.close()
        self._guard.wait()
        self._guard = None


def make_private_folder(folder: Path) -> None:
    """A folder that only its user can look into."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise file_trouble("make", folder, error) from error


def _start_guard(record: Path) -> subprocess.Popen[bytes] | None:
    """A process in a session of its own, which Ctrl-C does not reach."""
    script = Path(restoration.__file__)
    if not sys.executable or not script.is_file():
        return None  # Python inside another program: the next start puts back
    argv = [sys.executable, "-I", "-S", "-B", str(script), str(os.getpid()), str(record.resolve())]
    nothing = subprocess.DEVNULL
    try:
        # The end of the pipe that stays here is not inherited by programs started later.
        return subprocess.Popen(  # noqa: S603
            argv, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, cwd="/",
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise file_trouble("start", Path(sys.executable), error) from error
