"""Apps over files and engines: what PromptIter's routes drive."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from burnish.compat.promptiter import (
    Engine,
    EvaluationStack,
    RoundResult,
    RunDefaults,
    RunRequest,
    RunResult,
    RunStatus,
    read_request,
)
from burnish.compat.promptiter.snapshot import SurfaceMap
from burnish.core.cases import Dataset
from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, FileTrouble, Problem
from burnish.core.protocols import Metric
from burnish.models.references import ModelRef
from burnish.projects.description import STRATEGY as STRATEGY_FIELD
from burnish.projects.description import describe, from_stored
from burnish.projects.dialects import Document
from burnish.projects.file_kinds import GraphFile
from burnish.projects.graph.plugin import graph_of, graph_parts, graph_target
from burnish.projects.launch import load_project
from burnish.projects.measurements import from_description, load_measurement
from burnish.projects.measures import named_user, read_metrics
from burnish.projects.structures import read_structure
from burnish.runs.build import build, building_of
from burnish.runs.draft import refuse_literals
from burnish.runs.plugins import Building, TargetParts
from burnish.runs.setup import Furnish
from burnish.runs.stoppers import STOP_FILE
from burnish.server.apps.projects import JobRequest, MeasureWork, ProjectWork, refuse_kind
from burnish.server.runs import Datasets
from burnish.server.security import check_app_name
from burnish.server.stores import records
from burnish.server.stores.records import NewEvent, RunChanges, RunEvent
from burnish.server.work import Ended, LoopThread, Order, Tell
from burnish.strategies.backprop.prompts import AGGREGATOR, BACKWARDER, PATCHER
from burnish.strategies.backprop.strategy import Backprop, role_models, whole_names

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
STARTED, COMPLETED, ACCEPTED = "round_started", "round_completed", "accepted_profile"
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
_ENDING = ("Acceptance", "Stop", "Burnish")


class _HasJson(Protocol):
    def to_json(self) -> dict[str, Json]: ...


class Pieces:
    """Compares each state of a result with the one before, and tells what is new."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._before = RunResult()
        self._counts: dict[str, int] = {}

    def __call__(self, result: RunResult) -> None:
        """Tell what this state adds; stages of an earlier session have the same keys again."""
        before, self._before = self._before, result
        for name, kind in _HEAD.items():
            if (value := getattr(result, name)) is not getattr(before, name):
                self._piece(kind, 0, _plain(value), RunChanges(best_score=_baseline(result, kind)))
        for number, now in enumerate(result.rounds):
            previous = before.rounds[number] if number < len(before.rounds) else None
            if now is not previous:
                self._round(previous, now)
        if result.accepted_profile is not before.accepted_profile:
            profile = _plain(result.accepted_profile)
            self._piece(ACCEPTED, result.current_round, profile, RunChanges())

    def _round(self, before: RoundResult | None, now: RoundResult) -> None:
        if before is None:
            changes = RunChanges(current_round=now.round)
            self._piece(STARTED, now.round, _plain(now.input_profile), changes)
        before = before or RoundResult()
        for name, kind in _ROUND.items():
            value = getattr(now, name)
            if value is not getattr(before, name) and value is not None and value != ():
                self._piece(kind, now.round, _plain(value), RunChanges())
        if now.acceptance is not None and (now.acceptance, now.stop) != (
            before.acceptance,
            before.stop,
        ):
            self._piece(COMPLETED, now.round, _ending(now), RunChanges(best_score=_best(now)))

    def _piece(self, kind: str, number: int, payload: Json, changes: RunChanges) -> None:
        name = f"{number}:{kind}"
        self._counts[name] = place = self._counts.get(name, 0) + 1
        event = NewEvent(kind=kind, round=number, payload=payload, key=f"piece:{name}:{place}")
        self._tell(event, changes)


def assembled(events: Iterable[RunEvent], result: RunResult) -> dict[str, Json]:
    """The result so far: `result` says what the events do not."""
    document = result.to_json()
    rounds: dict[int, dict[str, Json]] = {}
    for event in events:
        part = rounds.get(event.round, {})
        if event.kind == STARTED:
            new = RoundResult(round=event.round).to_json()
            rounds[event.round] = {**new, "InputProfile": event.payload}
        elif event.kind == COMPLETED and isinstance(event.payload, dict):
            part.update({key: event.payload[key] for key in _ENDING if key in event.payload})
        elif event.kind == ACCEPTED:
            document["AcceptedProfile"] = event.payload
        elif event.kind in _HEAD.values():
            document[_KEYS[event.kind]] = event.payload
        elif event.kind in _KEYS:
            part[_KEYS[event.kind]] = event.payload
    document["Rounds"] = [rounds[number] for number in sorted(rounds)]
    return document


