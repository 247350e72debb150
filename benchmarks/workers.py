"""Cases on workers: what a case costs beyond its own time, throughput, and memory of the run."""

import asyncio
import json
import resource
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil

from benchmarks.figures import Figure
from burnish.core.cases import Split
from burnish.projects.measurements import load_measurement
from burnish.runs.run import Run
from burnish.runs.setup import start

T = TypeVar("T")
CASES = 400
MANY = 10_000
RESULTS = 100_000
AGENT = """\
import asyncio

async def at_once(query):
    return query

async def waits_20(query):
    await asyncio.sleep(0.02)
    return query

async def waits_50(query):
    await asyncio.sleep(0.05)
    return query

def computes(query):
    sum(number * number for number in range(400_000))
    return query
"""
PROJECT = """\
kind: python
target: agent_of_the_benchmark:{function}
cases: cases.jsonl
metrics: [{{type: standard, metric: equality}}]
"""


def figures() -> list[Figure]:
    """Everything this file measures; `python -m benchmarks workers`."""
    return [*overhead(), *throughput(), *computing(), many_cases(), memory()]


def overhead() -> list[Figure]:
    """What a case costs besides its agent."""
    _, here, there = _measured("at_once", workers=1, concurrency=16)
    what = "processor time a case on a worker, run and worker together"
    return [
        Figure(what=what, value=(here + there) / CASES * 1e3, unit="ms", goal=5),
        Figure(what="of that, in the run", value=here / CASES * 1e3, unit="ms"),
    ]


def throughput() -> list[Figure]:
    """By number of workers, with agents that wait as those do that ask a model."""
    rows: list[Figure] = []
    for workers in (1, 2, 4, 8):
        seconds, *_ = _measured("waits_50", workers=workers, concurrency=16 * workers)
        what = f"cases a second, 50 ms each, 16 at once on each of {workers} workers"
        rows.append(Figure(what=what, value=CASES / seconds, unit="/s", more=True))
    return rows


def computing() -> list[Figure]:
    """What two processes gain for an agent that computes, over threads of one."""
    alone, *_ = _measured("computes", executor="local", concurrency=2)
    two, *_ = _measured("computes", workers=2, concurrency=2)
    what = "times faster with 2 processes, an agent that computes"
    return [Figure(what=what, value=alone / two, unit="×", more=True)]


def many_cases() -> Figure:
    """Many short cases on four workers."""
    seconds, *_ = _measured("waits_20", workers=4, concurrency=64, cases=MANY)
    return Figure(what=f"{MANY:,} cases of 20 ms on 4 workers", value=seconds, unit="s")


def memory(results: int = RESULTS) -> Figure:
    """By how much the peak memory of the run's process grows, after a tenth to warm up."""
    block = results // 100

    async def grown(run: Run) -> float:
        async def sweep(draws: range) -> int:
            for draw in draws:
                await run.evaluate(run.target.baseline, split=Split.TRAIN, draw=draw)
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        return (-await sweep(range(10)) + await sweep(range(10, 110))) / 1024

    value = asyncio.run(_with_run(grown, "at_once", cases=block, workers=2, concurrency=64))
    what = f"memory of the run's process over {results:,} results of workers"
    return Figure(what=what, value=value, unit="MB")


def _measured(function: str, *, cases: int = CASES, **flags: Any) -> tuple[float, ...]:
    """How long all cases take once the workers are there: time, processor time here and there."""

    async def timed(run: Run) -> tuple[float, ...]:
        first = run.dataset.train[: 4 * flags["concurrency"]]
        await run.evaluate(run.target.baseline, split=Split.TRAIN, cases=first)
        began = time.perf_counter(), time.process_time(), _of_children()
        await run.evaluate(run.target.baseline, split=Split.TRAIN, draw=1)
        ended = time.perf_counter(), time.process_time(), _of_children()
        return tuple(after - before for before, after in zip(began, ended, strict=True))

    return asyncio.run(_with_run(timed, function, cases=cases, **flags))


async def _with_run(
    work: Callable[[Run], Awaitable[T]], function: str, *, cases: int, **flags: Any
) -> T:
    with tempfile.TemporaryDirectory() as name:
        path = _project(Path(name), function, cases)
        setup = load_measurement(path, {"executor": "processes", **flags}, environ={}).setup
        run = start(setup, folder=Path(name) / "run")
        try:
            return await work(run)
        finally:
            await run.close()


def _of_children() -> float:
    """The processor time of the worker processes."""
    times = [each.cpu_times() for each in psutil.Process().children(recursive=True)]
    return sum(each.user + each.system for each in times)


def _project(folder: Path, function: str, cases: int) -> Path:
    rows = [{"name": f"c{n}", "input": f"{n}", "expected": f"{n}"} for n in range(cases)]
    (folder / "cases.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "agent_of_the_benchmark.py").write_text(AGENT)
    path = folder / "agent.yaml"
    path.write_text(PROJECT.format(function=function))
    return path
