"""Settings of runs over HTTP, and the work that they describe."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from pydantic import Field, JsonValue

from burnish.core.content import Json, codec
from burnish.core.errors import ConfigError
from burnish.core.money import Spend
from burnish.core.surfaces import Candidate
from burnish.journal.limits import Budget
from burnish.projects.clients import ClientSettings, client_model
from burnish.projects.description import all_doors
from burnish.projects.launch import launched
from burnish.projects.measurements import PreparedMeasurement, measurement_doors, report_of
from burnish.runs.directory import events, look_into
from burnish.runs.driver import Ending
from burnish.runs.events import Claim, Event, SealedResult, Tick, TrialRecorded
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.server.stores.accounts import Amounts
from burnish.server.stores.records import NewEvent, RunChanges, RunStatus
from burnish.server.work import EventSink, LoopThread, RunContext, RunOutcome
from burnish.system import validate_config
from burnish.system.settings import Settings

if TYPE_CHECKING:
    RunSettings = ClientSettings
    EvaluationSettings = ClientSettings
else:
    RunSettings = client_model("RunSettings", all_doors(), ClientSettings.__doc__)
    EvaluationSettings = client_model(
        "EvaluationSettings", [measurement_doors()], "What a request may set for a measurement."
    )


class ColumnRequest(Settings):
    """Which column of a grid a measurement is."""

    grid: str
    number: int
    columns: int
    """How many the grid has."""
    label: str
    values: dict[str, JsonValue]
    """What it is made of: by axis, the value."""
    weights: dict[str, float]
    """How the metrics of a case make one score."""


class JobRequest(Settings):
    """A request as it is stored."""

    kind: Literal["optimize", "evaluate", "promptiter"] = "optimize"
    settings: RunSettings = Field(default_factory=RunSettings)
    evaluation: EvaluationSettings = Field(default_factory=EvaluationSettings)
    promptiter: Json = None
    column: ColumnRequest | None = None
    """Written by the service, for a column of a grid that it has checked."""
    spec: dict[str, JsonValue] | None = None
    """The description that the run is built from; written by the service, never by a client."""

    @classmethod
    def read(cls, request: Json) -> "JobRequest":
        """Validate a stored request, or one from a program."""
        return validate_config(request or {}, cls, source="request")

    def to_json(self) -> dict[str, Json]:
        return self.model_dump(mode="json", exclude_defaults=True, exclude_none=True)


def refuse_kind(kind: str, app: str) -> ConfigError:
    """The error for an app that does not support this kind of request."""
    return ConfigError.of("kind", f'the app "{app}" cannot {kind}')


class EventForwarder:
    """A listener that forwards events to the service, which stores each of them once."""

    def __init__(self, tell: EventSink) -> None:
        self._tell = tell
        self.best_score: float | None = None

    def event(self, event: Event) -> None:
        number, changes = 0, RunChanges()
        if trial := event.read(TrialRecorded):
            number = trial.trial
            if trial.best_score is not None:
                self.best_score = trial.best_score
            changes = RunChanges(current_round=number, best_score=self.best_score)
        # The folder is the service's own business; clients ask for files by name.
        data = {name: value for name, value in event.data.items() if name != "folder"}
        payload = {"at": event.at, **data}
        forwarded = NewEvent(kind=event.kind, round=number, payload=payload, key=f"run:{event.id}")
        self._tell(forwarded, changes)

    def tick(self, tick: Tick) -> None: ...


@dataclass
class ProjectWork:
    """A loaded project, ready to be driven."""

    setup: Setup
    thread: LoopThread | None = field(default=None, init=False)

    @property
    def strategy(self) -> str:
        return self.setup.strategy.name

    @property
    def spec(self) -> Mapping[str, Json]:
        return self.setup.project.spec

    @property
    def request(self) -> Json:
        return None

    @property
    def budget(self) -> Budget:
        return self.setup.budget

    def limit(self, granted: Amounts) -> None:
        self.setup = replace(self.setup, budget=self.budget.within(**granted.limits()))
        self.setup.check()

    def so_far(self) -> Json:
        return None

    async def drive(self, context: RunContext) -> RunOutcome:
        place, loop = context.place, asyncio.get_running_loop()
        listener = EventForwarder(context.tell)
        if place.fetch():
            with look_into(place.folder) as reader:
                # An earlier process may have kept them in the journal only.
                for event in events(reader):
                    listener.event(event)
                    context.live.event(event)
        running: list[Run] = []

        def opened() -> Run:
            running.append(place.open(self.setup))
            return running[0]

        def ask_to_stop(why: str) -> None:
            for run in running:
                run.ask_to_stop(why)

        def stop(why: str) -> None:
            with suppress(RuntimeError):  # the loop is closed: the run has ended
                loop.call_soon_threadsafe(ask_to_stop, why)

        context.stop.when_asked(stop)
        try:
            ending = await launched(opened, [listener, context.live])
        finally:
            running.clear()
        if ending.interrupted:
            return RunOutcome(status=RunStatus.QUEUED)
        return RunOutcome(
            status=RunStatus.SUCCEEDED,
            result=self.result(ending),
            best_score=listener.best_score,
        )

    def result(self, ending: Ending) -> dict[str, Json]:
        sealed, claim = ending.sealed, ending.claim
        return {
            "ended": ending.reason.code,
            "reason": ending.reason.detail,
            "best": codec(Candidate).encode(ending.best),
            "spent": codec(Spend).encode(ending.spent),
            "billed": codec(Spend).encode(ending.billed),
            "sealed": None if sealed is None else codec(SealedResult).encode(sealed),
            "claim": None if claim is None else codec(Claim).encode(claim),
        }

    async def drop(self) -> None:
        for resource in self.setup.resources:
            await resource.close()


@dataclass
class MeasureWork(ProjectWork):
    """A measurement, ready to be driven."""

    measurement: PreparedMeasurement = field(kw_only=True)

    def result(self, ending: Ending) -> dict[str, Json]:
        report = report_of(self.measurement, ending)
        if report is not None:
            report = replace(report, about=replace(report.about, folder=""))
        evaluation = None if report is None else report.to_json()
        return {**super().result(ending), "evaluation": evaluation}
