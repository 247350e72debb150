"""Processes to be killed, forked from one that has imported everything already.

    python -m tests.crash.nursery MODULE …

Most of the life of a short process is its imports. Here they are paid once: the nursery reads
orders as lines of JSON, forks a child for each, and answers with the child's exit code.
"""

import atexit
import importlib
import json
import os
import random
import select
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATIENCE = 300


@dataclass(frozen=True, kw_only=True)
class Born:
    """How a child ended: a signal is a negative code, as with subprocess."""

    code: int
    out: str
    err: str


class Nursery:
    """A process that forks children. Nothing of one child is seen by the next."""

    def __init__(self, *modules: str) -> None:
        seed = random.randrange(2**32)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.nursery", *modules],
            cwd=ROOT,
            # A process with threads is none to fork from.
            env={**os.environ, "PYTHONHASHSEED": str(seed), "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        atexit.register(self.close)

    def run(
        self, code: str, *arguments: str, cwd: Path, outputs: Path, env: dict[str, str]
    ) -> Born:
        """Python code in a child of its own, to its end; `outputs` is a folder for what it says."""
        out, err = outputs / "child.out", outputs / "child.err"
        order = {
            "code": code,
            "arguments": arguments,
            "cwd": str(cwd),
            "env": env,
            "out": str(out),
            "err": str(err),
        }
        ended = self._ask(json.dumps(order))
        return Born(code=ended, out=out.read_text("utf-8"), err=err.read_text("utf-8"))

    def _ask(self, order: str) -> int:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(order + "\n")
        stdin.flush()
        if not select.select([stdout], [], [], PATIENCE)[0]:
            os.killpg(self._process.pid, signal.SIGKILL)
            raise TimeoutError(f"the child did not end within {PATIENCE} seconds")
        return int(stdout.readline())

    def close(self) -> None:
        """End of the orders."""
        self._process.communicate(timeout=PATIENCE)


@cache
def nursery(number: int, *modules: str) -> Nursery:
    """The nursery with these imports, made once; each number has a hash seed of its own."""
    return Nursery(*modules)


def _become(order: dict[str, Any]) -> None:
    """Be the child: its folder, environment, streams and arguments."""
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    writing = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    streams = ((os.devnull, os.O_RDONLY), (order["out"], writing), (order["err"], writing))
    for number, (path, flags) in enumerate(streams):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = ["-c", *order["arguments"]]
    exec(compile(order["code"], "<order>", "exec"), {"__name__": "__main__"})


def _serve() -> None:
    for name in sys.argv[1:]:
        importlib.import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            # It returns, so that the interpreter ends as that of any program does.
            _become(json.loads(line))
            return
        _, status = os.waitpid(child, os.WUNTRACED)
        while os.WIFSTOPPED(status):  # it waits for somebody who continues it
            os.kill(child, signal.SIGCONT)
            _, status = os.waitpid(child, os.WUNTRACED)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
