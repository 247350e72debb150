"""What `burnish eval` costs a case: the full stack with an instant agent and two metrics."""

import asyncio
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure
from burnish.core.cases import Case
from burnish.projects.evaluate import evaluate

CASES = 2_000
ROUNDS = 3
GOAL = 0.5
"""Milliseconds; the peer AgentEvaluator takes 2.1."""


def figures() -> list[Figure]:
    """Everything this file measures."""
    best = min(_milliseconds() for _ in range(ROUNDS))
    return [
        Figure(
            what=f"burnish.evaluate, {CASES:,} cases, instant agent, two metrics, journaled",
            value=best,
            unit="ms/case",
            goal=GOAL,
        )
    ]


async def agent(query: str) -> str:
    """An agent that takes no time."""
    await asyncio.sleep(0)
    return query.rpartition(" ")[2]


def _milliseconds() -> float:
    cases = [Case.single(f"What is {n}", str(n), name=f"case-{n}") for n in range(CASES)]
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        found = evaluate(
            agent,
            cases,
            ["equality", "numeric"],
            folder=Path(folder) / "run",
        )
        seconds = time.perf_counter() - started
    assert found.passed
    return seconds / CASES * 1000
