"""A run waits while its agent is away, and goes on; one that waited in vain can be resumed."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case
from burnish.core.errors import EndpointDown
from burnish.core.surfaces import Candidate
from burnish.journal.limits import Budget
from burnish.journal.outages import Waits
from burnish.runs.directory import RunRecord
from burnish.runs.driver import Ending, drive
from burnish.runs.setup import Setup, start
from burnish.runs.stoppers import STOP_FILE
from burnish.targets.callables.target import AgentUnreachable
from tests.runs.small import Agent, add_letters, answer, opened, small

BUDGET = Budget(max_trials=3)


@dataclass
class Clock:
    """Time that only passes while somebody sleeps."""

    now: float = 0.0
    falls_asleep: Callable[[], object] = field(default=lambda: None)

    async def sleep(self, seconds: float) -> None:
        self.falls_asleep()
        self.now += seconds
        await asyncio.sleep(0)

    def waits(self, run: Any) -> Waits:
        return Waits(seconds=300, tell=run.waits.tell, clock=lambda: self.now, sleep=self.sleep)


@dataclass
class Sometimes:
    """An agent that is away between two points in time, and counts its answers."""

    clock: Clock
    after: int
    """Answers before it goes away."""
    seconds: float
    answers: int = 0
    back: float | None = None

    def __call__(self, candidate: Candidate, case: Case, draw: int) -> str:
        if self.answers >= self.after and self.back is None:
            self.back = self.clock.now + self.seconds
        if self.back is not None and self.clock.now < self.back:
            raise AgentUnreachable("come back later", status=503)
        self.answers += 1
        return answer(candidate, case, draw)


async def driven(setup: Setup, folder: Path, clock: Clock) -> Ending:
    run = opened(setup, folder)
    run.waits = clock.waits(run)
    try:
        return await drive(run)
    finally:
        await run.close()


def warnings_of(folder: Path) -> list[str]:
    events = RunRecord.read(folder).events
    return [str(event.data["message"]) for event in events if event.kind == "warning"]


@pytest.mark.parametrize("after", [0, 8, 14])
async def test_a_run_goes_on_after_an_outage_as_if_there_had_been_none(
    tmp_path: Path, after: int
) -> None:
    clock = Clock()
    calm = await driven(
        small(steps=add_letters, agent=Agent(), budget=BUDGET), tmp_path / "calm", clock
    )
    agent = Sometimes(clock, after=after, seconds=200)
    setup = small(steps=add_letters, agent=Agent(agent), budget=BUDGET, concurrency=2)
    ending = await driven(setup, tmp_path / "run", clock)
    assert ending.best.id == calm.best.id
    assert ending.spent == calm.spent
    rows = RunRecord.read(tmp_path / "run").rows
    assert not [row.number for row in rows if row.trial.train and row.trial.train.errors]
    told = warnings_of(tmp_path / "run")
    assert [line.split(",")[0] for line in told] == [
        "come back later (trying again for up to 5m 00s)",
        "the agent answers again",
    ]


async def test_a_longer_one_stops_the_run_and_a_resume_goes_on_as_if_there_had_been_none(
    tmp_path: Path,
) -> None:
    clock = Clock()
    calm = await driven(
        small(steps=add_letters, agent=Agent(), budget=BUDGET), tmp_path / "calm", clock
    )
    agent = Sometimes(clock, after=8, seconds=1000)
    setup = small(steps=add_letters, agent=Agent(agent), budget=BUDGET, concurrency=2)
    with pytest.raises(EndpointDown, match="nobody answered for 5m") as down:
        await driven(setup, tmp_path / "run", clock)
    assert "`burnish runs resume run`" in down.value.remedy
    assert RunRecord.read(tmp_path / "run").status == "failed"
    clock.now += 1000
    ending = await driven(setup, tmp_path / "run", clock)
    assert ending.reason.code == "max_trials"
    assert (ending.best.id, ending.spent) == (calm.best.id, calm.spent)
    record = RunRecord.read(tmp_path / "run")
    assert not [row.number for row in record.rows if row.trial.train and row.trial.train.errors]
    assert record.billed.metric_calls > record.spent.metric_calls, "who did not answer is billed"


async def test_who_asks_a_waiting_run_to_stop_does_not_wait(tmp_path: Path) -> None:
    clock = Clock()
    setup = small(steps=add_letters, agent=Agent(Sometimes(clock, after=8, seconds=1e9)))
    assert setup.grace_seconds >= 30
    slept = 0

    def stop() -> None:
        nonlocal slept
        slept += 1
        if slept == 20:
            (tmp_path / "run" / STOP_FILE).touch()

    clock.falls_asleep = stop
    run = start(setup, folder=tmp_path / "run")
    waits = clock.waits(run)
    waits.seconds = 1e9
    run.waits = waits
    try:
        ending = await drive(run)
    finally:
        await run.close()
    assert ending.reason.code == "stop_file"
    assert ending.reason.detail.endswith("was dropped, since nobody answers")
    assert len(RunRecord.read(tmp_path / "run").rows) == 1
