"""The policy texts as a target, and what a training leaves in the registry."""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pydantic import JsonValue

from burnish.core.cases import Dataset
from burnish.core.content import Json, codec
from burnish.core.errors import ConfigError, Problem
from burnish.core.evaluations import Objective
from burnish.core.surfaces import Surface, TextSurface
from burnish.core.trials import TrialRow
from burnish.delegation.manager import ModelManager
from burnish.delegation.policy import (
    PolicyRegistry,
    PolicyTexts,
    active_in,
    add_version,
    now,
    reading,
    set_active,
    writing,
)
from burnish.delegation.target import NAME, DelegationLoss, DelegationTarget
from burnish.delegation.training.epochs import PolicyChanged
from burnish.delegation.training.proposals import EpochDetails, TaskRun, TextUpdate
from burnish.delegation.training.registries import find_registry
from burnish.delegation.training.suites import PolicySpec, SuiteTasks
from burnish.models.references import ModelRef
from burnish.runs.directory import RunRecord
from burnish.runs.events import BASELINE, Advanced, Event, Tick, TrialRecorded, Warned, read_all
from burnish.runs.plugins import (
    DELEGATIONS,
    Ability,
    Building,
    ResultFiles,
    StrategyPlugin,
    TargetParts,
    TargetPlugin,
)
from burnish.runs.run import Run
from burnish.runs.spec import TargetSpec
from burnish.system.redaction import MARKER


@dataclass(frozen=True, kw_only=True)
class TrialSource:
    """The trial that something comes from."""

    run: str
    trial: int

    @property
    def origin(self) -> str:
        """Its name in the registry."""
        return f"{self.run}#{self.trial}"


@dataclass(frozen=True, kw_only=True)
class EpochRun:
    """One delegation of an epoch."""

    run_id: str
    task: str
    loss: float | None
    """None where it is missing."""
    scores: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One pass over a suite."""

    suite: int
    number: int
    started_at: str
    completed_at: str
    mean_loss: float | None
    parents: Mapping[str, int]
    """The versions that were in force when it began."""
    events: Sequence[Json] = ()
    """Updates and rollbacks."""
    runs: tuple[EpochRun, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Put:
    """What became of accepted texts."""

    versions: Mapping[str, int]
    """Those that were changed, by text."""
    active: bool = True
    """False where somebody else had changed the active versions meanwhile: theirs stay."""


class TrainingLog:
    """Writes what a run of training brings, each thing once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def registry(self) -> PolicyRegistry:
        """The same registry, to be looked at."""
        return PolicyRegistry(self.path)

    def suite(self, name: str, tasks: Json, baseline: Mapping[str, int]) -> int:
        """The id of a suite as it stands; an edited one is a new version of it."""
        contents = (json.dumps(tasks, sort_keys=True), json.dumps(dict(baseline), sort_keys=True))
        with writing(self.path) as db:
            query = (
                "SELECT id, tasks_json, baseline_artifacts_json FROM task_suites WHERE name = ?"
                " ORDER BY id DESC LIMIT 1"
            )
            row = db.execute(query, (name,)).fetchone()
            if row is not None and (row[1], row[2]) == contents:
                return int(row[0])
            added = db.execute(
                "INSERT INTO task_suites (name, tasks_json, baseline_artifacts_json, created_at)"
                " VALUES (?, ?, ?, ?)",
                (name, *contents, now()),
            )
            return int(added.lastrowid or 0)

    def epoch(self, source: TrialSource, epoch: Epoch) -> None:
        """Enter an epoch with its runs."""
        with writing(self.path) as db:
            origin = f"{source.origin}:epoch"
            if _change(db, origin) is not None:
                return
            number = _add_epoch(db, epoch)
            for each in epoch.runs:
                db.execute(
                    "INSERT INTO epoch_runs VALUES (?, ?, ?, ?, ?)",
                    (number, each.run_id, each.task, each.loss, json.dumps(dict(each.scores))),
                )
            _keep_change(db, origin, source, {}, number)

    def put(
        self, source: TrialSource, texts: Mapping[str, str], *, expected: Mapping[str, int]
    ) -> _Put:
        """Add these texts as versions and make them active; once, however often it is told.

        `expected` are the versions that were active when the run began. Where they are others by
        now, and not by this run, somebody else decided meanwhile: then nothing becomes active.
        """
        with writing(self.path) as db:
            if (change := _change(db, source.origin)) is not None:
                return _Put(versions=change["put"], active=change["put_active"])
            before = active_in(db)
            epoch = _epoch_of(db, source)
            versions = {n: add_version(db, n, text, epoch=epoch) for n, text in texts.items()}
            changed = {name: number for name, number in versions.items() if number != before[name]}
            left = _last(db, source.run) or dict(expected)
            undisturbed = before == left
            if undisturbed:
                set_active(db, changed)
            _record_epoch(db, epoch, {**before, **changed} if undisturbed else before)
            # Once disturbed, it stays so: what the run knew is not what somebody else decided.
            active = {**before, **changed} if undisturbed else left
            change = {"active": active, "put": changed, "put_active": undisturbed}
            _keep_change(db, source.origin, source, change, None)
            return _Put(versions=changed, active=undisturbed)

    def epochs(self, suite: str) -> list[dict[str, Json]]:
        """The epochs of all versions of a suite, in the order in which they were run."""
        query = (
            "SELECT e.id, e.suite_id, e.epoch_num, e.mean_loss, e.completed_at FROM epochs e"
            " JOIN task_suites s ON s.id = e.suite_id WHERE s.name = ? ORDER BY e.id"
        )
        with reading(self.path) as db:
            rows = [] if db is None else db.execute(query, (suite,)).fetchall()
        names = ("id", "suite_id", "epoch_num", "mean_loss", "completed_at")
        return [dict(zip(names, row, strict=True)) for row in rows]


