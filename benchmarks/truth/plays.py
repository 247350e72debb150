"""Plays worlds with searches: what each run claimed, and what is true."""

import asyncio
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.truth.searches import SEARCHES
from benchmarks.truth.worlds import START, SURFACE, Effect, TrueGain, World
from burnish.core.cases import Split
from burnish.core.statistics import Interval
from burnish.runs.driver import Ending, drive
from burnish.runs.events import ClaimVerdict
from burnish.runs.setup import Setup, start


@dataclass(frozen=True, kw_only=True)
class Play:
    """One run to be made."""

    strategy: str
    effect: Effect
    sealed: bool
    number: int

    def world(self) -> World:
        """Its world; in a world of power, a line helps twice as much as the claim can show."""
        kind = SEARCHES[self.strategy].world
        step = 2 * self.smallest_shown if self.effect == "power" else kind.STEP
        return kind(effect=self.effect, number=self.number, sealed=self.sealed, help=step)

    @property
    def smallest_shown(self) -> float:
        """The smallest gain that its claim can show."""
        search = SEARCHES[self.strategy]
        return search.world.smallest_shown(search.repeats)

    @property
    def basis(self) -> str:
        """What its claim should rest on."""
        return "sealed test" if self.sealed else "fresh draws"

    def setup(self, world: World) -> Setup:
        """The run in this world."""
        return SEARCHES[self.strategy].setup(world)

    def result(self) -> "Played":
        """Make the run."""
        world = self.world()
        setup = self.setup(world)
        with own_home() as folder:
            ending = asyncio.run(_driven(setup, folder / "run"))
        split = Split.TEST if self.sealed else Split.HOLDOUT
        text = str(ending.best.values[SURFACE])
        claim = ending.claim
        return Played(
            play=self,
            changed=text != START,
            verdict="unchanged" if claim is None else claim.verdict,
            basis="" if claim is None else claim.basis,
            interval=None if claim is None else claim.gain,
            truth=world.true_gain(text, setup.dataset.cases(split)),
        )


@dataclass(frozen=True, kw_only=True)
class Played:
    """What a run claimed, beside the truth."""

    play: Play
    changed: bool
    """Whether it offers another text than it started with."""
    verdict: ClaimVerdict
    basis: str
    interval: Interval | None
    truth: TrueGain

    @property
    def covers(self) -> bool | None:
        """Whether the claimed interval contains the gain it speaks of; None without one."""
        return self._contains(self._promised)

    @property
    def covers_everywhere(self) -> bool | None:
        """Whether it contains the gain in the whole population."""
        return self._contains(self.truth.everywhere)

    @property
    def error(self) -> float | None:
        """The claimed gain minus the true one."""
        return None if self.interval is None else self.interval.mean - self._promised

    def _contains(self, gain: float) -> bool | None:
        interval = self.interval
        return None if interval is None else interval.low <= gain <= interval.high

    @property
    def _promised(self) -> float:
        """Fresh draws speak of the cases they were made on; a sealed test of all that may come."""
        return self.truth.everywhere if self.play.sealed else self.truth.here


@contextmanager
def own_home() -> Generator[Path, None, None]:
    """A folder for runs that nobody needs later: in memory, where the machine has that."""
    memory, before = Path("/dev/shm"), os.environ.get("BURNISH_HOME")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        os.environ["BURNISH_HOME"] = folder
        try:
            yield Path(folder)
        finally:
            del os.environ["BURNISH_HOME"]
            os.environ |= {} if before is None else {"BURNISH_HOME": before}


async def _driven(setup: Setup, folder: Path) -> Ending:
    run = start(setup, folder=folder)
    try:
        return await drive(run)
    finally:
        await run.close()


def results(plays: Sequence[Play], *, processes: int) -> Iterator[Played]:
    """The results in order; progress goes to stderr."""
    if processes == 1:
        yield from map(Play.result, plays)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=processes, mp_context=spawn) as pool:
        for done, played in enumerate(pool.map(Play.result, plays, chunksize=5), start=1):
            print(f"\r{done} of {len(plays)} runs", end="", file=sys.stderr, flush=True)
            yield played
    print(file=sys.stderr)
