"""A run of the engine that is killed in the middle of a stage goes on where it was."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from burnish.compat.promptiter import RunResult
from burnish.testing import CallCounter
from tests.compat.promptiter.desk import Backward, Bench, desk, request

pytestmark = pytest.mark.crash

CHILD = """
import asyncio, sys
from pathlib import Path
from tests.compat.promptiter.test_engine_kill import bench
folder = Path(sys.argv[1])
made, asked = bench(folder, fatal=True)
asyncio.run(made.engine.run(asked, run_dir=folder / "run"))
"""


class FatalBackward(Backward):
    """Kills the program at its second question."""

    fingerprint = "backward"

    async def backward(self, request: Any) -> Any:
        given = await super().backward(request)
        if len(self.asked) == 2 and self.says is _die:
            os.kill(os.getpid(), signal.SIGKILL)
        return given


def _die(_: object) -> dict[str, Any]:
    """A plain answer, by somebody who will not live long."""
    return PLAIN


def _live(_: object) -> dict[str, Any]:
    return PLAIN


PLAIN: dict[str, Any] = {"Gradients": [{"Severity": "P1", "Gradient": "ask for a source"}]}


def bench(folder: Path, *, fatal: bool = False) -> tuple[Bench, Any]:
    """The desk, which counts its calls in a file."""
    made = Bench(
        folder,
        target=desk(counter=CallCounter(path=folder / "calls")),
        backward=FatalBackward(says=_die if fatal else _live),
    )
    return made, request(max_rounds=1, backward_options={"case_parallelism_enabled": False})


def without_place(found: RunResult) -> RunResult:
    return found.model_copy(update={"id": "", "burnish": None})


async def test_killed_in_a_stage_and_gone_on_with(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    made, asked = bench(whole)
    wanted = await made.engine.run(asked)
    root = Path(__file__).parents[3]
    done = subprocess.run(  # noqa: ASYNC221 - nothing else goes on here
        [sys.executable, "-c", CHILD, str(killed)],
        cwd=root,
        check=False,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    made, asked = bench(killed)
    found = await made.engine.run(asked, run_dir=killed / "run")
    assert without_place(found) == without_place(wanted)
    calls = CallCounter(path=killed / "calls").calls()
    assert sorted(calls) == sorted(CallCounter(path=whole / "calls").calls())
    assert len(made.backward.asked) == 1
