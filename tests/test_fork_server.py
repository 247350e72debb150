"""A forked process is like a fresh one to whoever starts it and to the program in it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.console import child, finish, forked, until
from tests.fork_server import programs

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


def test_programs_of_a_shell(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("NAME = 'beside'")
    (tmp_path / "own.py").write_text(
        "import beside, sys\n"
        "print(beside.NAME, __file__, sys.argv, sys.stdin.read().strip(), __name__)\n"
        "sys.exit(7)\n"
    )
    line = "burnish --version; echo said | python $OLDPWD/own.py a 'b c'; echo $?; python -V"
    path = f"{programs()}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["bash", "-c", f"cd / && {line}"],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    version, own, code, python = ended.stdout.splitlines()
    file = str(tmp_path / "own.py")
    assert version.startswith("burnish ")
    assert own == f"beside {file} {[file, 'a', 'b c']} said __main__"
    assert (code, python) == ("7", f"Python {sys.version.split()[0]}")


def test_a_program_whose_caller_is_killed_ends_too(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n"
    )
    caller = subprocess.Popen(
        [programs() / "python", "own.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert caller.stdout is not None
    with caller.stdout:
        own = Path("/proc") / caller.stdout.readline().strip()
        assert own.exists()
        caller.kill()
        caller.wait()
        until(lambda: not own.exists())
