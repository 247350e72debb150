"""Cases on workers: what a case costs beyond its own time, and throughput by number of workers."""

import asyncio
import json
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.figures import Figure
from burnish.core.cases import Split
from burnish.projects.measurements import load_measurement
from burnish.runs.setup import start

CASES = 400
WAIT = 0.05
"""Seconds for which an agent waits, as one that asks a model does."""
AGENT = f"""\
import asyncio

async def at_once(query):
    return query

async def waits(query):
    await asyncio.sleep({WAIT})
    return query
"""
PROJECT = """\
kind: python
target: agent_of_the_benchmark:{function}
cases: cases.jsonl
metrics: [{{type: standard, metric: equality}}]
"""


def figures() -> list[Figure]:
    """Everything this file measures."""
    _, here, there = asyncio.run(_seconds("at_once", workers=1, concurrency=16))
    rows = [
        Figure(
            what="processor time a case on a worker, run and worker together",
            value=(here + there) / CASES * 1e3,
            unit="ms",
            goal=5,
        ),
        Figure(what="of that, in the run", value=here / CASES * 1e3, unit="ms"),
    ]
    for workers in (1, 2, 4):
        seconds, _, _ = asyncio.run(_seconds("waits", workers=workers, concurrency=16 * workers))
        what = f"cases a second, {WAIT * 1e3:g} ms each, 16 at once on each of {workers} workers"
        rows.append(Figure(what=what, value=CASES / seconds, unit="/s", more=True))
    return rows


async def _seconds(function: str, *, workers: int, concurrency: int) -> tuple[float, ...]:
    """How long all cases take once the workers are there: time, processor time here and there."""
    with tempfile.TemporaryDirectory() as name:
        path = _project(Path(name), function)
        flags = {"executor": "processes", "workers": workers, "concurrency": concurrency}
        setup = load_measurement(path, flags, environ={}).setup  # pyright: ignore[reportArgumentType]
        run = start(setup, folder=Path(name) / "run")
        try:
            first = run.dataset.train[: 4 * concurrency]
            await run.evaluate(setup.target.baseline, split=Split.TRAIN, cases=first)
            began = time.perf_counter(), time.process_time(), _of_children()
            await run.evaluate(setup.target.baseline, split=Split.TRAIN, draw=1)
            ended = time.perf_counter(), time.process_time(), _of_children()
            return tuple(after - before for before, after in zip(began, ended, strict=True))
        finally:
            await run.close()


def _of_children() -> float:
    """The processor time of the worker processes."""
    times = [each.cpu_times() for each in psutil.Process().children(recursive=True)]
    return sum(each.user + each.system for each in times)


def _project(folder: Path, function: str) -> Path:
    rows = [{"name": f"c{n}", "input": f"{n}", "expected": f"{n}"} for n in range(CASES)]
    (folder / "cases.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "agent_of_the_benchmark.py").write_text(AGENT)
    path = folder / "agent.yaml"
    path.write_text(PROJECT.format(function=function))
    return path
