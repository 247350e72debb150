"""Settings of runs over HTTP, and the work that they become."""

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Optional, get_origin

from pydantic import ConfigDict, Field, JsonValue, create_model

from burnish.core.content import Json, codec
from burnish.core.errors import ConfigError, Problem
from burnish.core.money import Spend
from burnish.core.surfaces import Candidate
from burnish.projects.description import STRATEGY, Doors, all_doors
from burnish.projects.dialects import Flags
from burnish.projects.launch import launched
from burnish.projects.measurements import PreparedMeasurement, measurement_doors, report_of
from burnish.runs.directory import events, look_into
from burnish.runs.driver import Ending
from burnish.runs.events import Event, SealedResult, Tick, TrialRecorded
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.server.runs import DatasetName, Datasets, NotAllowed, RunPlace
from burnish.server.stores.records import NewEvent, RunChanges, RunStatus
from burnish.server.work import Ended, LoopThread, Order, Tell
from burnish.system import validate_config
from burnish.system.settings import Door, SettingField, Settings, plain_type

_MOST_NAMES = 100
_Text = Annotated[str, Field(min_length=1, max_length=200)]


class HttpSettings(Settings):
    """What may be said over HTTP in the place of the project file. Nothing here names a path."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)

    fields: ClassVar[Mapping[str, SettingField]] = {}
    """What each setting sets."""

    def flags(self, datasets: Datasets, allowed: Set[str]) -> Flags:
        """The same as flags of the command line: datasets as files, names only from the list."""
        flags = dict[str, JsonValue]()
        for name, value in self.model_dump(exclude_none=True).items():
            field = self.fields[name]
            if field.path[0] == "data":
                flags[field.name] = str(datasets.path(value))
            else:
                if _names_code(field):
                    _refuse_unlisted({name: str(value)}, allowed)
                flags[field.name] = value
        return flags

    @contextmanager
    def named(self) -> Generator[None, None, None]:
        """What is wrong with a setting is said of the setting, not of a flag that no client has."""
        names = {field.flag: f"settings.{name}" for name, field in self.fields.items()}
        try:
            yield
        except ConfigError as error:
            problems = [replace(p, where=names.get(p.where, p.where)) for p in error.problems]
            raise ConfigError(problems, remedy=error.remedy) from None


def _open_fields(doors: Iterable[Doors]) -> dict[str, SettingField]:
    """The fields that clients may set, by name: those whose door is open to them.

    Which strategy runs may be said where it is not settled yet.
    """
    return {
        field.door.http_name or name: field
        for each in doors
        for name, field in each.named().items()
        if field.door.http and not (each.strategy.name and name == STRATEGY)
    }


def _names_code(field: SettingField) -> bool:
    """Whether a field names a model or a function, which runs or is paid for."""
    return field.path[0] == "roles" or field.path in (("target", "agent"), ("metrics", "judge"))


def _type_of(field: SettingField) -> Any:
    """What a client may send for a field: names are texts, cases are datasets of the service."""
    kind: Any = field.info.annotation
    parts = [each for each in field.info.metadata if not isinstance(each, Door)]
    if parts:
        kind = Annotated[kind, *parts]
    if field.path[0] == "data":
        kind = DatasetName
    elif _names_code(field) or field.path == ("strategy", "name"):
        kind = _Text
    elif get_origin(plain_type(kind)) is tuple:
        kind = Annotated[list[_Text], Field(max_length=_MOST_NAMES)]
    return Optional[kind]  # noqa: UP045 - a type that is only known here


def _generated(name: str, doors: Iterable[Doors], doc: str) -> type[HttpSettings]:
    fields = _open_fields(doors)
    types: dict[str, Any] = {name: (_type_of(each), None) for name, each in fields.items()}
    model = create_model(name, __base__=HttpSettings, __module__=__name__, __doc__=doc, **types)
    model.fields = fields
    return model


if TYPE_CHECKING:
    RunSettings = HttpSettings
    EvaluationSettings = HttpSettings
else:
    RunSettings = _generated("RunSettings", all_doors(), HttpSettings.__doc__)
    EvaluationSettings = _generated(
        "EvaluationSettings", [measurement_doors()], "What may be said of a measurement."
    )


class JobRequest(Settings):
    """A request as the store keeps it."""

    kind: Literal["optimize", "evaluate", "promptiter"] = "optimize"
    settings: RunSettings = Field(default_factory=RunSettings)
    evaluation: EvaluationSettings = Field(default_factory=EvaluationSettings)
    promptiter: Json = None
    spec: dict[str, JsonValue] | None = None
    """The description of the run, from which it is built; the service writes it, no client."""

    @classmethod
    def read(cls, request: Json) -> "JobRequest":
        """What the store kept, or a program gives."""
        return validate_config(request or {}, cls, source="request")

    def to_json(self) -> dict[str, Json]:
        """As the store keeps it."""
        return self.model_dump(mode="json", exclude_defaults=True, exclude_none=True)


def _refuse_unlisted(named: dict[str, str], allowed: Set[str]) -> None:
    """Refuse code and models that the operator did not list."""
    for key, name in named.items():
        if name not in allowed:
            raise NotAllowed(
                f"{key}: '{name}' is not allowed here",
                remedy="the operator allows a name with `burnish serve --allow NAME`",
            )


def refuse_kind(kind: str, app: str) -> ConfigError:
    """An app that cannot do what is asked."""
    return ConfigError([Problem(where="kind", message=f'the app "{app}" cannot {kind}')])


class EventForwarder:
    """A listener that tells the service; what the store has already is not kept twice."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self.best_score: float | None = None

    def event(self, event: Event) -> None:
        """Pass it on under its id, with what it says of the run as a whole."""
        number, changes = 0, RunChanges()
        if trial := event.read(TrialRecorded):
            number = trial.trial
            if trial.best_score is not None:
                self.best_score = trial.best_score
            changes = RunChanges(current_round=number, best_score=self.best_score)
        payload = {"at": event.at, **event.data}
        forwarded = NewEvent(kind=event.kind, round=number, payload=payload, key=f"run:{event.id}")
        self._tell(forwarded, changes)

    def tick(self, tick: Tick) -> None:
        """Nothing: ticks are for those who watch on the spot."""

    def catch_up(self, place: RunPlace) -> None:
        """Pass on what an earlier process may have kept in the journal and not told."""
        with look_into(place.folder) as reader:
            for event in events(reader):
                self.event(event)


# -- Project work ---------------------------------------------------------------------------------


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
        listener = EventForwarder(order.tell)
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

    measurement: PreparedMeasurement = field(kw_only=True)

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
