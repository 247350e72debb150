"""Cheats that are in already: a rule that does nothing and was accepted by luck."""

import asyncio
from pathlib import Path

from benchmarks.truth.cheats import Attempt, Cheat
from burnish.core.cases import Case, Dataset
from burnish.core.evaluations import Objective
from burnish.core.surfaces import Candidate, TextSurface
from burnish.runs.directory import RunRecord
from burnish.runs.driver import Ending, drive
from burnish.runs.setup import Setup, start
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.coordinate.trials import (
    CoordinateSettings,
    CritiqueRequest,
    Edit,
    EditRequest,
    Gradient,
    PhaseLimits,
)
from burnish.testing import ExpectedText, ScriptedTarget
from burnish.testing.doubles import ScriptedRole, luck

_HELP = "Look it up."
_CASES, _TRIALS, _SEED = 20, 5, 4


def _respond(candidate: Candidate, case: Case, draw: int) -> str:
    """Only one rule helps; whatever else the text says does nothing.

    The seed is one with which an idle rule gets in.
    """
    chance = 0.8 if _HELP in str(candidate.values["prompt"]) else 0.3
    return "yes" if luck(_SEED, candidate.id, case.id, draw) < chance else "no"


def _diagnosed(request: CritiqueRequest, draw: int) -> Gradient:
    del request
    return Gradient(
        failing_pattern=f"pattern {draw}",
        root_cause_hypothesis="nobody knows",
        suggested_change_direction="say more",
        confidence=0.9,
        citations=[],
    )


def _edited(request: EditRequest, draw: int) -> Edit:
    rule = f"Mind rule {draw}." if _HELP in request.current_text else _HELP
    return Edit(
        edit_type="insert",
        rationale="it may help",
        new_text=f"{request.current_text}\n{rule}",
        diff_summary="one line more",
    )


def _setup() -> Setup:
    def cases(letter: str) -> tuple[Case, ...]:
        return tuple(
            Case.single(f"{letter} {n}?", "yes", name=f"{letter}{n}") for n in range(_CASES)
        )

    return Setup(
        target=ScriptedTarget(
            respond=_respond, surfaces=(TextSurface(id="prompt"),), values={"prompt": "Answer."}
        ),
        metrics=(ExpectedText(),),
        objective=Objective(weights={"expected_text": 1.0}),
        dataset=Dataset(train=cases("t"), holdout=cases("h")),
        strategy=Coordinate(
            settings=CoordinateSettings(
                texts=("prompt",),
                repeats=2,
                max_cycles=1,
                textual_phase=PhaseLimits(max_trials=_TRIALS, patience=_TRIALS),
                prune=True,
            ),
            critic=ScriptedRole(
                name="critic",
                respond=_diagnosed,
                request_type=CritiqueRequest,
                answer_type=Gradient,
            ),
            applier=ScriptedRole(
                name="applier", respond=_edited, request_type=EditRequest, answer_type=Edit
            ),
        ),
    )


async def _driven(folder: Path) -> Ending:
    run = start(_setup(), folder=folder)
    try:
        return await drive(run)
    finally:
        await run.close()


def _idle(folder: Path) -> Attempt:
    ending = asyncio.run(_driven(folder / "run"))
    record = RunRecord.read(folder / "run")
    text = str(ending.best.values["prompt"])
    lucky = [
        row
        for row in record.rows
        if row.trial.accepted
        and row.trial.phase == "textual"
        and "Mind rule" in str(row.trial.candidate.values["prompt"])
    ]
    assert lucky, "no idle rule got in"
    assert record.best is not None
    assert record.best.trial.decision is not None
    # The gate accepts it, by luck; it may not be what is offered, and the rule that helps must be.
    return Attempt(
        accepted=False,
        by_rule=True,
        offered="Mind rule" in text or _HELP not in text,
        reason=record.best.trial.decision.reason,
    )


CHEATS = (
    Cheat(
        name="pruning: an idle rule that got in by luck leaves", strategy="coordinate", play=_idle
    ),
)
