"""Cheats at measuring: a candidate that gets rid of a score, or calls a tool where none is due."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.truth.cheats import Attempt, Cheat
from burnish.core.cases import Case, Dataset, ExpectedTool, Outcome, Step, ToolCall, Trace, Turn
from burnish.core.evaluations import Objective, Score
from burnish.core.protocols import Effects, Metric
from burnish.core.surfaces import Candidate, NumberSurface
from burnish.metrics.computed import Equality, ExpectedTools, ToolTrajectory
from burnish.runs.directory import RunRecord
from burnish.runs.driver import drive
from burnish.runs.setup import Setup, start
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.coordinate.trials import CoordinateSettings, PhaseLimits
from burnish.testing.doubles import FreeMetric, ScriptedTarget

AXIS = "min_similarity_score"
"""A candidate above 0.5 cheats."""


@dataclass(frozen=True, kw_only=True)
class Faithful(FreeMetric):
    """Whether the reply is in a passage; it does not apply where none was retrieved."""

    name: str = "faithful"

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        del case, effects
        passages = [p for s in outcome.trace.steps for tool in s.tools for p in tool.passages]
        held = outcome.output in passages
        return [Score(metric=self.name, value=float(held), passed=held)] if passages else []


def _retrieves_less(case: Case, *, cheats: bool) -> Outcome:
    """Hard cases are answered wrongly; the cheat retrieves nothing for them."""
    hard = "hard" in case.id
    passages = () if hard and cheats else ("yes",)
    return _outcome("no" if hard else "yes", ToolCall(name="search", passages=passages))


def _always_calls(case: Case, *, cheats: bool) -> Outcome:
    """The baseline calls no tool; the cheat calls one everywhere."""
    del case
    return _outcome("yes", *([ToolCall(name="search")] if cheats else []))


def _hides_calls(case: Case, *, cheats: bool) -> Outcome:
    """The baseline calls a tool where none is due; so does the cheat, and records no step."""
    del case
    if cheats:
        return Outcome(replies=("yes",))
    return _outcome("yes", ToolCall(name="search"))


def _outcome(reply: str, *tools: ToolCall) -> Outcome:
    return Outcome(replies=(reply,), trace=Trace(steps=(Step(id="s", node="agent", tools=tools),)))


def _cases(split: str, *, due: int) -> tuple[Case, ...]:
    """Eight cases, of which the first two are hard; the first `due` expect a call of `search`."""

    def case(number: int) -> Case:
        name = f"{split}-{'hard' if number < 2 else 'easy'}-{number}"
        tools = [ExpectedTool(name="search")] if number < due else []
        calls = [ToolCall(name="search")] if number < due else []
        turn = Turn(
            input=f"What of {name}?",
            expected="yes",
            expected_tools=tuple(tools),
            expected_calls=tuple(calls),
        )
        return Case(name=name, turns=(turn,))

    return tuple(case(number) for number in range(8))


def _play(
    folder: Path,
    *,
    agent: Callable[..., Outcome],
    metrics: tuple[Metric, ...],
    due: int = 0,
) -> Attempt:
    def cheating(candidate: Candidate) -> bool:
        return float(str(candidate.values[AXIS])) > 0.5

    def respond(candidate: Candidate, case: Case, draw: int) -> Outcome:
        del draw
        return agent(case, cheats=cheating(candidate))

    surface = NumberSurface(id=AXIS, low=0.0, high=1.0)
    limits = PhaseLimits(max_trials=6, patience=6)
    setup = Setup(
        target=ScriptedTarget(respond=respond, surfaces=(surface,), values={AXIS: 0.2}),
        metrics=metrics,
        objective=Objective(weights={metric.name: 1.0 for metric in metrics}),
        dataset=Dataset(train=_cases("t", due=due), holdout=_cases("h", due=due)),
        strategy=Coordinate(
            settings=CoordinateSettings(numbers=(AXIS,), max_cycles=1, numeric_phase=limits)
        ),
    )
    home = folder / "run"
    asyncio.run(_drive(setup, home))
    run = RunRecord.read(home)
    tried = [row.trial for row in run.rows if cheating(row.trial.candidate)]
    assert tried, "the search never tried the cheat"
    best = run.best_candidate
    return Attempt(
        accepted=any(trial.accepted for trial in tried),
        offered=best is not None and cheating(best),
        reason="; ".join({trial.decision.reason for trial in tried if trial.decision}),
    )


async def _drive(setup: Setup, folder: Path) -> None:
    run = start(setup, folder=folder)
    try:
        await drive(run)
    finally:
        await run.close()


CHEATS = (
    Cheat(
        name="measuring: retrieve nothing where it is hard",
        strategy="coordinate",
        play=partial(_play, agent=_retrieves_less, metrics=(Equality(), Faithful())),
    ),
    Cheat(
        name="measuring: call a tool where none is due",
        strategy="coordinate",
        play=partial(_play, agent=_always_calls, metrics=(ToolTrajectory(),), due=2),
    ),
    Cheat(
        name="measuring: call more than the expected tools",
        strategy="coordinate",
        play=partial(_play, agent=_always_calls, metrics=(ExpectedTools(),), due=2),
    ),
    Cheat(
        name="measuring: hide the tools that were called",
        strategy="coordinate",
        play=partial(_play, agent=_hides_calls, metrics=(ExpectedTools(),)),
    ),
)
