"""Apps of the service: project files and PromptIter engines under a name."""

import asyncio
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from burnish.compat.promptiter import (
    AcceptanceDecision,
    Engine,
    EvaluationStack,
    RoundResult,
    RunDefaults,
    RunRequest,
    RunResult,
    RunStatus,
    read_request,
)
from burnish.compat.promptiter.remote import RemoteFile, remote_parts, remote_target
from burnish.compat.promptiter.requests import LIMITS, within
from burnish.compat.promptiter.snapshot import SurfaceMap
from burnish.core.cases import Dataset
from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, FileTrouble, Problem
from burnish.core.formatting import counted
from burnish.core.protocols import Metric, Target
from burnish.core.surfaces import ChoiceSurface, NumberSurface, TextSurface
from burnish.journal.limits import Budget
from burnish.models.references import ModelRef
from burnish.projects.clients import NOTHING_ALLOWED, AllowedNames, ClientRequest, NotAllowed
from burnish.projects.description import STRATEGY as STRATEGY_FIELD
from burnish.projects.description import describe, from_stored
from burnish.projects.dialects import Document, Flags
from burnish.projects.evaluation_setup import named_user, read_metrics
from burnish.projects.file_kinds import GraphFile
from burnish.projects.file_structure import read_structure
from burnish.projects.graph import graph_of, graph_parts, graph_target
from burnish.projects.grid_axes import CURRENT, GridAxes, check_axes
from burnish.projects.grids import column_measurement
from burnish.projects.launch import load_project
from burnish.projects.measurements import describe_measurement, from_description, measurement_doors
from burnish.runs.build import build, building_of
from burnish.runs.draft import refuse_literals
from burnish.runs.plugins import Building, TargetParts, target_plugin
from burnish.runs.stoppers import STOP_FILE
from burnish.server.runs import Datasets
from burnish.server.security import check_app_name
from burnish.server.shapes import ColumnRequest, EvaluationSettings, JobRequest, refuse_kind
from burnish.server.stores import records
from burnish.server.stores.accounts import Amounts
from burnish.server.stores.records import UNCHANGED, NewEvent, RunChanges, RunEvent
from burnish.server.work import (
    EventSink,
    LoopThread,
    MeasureWork,
    ProjectWork,
    RunContext,
    RunOutcome,
)
from burnish.strategies.backprop.prompts import AGGREGATOR, BACKWARDER, PATCHER
from burnish.strategies.backprop.strategy import Backprop, role_models, whole_names
from burnish.strategies.measure import Measure
from burnish.system.files import place_inside
from burnish.system.settings import Access

if TYPE_CHECKING:
    from burnish.server.work import RunWork


_HEAD = {"structure": "structure_snapshot", "baseline_validation": "baseline_validation"}
_ROUND = {
    "train": "round_train_evaluation",
    "losses": "round_losses",
    "backward": "round_backward",
    "aggregation": "round_aggregation",
    "patches": "round_patch_set",
    "output_profile": "round_output_profile",
    "validation": "round_validation",
}
_STARTED, _COMPLETED, _ACCEPTED = "round_started", "round_completed", "accepted_profile"
_KEYS = {
    "structure_snapshot": "Structure",
    "baseline_validation": "BaselineValidation",
    "round_train_evaluation": "Train",
    "round_losses": "Losses",
    "round_backward": "Backward",
    "round_aggregation": "Aggregation",
    "round_patch_set": "Patches",
    "round_output_profile": "OutputProfile",
    "round_validation": "Validation",
}


class _HasJson(Protocol):
    def to_json(self) -> dict[str, Json]: ...


