"""A run of a project file, or a measurement of one, as work for the manager."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from burnish.core.candidates import Candidate
from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.core.money import Spend
from burnish.projects.launching import launched
from burnish.projects.measurements import Measurement
from burnish.projects.measuring import report_of
from burnish.runs.driving import Ending
from burnish.runs.events import SealedResult
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.server.apps.telling import Forwarding
from burnish.server.stores.records import RunStatus
from burnish.server.threads import LoopThread
from burnish.server.work import Ended, Order


@dataclass
class ProjectWork:
    """A project that was loaded, ready to be driven."""

    setup: Setup
    thread: LoopThread | None = field(default=None, init=False)

    @property
    def strategy(self) -> str:
        """The strategy's name."""
        return self.setup.strategy.name

    @property
    def spec(self) -> Mapping[str, Json]:
        """The description that the run is built from."""
        return self.setup.project.spec

    def so_far(self) -> Json:
        """Nothing: the run's folder tells."""
        return None

    async def drive(self, order: Order) -> Ended:
        """Begin or go on, in the loop that is running."""
        listener = Forwarding(order.tell)
        if order.place.fetch():
            listener.catch_up(order.place)
        running: list[Run] = []

        def opened() -> Run:
            running.append(order.place.open(self.setup))
            return running[0]

        order.stop.when_asked(_in_this_loop(lambda why: _ask(running, why)))
        try:
            ending = await launched(opened, [listener])
        finally:
            running.clear()
        if ending.interrupted:
            return Ended(status=RunStatus.QUEUED)
        return Ended(
            status=RunStatus.SUCCEEDED,
            result=self.result(ending),
            best_score=listener.best_score,
        )

    def result(self, ending: Ending) -> dict[str, Json]:
        """How it ended."""
        sealed = ending.sealed
        return {
            "ended": ending.reason.code,
            "reason": ending.reason.detail,
            "best": codec(Candidate).encode(ending.best),
            "spent": codec(Spend).encode(ending.spent),
            "billed": codec(Spend).encode(ending.billed),
            "sealed": None if sealed is None else codec(SealedResult).encode(sealed),
        }

    async def drop(self) -> None:
        """Close what loading opened."""
        for resource in self.setup.resources:
            await resource.close()


@dataclass
class MeasureWork(ProjectWork):
    """A measurement, ready to be made."""

    measurement: Measurement = field(kw_only=True)

    def result(self, ending: Ending) -> dict[str, Json]:
        """How it ended, with the report."""
        report = report_of(self.measurement, ending)
        evaluation = None if report is None else report.to_json()
        return {**super().result(ending), "evaluation": evaluation}


def _ask(running: list[Run], why: str) -> None:
    """Ask a run that is still there."""
    for run in running:
        run.ask_to_stop(why)


def _in_this_loop(obey: Callable[[str], None]) -> Callable[[str], None]:
    """The same, callable from any thread."""
    loop = asyncio.get_running_loop()

    def ask(why: str) -> None:
        with suppress(RuntimeError):  # the loop is closed: the run has ended
            loop.call_soon_threadsafe(obey, why)

    return ask
