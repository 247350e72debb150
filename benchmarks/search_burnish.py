"""A search by burnish in a scripted world: the classic loop, or with everything it has."""

import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.strategies.reflection_world import World, setup, true_score

from benchmarks.search_worlds import (
    CALLS,
    Accept,
    Sealed,
    Searched,
    Step,
    best_of,
    world_of,
)
from burnish.core.surfaces import Candidate
from burnish.core.trials import TrialRow
from burnish.journal.limits import Budget
from burnish.runs.directory import RunRecord
from burnish.runs.driver import Ending, drive
from burnish.runs.events import (
    BASELINE,
    Advanced,
    Event,
    RunFinished,
    SealedResult,
    Tick,
    read_all,
)
from burnish.runs.run import Run
from burnish.runs.setup import Setup, start
from burnish.strategies.reflective.attempts import ReflectiveSettings

CLASSIC = ReflectiveSettings(racing=False, reuse=False, parent_selection="pareto")
FULL = ReflectiveSettings()
SYSTEMS = {"burnish, classic loop": CLASSIC, "burnish reflective": FULL}


def search(system: str, name: str, seed: int, *, calls: int = CALLS) -> Searched:
    """Let burnish search, and keep what came of it."""
    world = world_of(name, seed)
    # The sealed test comes on top: what is compared is the search.
    budget = Budget(max_metric_calls=calls + 2 * world.test)
    made = replace(setup(world, SYSTEMS[system], budget=budget), seed=seed)
    # Memory, where the machine has it as a folder: nobody needs these runs afterwards.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as home:
        os.environ["BURNISH_HOME"] = home
        folder = Path(home) / "run"
        started = time.perf_counter()
        ending, watcher = asyncio.run(_driven(made, world, folder))
        took = time.perf_counter() - started
        record = RunRecord.read(folder)
    tested = world.test * (1 if ending.best.id == made.target.baseline.id else 2)
    return Searched(
        world=name,
        system=system,
        seed=seed,
        limit=calls,
        steps=tuple(watcher.steps),
        calls=ending.spent.metric_calls - tested,
        reflections=sum(len(row.trial.proposals) for row in record.rows),
        accepts=tuple(_accepts(world, record.rows)),
        claimed=_claimed(record),
        best=best_of(world),
        seconds=took,
        all_calls=ending.spent.metric_calls,
        sealed=_sealed(world, ending.sealed, made.target.baseline, ending.best),
    )


class Watcher:
    """Hears who leads, and after how many calls."""

    def __init__(self, run: Run, world: World) -> None:
        self._run = run
        self._world = world
        self.steps = [Step(calls=0, truth=true_score(world, run.incumbent.values))]

    def event(self, event: Event) -> None:
        """Another candidate leads."""
        if event.kind in Advanced.kinds:
            truth = true_score(self._world, self._run.incumbent.values)
            self.steps.append(Step(calls=self._run.spent.metric_calls, truth=truth))

    def tick(self, tick: Tick) -> None:
        """Nothing: cases that end change no leader."""


async def _driven(made: Setup, world: World, folder: Path) -> tuple[Ending, Watcher]:
    run = start(made, folder=folder)
    watcher = Watcher(run, world)
    run.listen(watcher)
    try:
        return await drive(run), watcher
    finally:
        await run.close()


def _accepts(world: World, rows: Sequence[TrialRow]) -> list[Accept]:
    """The candidates that were taken into the pool, each beside the better of its parents."""
    worth = {row.trial.candidate.id: true_score(world, row.trial.candidate.values) for row in rows}
    tried = [row.trial for row in rows if row.trial.phase != BASELINE]
    taken = [trial for trial in tried if trial.kept or trial.accepted]
    return [
        Accept(
            gain=worth[trial.candidate.id] - max(worth[name] for name in trial.candidate.parents),
            led=trial.accepted,
        )
        for trial in taken
    ]


def _claimed(record: RunRecord) -> float:
    """What the run itself says of its best, on the split that decides."""
    *_, finished = read_all(record.events, RunFinished)
    assert finished.best_score is not None
    return finished.best_score


def _sealed(
    world: World, said: SealedResult | None, baseline: Candidate, best: Candidate
) -> Sealed | None:
    if said is None or said.gain is None:
        return None
    gain = true_score(world, best.values) - true_score(world, baseline.values)
    return Sealed(gain=said.gain.mean, low=said.gain.low, high=said.gain.high, truth=gain)
