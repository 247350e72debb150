"""The command line as a test uses it: in this process, or as a child of its own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fork_server import ForkedProcess

SMALL = """\
kind: toy
world: {train: 6, holdout: 4, test: 4, counter: calls.txt}
strategy: {cycles: 1, trials_per_phase: 2}
"""
SLOW = """\
kind: toy
world: {train: 6, holdout: 4, test: 4, call_seconds: 0.01}
strategy: {cycles: 1, trials_per_phase: 2}
concurrency: 4
"""
Burnish = Callable[..., "Said"]
"""The command line in this process: see the fixture `burnish`."""
START = "from burnish.cli import main; main()"


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines on stdout."""
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        """Stdout as one JSON value."""
        return json.loads(self.out)

    @property
    def records(self) -> list[Any]:
        """Stdout as lines of JSON."""
        return [json.loads(line) for line in self.lines]


def refused(said: Said, *words: str) -> None:
    """It is one error message on stderr, with these words, and no traceback."""
    assert said.code == 1, said
    assert said.err.startswith("error: ")
    assert said.err.count("error: ") == 1
    assert "Traceback" not in said.err
    assert said.out == ""
    for word in words:
        assert word in said.err


def child(*args: str, cwd: Path, start: str = START, **env: str) -> "subprocess.Popen[str]":
    """The command line in a fresh process, stdout and stderr piped."""
    return subprocess.Popen(
        [sys.executable, "-c", start, *args],
        cwd=cwd,
        env=_environment(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def forked(*args: str, cwd: Path, start: str = START, **env: str) -> "subprocess.Popen[str]":
    """The same in a process that has its imports: for tests of anything but the start."""
    return ForkedProcess(start, *args, cwd=cwd, env=_environment(env))


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    usual = {k: v for k, v in os.environ.items() if k not in {"PYTHONDONTWRITEBYTECODE", "COLUMNS"}}
    return {**usual, **more}


def finish(process: "subprocess.Popen[str]", *, seen: str = "", seconds: float = 120) -> Said:
    """Wait for a child; `seen` is what was read of its stdout already."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return Said(code=process.returncode, out=seen + out, err=err)


def until(happened: Callable[[], bool], *, seconds: float = 120) -> None:
    """Wait for something that another process does."""
    limit = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.005)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, to see that nothing changed."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