class _Pieces:
    """Compares each state of a result with the previous one and reports what is new."""

    def __init__(self, tell: EventSink) -> None:
        self._tell = tell
        self._before = RunResult()
        self._counts: dict[str, int] = {}

    def __call__(self, result: RunResult) -> None:
        """Report what this state adds; stages of an earlier session get the same keys again."""
        before, self._before = self._before, result
        for name, kind in _HEAD.items():
            if (value := getattr(result, name)) is not getattr(before, name):
                # The structure has none.
                score: float | None = getattr(value, "overall_score", None)
                self._piece(kind, 0, _plain(value), RunChanges(best_score=score))
        for number, now in enumerate(result.rounds):
            previous = before.rounds[number] if number < len(before.rounds) else None
            if now is not previous:
                self._round(previous, now)
        if result.accepted_profile is not before.accepted_profile:
            profile = _plain(result.accepted_profile)
            self._piece(_ACCEPTED, result.current_round, profile)

    def _round(self, before: RoundResult | None, now: RoundResult) -> None:
        if before is None:
            changes = RunChanges(current_round=now.round)
            self._piece(_STARTED, now.round, _plain(now.input_profile), changes)
        before = before or RoundResult()
        for name, kind in _ROUND.items():
            value = getattr(now, name)
            if value is not getattr(before, name) and value is not None and value != ():
                self._piece(kind, now.round, _plain(value))
        acceptance, validation = now.acceptance, now.validation
        if acceptance is not None and (acceptance, now.stop) != (before.acceptance, before.stop):
            scored = validation if acceptance.accepted else None
            changes = RunChanges(best_score=None if scored is None else scored.overall_score)
            self._piece(_COMPLETED, now.round, _ending(now, acceptance), changes)

    def _piece(
        self, kind: str, number: int, payload: Json, changes: RunChanges = UNCHANGED
    ) -> None:
        name = f"{number}:{kind}"
        self._counts[name] = place = self._counts.get(name, 0) + 1
        event = NewEvent(kind=kind, round=number, payload=payload, key=f"piece:{name}:{place}")
        self._tell(event, changes)


def assembled(events: Iterable[RunEvent], result: RunResult) -> dict[str, Json]:
    """The result so far: the events, and `result` for everything that is not in them."""
    document = result.to_json()
    rounds: dict[int, dict[str, Json]] = {}
    for event in events:
        part = rounds.get(event.round, {})
        if event.kind == _STARTED:
            new = RoundResult(round=event.round).to_json()
            rounds[event.round] = {**new, "InputProfile": event.payload}
        elif event.kind == _COMPLETED and isinstance(event.payload, dict):
            ending = ("Acceptance", "Stop", "Burnish")
            part.update({key: event.payload[key] for key in ending if key in event.payload})
        elif event.kind == _ACCEPTED:
            document["AcceptedProfile"] = event.payload
        elif event.kind in _HEAD.values():
            document[_KEYS[event.kind]] = event.payload
        elif event.kind in _KEYS:
            part[_KEYS[event.kind]] = event.payload
    # A run that has not begun a round has none, which is null in Go, not an empty list.
    document["Rounds"] = [rounds[number] for number in sorted(rounds)] or None
    return document


def _ending(now: RoundResult, accepted: AcceptanceDecision) -> dict[str, Json]:
    """PromptIter's RoundCompleted, and the parts that the round stores."""
    stop = now.stop
    fields: dict[str, Json] = {
        "Accepted": accepted.accepted,
        "AcceptanceReason": accepted.reason,
        "ScoreDelta": accepted.score_delta,
        "ShouldStop": stop is not None and stop.should_stop,
        "StopReason": "" if stop is None else stop.reason,
        "Acceptance": accepted.to_json(),
        "Stop": None if stop is None else stop.to_json(),
    }
    return {**fields, **({} if now.burnish is None else {"Burnish": now.burnish})}


def _plain(value: Any) -> Json:
    if value is None:
        return None
    if isinstance(value, tuple):
        return [each.to_json() for each in cast("Iterator[_HasJson]", value)]
    return cast("_HasJson", value).to_json()


_STRATEGY = "backprop"


