"""What `burnish.evaluate` costs: a case with an instant agent, and how near the ideal it comes."""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from burnish import evaluate
from burnish.core.cases import Case

CASES = 2_000
ROUNDS = 3
GOAL = 0.5
"""Milliseconds; the peer AgentEvaluator takes 2.1."""
SLOW_CASES = 1_000
SECONDS = 0.05
CONCURRENCY = 64
IDEAL = SLOW_CASES * SECONDS / CONCURRENCY
"""Seconds that waiting alone takes when all places are always taken."""


def figures() -> list[Figure]:
    """Everything this file measures."""
    instant = [Case.single(f"What is {n}", str(n), name=f"case-{n}") for n in range(CASES)]
    a_case = min(_seconds(agent, instant) for _ in range(ROUNDS)) / CASES
    share = IDEAL / min(
        _seconds(slow_agent, instant[:SLOW_CASES], concurrency=CONCURRENCY) for _ in range(ROUNDS)
    )
    return [
        Figure(
            what=f"burnish.evaluate, {CASES:,} cases, instant agent, two metrics, journaled",
            value=1000 * a_case,
            unit="ms/case",
            goal=GOAL,
        ),
        Figure(
            what=f"burnish.evaluate as a whole, {SLOW_CASES:,} cases × 50 ms, {CONCURRENCY} at "
            "once: share of the ideal",
            value=100 * share,
            unit="%",
            goal=93,
            more=True,
        ),
    ]


async def agent(query: str) -> str:
    """An agent that takes no time."""
    await asyncio.sleep(0)
    return query.rpartition(" ")[2]


async def slow_agent(query: str) -> str:
    """An agent that waits, as for a model."""
    await asyncio.sleep(SECONDS)
    return query.rpartition(" ")[2]


def _seconds(called: Callable[[str], Awaitable[str]], cases: list[Case], **settings: Any) -> float:
    """From the call to its result: reading, measuring, writing the report."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        found = evaluate(
            called,
            cases=cases,
            metric=["equality", "numeric"],
            folder=Path(folder) / "run",
            **settings,
        )
        seconds = time.perf_counter() - started
    assert found.passed
    return seconds