def _add_epoch(db: sqlite3.Connection, epoch: Epoch) -> int:
    child: Json = {"artifacts": dict[str, Json](epoch.parents), "events": list(epoch.events)}
    added = db.execute(
        "INSERT INTO epochs (suite_id, epoch_num, started_at, completed_at, mean_loss,"
        " parent_artifacts_json, child_artifacts_json) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            epoch.suite,
            epoch.number,
            epoch.started_at,
            epoch.completed_at,
            epoch.mean_loss,
            json.dumps(dict(epoch.parents), sort_keys=True),
            json.dumps(child, sort_keys=True, ensure_ascii=False),
        ),
    )
    return int(added.lastrowid or 0)


def _epoch_of(db: sqlite3.Connection, source: TrialSource) -> int | None:
    """The epoch of the same trial, where it has one."""
    query = "SELECT epoch_id FROM burnish_changes WHERE origin = ?"
    row = db.execute(query, (f"{source.origin}:epoch",)).fetchone()
    return None if row is None else int(row[0])


def _record_epoch(db: sqlite3.Connection, epoch: int | None, versions: Mapping[str, int]) -> None:
    """Which versions an epoch left active."""
    query = "SELECT child_artifacts_json FROM epochs WHERE id = ?"
    row = None if epoch is None else db.execute(query, (epoch,)).fetchone()
    if row is not None:
        artifacts = {**json.loads(row[0]), "artifacts": dict(versions)}
        text = json.dumps(artifacts, sort_keys=True, ensure_ascii=False)
        db.execute("UPDATE epochs SET child_artifacts_json = ? WHERE id = ?", (text, epoch))


def _change(db: sqlite3.Connection, origin: str) -> dict[str, Any] | None:
    query = "SELECT told_json FROM burnish_changes WHERE origin = ?"
    row = db.execute(query, (origin,)).fetchone()
    return None if row is None else json.loads(row[0])


def _last(db: sqlite3.Connection, run: str) -> dict[str, int] | None:
    """The active versions after the last thing that a run put here."""
    query = (
        "SELECT told_json FROM burnish_changes WHERE run = ? AND epoch_id IS NULL"
        " ORDER BY number DESC LIMIT 1"
    )
    row = db.execute(query, (run,)).fetchone()
    return None if row is None else json.loads(row[0])["active"]


def _keep_change(
    db: sqlite3.Connection,
    origin: str,
    source: TrialSource,
    change: Mapping[str, Any],
    epoch: int | None,
) -> None:
    db.execute(
        "INSERT INTO burnish_changes VALUES (?, ?, ?, ?, ?)",
        (origin, source.run, source.trial, json.dumps(dict(change), sort_keys=True), epoch),
    )


# -- Keeping what a training brings ---------------------------------------------------------------


_KEPT = "suite"
"""Where `Project.config` of a training keeps all this."""


