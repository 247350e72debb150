"""Runs with workers: a project in a folder, and workers that live in the process of the test."""

import asyncio
import json
import pickle
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from burnish.cluster.pool import RemotePool
from burnish.cluster.station import LinkMessage, Order, Station
from burnish.core.evaluations import Evaluation
from burnish.journal.limits import Limits
from burnish.projects.measurements import PreparedMeasurement, load_measurement
from burnish.runs.driver import drive
from burnish.runs.events import Event, Tick
from burnish.runs.setup import Setup, resume, start, work_fingerprint

AGENT = """\
name: shouter
model: {{provider: openai, name: stand-in, base_url: {url}, api_key: "${{CLUSTER_KEY}}"}}
instructions: {{inline: "Say it louder."}}
execution: {{parallel_test_cases: 4}}
test_cases_file: cases.jsonl
evaluations: {{metrics: [{{type: standard, metric: equality}}]}}
"""
FUNCTION = """\
kind: python
target: {reference}
cases: cases.jsonl
metrics: [{{type: standard, metric: equality}}]
"""


def write_cases(folder: Path, count: int) -> None:
    """Cases whose answer is their input in capitals."""
    rows = [{"name": f"c{n}", "input": f"ask {n}", "expected": f"ASK {n}"} for n in range(count)]
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / "cases.jsonl").write_text(text, encoding="utf-8")


def agent_project(folder: Path, url: str, *, cases: int) -> Path:
    """An agent file whose model is at this address."""
    write_cases(folder, cases)
    path = folder / "agent.yaml"
    path.write_text(AGENT.format(url=url), encoding="utf-8")
    return path


def function_project(folder: Path, source: str, *, cases: int, module: str) -> Path:
    """A Python function as the agent; `module` must be a name of the test's own."""
    write_cases(folder, cases)
    (folder / f"{module}.py").write_text(source, encoding="utf-8")
    path = folder / "bot.yaml"
    path.write_text(FUNCTION.format(reference=f"{module}:answer"), encoding="utf-8")
    return path


class WorkersHere:
    """A transport to workers in this process; what passes is pickled, as on a wire."""

    def __init__(self, folder: Path, count: int = 2) -> None:
        self._folder = folder
        self._there = [f"worker {n}" for n in range(count)]
        self._stations: dict[str, Station] = {}
        self._mail: dict[str, asyncio.Queue[LinkMessage | None]] = {}
        self.sent: list[bytes] = []
        """Every letter, as it went over the wire."""
        self.opened: list[str] = []

    async def start(self) -> None:
        """There is nothing to connect."""

    async def addresses(self) -> Collection[str]:
        return list(self._there)

    async def open(self, address: str, order: Order) -> None:
        self.opened.append(address)
        if address in self._stations:
            await self._stations[address].close()
        mail: asyncio.Queue[LinkMessage | None] = asyncio.Queue()
        station = Station(order, mail.put_nowait, folder=self._folder / address)
        station.build()
        self._stations[address], self._mail[address] = station, mail

    async def post(self, address: str, messages: list[LinkMessage]) -> None:
        if address not in self._there:
            raise OSError("connection refused")
        for message in self._over_the_wire(messages):
            self._stations[address].link.receive(message)

    async def poll(self, address: str) -> list[LinkMessage]:
        message = await self._mail[address].get()
        if message is None:
            raise OSError("connection reset")
        return self._over_the_wire([message])

    def _over_the_wire(self, messages: list[LinkMessage]) -> list[LinkMessage]:
        letter = pickle.dumps(messages)
        self.sent.append(letter)
        return pickle.loads(letter)

    def lose_sight(self, address: str) -> None:
        """Break the connection of a worker that goes on living."""
        self._mail[address].put_nowait(None)

    async def kill(self, address: str) -> None:
        """End a worker with everything that it does, as a lost machine would."""
        self._there.remove(address)
        self._mail[address].put_nowait(None)
        await self._stations[address].close()

    async def close(self, addresses: Collection[str]) -> None:
        for address in addresses:
            await self._stations[address].close()


def with_workers(setup: Setup, transport: Any, *, limits: Limits | None = None) -> Setup:
    """The same run on these workers."""
    target = work_fingerprint(setup.target, setup.model_uses())
    order = Order(run="a-test", spec=setup.project.spec, target=target)
    return replace(setup, pool=RemotePool(transport, order, limits=limits or Limits()))


def loaded(path: Path, **flags: Any) -> PreparedMeasurement:
    return load_measurement(path, flags, environ={})


class _Ticks:
    """Hears how many cases have ended."""

    def __init__(self, ticks: list[Tick]) -> None:
        self._ticks = ticks

    def event(self, event: Event) -> None:
        """Progress is enough."""

    def tick(self, tick: Tick) -> None:
        self._ticks.append(tick)


async def measured(
    prepared: PreparedMeasurement,
    setup: Setup,
    folder: Path,
    *,
    again: bool = False,
    ticks: list[Tick] | None = None,
) -> tuple[Evaluation, Any]:
    """Drive a measurement to its end; its result and how it ended. Progress goes to `ticks`."""
    run = resume(setup, folder) if again else start(setup, folder=folder)
    if ticks is not None:
        run.listen(_Ticks(ticks))
    try:
        ending = await drive(run)
    finally:
        await run.close()
    assert prepared.evaluation is not None
    return prepared.evaluation, ending


def story(evaluation: Evaluation) -> Sequence[Any]:
    """What a result says, without times."""
    return [
        (each.case, each.draw, each.outcome.output, each.outcome.failure, each.scores)
        for each in evaluation.results
    ]
