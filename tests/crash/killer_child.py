"""A program that optimises a file, and whose second candidate kills it.

    python -m tests.crash.killer_child FOLDER

Nothing keeps commands from signalling others, as on a kernel without Landlock.
"""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from burnish.core.evaluations import Objective
from burnish.journal.limits import Budget
from burnish.runs.directory import NAME as HEADER
from burnish.runs.driver import drive
from burnish.runs.setup import Setup, resume, start
from burnish.strategies.edits.attempts import EditsSettings
from burnish.strategies.edits.editors import Edit, EditRequest, WholeFile
from burnish.strategies.edits.strategy import Edits
from burnish.system.sandbox import Isolation
from burnish.targets.artifacts.target import ArtifactsTarget
from burnish.targets.artifacts.task import Runner, Scoring, Task
from burnish.testing.doubles import ScriptedRole

FILE = "act.sh"
# Its parent is who watches it, and that one's parent is burnish.
KILL = 'kill -9 $(cut -d" " -f4 /proc/$PPID/stat); sleep 30'
SCRIPTS = (KILL, "echo 3", "echo 2")


def setup_in(folder: Path) -> Setup:
    """Everything that the run needs."""
    task = Task(
        folder=folder / "project",
        include=(FILE,),
        runner=Runner(command=f"echo run >> {folder}/starts; exec sh {FILE}"),
        scoring=Scoring(command='printf \'{"score": %s}\' "$(cat $BURNISH_RUNNER_STDOUT)"'),
    )
    target = ArtifactsTarget.open(task, mode="none")
    bare = replace(target.sandbox, isolation=Isolation(kind="none", summary=""))

    def edited(request: EditRequest, draw: int) -> Edit:
        del request
        content = SCRIPTS[(draw - 1) % len(SCRIPTS)]
        return Edit(rationale=content, files=[WholeFile(path=FILE, content=f"{content}\n")])

    editor = ScriptedRole(name="editor", respond=edited, request_type=EditRequest, answer_type=Edit)
    target = replace(target, sandbox=bare)
    return Setup(
        wait_minutes=0,  # who is away stays away
        target=target,
        metrics=(),
        objective=Objective(weights={}),
        dataset=target.dataset(),
        strategy=Edits(editor=editor, settings=EditsSettings()),
        budget=Budget(max_trials=len(SCRIPTS)),
        resources=(target,),
    )


async def main(folder: Path) -> None:
    """Start, or go on."""
    setup, place = setup_in(folder), folder / "run"
    run = resume(setup, place) if (place / HEADER).exists() else start(setup, folder=place)
    try:
        await drive(run)
    finally:
        await run.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