@dataclass(frozen=True, kw_only=True)
class _SuiteRecord:
    """What a training is about, kept in the header of its run."""

    name: str
    registry: str
    tasks: Sequence[Json] = ()
    baseline: Mapping[str, int] = field(default_factory=dict[str, int])
    active: Mapping[str, int] = field(default_factory=dict[str, int])
    """The versions that were active when it began."""

    def to_json(self) -> Json:
        """For the header."""
        return codec(_SuiteRecord).encode(self)

    @classmethod
    def of(cls, config: Mapping[str, Json]) -> "_SuiteRecord | None":
        """What the config of a run's project keeps; None where it is no training."""
        record = config.get(_KEPT)
        return codec(_SuiteRecord).decode(record) if isinstance(record, dict) else None


class RegistryKeeper:
    """Listens to a training and keeps its registry."""

    def __init__(self, run: Run, record: _SuiteRecord) -> None:
        self._run = run
        self._record = record
        self._log = TrainingLog(Path(record.registry))

    @cached_property
    def _suite(self) -> int:
        record = self._record
        return self._log.suite(record.name, list(record.tasks), record.baseline)

    def event(self, event: Event) -> None:
        """Keep what an event brings."""
        advanced, recorded = event.read(Advanced), event.read(TrialRecorded)
        recent = advanced or recorded
        row = None if recent is None else self._run.directory.trial(recent.trial)
        if row is None:
            return
        if advanced and row.trial.phase != BASELINE:
            self._put(row)
        if recorded:
            self._epoch(row)
            if EpochDetails.of(row.trial).stays:
                self._put(row)

    def tick(self, tick: Tick) -> None:
        """Cases are too many for the registry."""

    def finish(self) -> None:
        """Everything is there already."""

    def _source(self, row: TrialRow) -> TrialSource:
        return TrialSource(run=self._run.directory.header.id, trial=row.number)

    def _put(self, row: TrialRow) -> None:
        texts = {name: str(value) for name, value in row.trial.candidate.values.items()}
        if any(MARKER in text for text in texts.values()):
            why = f"a text with {MARKER} in it, where something looked like a secret, is not kept"
            self._run.tell(Warned(message=why), f"policy:{row.number}")
            return
        put = self._log.put(self._source(row), texts, expected=self._record.active)
        if put.active:
            self._run.tell(PolicyChanged(versions={**put.versions}), f"policy:{row.number}")
            return
        versions = ", ".join(f"{name} {number}" for name, number in put.versions.items())
        message = (
            f"the active policy texts were changed by somebody else meanwhile and stay: {versions} "
            "is in the registry, and `burnish policy rollback` makes it active"
        )
        self._run.tell(Warned(message=message), f"policy:{row.number}")

    def _epoch(self, row: TrialRow) -> None:
        details = EpochDetails.of(row.trial)
        if details.runs is None:
            return
        ended = datetime.fromisoformat(row.at)
        train = row.trial.train
        epoch = Epoch(
            suite=self._suite,
            number=details.epoch,
            started_at=(ended - timedelta(seconds=row.seconds)).isoformat(timespec="seconds"),
            completed_at=ended.isoformat(timespec="seconds"),
            mean_loss=None if train is None else train.measurement.loss,
            parents=self._parents(row),
            events=_events(row),
            runs=tuple(_run(each, row.number) for each in details.runs),
        )
        self._log.epoch(self._source(row), epoch)

    def _parents(self, row: TrialRow) -> dict[str, int]:
        """What was in force; the start of a suite may be another one."""
        versions = self._log.registry.in_force()
        return {**versions, **self._record.baseline} if row.trial.phase == BASELINE else versions


def _events(row: TrialRow) -> list[Json]:
    """What the epoch did to a text, in the words of the system whose tables these are."""
    details, decision = EpochDetails.of(row.trial), row.trial.decision
    if details.update is None or decision is None:
        return []
    kind = "update" if row.trial.accepted or details.stays else "rollback"
    update = codec(TextUpdate).encode(details.update)
    assert isinstance(update, dict)
    return [{"type": kind, **update, "reason": decision.reason}]


def _run(run: TaskRun, trial: int) -> EpochRun:
    """A run that broke before it had a name gets one that no other has."""
    return EpochRun(
        run_id=run.run_id or f"{run.task}#{run.draw}@{trial}",
        task=run.task,
        loss=run.loss,
        scores={
            "draw": run.draw,
            "split": run.split.value,
            "status": run.status,
            "parts": dict(run.parts),
        },
    )


# -- Policy texts as a target ---------------------------------------------------------------------


_NO_HOLDOUT = "the suite has no holdout: its score is a training score"