def _ending(now: RoundResult) -> dict[str, Json]:
    """RoundCompleted as PromptIter has it, and the parts that the round keeps."""
    accepted, stop = now.acceptance, now.stop
    assert accepted is not None
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


def _best(now: RoundResult) -> float | None:
    taken = now.acceptance is not None and now.acceptance.accepted
    return now.validation.overall_score if taken and now.validation is not None else None


def _baseline(result: RunResult, kind: str) -> float | None:
    validation = result.baseline_validation
    is_it = kind == _HEAD["baseline_validation"] and validation is not None
    return validation.overall_score if is_it and validation is not None else None


def _plain(value: Any) -> Json:
    if value is None:
        return None
    if isinstance(value, tuple):
        return [each.to_json() for each in cast("Iterator[_HasJson]", value)]
    return cast("_HasJson", value).to_json()


# -- A run of a PromptIter engine as work for the manager -----------------------------------------


_STRATEGY = "backprop"


class EngineWork:
    """A request that an engine found good."""

    strategy = _STRATEGY

    def __init__(
        self,
        engine: Engine,
        request: RunRequest,
        *,
        thread: LoopThread | None = None,
        owned: bool = False,
    ) -> None:
        self._engine = engine
        self._request = request
        self._owned = owned
        self._latest: Json = None
        self.thread = thread
        self.spec: Mapping[str, Json] = {}

    def so_far(self) -> Json:
        """The rounds that were finished."""
        return self._latest

    async def drive(self, order: Order) -> Ended:
        """Begin or go on."""
        order.place.fetch()
        pieces, states = Pieces(order.tell), [RunResult()]

        def progress(result: RunResult) -> None:
            states[0] = result
            if not order.stop.asked:  # what a stop leaves open is told when the run goes on
                pieces(result)

        order.stop.when_asked(_touch(order.place.folder))
        try:
            result = await self._run(order, progress, order.place.furnish)
        finally:
            (order.place.folder / STOP_FILE).unlink(missing_ok=True)
            # Here, in the run's own thread: a large result takes a while.
            self._latest = states[0].to_json()
            await self.drop()
        return self._ended(result, stopped=order.stop.asked)

    async def _run(
        self, order: Order, progress: Callable[[RunResult], None], furnish: Furnish
    ) -> RunResult:
        # What a killed service had asked for is not asked for any more.
        (order.place.folder / STOP_FILE).unlink(missing_ok=True)
        return await self._engine.run(
            self._request, run_dir=order.place.folder, progress=progress, furnish=furnish
        )

    def _ended(self, result: RunResult, *, stopped: bool) -> Ended:
        cut = result.burnish is not None and result.burnish.get("EndedBecause") == "stop_file"
        if result.status is RunStatus.CANCELED:
            raise asyncio.CancelledError
        if stopped and cut:
            return Ended(status=records.RunStatus.QUEUED)
        status = records.RunStatus(result.status.value)
        return Ended(status=status, result=self._latest, error=result.error_message)

    async def drop(self) -> None:
        """Close an engine that was made for this run."""
        if self._owned:
            await self._engine.close()


def _touch(folder: Path) -> Callable[[str], None]:
    """Stop through the file that every run looks for."""

    def ask(why: str) -> None:
        del why
        if folder.is_dir():
            (folder / STOP_FILE).touch()

    return ask


# -- A PromptIter engine of one's own program as an app -------------------------------------------


class EngineApp:
    """An engine under a name. All its runs share one loop: what it holds belongs to that loop."""

    folder = None

    def __init__(self, name: str, engine: Engine) -> None:
        self.name = check_app_name(name)
        self.engine = engine
        self._thread: LoopThread | None = None
        self._lock = threading.Lock()

    def plan(self, request: Json) -> "RunWork":
        """Check a request in PromptIter's terms."""
        parsed = JobRequest.read(request)
        if parsed.kind != "promptiter":
            raise refuse_kind(parsed.kind, self.name)
        return self.planned(read_request(parsed.promptiter, strict=False)[0])

    def planned(self, request: RunRequest) -> EngineWork:
        """Check a request; its teacher and judge are live objects, which only this process has."""
        self.engine.check(request)
        return EngineWork(self.engine, request, thread=self._loop())

    def about(self) -> dict[str, Json]:
        """An engine."""
        return {"name": self.name, "kind": "engine", "strategy": _STRATEGY, "promptiter": True}

    def structure(self) -> dict[str, Json]:
        """The structure of its target."""
        return SurfaceMap.of(self.engine.target).snapshot.to_json()

    async def close(self) -> None:
        """Close the engine in the loop that it lived in."""
        thread, self._thread = self._thread, None
        if thread is None:
            await self.engine.close()
            return
        await thread.submit(self.engine.close()).ended()
        thread.close()
        await asyncio.to_thread(thread.join)

    def _loop(self) -> LoopThread:
        with self._lock:  # requests are planned in several threads
            if self._thread is None:
                self._thread = LoopThread(f"engine-{self.name}")
            return self._thread


