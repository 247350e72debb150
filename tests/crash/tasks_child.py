"""A program that optimises the files of a task with real runs, to be killed at it.

    python -m tests.crash.tasks_child FOLDER

FOLDER/project is the task's folder, FOLDER/run the run, FOLDER/calls what was started.
"""

import asyncio
import json
import sys
from pathlib import Path

from burnish.core.evaluations import Constraint, Objective
from burnish.journal.limits import Budget
from burnish.runs.directory import NAME as HEADER
from burnish.runs.driver import drive
from burnish.runs.setup import Setup, resume, start
from burnish.strategies.edits.attempts import EditsSettings
from burnish.strategies.edits.editors import Edit, EditRequest, WholeFile
from burnish.strategies.edits.strategy import Edits
from burnish.system.sandbox import CommandLimits
from burnish.targets.artifacts.target import ArtifactsTarget
from burnish.targets.artifacts.task import Runner, Scoring, Task
from burnish.testing.doubles import CallCounter, ScriptedRole

VALUES = ("2", "1", "broken", "5", "4", "7")
FILE = "value.txt"
SCORE = """
import json, os
said = open(os.environ["BURNISH_RUNNER_STDOUT"]).read()
print(json.dumps({"score": float(said)}))
"""


def task_in(folder: Path) -> Task:
    """A task whose runs take a moment and leave something running."""
    command = f"echo run $(cat {FILE}) >> {folder}/calls; setsid sleep 60 & sleep 0.3; cat {FILE}"
    return Task(
        folder=folder / "project",
        include=(FILE,),
        runner=Runner(command=command),
        scoring=Scoring(command="python score.py"),
        limits=CommandLimits(seconds=120),
    )


def edited(request: EditRequest, draw: int) -> Edit:
    """A function of the draw alone."""
    del request
    content = f"{VALUES[draw % len(VALUES)]}\n"
    return Edit(rationale=f"value {content}", files=[WholeFile(path=FILE, content=content)])


def setup_in(folder: Path) -> Setup:
    """Everything that the run needs."""
    target = ArtifactsTarget.open(task_in(folder), mode="none")
    editor = ScriptedRole(
        name="editor",
        respond=edited,
        request_type=EditRequest,
        answer_type=Edit,
        counter=CallCounter(path=folder / "calls"),
    )
    settings = EditsSettings(candidates_per_iteration=2)
    return Setup(
        wait_minutes=0,  # who is away stays away
        target=target,
        metrics=(),
        objective=Objective(
            weights={}, constraints=(Constraint(metric="score", op="<=", value=6),)
        ),
        dataset=target.dataset(),
        strategy=Edits(editor=editor, settings=settings),
        budget=Budget(max_trials=len(VALUES)),
        concurrency=2,
        resources=(target,),
    )


async def main(folder: Path) -> None:
    """Start, or go on."""
    made, place = setup_in(folder), folder / "run"
    run = resume(made, place) if (place / HEADER).exists() else start(made, folder=place)
    try:
        ending = await drive(run)
    finally:
        await run.close()
    sys.stdout.write(json.dumps({"best": ending.best.values[FILE], "reason": ending.reason.code}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
