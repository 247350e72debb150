"""A forked process is like a fresh one to whoever starts it and to the program in it."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.console import child, finish, forked

FACTS = """
import json, os, signal, sys
print(json.dumps({
    "argv": sys.argv, "main": __name__, "cwd": os.getcwd(), "env": dict(os.environ),
    "path": [*sys.path],
    "sigint": getattr(signal.getsignal(signal.SIGINT), "__name__", "ignored"),
    "sigchld": int(signal.getsignal(signal.SIGCHLD)), "tty": sys.stdout.isatty(),
    "stdin": sys.stdin.read(), "open": sorted(os.listdir("/proc/self/fd"))[:-1],
}))
"""


@pytest.mark.slow
def test_its_surroundings_are_those_of_a_fresh_one(tmp_path: Path) -> None:
    told = [
        json.loads(finish(start("a", "b", cwd=tmp_path, start=FACTS, PYTHONPATH="/x:/y")).out)
        for start in (child, forked)
    ]
    fresh, after_fork = told
    # Importing burnish sets a variable, which a program without that import does not have.
    imported = after_fork["env"].keys() - fresh["env"].keys()
    for name in imported:
        del after_fork["env"][name]
    assert imported <= {"PYDANTIC_AI_NO_BANNER"}
    assert after_fork.pop("sigint") == "default_int_handler"
    # What a shell starts in the background ignores it, and so do its fresh children.
    assert fresh.pop("sigint") in ("default_int_handler", "ignored")
    assert after_fork == fresh


def test_how_it_ends(tmp_path: Path) -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
    ended = finish(forked(cwd=tmp_path, start=code))
    assert (ended.code, ended.out, ended.err) == (7, "out\n", "err\n")
    raised = finish(forked(cwd=tmp_path, start="raise ValueError('no')"))
    assert raised.code == 1
    assert raised.err.endswith("ValueError: no\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_signals_reach_it(tmp_path: Path, number: signal.Signals) -> None:
    process = forked(cwd=tmp_path, start="import time; print('up', flush=True); time.sleep(600)")
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    assert process.poll() is None
    os.kill(process.pid, number)
    assert finish(process).code == -number
    assert process.poll() == -number


def test_two_run_side_by_side(tmp_path: Path) -> None:
    """The first waits for the second."""
    wait = "import pathlib, time\nwhile not pathlib.Path('done').exists(): time.sleep(0.01)"
    first = forked(cwd=tmp_path, start=wait)
    assert finish(forked(cwd=tmp_path, start="open('done', 'w').close()")).code == 0
    assert finish(first).code == 0


def test_what_one_imports_is_not_there_in_the_next(tmp_path: Path) -> None:
    (tmp_path / "left_over.py").write_text("", encoding="utf-8")
    assert finish(forked(cwd=tmp_path, start="import left_over")).code == 0
    seen = finish(forked(cwd=tmp_path, start="import sys; print('left_over' in sys.modules)"))
    assert seen.out == "False\n"
    assert "left_over" not in sys.modules