class _EngineWork:
    """A request that an engine has validated."""

    strategy = _STRATEGY

    def __init__(
        self,
        engine: Engine,
        request: RunRequest,
        *,
        thread: LoopThread | None = None,
        owned: bool = False,
        tighten: bool = False,
    ) -> None:
        self._engine = engine
        self._request = engine.tightened(request) if tighten else request
        self.request: Json = None if self._request is request else self._request.sent_json()
        engine.check(self._request)
        self._owned = owned
        self._latest: Json = None
        self.thread = thread
        self.spec: Mapping[str, Json] = {}

    @property
    def budget(self) -> Budget:
        own = self._request.options
        return self._engine.budget.within(**{name: getattr(own, name) for name in LIMITS})

    def check_new(self) -> None:
        self._engine.check(self._request, new=True)

    def limit(self, granted: Amounts) -> None:
        self._request = within(self._request, **granted.limits())
        self._engine.check(self._request)

    def so_far(self) -> Json:
        return self._latest

    async def drive(self, context: RunContext) -> RunOutcome:
        place, stop = context.place, context.stop
        place.fetch()
        stop_file = place.folder / STOP_FILE
        pieces, states = _Pieces(context.tell), [RunResult()]

        def progress(result: RunResult) -> None:
            states[0] = result
            if not stop.asked:  # what a stop leaves open is told when the run goes on
                pieces(result)

        def touch_stop_file(why: str) -> None:
            del why
            if place.folder.is_dir():
                place_inside(place.folder, STOP_FILE).touch()

        stop.when_asked(touch_stop_file)
        try:
            # A stop that a killed service had asked for does not count any more.
            stop_file.unlink(missing_ok=True)
            result = await self._engine.run(
                self._request, run_dir=place.folder, progress=progress, furnish=place.furnish
            )
        finally:
            stop_file.unlink(missing_ok=True)
            # Here, in the run's own thread: a large result takes a while.
            self._latest = states[0].to_json()
            await self.drop()
        if result.status is RunStatus.CANCELED:
            raise asyncio.CancelledError
        if stop.asked and (result.burnish or {}).get("EndedBecause") == "stop_file":
            return RunOutcome(status=records.RunStatus.QUEUED)
        status = records.RunStatus(result.status.value)
        return RunOutcome(status=status, result=self._latest, error=result.error_message)

    async def drop(self) -> None:
        if self._owned:
            await self._engine.close()


class EngineApp:
    """An engine under a name; all its runs share one event loop, which owns its resources."""

    folder = None

    def __init__(self, name: str, engine: Engine) -> None:
        self.name = check_app_name(name)
        self.engine = engine
        self._thread: LoopThread | None = None
        self._lock = threading.Lock()

    def plan(self, request: Json, *, tighten: bool = False) -> "RunWork":
        parsed = JobRequest.read(request)
        if parsed.kind != "promptiter":
            raise refuse_kind(parsed.kind, self.name)
        return self.planned(read_request(parsed.promptiter, strict=False)[0], tighten=tighten)

    def planned(self, request: RunRequest, *, tighten: bool = False) -> "RunWork":
        """Check a request; its teacher and judge are live objects that only this process has."""
        with self._lock:  # requests are planned in several threads
            self._thread = self._thread or LoopThread(f"engine-{self.name}")
        return _EngineWork(self.engine, request, thread=self._thread, tighten=tighten)

    def about(self) -> dict[str, Json]:
        return {"name": self.name, "kind": "engine", "strategy": _STRATEGY, "promptiter": True}

    def structure(self, *, whole: bool = False) -> dict[str, Json]:
        return _structure(self.engine.target, whole=whole)

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            await self.engine.close()
            return
        await thread.submit(self.engine.close()).result()
        thread.close()
        await asyncio.to_thread(thread.join)


def _structure(target: Target, *, whole: bool) -> dict[str, Json]:
    surface_map = SurfaceMap.of(target)
    return (surface_map.whole if whole else surface_map.snapshot).to_json()


def engine_of(path: Path, app_name: str, *, data_dir: Path | None = None) -> Engine:
    """An engine for a graph file; eval sets are in `data` next to it unless `data_dir` is given.

    Reports everything that is wrong with the file at once, including unreachable models.
    """
    document = Document.read(path)
    dialect = {GraphFile.kind: GraphFile, RemoteFile.kind: RemoteFile}.get(
        str(document.data.get("kind"))
    )
    if dialect is None:
        remedy = (
            "write `kind: graph` or `kind: remote`, serve an engine from Python, or use /api/v1"
        )
        message = "PromptIter's requests are for graphs and remote agents"
        raise ConfigError.of(path.name, message, remedy)
    described = describe(document, {STRATEGY_FIELD: Backprop.name}, dialect=dialect())
    building = building_of(described)
    parts, judge = _parts(building), _judge(building)
    stages = {} if parts is None else role_models(building, parts)
    for name, ref in stages.items():
        if ref is not None:
            building.asked(name, ref)
    building.problems.settle()
    assert parts is not None
    spec = described.spec
    stack = EvaluationStack(
        app_name=app_name,
        data_dir=data_dir or building.folder / "data",
        output_dir=None,
        metrics=parts.metrics,
        judge=judge,
        models=building.models,
        scenarios=spec.metrics.user_simulator is not None,
    )
    return Engine(
        parts.target,
        stack,
        backwarder=stages[BACKWARDER],
        aggregator=stages[AGGREGATOR],
        optimizer=stages[PATCHER],
        budget=spec.budget.budget(),
        defaults=RunDefaults(
            settings=whole_names(spec.strategy.settings, parts),
            seed=spec.execution.seed,
            concurrency=spec.execution.concurrency,
            case_policy=spec.execution.case_policy(),
            wait_minutes=spec.execution.wait_minutes,
        ),
    )