# -- A PromptIter engine made from the description of a graph file --------------------------------


def _has_structure(path: Path) -> bool:
    """Whether PromptIter can say anything of the file."""
    try:
        read_structure(path)
    except BurnishError:
        return False
    return True


def engine_of(path: Path, app_name: str, *, data_dir: Path | None = None) -> Engine:
    """An engine for a graph file; eval sets lie in `data` beside it, unless `data_dir` says.

    Everything that is wrong with the file is said at once, models out of reach included.
    """
    document = Document.read(path)
    if document.data.get("kind") != GraphFile.kind:
        message = "PromptIter's requests are for graph files"
        remedy = "write `kind: graph`, serve an engine from Python, or use /api/v1"
        raise ConfigError([Problem(where=path.name, message=message, remedy=remedy)])
    described = describe(document, {STRATEGY_FIELD: Backprop.name}, dialect=GraphFile())
    building = building_of(described)
    parts, judge = _parts(building), _judge(building)
    stages = {} if parts is None else _stages(building, parts)
    building.problems.settle()
    assert parts is not None
    spec = described.spec
    stack = EvaluationStack(
        app_name=app_name,
        data_dir=data_dir or building.folder / "data",
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
        ),
    )


def _parts(building: Building) -> TargetParts | None:
    """The graph and its metrics; the cases come with each request."""
    graph, metrics = graph_of(building), _metrics(building)
    user = named_user(building)
    target = None if graph is None else graph_target(building, graph, user)
    return None if target is None else graph_parts(building, target, Dataset(train=()), metrics)


def _metrics(building: Building) -> tuple[Metric, ...]:
    """The metrics of the file; none where it leaves them to the sets."""
    spec = building.spec.metrics
    if not spec.blocks and spec.file is None:
        return ()
    # No case of an eval set has metrics of its own, so that none need be known here.
    return read_metrics(building, (), replies_only=False)


def _judge(building: Building) -> ModelRef | None:
    block = building.spec.metrics.judge
    if block is None:
        return None
    return building.problems.attempt("metrics.judge", block.reference, None)


def _stages(building: Building, parts: TargetParts) -> dict[str, ModelRef | None]:
    """The model of each stage, seen to be within reach."""
    models = role_models(building, parts)
    for name, ref in models.items():
        if ref is not None:
            building.asked(name, ref)
    return models


# -- A project file as an app ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FileApp:
    """A project file under a name."""

    name: str
    path: Path
    datasets: Datasets
    allowed: Set[str] = frozenset()
    """Models and functions that requests may name."""

    def __post_init__(self) -> None:
        """Refuse what cannot be served."""
        check_app_name(self.name)
        if not self.path.is_file():
            raise FileTrouble(
                f"there is no file {self.path} for the app '{self.name}'",
                remedy="say --app NAME=FILE with a project file",
            )

    @property
    def folder(self) -> Path:
        """Where the file lies."""
        return self.path.resolve().parent

    def plan(self, request: Json) -> "RunWork":
        """Load the file with what the request says."""
        job = JobRequest.read(request)
        if job.kind == "promptiter":
            engine = engine_of(self.path, self.name)
            parsed = read_request(job.promptiter, strict=False)[0]
            engine.check(parsed)
            return EngineWork(engine, parsed, owned=True)
        if job.kind == "evaluate":
            return self._measuring(job)
        return self._searching(job)

    def _searching(self, job: JobRequest) -> ProjectWork:
        """A search: built from its description alone once that is kept."""
        if job.spec is not None:
            setup = build(from_stored(job.spec, {}))
        else:
            flags = job.settings.flags(self.datasets, self.allowed)
            with job.settings.named():
                setup = load_project(self.path, flags).setup
            refuse_literals(setup.project.spec)
        setup.check()
        return ProjectWork(setup)

    def _measuring(self, job: JobRequest) -> MeasureWork:
        """A measurement: built from its description alone once that is kept."""
        if job.spec is not None:
            measurement = from_description(from_stored(job.spec, {}))
        else:
            flags = job.evaluation.flags(self.datasets, self.allowed)
            with job.evaluation.named():
                measurement = load_measurement(self.path, flags)
            refuse_literals(measurement.setup.project.spec)
        measurement.setup.check()
        return MeasureWork(measurement.setup, measurement=measurement)

    def about(self) -> dict[str, Json]:
        """A file; whether PromptIter's routes know it."""
        structured = _has_structure(self.path)
        return {"name": self.name, "kind": "file", "strategy": "", "promptiter": structured}

    def structure(self) -> dict[str, Json]:
        """The structure of the agent in the file."""
        return SurfaceMap.of(read_structure(self.path).target).snapshot.to_json()

    async def close(self) -> None:
        """Nothing is held."""
