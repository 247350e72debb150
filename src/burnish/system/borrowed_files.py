"""User files that hold other content for a while and are restored however the process ends."""

import base64
import contextlib
import json
import os
import secrets
import stat
import subprocess
import sys
from collections.abc import Generator, Mapping
from pathlib import Path

from burnish.core.errors import FileTrouble
from burnish.system import restoration
from burnish.system.files import file_trouble, remove_stale_temporaries, write_atomic
from burnish.system.processes import Owner
from burnish.system.restoration import SCHEMA, PutBack, borrowed_folder, digest, put_back


class Borrowing:
    """Borrowed files, each with its original content.

    Before one of them is written, a record on disk says how to restore it, and a guard process
    waits for this one to end. If the guard is killed too, `restore_abandoned` does its work.
    """

    def __init__(self, originals: Mapping[Path, bytes | None], folder: Path) -> None:
        self.record = folder / f"{os.getpid()}-{secrets.token_hex(8)}.json"
        self._originals = dict(originals)
        self._written: dict[Path, set[str]] = {path: set() for path in originals}
        self._removed: dict[Path, int] = {}
        """The modes of files that are removed."""
        self._guard: subprocess.Popen[bytes] | None = None

    def knows(self, path: Path, content: bytes) -> bool:
        """Whether content is the original of the file, or was written here."""
        return content == self._originals[path] or digest(content) in self._written[path]

    def note(self, contents: Mapping[Path, bytes | None]) -> None:
        """Record what is about to be written or, where it is None, removed; start the guard."""
        news = [self._noted(path, content) for path, content in contents.items()]
        if any(news):
            self._write_record()
        if self._guard is not None and self._guard.poll() is not None:
            self._dismiss_guard()  # somebody killed it
        self._guard = self._guard or _start_guard(self.record)

    def _noted(self, path: Path, content: bytes | None) -> bool:
        """Take note of one change; whether it is a new one."""
        if content is None:
            if path in self._removed:
                return False
            try:
                self._removed[path] = stat.S_IMODE(path.stat().st_mode)
            except OSError as error:
                raise file_trouble("read", path, error) from error
            return True
        mark = digest(content)
        new = mark not in self._written[path]
        self._written[path].add(mark)
        return new

    def put_back(self) -> list[PutBack]:
        """Restore every file and dismiss the guard; return what did not go as expected.

        If a file cannot be restored, the record remains for the next attempt. Can be called again.
        """
        if (self._removed or any(self._written.values())) and not self.record.exists():
            self._write_record()
        fates = put_back(self.record)
        self._dismiss_guard()
        return fates

    def keep(self) -> None:
        """Leave every file as it was written, and dismiss the guard."""
        self.record.unlink(missing_ok=True)
        self._dismiss_guard()

    def _write_record(self) -> None:
        files = [
            {
                "path": str(path),
                "original": None if original is None else base64.b64encode(original).decode(),
                "written": sorted(self._written[path]),
                "removed": self._removed.get(path),
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


@contextlib.contextmanager
def undone_if_killed(
    originals: Mapping[Path, bytes | None],
    contents: Mapping[Path, bytes | None],
    folder: Path | None = None,
) -> Generator[None, None, None]:
    """Make several changes of files one: an error undoes them, and so does a kill.

    A file whose original is None is not there yet, and is removed again; one whose new content is
    None is removed, and comes back. After a kill the guard does it, or the next command. `folder`
    is where records of borrowed files are. Where no record can be written, a kill may leave some
    of the changes.
    """
    borrowing = Borrowing(originals, folder or borrowed_folder())
    with contextlib.suppress(FileTrouble):
        borrowing.note(contents)
    try:
        yield
    except BaseException:  # Ctrl-C too: the files are the user's
        with contextlib.suppress(FileTrouble):
            borrowing.put_back()
        raise
    borrowing.keep()


def make_private_folder(folder: Path) -> None:
    """Create a folder that only its user can read."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise file_trouble("make", folder, error) from error


def _start_guard(record: Path) -> subprocess.Popen[bytes] | None:
    """A process in its own session, which Ctrl-C does not reach."""
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
