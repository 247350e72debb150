"""Overhead per case, efficiency under concurrency, growth of memory."""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.pools import alone, peak_memory
from burnish.core.cases import Case, Dataset, Split
from burnish.core.comparisons import decide
from burnish.core.errors import Problem
from burnish.core.evaluations import Objective
from burnish.core.protocols import Target
from burnish.core.surfaces import Candidate, TextSurface
from burnish.core.trials import SplitResult, Trial
from burnish.journal.executors import AsyncioExecutor
from burnish.journal.once import DirectEffects
from burnish.runs.case_work import CasePolicy, CaseWorker
from burnish.runs.evaluation import Evaluator
from burnish.runs.run import Run
from burnish.runs.setup import Setup, start
from burnish.testing import ExpectedText, ScriptedTarget

CASES = 10_000
CONCURRENCY = 64


def figures() -> list[Figure]:
    """Everything this file measures."""
    cases = make_cases(CASES)
    direct = min(asyncio.run(_direct(cases)) for _ in range(3))
    first, replay = asyncio.run(_journaled(cases))
    efficiency = max(asyncio.run(_efficiency()) for _ in range(3))
    named = f"({CASES:,} cases)"
    return [
        Figure(what=f"overhead a case, no journal {named}", value=direct * 1e6, unit="µs", goal=60),
        Figure(what=f"overhead a case, journaled {named}", value=first * 1e6, unit="µs", goal=300),
        Figure(what="overhead a case, replayed from the journal", value=replay * 1e6, unit="µs"),
        Figure(
            what="one sweep inside a run, 1,000 cases × 50 ms, 64 at once: share of the ideal",
            value=100 * efficiency,
            unit="%",
            goal=93,
            more=True,
        ),
        Figure(
            what="memory growth over 100,000 journaled results",
            value=alone(growth_of_memory),
            unit="MB",
            goal=30,
        ),
    ]


def make_cases(n: int) -> tuple[Case, ...]:
    """Cases that any answer passes."""
    return tuple(Case.single(f"question {i}", "yes", name=f"case-{i}") for i in range(n))


def instant(candidate: Candidate, case: Case, draw: int) -> str:
    """An agent that takes no time."""
    del candidate, case, draw
    return "yes"


def target(seconds: float = 0.0) -> ScriptedTarget:
    """An agent that takes this long and does nothing."""
    return ScriptedTarget(
        respond=instant, surfaces=(TextSurface(id="text"),), values={"text": "x"}, seconds=seconds
    )


class Nothing:
    """A strategy that leaves everything to the benchmark."""

    name = "nothing"
    fingerprint = "1"
    roles = ()

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """It needs nothing."""
        del target
        return ()

    async def search(self, run: Run) -> None:
        """It does nothing."""


def setup(cases: tuple[Case, ...], *, seconds: float = 0.0) -> Setup:
    """A run over these cases."""
    return Setup(
        target=target(seconds),
        metrics=(ExpectedText(),),
        objective=Objective(weights={"expected_text": 1.0}),
        dataset=Dataset(train=cases),
        strategy=Nothing(),
        concurrency=CONCURRENCY,
    )


async def _direct(cases: tuple[Case, ...]) -> float:
    agent = target()
    metrics = (ExpectedText(),)
    evaluator = Evaluator(
        target=agent,
        metrics=metrics,
        work=CaseWorker(
            target=agent, metrics=metrics, policy=CasePolicy(), concurrency=CONCURRENCY
        ),
        executor=AsyncioExecutor(2 * CONCURRENCY),
        policy=CasePolicy(),
        concurrency=CONCURRENCY,
    )
    units = evaluator.units(agent.baseline, cases, range(1))
    started = time.perf_counter()
    blocks = evaluator.blocks(
        units, scope=DirectEffects, size=len(units), look_ahead=0, seen=lambda _, __: None
    )
    async with aclosing(blocks) as parts:
        done = sum([len(part) async for part in parts])
    return (time.perf_counter() - started) / done


async def _journaled(cases: tuple[Case, ...]) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        run = start(setup(cases), folder=Path(folder) / "run")
        times: list[float] = []
        for _ in range(2):
            started = time.perf_counter()
            await run.evaluate(run.target.baseline, split=Split.TRAIN)
            times.append((time.perf_counter() - started) / len(cases))
        await run.close()
    return times[0], times[1]


async def _efficiency() -> float:
    cases = make_cases(1000)
    with tempfile.TemporaryDirectory() as folder:
        run = start(setup(cases, seconds=0.05), folder=Path(folder) / "run")
        # What is loaded and compiled at the first case of a process is not what is measured.
        await run.evaluate(run.target.baseline, split=Split.TRAIN, cases=cases[:1])
        warm = Candidate(values={"text": "another"})
        started = time.perf_counter()
        await run.evaluate(warm, split=Split.TRAIN)
        took = time.perf_counter() - started
        await run.close()
    return (len(cases) * 0.05 / CONCURRENCY) / took


def growth_of_memory() -> float:
    """Grown peak memory in MB over 100,000 results, after 10,000; in a process of its own."""
    return asyncio.run(_growth())


async def _growth() -> float:
    cases = make_cases(1000)
    with tempfile.TemporaryDirectory() as folder:
        run = start(setup(cases), folder=Path(folder) / "run")
        for number in range(10):
            await sweep(run, cases, number)
        before = peak_memory()
        for number in range(10, 110):
            await sweep(run, cases, number)
        after = peak_memory()
        await run.close()
    return after - before


async def sweep(run: Run, cases: tuple[Case, ...], number: int) -> None:
    """Evaluate another candidate on these cases, and reject it."""
    candidate = Candidate(values={"text": f"x{number}"})
    result = await run.evaluate(candidate, split=Split.TRAIN, cases=cases)
    run.record(
        Trial(
            candidate=candidate,
            touched=("text",),
            train=SplitResult.of(result, run.objective),
            decision=decide("strict", "not_better", "every answer is the same", {}),
        )
    )
