"""A small world for the artifact loop: a file of numbers, a run that sums them, an editor."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.core.cases import Case, Dataset, Failure, FailureKind, Outcome
from burnish.core.content import Json
from burnish.core.evaluations import Objective
from burnish.core.surfaces import Candidate, FileSurface
from burnish.journal.limits import Budget
from burnish.runs.directory import NAME as HEADER
from burnish.runs.driver import Ending, drive
from burnish.runs.setup import Setup, resume, start
from burnish.strategies.edits.attempts import EditsSettings
from burnish.strategies.edits.editors import Edit, EditRequest, WholeFile
from burnish.strategies.edits.strategy import Edits
from burnish.testing.doubles import CallCounter, ScriptedRole, ScriptedTarget

PATH = "numbers.txt"
START = "1\n1\n1\n"


def total(candidate: Candidate) -> float:
    return float(sum(int(line) for line in str(candidate.values[PATH]).split() if line != "boom"))


def respond(candidate: Candidate, case: Case, draw: int) -> Outcome:
    """The score is the sum of the numbers in the file; the holdout counts the lines too."""
    del draw
    text = str(candidate.values[PATH])
    if "boom" in text:
        return failed("the runner ended with exit code 1: boom")
    lines = len(text.split())
    score = total(candidate) - (10 * max(0, lines - 4) if case.id == "holdout" else 0)
    logs: dict[str, Json] = {"runner": {"stdout": f"ran {case.id}"}}
    return Outcome(replies=("ran",), measures={"score": score, "lines": float(lines)}, data=logs)


def failed(message: str, error: str = "Crash", *, mendable: bool = True) -> Outcome:
    """Files that do not run, unless nothing in them could mend it."""
    return Outcome(
        failure=Failure(kind=FailureKind.AGENT, message=message, error=error, mendable=mendable)
    )


def whole(text: str, rationale: str = "other numbers") -> Edit:
    return Edit(rationale=rationale, files=[WholeFile(path=PATH, content=text)])


@dataclass(kw_only=True)
class Script:
    """Answers of the editor, one after the other; the last one again and again."""

    edits: Sequence[Edit | Exception]
    seen: list[EditRequest] = field(default_factory=list[EditRequest])

    def answer(self, request: EditRequest, draw: int) -> Edit:
        del draw
        self.seen.append(request)
        given = self.edits[min(len(self.seen), len(self.edits)) - 1]
        if isinstance(given, Exception):
            raise given
        return given


def setup(
    script: Script,
    settings: EditsSettings | None = None,
    *,
    budget: Budget | None = None,
    objective: Objective | None = None,
    holdout: bool = False,
    test: bool = False,
    agent: Callable[[Candidate, Case, int], Any] = respond,
    counter: CallCounter | None = None,
    text: str = START,
) -> Setup:
    """Everything a run of the loop needs."""
    return Setup(
        wait_minutes=0,  # who is away stays away
        target=ScriptedTarget(
            respond=agent,
            surfaces=(FileSurface(id=PATH, path=PATH),),
            values={PATH: text},
            counter=counter,
        ),
        metrics=(),
        objective=objective or Objective(weights={}),
        dataset=Dataset(
            train=(Case.single("run the task", name="task"),),
            holdout=(Case.single("run what decides", name="holdout"),) if holdout else (),
            test=(Case.single("run what nobody saw", name="test"),) if test else (),
        ),
        strategy=Edits(
            editor=ScriptedRole(
                name="editor",
                respond=script.answer,
                request_type=EditRequest,
                answer_type=Edit,
                counter=counter,
            ),
            settings=settings or EditsSettings(task="make the numbers large"),
        ),
        budget=budget or Budget(max_trials=len(script.edits)),
    )


async def driven(made: Setup, folder: Path) -> Ending:
    """Drive a run to its end, or go on with it."""
    run = resume(made, folder) if (folder / HEADER).exists() else start(made, folder=folder)
    try:
        return await drive(run)
    finally:
        await run.close()
