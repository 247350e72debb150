"""Cheats against blame: a harmful patch beside a right one, a failed try, a repeated promise."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.truth.cheats import Attempt, Cheat
from burnish.core.cases import Case, Dataset, Outcome, Step, Trace
from burnish.core.evaluations import Objective
from burnish.core.surfaces import Candidate, TextSurface
from burnish.delegation.training.epochs import Epochs, TextGrad, TextGradRequest
from burnish.delegation.training.setup import EpochSettings
from burnish.journal.journal import JournalReader
from burnish.runs.directory import trial_rows
from burnish.runs.driver import Ending, drive
from burnish.runs.setup import Setup, start
from burnish.strategies.backprop.packets import BackpropSettings
from burnish.strategies.backprop.prompts import (
    BackwardAnswer,
    BackwardRequest,
    MergeAnswer,
    MergeRequest,
    PatchAnswer,
    PatchRequest,
    SurfaceRemark,
)
from burnish.strategies.backprop.strategy import Backprop
from burnish.testing import ExpectedText, ScriptedRole, ScriptedTarget
from burnish.tracing import step
from burnish.tracing.recorder import recording

PLAN, WRITE = "planner", "writer"
_Request = TypeVar("_Request")
_Answer = TypeVar("_Answer")


def _cases(count: int, first: int = 0) -> tuple[Case, ...]:
    numbers = range(first, first + count)
    return tuple(Case.single(f"Question {n:03d}", "yes", name=f"q{n}") for n in numbers)


def _setup(respond: Callable[[Candidate, Case, int], Any], strategy: Any) -> Setup:
    return Setup(
        target=ScriptedTarget(
            respond=respond,
            surfaces=(TextSurface(id=PLAN), TextSurface(id=WRITE)),
            values={PLAN: "Plan.", WRITE: "Write."},
        ),
        metrics=(ExpectedText(),),
        objective=Objective(weights={"expected_text": 1.0}),
        dataset=Dataset(train=_cases(4), holdout=_cases(12, 50)),
        strategy=strategy,
    )


def _driven(setup: Setup, folder: Path) -> tuple[Ending, list[Candidate]]:
    """How it ended, and which candidates were accepted."""

    async def go() -> Ending:
        run = start(setup, folder=folder / "run")
        try:
            return await drive(run)
        finally:
            await run.close()

    ending = asyncio.run(go())
    with JournalReader(folder / "run") as journal:
        return ending, [row.trial.candidate for row in trial_rows(journal) if row.trial.accepted]


def _role(
    name: str, answer: Callable[[_Request], _Answer], request: type[_Request], gives: type[_Answer]
) -> ScriptedRole[_Request, _Answer]:
    return ScriptedRole(
        name=name,
        respond=lambda asked, _draw: answer(asked),
        request_type=request,
        answer_type=gives,
    )


def _blame(request: BackwardRequest) -> BackwardAnswer:
    """Where a step raised, blame the plan; else all that was in force."""
    names = [PLAN] if request.error else [each.id for each in request.surfaces]
    return BackwardAnswer(gradients=[SurfaceRemark(surface=n, gradient="better") for n in names])


def _backprop(patch: Callable[[PatchRequest], PatchAnswer]) -> Backprop:
    """A search whose remarks are not merged."""

    def merge(request: MergeRequest) -> MergeAnswer:
        del request
        return MergeAnswer()

    return Backprop(
        backwarder=_role("backwarder", _blame, BackwardRequest, BackwardAnswer),
        aggregator=_role("aggregator", merge, MergeRequest, MergeAnswer),
        patcher=_role("patcher", patch, PatchRequest, PatchAnswer),
        settings=BackpropSettings(max_rounds=2),
    )


def drowned_patch(folder: Path) -> Attempt:
    """A harmful patch comes with the right one, which is then shown as turned down.

    The patcher does what it is told: it does not repeat what was turned down.
    """
    turned_down: list[str] = []

    def reply(candidate: Candidate, case: Case, draw: int) -> Outcome:
        del draw
        right = "FIX" in str(candidate.values[PLAN]) or int(case.id[1:]) in range(50, 56)
        text = "yes" if right and "HARM" not in str(candidate.values[WRITE]) else "no"
        both = Step(id="all", node="all", surfaces=(PLAN, WRITE), output=text)
        return Outcome(replies=(text,), trace=Trace(steps=(both,)))

    def patch(request: PatchRequest) -> PatchAnswer:
        word = "FIX" if request.surface.id == PLAN else "HARM"
        if word in request.rejected:
            turned_down.append(word)
            return PatchAnswer(value=f"{request.surface.value} Else.", reason="another one")
        return PatchAnswer(value=f"{request.surface.value} {word}", reason="try")

    ending, accepted = _driven(_setup(reply, _backprop(patch)), folder)
    harmful = any("HARM" in str(each.values[WRITE]) for each in accepted)
    drowned = "FIX" not in str(ending.best.values[PLAN])
    return Attempt(
        accepted=harmful or "FIX" in turned_down,
        offered=drowned,
        reason=f"accepted {[dict(each.values) for each in accepted]}, turned down {turned_down}",
    )


def blamed_try(folder: Path) -> Attempt:
    """A step that fails once and is retried is not what makes the answer wrong."""
    blamed: list[str] = []

    def reply(candidate: Candidate, case: Case, draw: int) -> Outcome:
        del case, draw
        text = "yes" if "FIX" in str(candidate.values[WRITE]) else "no"
        with recording() as recorder:
            with step("start") as begin:
                pass
            with suppress(ConnectionError), step("call", surfaces=[WRITE, PLAN], after=[begin]):
                raise ConnectionError("try again")
            with step("call", surfaces=[WRITE], after=[begin]) as call:
                call.output = text
        return Outcome(replies=(text,), trace=recorder.trace())

    def patch(request: PatchRequest) -> PatchAnswer:
        blamed.append(request.surface.id)
        return PatchAnswer(value=f"{request.surface.value} FIX", reason="try")

    ending, accepted = _driven(_setup(reply, _backprop(patch)), folder)
    return Attempt(
        accepted=PLAN in blamed,
        offered=any("FIX" in str(each.values[PLAN]) for each in [*accepted, ending.best]),
        reason=f"blamed {blamed}",
    )


def repeated_promise(folder: Path) -> Attempt:
    """The loudest proposal comes again each epoch, and keeps the right one from being tried."""

    def reply(candidate: Candidate, case: Case, draw: int) -> str:
        del case, draw
        return "yes" if "FIX" in str(candidate.values[PLAN]) else "no"

    def propose(request: TextGradRequest) -> TextGrad:
        loud = request.artifact_name == WRITE
        return TextGrad(
            artifact_name=request.artifact_name,
            proposed_content="Loud." if loud else "Plan. FIX",
            rationale="trust me" if loud else "a guess",
            expected_loss_reduction=1.0 if loud else 0.1,
            confidence=1.0 if loud else 0.1,
        )

    strategy = Epochs(
        settings=EpochSettings(epochs=4),
        proposer=_role("textgrad", propose, TextGradRequest, TextGrad),
    )
    ending, accepted = _driven(_setup(reply, strategy), folder)
    return Attempt(
        accepted=any("Loud" in str(each.values[WRITE]) for each in accepted),
        offered="FIX" not in str(ending.best.values[PLAN]),
        reason=f"ended with {dict(ending.best.values)}",
    )


CHEATS = (
    Cheat(name="backprop: a drowned patch", strategy="backprop", play=drowned_patch),
    Cheat(name="backprop: a failed try is blamed", strategy="backprop", play=blamed_try),
    Cheat(name="epochs: a repeated promise", strategy="epochs", play=repeated_promise),
)