class PolicyPlugin(TargetPlugin):
    """Trained texts go into the policy registry."""

    kind: ClassVar[str] = "policy"
    Spec: ClassVar[type[TargetSpec]] = PolicySpec
    surfaces: ClassVar[tuple[type[Surface], ...]] = (TextSurface,)
    abilities: ClassVar[tuple[Ability, ...]] = (DELEGATIONS,)
    takes_cases: ClassVar[bool] = False

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        """The tasks with their workflows, and the texts to start from."""
        spec: PolicySpec = building.spec.target
        registry = find_registry(spec.db, spec.experiment)
        tasks = SuiteTasks(spec=spec, building=building)
        train, holdout = tasks.read("tasks"), tasks.read("holdout")
        policy = building.problems.attempt(
            "target.baseline_artifacts", lambda: _policy(spec, registry), PolicyTexts.shipped()
        )
        if strategy.needs_holdout and not spec.holdout:
            remedy = "name tasks under `holdout`, or train by epochs"
            message = f"{strategy.name} decides on tasks that it never saw"
            building.problems.add("target.holdout", message, remedy)
        if building.problems.found:
            return None
        target = DelegationTarget(policy, (*train, *holdout), frozen=registry.pins())
        models = {id(each.models): each.models for each in tasks.loaded.values()}
        # The roles of the strategy share the limits and prices of the first workflow.
        building.models = next(iter(models.values()))
        notes = (f"policy registry: {registry.path}", *tasks.notes)
        return TargetParts(
            target=target,
            dataset=Dataset(
                train=tuple(task.case for task in train),
                holdout=tuple(task.case for task in holdout),
            ),
            metrics=(DelegationLoss(),),
            objective=Objective(weights={NAME: 1.0}),
            own_model=_managers_model(target),
            settled=_settled(spec, registry, policy),
            record={_KEPT: _record(spec, registry)},
            notes=notes if holdout else (*notes, _NO_HOLDOUT),
            resources=(target, *models.values()),
        )

    def result_files(self, run: Run) -> ResultFiles | None:
        """What keeps the registry, where texts of it are trained."""
        assert isinstance(run.target, DelegationTarget)
        # Delegations that were under way when a run was killed go on from here.
        run.target.move_in(run.directory)
        record = _SuiteRecord.of(run.directory.header.project.config)
        return None if record is None else RegistryKeeper(run, record)

    def last_words(self, run: RunRecord) -> Iterable[str]:
        """Which texts a run has made active, and where."""
        record = _SuiteRecord.of(run.header.project.config)
        changed: dict[str, int] = {}
        for change in read_all(run.events, PolicyChanged):
            changed.update(change.versions)
        if record is None or not changed:
            return
        for name, version in changed.items():
            yield f"policy   {name} v{version} is active"
        yield f"         burnish policy list --db {record.registry}"


def _policy(spec: PolicySpec, registry: PolicyRegistry) -> PolicyTexts:
    """What the training starts from: as the suite says, else what is in force.

    A run that goes on starts from where it started, whatever it has put there since.
    """
    if spec.policy_versions is not None:
        return registry.at(spec.policy_versions)
    versions, pins = spec.baseline_artifacts, registry.pins()
    problems = [
        Problem(
            where=name,
            message=f"the registry holds it at version {pins[name]}, the suite at {number}",
            remedy=f"`burnish policy unpin {name}`, or change the suite",
        )
        for name, number in versions.items()
        if pins.get(name, number) != number
    ]
    if problems:
        raise ConfigError(problems)
    return registry.at(versions)


def _managers_model(target: DelegationTarget) -> ModelRef | None:
    """The model of the first task that a model manages."""
    managers = (task.workflow.manager for task in target.tasks.values())
    first = next((each for each in managers if isinstance(each, ModelManager)), None)
    return None if first is None else first.role.client.ref


def _record(spec: PolicySpec, registry: PolicyRegistry) -> Json:
    return _SuiteRecord(
        name=spec.name,
        tasks=[task.model_dump(mode="json", exclude_none=True) for task in spec.tasks],
        baseline=dict(spec.baseline_artifacts),
        registry=str(registry.path),
        active=registry.active(),
    ).to_json()


def _settled(
    spec: PolicySpec, registry: PolicyRegistry, policy: PolicyTexts
) -> dict[str, JsonValue]:
    """Where the training starts, and which registry is meant, whatever variables say later."""
    settled: dict[str, JsonValue] = {"policy_versions": dict[str, JsonValue](policy.versions)}
    if spec.experiment is None:
        settled["db"] = str(registry.path)
    return settled