def _parts(building: Building) -> TargetParts | None:
    """The agent and its metrics; the cases come with each request."""
    spec = building.spec.metrics
    metrics: tuple[Metric, ...] = ()  # the sets have them
    if spec.blocks or spec.file is not None:
        # No case of an eval set has metrics of its own, so none need be known here.
        metrics = read_metrics(building, (), replies_only=False)
    user = named_user(building)
    if building.spec.target.kind == RemoteFile.target:
        remote = remote_target(building, user)
        return (
            None if remote is None else remote_parts(building, remote, Dataset(train=()), metrics)
        )
    graph = graph_of(building)
    target = None if graph is None else graph_target(building, graph, user)
    return None if target is None else graph_parts(building, target, Dataset(train=()), metrics)


def _judge(building: Building) -> ModelRef | None:
    block = building.spec.metrics.judge
    if block is None:
        return None
    return building.problems.attempt("metrics.judge", block.reference, None)


@contextmanager
def _as_settings() -> Generator[None, None, None]:
    """Report problems of the strategy under the setting's name, since clients have no flags."""
    flag = f"--{STRATEGY_FIELD}"
    try:
        yield
    except ConfigError as error:
        problems = [
            replace(each, where=f"settings.{STRATEGY_FIELD}") if each.where == flag else each
            for each in error.problems
        ]
        raise ConfigError(problems, remedy=error.remedy) from None


@contextmanager
def _as_fields() -> Generator[None, None, None]:
    """Report problems of axes under the fields of a request, since clients have no flags."""
    fields = {"--model": "models", "--set": "values"}
    try:
        yield
    except ConfigError as error:
        problems = [
            replace(each, where=fields.get(each.where.partition(" ")[0], each.where), remedy="")
            for each in error.problems
        ]
        raise ConfigError(problems) from None


_SHARED = frozenset({"max_calls", "max_metric_calls", "max_tokens", "max_usd"})
"""The limits that the columns of a grid share."""


