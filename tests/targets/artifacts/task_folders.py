"""Small folders with a task in them: a value in a file, a runner that prints it, a scorer."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from burnish.core.cases import Outcome, Split
from burnish.core.surfaces import Candidate
from burnish.journal.once import DirectEffects
from burnish.system.sandbox import CommandLimits, Mode, probe_bubblewrap
from burnish.targets.artifacts.target import ArtifactsTarget
from burnish.targets.artifacts.task import Runner, Scoring, Task

PROBE = probe_bubblewrap()
FILE = "value.txt"
RUN = "echo running; cat value.txt > out.txt"
SCORE = """
import json, pathlib
value = float(pathlib.Path("out.txt").read_text())
print("some words before")
print(json.dumps({"score": value, "metrics": {"half": value / 2}, "feedback": "larger, please"}))
"""
FUNCTION = """
def score(workspace, run):
    print('{"score": 99}')
    value = float((workspace / "out.txt").read_text())
    return {"score": value, "metrics": {"lines": len(run["stdout"].splitlines())}}
"""
COMMAND = Scoring(command="python score.py")
PYTHON = Scoring(kind="python", function="scorer:score")


def task_in(folder: Path, **more: Any) -> Task:
    """A task whose score is the number in a file."""
    write(folder, {FILE: "1\n", "score.py": SCORE, "scorer.py": FUNCTION, "data/input.txt": "in"})
    usual = Task(
        folder=folder,
        include=(FILE,),
        runner=Runner(command=RUN, timeout_seconds=120),
        scoring=COMMAND,
        scratch=("out.txt",),
        limits=CommandLimits(seconds=120),
    )
    return replace(usual, **more)


def write(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def opened(task: Task, mode: Mode = "none", **more: Any) -> ArtifactsTarget:
    return ArtifactsTarget.open(task, mode=mode, **more)


async def ran(target: ArtifactsTarget, case: str = "task", **texts: str) -> Outcome:
    """The outcome of a run, with other texts for some files (`value` for value.txt)."""
    values = {**target.baseline.values, **{f"{name}.txt": text for name, text in texts.items()}}
    data = target.dataset()
    [wanted] = [each for split in Split for each in data.cases(split) if each.id == case]
    try:
        receipt = await target.run(
            Candidate(values=values), wanted, draw=0, effects=DirectEffects()
        )
    finally:
        await target.close()
    return receipt.value


async def ran_by(folder: Path, command: str, mode: Mode = "none", **more: Any) -> Outcome:
    """The outcome of a task with this runner."""
    limits = more.pop("limits", CommandLimits(seconds=120))
    runner = Runner(command=command, timeout_seconds=limits.seconds)
    return await ran(opened(task_in(folder, runner=runner, limits=limits, **more), mode))


def why(outcome: Outcome) -> str:
    assert outcome.failure is not None, outcome.measures
    return outcome.failure.message


def seen(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything in a folder with mode, time of change and content."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() and not path.is_symlink() else b"",
        )
        for path in sorted(folder.rglob("*"))
    }


def left_behind() -> set[str]:
    """Folders of this process's workspaces that lie about: other tests run beside this one."""
    mine = f".{os.getpid()}-*.burnish-tmp"
    return {path.name for path in Path(tempfile.gettempdir()).glob(mine)}
