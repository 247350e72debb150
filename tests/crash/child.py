"""A run in a process of its own that something happens to at a chosen point.

    python -m tests.crash.child FOLDER --world NAME [--call N | --file N | --seconds S | …]

`--call N`: it kills itself with SIGKILL when the N-th call of this process starts. `--file N`: at
the N-th operation of this process on a file of the run (open for writing, rename, link, mkdir,
remove), through an audit hook, so before the operation happens. `--seconds S`: S seconds after the
imports. `--stop N`: it stops itself with SIGSTOP at the N-th call, and goes on when somebody
continues it. `--disk N`: no file may grow beyond N kB, as if the disk were full.
"""

import argparse
import json
import os
import resource
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from burnish.testing import CallCounter
from tests.crash.worlds import WORLDS

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_OPERATIONS = {"open", "os.rename", "os.link", "os.symlink", "os.mkdir", "os.remove"}


def die() -> None:
    """What the kernel does to a process that the user loses patience with."""
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True, kw_only=True)
class _DeadlyCounter(CallCounter):
    """Counts, and kills or stops at a count."""

    deadly: int
    stopping: int
    seen: list[str]

    def count(self, what: str) -> None:
        """Count outside the process first: the call has started."""
        super().count(what)
        self.seen.append(what)
        if len(self.seen) == self.deadly:
            die()
        if len(self.seen) == self.stopping:
            os.kill(os.getpid(), signal.SIGSTOP)


def die_at_file_operation(folder: Path, deadly: int) -> None:
    """Install the audit hook."""
    seen = 0
    inside = str(folder)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if event not in _OPERATIONS or inside not in str(arguments[0]) + str(arguments[1:2]):
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _WRITING):
            return
        seen += 1
        if seen == deadly:
            die()

    sys.addaudithook(hook)


def _die_later(seconds: float) -> None:
    def wait() -> None:
        time.sleep(seconds)
        die()

    threading.Thread(target=wait, daemon=True).start()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--world", choices=sorted(WORLDS), default="toy")
    parser.add_argument("--call", type=int, default=0)
    parser.add_argument("--file", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--stop", type=int, default=0)
    parser.add_argument("--disk", type=int, default=0)
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--outages", type=float, default=0.0)
    parser.add_argument("--trials", type=int, default=None)
    parser.add_argument("--edited", action="store_true")
    parser.add_argument("--no-test", action="store_true")
    parser.add_argument("--confirm", action="store_true")
    return parser.parse_args()


def main() -> None:
    """Run, and print how it ended."""
    options = _options()
    folder: Path = options.folder
    if options.file:
        die_at_file_operation(folder, options.file)
    if options.seconds:
        _die_later(options.seconds)
    counter = _DeadlyCounter(
        path=folder.with_suffix(".calls"), deadly=options.call, stopping=options.stop, seen=[]
    )
    if options.disk:
        resource.setrlimit(resource.RLIMIT_FSIZE, (options.disk * 1024, options.disk * 1024))
    told = WORLDS[options.world].launch(folder, counter, options)
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
