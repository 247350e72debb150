"""The time of a delegation: what models and commands take, once, whoever else keeps it waiting."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from burnish.core.errors import Interrupted
from burnish.delegation.delegation import Delegation, Site, delegate
from burnish.delegation.envelope import Stopwatch
from burnish.journal.journal import Journal
from burnish.journal.once import JournaledEffects
from burnish.system import ChildProcesses, Redactor
from burnish.testing.delegation_world import Response, RoleTurn
from tests.delegation.delegation_world import DelegationWorld, manager, worker
from tests.delegation.runs import TASK, workflow

CALL, WAIT = 10.0, 1000.0
"""Seconds that a call of a model takes, and that burnish has to wait around each event."""


@dataclass
class _Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class _World:
    """A delegation under a clock that only models and a busy machine advance."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.clock, self.calls = folder, _Clock(), 0
        models = DelegationWorld(manager=self._role(manager), worker=self._role(worker))
        self.delegation = Delegation(workflow=workflow(folder, models), task=TASK)
        self.journal = folder / "journal"
        self.journal.mkdir()

    def _role(self, role: Callable[[RoleTurn], Response]) -> Callable[[RoleTurn], Response]:
        def answer(turn: RoleTurn) -> Response:
            self.clock.now += CALL
            self.calls += 1
            return role(turn)

        return answer

    async def run(self, *, loops: int = 100) -> float:
        """The seconds of the delegation at its end; it is stopped after so many loops."""
        journal = Journal(self.journal)
        checks = iter(range(loops))

        def wait(_: object) -> None:
            self.clock.now += WAIT

        site = Site(
            folder=self.folder / "run",
            effects=JournaledEffects(journal, redactor=Redactor(secrets=())).scope(trial=0),
            children=ChildProcesses(folder=self.folder / "processes"),
            redactor=Redactor(secrets=()),
            clock=Stopwatch(self.clock),
            listen=wait,
            stop=lambda: "" if next(checks, None) is not None else "enough",
        )
        try:
            result = await delegate(self.delegation, site)
        finally:
            journal.close()
        spent = result.budget["wall_time"]
        assert isinstance(spent, dict)
        seconds = spent["elapsed_s"]
        assert isinstance(seconds, float)
        return seconds


@pytest.mark.slow
async def test_waiting_for_a_busy_machine_is_not_counted(tmp_path: Path) -> None:
    world = _World(tmp_path / "world")
    seconds = await world.run()
    assert world.clock.now > WAIT
    assert seconds == world.calls * CALL


@pytest.mark.slow
async def test_what_is_replayed_is_counted_once(tmp_path: Path) -> None:
    whole, world = _World(tmp_path / "whole"), _World(tmp_path / "world")
    expected = await whole.run()
    for loops in (1, 2):
        with pytest.raises(Interrupted):
            await world.run(loops=loops)
    assert await world.run() == expected
    assert await world.run() == expected, "a replay from end to end takes no time"
    assert world.calls == whole.calls


def test_what_happens_at_the_same_time_counts_once() -> None:
    clock = _Clock()
    watch = Stopwatch(clock)
    with watch.running():
        clock.now += 3
        with watch.running():
            clock.now += 4
        clock.now += 5
    clock.now += 100
    assert watch.seconds == 12
    watch.reach(9)
    assert watch.seconds == 12
    watch.reach(20)
    assert watch.seconds == 20