@dataclass(frozen=True, kw_only=True)
class FileApp:
    """A project file under a name."""

    name: str
    path: Path
    datasets: Datasets
    allowance: AllowedNames = NOTHING_ALLOWED
    """The models and functions that requests may name."""

    def __post_init__(self) -> None:
        check_app_name(self.name)
        if not self.path.is_file():
            raise FileTrouble(
                f"there is no file {self.path} for the app '{self.name}'",
                remedy="pass --app NAME=FILE with a project file",
            )

    @property
    def folder(self) -> Path:
        return self.path.resolve().parent

    def plan(self, request: Json, *, tighten: bool = False) -> "RunWork":
        job = JobRequest.read(request)
        if job.kind == "promptiter":
            engine = engine_of(self.path, self.name)
            parsed = read_request(job.promptiter, strict=False)[0]
            return _EngineWork(engine, parsed, owned=True, tighten=tighten)
        work = self._work(job)
        if job.spec is None:
            refuse_literals(work.setup.project.spec)
        work.setup.check()
        return work

    def _work(self, job: JobRequest) -> ProjectWork:
        """A search or a measurement, built from its stored description if there is one."""
        evaluates = job.kind == "evaluate"
        if job.spec is not None:
            described = from_stored(job.spec, {})
            if not evaluates:
                return ProjectWork(build(described))
            measurement = from_description(described)
        else:
            flags, changes = self.changes(job)
            with _as_settings():
                if not evaluates:
                    return ProjectWork(load_project(self.path, flags, request=changes).setup)
                described = describe_measurement(self.path, flags, request=changes)
                if job.column is None:
                    measurement = from_description(described)
                else:
                    measurement = column_measurement(described, job.column.values)
        return MeasureWork(measurement.setup, measurement=measurement)

    def changes(self, job: JobRequest) -> tuple[Flags, ClientRequest]:
        """What a request changes in the file: the strategy, and its other settings."""
        evaluates = job.kind == "evaluate"
        values = (job.evaluation if evaluates else job.settings).values
        changes = ClientRequest(
            values=values,
            allowance=self.allowance,
            dataset=self.datasets.path,
            strategy=Measure.name if evaluates else "",
        )
        return {STRATEGY_FIELD: values.get(STRATEGY_FIELD)}, changes

    def columns(
        self, settings: EvaluationSettings, axes: GridAxes, grid: str, *, most: int
    ) -> list[JobRequest]:
        """The measurements of a grid; raises what is wrong with it, and what it may not vary.

        A limit is for all columns together, so each has its share of it.
        """
        flags, changes = self.changes(JobRequest(kind="evaluate", evaluation=settings))
        base = from_description(describe_measurement(self.path, flags, request=changes))
        target = base.setup.target
        with _as_fields():
            plugin = target_plugin(target.description.kind)
            axes = check_axes(axes, plugin, target, measurement_doors(self.path))
        self._refuse_axes(axes, target)
        choices = axes.columns()
        if not 2 <= len(choices) <= most:
            message = f"the grid has {counted(len(choices), 'column')}"
            raise ConfigError.of("models, values", message, f"name 2 to {most} combinations")
        limits = {
            name: value / len(choices) if name == "max_usd" else int(value) // len(choices)
            for name, value in settings.values.items()
            if name in _SHARED and isinstance(value, int | float)
        }
        if short := [name for name, share in limits.items() if not share]:
            message = f"it is less than the {len(choices)} columns that share it"
            raise ConfigError.of(f"settings.{short[0]}", message, "raise it, or leave it out")
        own = EvaluationSettings.model_validate({**settings.values, **limits})
        return [
            JobRequest(
                kind="evaluate",
                evaluation=own,
                column=ColumnRequest(
                    grid=grid,
                    number=number,
                    columns=len(choices),
                    label=choice.label,
                    values=dict(choice.values),
                    weights=dict(base.setup.objective.weights),
                ),
            )
            for number, choice in enumerate(choices, start=1)
        ]

    def _refuse_axes(self, axes: GridAxes, target: Target) -> None:
        """Refuse models that are not allowed, and values that the file does not offer to search."""
        for name in axes.models:
            if name != CURRENT and not self.allowance.permits(Access.MODEL, name):
                remedy = "the operator allows a name with `burnish serve --allow NAME`"
                raise NotAllowed(f"models: '{name}' is not allowed here", remedy=remedy)
        offered = {
            each.id: each
            for each in target.surfaces
            if isinstance(each, NumberSurface | ChoiceSurface | TextSurface)
        }
        problems: list[Problem] = []
        for name, values in axes.settings.items():
            if name not in offered:
                remedy = f"it has: {', '.join(offered) or 'nothing that a request may vary'}"
                raise NotAllowed(f"values: the app does not offer '{name}'", remedy=remedy)
            for value in values:
                assert isinstance(value, str | int | float)  # check_axes refuses the others
                problems += offered[name].problems(value)
        if problems:
            raise ConfigError([replace(each, where=f"values.{each.where}") for each in problems])

    def about(self) -> dict[str, Json]:
        try:
            is_remote = Document.read(self.path).data.get("kind") == RemoteFile.kind
            structured = is_remote or bool(read_structure(self.path))
        except BurnishError:
            structured = False
        return {"name": self.name, "kind": "file", "strategy": "", "promptiter": structured}

    def structure(self, *, whole: bool = False) -> dict[str, Json]:
        if Document.read(self.path).data.get("kind") == RemoteFile.kind:
            return _structure(engine_of(self.path, self.name).target, whole=whole)
        return _structure(read_structure(self.path).target, whole=whole)

    async def close(self) -> None: ...
