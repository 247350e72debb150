"""A small setup for tests of runs: one text, a scripted agent, and a strategy in a few lines."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.core.cases import Case, Dataset, Split
from burnish.core.content import short_id
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation, Objective
from burnish.core.protocols import Metric, Role, Target
from burnish.core.surfaces import Candidate, Origin, TextSurface
from burnish.core.trials import SplitResult, Trial
from burnish.journal.limits import Budget
from burnish.runs.driver import Ending, drive
from burnish.runs.events import Event, Tick
from burnish.runs.run import Run
from burnish.runs.setup import Setup, resume, start
from burnish.testing import ExpectedText, ScriptedTarget

TRAIN = tuple(Case.single(f"train question number {n}", f"<{n}>", name=f"t{n}") for n in range(6))
HOLDOUT = tuple(
    Case.single(f"holdout question number {n}", f"<{n}>", name=f"h{n}") for n in range(6, 10)
)
TEST = tuple(
    Case.single(f"sealed question number {n}", f"<{n}>", name=f"s{n}") for n in range(10, 13)
)


def answer(candidate: Candidate, case: Case, draw: int) -> str:
    """Right for as many cases as the text has letters x."""
    del draw
    number = int(case.id[1:])
    return f"<{number}>" if number % 6 < str(candidate.values["text"]).count("x") else "no idea"


@dataclass
class Agent:
    """A scripted agent that counts."""

    respond: Callable[[Candidate, Case, int], Any] = answer
    calls: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])

    def __call__(self, candidate: Candidate, case: Case, draw: int) -> Any:
        self.calls.append((candidate.id, case.id, draw))
        return self.respond(candidate, case, draw)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A strategy that is a coroutine function over the run."""

    steps: Callable[[Run], Awaitable[None]]
    name: str = "plan"
    version: str = "1"
    roles: Sequence[Role[Any, Any]] = ()

    @property
    def fingerprint(self) -> str:
        return short_id(self.version)

    def mismatch(self, target: Target) -> Sequence[Problem]:
        return ()

    async def search(self, run: Run) -> None:
        await self.steps(run)


async def add_letters(run: Run) -> None:
    """Add a letter a trial until there is a reason to stop."""
    best = run.target.baseline
    for number in range(50):
        if run.stop_reason() is not None:
            return
        candidate = best if number == 0 else longer(best)
        train = await run.evaluate(candidate, split=Split.TRAIN)
        result = SplitResult.of(train, run.objective)
        phase = "baseline" if number == 0 else "letters"
        run.record(Trial(candidate=candidate, phase=phase, train=result, touched=("text",)))
        run.advance(candidate)
        best = candidate


async def nothing(run: Run) -> None:
    """A strategy that does nothing."""
    del run


def longer(candidate: Candidate) -> Candidate:
    """The candidate with one letter more."""
    text = f"{candidate.values['text']}x"
    return candidate.child({"text": text}, origin=Origin(by="test", note=text))


def small(
    *,
    steps: Callable[[Run], Awaitable[None]] = nothing,
    agent: Callable[[Candidate, Case, int], Any] = answer,
    metrics: tuple[Metric, ...] = (ExpectedText(),),
    budget: Budget | None = None,
    test: tuple[Case, ...] = (),
    roles: Sequence[Role[Any, Any]] = (),
    version: str = "1",
    target: Target | None = None,
    wait_minutes: float = 0.0,
    **rest: Any,
) -> Setup:
    """A Setup in one call; one that waits for nobody."""
    made = ScriptedTarget(
        respond=agent,
        surfaces=(TextSurface(id="text", max_chars=100, placeholders=("{q}",)),),
        values={"text": "{q}"},
    )
    return Setup(
        target=target or made,
        metrics=metrics,
        objective=Objective(weights={"expected_text": 1.0}),
        dataset=Dataset(train=TRAIN, holdout=HOLDOUT, test=test),
        strategy=Plan(steps=steps, roles=roles, version=version),
        budget=budget or Budget(),
        wait_minutes=wait_minutes,
        **rest,
    )


async def driven(setup: Setup, folder: Path, *listeners: Any) -> Ending:
    """Drive a run in a folder: a new one, or the one that is there."""
    run = opened(setup, folder)
    for listener in listeners:
        run.listen(listener)
    try:
        return await drive(run)
    finally:
        await run.close()


def opened(setup: Setup, folder: Path) -> Run:
    """A run in a folder: a new one, or the one that is there."""
    return resume(setup, folder) if folder.exists() else start(setup, folder=folder)


@dataclass
class Ear:
    """Hears everything."""

    events: list[Event] = field(default_factory=list[Event])
    ticks: list[Tick] = field(default_factory=list[Tick])

    def event(self, event: Event) -> None:
        self.events.append(event)

    def tick(self, tick: Tick) -> None:
        self.ticks.append(tick)

    @property
    def ids(self) -> list[str]:
        return [event.id for event in self.events]


def only_result(evaluation: Evaluation, case: str) -> Any:
    """The one result of a case."""
    (result,) = evaluation.of_case(case)
    return result
