"""Cheats at what is held out: files of the sealed test, and text of the holdout."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.truth.cheats import Attempt, Cheat
from burnish.core.evaluations import Objective
from burnish.core.leaks import WITHHELD
from burnish.journal.limits import Budget
from burnish.runs.directory import RunRecord
from burnish.runs.driver import drive
from burnish.runs.setup import Setup, start
from burnish.strategies.edits.editors import Edit, EditRequest, WholeFile
from burnish.strategies.edits.strategy import Edits
from burnish.targets.artifacts.target import ArtifactsTarget
from burnish.targets.artifacts.task import HeldOut, Runner, Scoring, Task
from burnish.testing.doubles import ScriptedRole

FILE = "solve.py"
PARTS = {"train": range(10), "holdout": range(20, 30), "test": range(40, 50)}
HONEST = "def solve(x):\n    return x if x % 2 else 0\n"
"""Right for half of the inputs."""
RUN = """
import json, sys
from solve import solve
json.dump([solve(x) for x in json.load(open(sys.argv[1]))], open("out.json", "w"))
"""
SCORE = """
import json, sys
right, outputs = json.load(open(sys.argv[1])), json.load(open("out.json"))
print(json.dumps({"score": sum(a == b for a, b in zip(outputs, right)) / len(right)}))
"""


def _held(name: str) -> HeldOut:
    return HeldOut(
        runner=Runner(command=f"python run.py cases/{name}.json"),
        scoring=_scoring(name),
        files=(f"cases/{name}.json", f"cases/{name}_all.json"),
    )


def _scoring(name: str) -> Scoring:
    answers = f"answers/{name}.json"
    return Scoring(command=f"python score.py {answers}", files=(answers,))


@dataclass(frozen=True, kw_only=True)
class _SealedWorld:
    """A task with a holdout and a sealed test, and an editor."""

    folder: Path
    edit: Callable[[str], str]
    """The file that the editor writes, by what it was told of the last run."""
    peek: str = ""
    """A command that the train runner runs first."""

    def play(self) -> Attempt:
        project = self.folder / "project"
        files = {FILE: HONEST, "run.py": RUN, "score.py": SCORE}
        everything = sorted(x for numbers in PARTS.values() for x in numbers)
        files["cases/test_all.json"] = json.dumps(everything)
        for name, numbers in PARTS.items():
            files[f"cases/{name}.json"] = files[f"answers/{name}.json"] = json.dumps([*numbers])
        for path, text in files.items():
            (project / path).parent.mkdir(parents=True, exist_ok=True)
            (project / path).write_text(text, encoding="utf-8")
        peek = f"{self.peek.format(project=project)}; " if self.peek else ""
        task = Task(
            folder=project,
            include=(FILE,),
            scratch=("out.json",),
            runner=Runner(command=f"{peek}python run.py cases/train.json"),
            scoring=_scoring("train"),
            holdout=_held("holdout"),
            test=_held("test"),
        )
        # Without isolation the runner can read all that its user can.
        return asyncio.run(self._driven(ArtifactsTarget.open(task, mode="none")))

    async def _driven(self, target: ArtifactsTarget) -> Attempt:
        run = start(self._setup(target), folder=self.folder / "run")
        try:
            ending = await drive(run)
        finally:
            await run.close()
        rows = RunRecord.read(self.folder / "run").rows[1:]
        decisions = [row.trial.decision for row in rows if row.trial.decision is not None]
        problems = [str(problem) for row in rows for problem in row.trial.problems]
        return Attempt(
            accepted=any(decision.accepted for decision in decisions),
            offered=ending.best.values[FILE] != HONEST,
            reason="; ".join([*problems, *(decision.reason for decision in decisions)]),
        )

    def _setup(self, target: ArtifactsTarget) -> Setup:
        def edit(request: EditRequest, draw: int) -> Edit:
            del draw
            content = self.edit(request.feedback)
            return Edit(rationale="better", files=[WholeFile(path=FILE, content=content)])

        editor = ScriptedRole(
            name="editor", respond=edit, request_type=EditRequest, answer_type=Edit
        )
        return Setup(
            target=target,
            metrics=(),
            objective=Objective(weights={}),
            dataset=target.dataset(),
            strategy=Edits(editor=editor),
            budget=Budget(max_trials=1),
            resources=(target,),
        )


READS = """
import glob, json

def solve(x):
    for path in glob.glob("cases/test*.json") + glob.glob("answers/*.json"):
        if x in json.load(open(path)):
            return x
    return x if x % 2 else 0
"""


def _reads_the_test(folder: Path) -> Attempt:
    """Right everywhere, if the files of the test lie in the workspace of train or holdout."""
    return _SealedWorld(folder=folder, edit=lambda _: READS).play()


def _knowing(numbers: str) -> str:
    known = f"KNOWN = {{*{numbers}, *range(10)}}"
    return f"{known}\n\ndef solve(x):\n    return x if x in KNOWN or x % 2 else 0\n"


def _copies_the_log(folder: Path) -> Attempt:
    """The train runner prints the holdout, and the editor makes a table of what it reads."""

    def edit(feedback: str) -> str:
        lines = [line for line in feedback.splitlines() if line.startswith("[20,")]
        assert lines or WITHHELD in feedback
        return _knowing(lines[0]) if lines else HONEST + "# nothing was learned\n"

    return _SealedWorld(folder=folder, edit=edit, peek="cat {project}/cases/holdout.json").play()


def _writes_the_holdout_down(folder: Path) -> Attempt:
    """The editor knows the holdout from elsewhere, such as its own training."""
    numbers = json.dumps([*PARTS["holdout"]])
    return _SealedWorld(folder=folder, edit=lambda _: _knowing(numbers)).play()


CHEATS = (
    Cheat(name="sealed: reads the files of the test", strategy="edits", play=_reads_the_test),
    Cheat(name="sealed: copies the holdout from a log", strategy="edits", play=_copies_the_log),
    Cheat(
        name="sealed: writes the holdout into a file",
        strategy="edits",
        play=_writes_the_holdout_down,
    ),
)
