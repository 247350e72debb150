"""The policy texts as a target, and what a training writes to the registry."""

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
from burnish.core.errors import ConfigError, Problem, in_shell
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
from burnish.delegation.training.epochs import EpochDetails, PolicyChanged, TaskRun, TextUpdate
from burnish.delegation.training.setup import PolicySpec, SuiteTasks, find_registry
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
        return f"{self.run}#{self.trial}"


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
    runs: tuple[TaskRun, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Put:
    versions: Mapping[str, int]
    """Those that were changed, by text."""
    active: bool = True
    """False if someone else changed the active versions in the meantime: theirs stay."""


class TrainingLog:
    """Writes the epochs and texts of a training to the registry, each once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def registry(self) -> PolicyRegistry:
        return PolicyRegistry(self.path)

    def suite(self, name: str, tasks: Json, baseline: Mapping[str, int]) -> int:
        """The id of this version of a suite."""
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
        """Add an epoch with its runs."""
        with writing(self.path) as db:
            origin = f"{source.origin}:epoch"
            if _change(db, origin) is not None:
                return
            parents = dict[str, Json](epoch.parents)
            child: Json = {"artifacts": parents, "events": list(epoch.events)}
            added = db.execute(
                "INSERT INTO epochs (suite_id, epoch_num, started_at, completed_at, mean_loss,"
                " parent_artifacts_json, child_artifacts_json) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    epoch.suite,
                    epoch.number,
                    epoch.started_at,
                    epoch.completed_at,
                    epoch.mean_loss,
                    json.dumps(parents, sort_keys=True),
                    json.dumps(child, sort_keys=True, ensure_ascii=False),
                ),
            )
            number = int(added.lastrowid or 0)
            for each in epoch.runs:
                # A run that failed before it had an id gets a unique one.
                run_id = each.run_id or f"{each.task}#{each.draw}@{source.trial}"
                scores: Json = {
                    "draw": each.draw,
                    "split": each.split.value,
                    "status": each.status,
                    "parts": dict(each.parts),
                }
                db.execute(
                    "INSERT INTO epoch_runs VALUES (?, ?, ?, ?, ?)",
                    (number, run_id, each.task, each.loss, json.dumps(scores)),
                )
            _keep_change(db, origin, source, {}, number)

    def put(
        self, source: TrialSource, texts: Mapping[str, str], *, expected: Mapping[str, int]
    ) -> _Put:
        """Add these texts as versions and make them active; repeated calls have no effect.

        `expected` are the versions that were active when the run began. If someone else has
        changed them since, nothing becomes active.
        """
        with writing(self.path) as db:
            if (change := _change(db, source.origin)) is not None:
                return _Put(versions=change["put"], active=change["put_active"])
            before = active_in(db)
            query = "SELECT epoch_id FROM burnish_changes WHERE origin = ?"
            row = db.execute(query, (f"{source.origin}:epoch",)).fetchone()
            epoch = None if row is None else int(row[0])
            versions = {n: add_version(db, n, text, epoch=epoch) for n, text in texts.items()}
            changed = {name: number for name, number in versions.items() if number != before[name]}
            left = _last(db, source.run) or dict(expected)
            undisturbed = before == left
            # Once disturbed, it stays so: what the run knew is not what somebody else decided.
            now_active, active = before, left
            if undisturbed:
                set_active(db, changed)
                now_active = active = {**before, **changed}
            _record_epoch(db, epoch, now_active)
            change = {"active": active, "put": changed, "put_active": undisturbed}
            _keep_change(db, source.origin, source, change, None)
            return _Put(versions=changed, active=undisturbed)

    def suites(self) -> list[str]:
        """The names of all suites, in the order in which they were first trained on."""
        query = "SELECT name FROM task_suites GROUP BY name ORDER BY MIN(id)"
        there = "SELECT 1 FROM sqlite_master WHERE name = 'task_suites'"
        with reading(self.path) as db:
            if db is None or db.execute(there).fetchone() is None:
                return []
            return [str(row[0]) for row in db.execute(query)]

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


def _record_epoch(db: sqlite3.Connection, epoch: int | None, versions: Mapping[str, int]) -> None:
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
    """The active versions after the last change by a run."""
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


@dataclass(frozen=True, kw_only=True)
class _SuiteRecord:
    name: str
    registry: str
    tasks: Sequence[Json] = ()
    baseline: Mapping[str, int] = field(default_factory=dict[str, int])
    active: Mapping[str, int] = field(default_factory=dict[str, int])

    @classmethod
    def start(cls, spec: PolicySpec, registry: PolicyRegistry) -> Json:
        """The suite and the registry that a run starts with, as its header stores them."""
        record = cls(
            name=spec.name,
            tasks=[task.model_dump(mode="json", exclude_none=True) for task in spec.tasks],
            baseline=dict(spec.baseline_artifacts),
            registry=str(registry.path),
            active=registry.active(),
        )
        return codec(_SuiteRecord).encode(record)

    @classmethod
    def of(cls, config: Mapping[str, Json]) -> "_SuiteRecord | None":
        """The record in the config of a run's project; None if it is not a training."""
        record = config.get("suite")
        return codec(_SuiteRecord).decode(record) if isinstance(record, dict) else None


class _RegistryKeeper:
    """Listens to a training and updates its registry."""

    def __init__(self, run: Run, record: _SuiteRecord) -> None:
        self._run = run
        self._record = record
        self._log = TrainingLog(Path(record.registry))

    @cached_property
    def _suite(self) -> int:
        record = self._record
        return self._log.suite(record.name, list(record.tasks), record.baseline)

    def event(self, event: Event) -> None:
        """Write what an event brings."""
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
        """Everything is written already."""

    def _source(self, row: TrialRow) -> TrialSource:
        return TrialSource(run=self._run.directory.header.id, trial=row.number)

    def _put(self, row: TrialRow) -> None:
        texts = {name: str(value) for name, value in row.trial.candidate.values.items()}
        if any(MARKER in text for text in texts.values()):
            why = f"a text that contains {MARKER}, in place of a possible secret, is not stored"
            self._run.tell(Warned(message=why), f"policy:{row.number}")
            return
        put = self._log.put(self._source(row), texts, expected=self._record.active)
        if put.active:
            self._run.tell(PolicyChanged(versions={**put.versions}), f"policy:{row.number}")
            return
        versions = ", ".join(f"{name} {number}" for name, number in put.versions.items())
        message = (
            f"someone else changed the active policy texts meanwhile, so they stay: {versions} "
            "is in the registry, and `burnish policy rollback` makes it active"
        )
        self._run.tell(Warned(message=message), f"policy:{row.number}")

    def _epoch(self, row: TrialRow) -> None:
        details = EpochDetails.of(row.trial)
        if details.runs is None:
            return
        end = datetime.fromisoformat(row.at)
        train = row.trial.train
        parents = self._log.registry.in_force()
        if row.trial.phase == BASELINE:  # the start of a suite may be another one
            parents |= self._record.baseline
        epoch = Epoch(
            suite=self._suite,
            number=details.epoch,
            started_at=(end - timedelta(seconds=row.seconds)).isoformat(timespec="seconds"),
            completed_at=end.isoformat(timespec="seconds"),
            mean_loss=None if train is None else train.measurement.loss,
            parents=parents,
            events=_events(row),
            runs=details.runs,
        )
        self._log.epoch(self._source(row), epoch)


def _events(row: TrialRow) -> list[Json]:
    """What the epoch did to a text, in the terms of the system that defined these tables."""
    details, decision = EpochDetails.of(row.trial), row.trial.decision
    if details.update is None or decision is None:
        return []
    kind = "update" if row.trial.accepted or details.stays else "rollback"
    update = codec(TextUpdate).encode(details.update)
    assert isinstance(update, dict)
    return [{"type": kind, **update, "reason": decision.reason}]


class PolicyPlugin(TargetPlugin):
    """The target `policy`: trained texts go into the policy registry."""

    kind: ClassVar[str] = "policy"
    Spec: ClassVar[type[TargetSpec]] = PolicySpec
    surfaces: ClassVar[tuple[type[Surface], ...]] = (TextSurface,)
    abilities: ClassVar[tuple[Ability, ...]] = (DELEGATIONS,)
    takes_cases: ClassVar[bool] = False

    runs_elsewhere: ClassVar[bool] = False

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        spec: PolicySpec = building.spec.target
        registry = find_registry(spec.db, spec.experiment)
        tasks = SuiteTasks(spec=spec, building=building)
        train, holdout, test = (tasks.read(key) for key in ("tasks", "holdout", "test"))
        policy = building.problems.attempt(
            "target.baseline_artifacts", lambda: _policy(spec, registry), PolicyTexts.shipped()
        )
        if strategy.needs_holdout and not spec.holdout:
            remedy = "name tasks under `holdout`, or train by epochs"
            message = f"{strategy.name} needs holdout tasks to decide"
            building.problems.add("target.holdout", message, remedy)
        if building.problems.found:
            return None
        target = DelegationTarget(policy, (*train, *holdout, *test), frozen=registry.pins())
        models = {id(each.team.models): each.team.models for each in tasks.loaded.values()}
        # The roles of the strategy share the limits and prices of the first workflow.
        building.models = next(iter(models.values()))
        managers = (task.workflow.manager for task in target.tasks.values())
        manager = next((each for each in managers if isinstance(each, ModelManager)), None)
        # Where the training starts, and which registry is meant, whatever variables say later.
        settled: dict[str, JsonValue] = {"policy_versions": dict[str, JsonValue](policy.versions)}
        if spec.experiment is None:
            settled["db"] = str(registry.path)
        notes = [f"policy registry: {registry.path}", *tasks.notes]
        if not holdout:
            notes.append("the suite has no holdout: its score is a training score")
        return TargetParts(
            target=target,
            dataset=Dataset(
                train=tuple(task.case for task in train),
                holdout=tuple(task.case for task in holdout),
                test=tuple(task.case for task in test),
            ),
            metrics=(DelegationLoss(),),
            objective=Objective(weights={NAME: 1.0}),
            own_model=None if manager is None else manager.role.client.ref,
            settled=settled,
            record={"suite": _SuiteRecord.start(spec, registry)},
            notes=tuple(notes),
            resources=(target, *models.values()),
        )

    def result_files(self, run: Run) -> ResultFiles | None:
        """The listener that updates the registry, if its texts are trained."""
        assert isinstance(run.target, DelegationTarget)
        # Delegations that were under way when a run was killed go on from here.
        run.target.move_in(run.directory)
        record = _SuiteRecord.of(run.directory.header.project.config)
        return None if record is None else _RegistryKeeper(run, record)

    def last_words(self, run: RunRecord) -> Iterable[str]:
        """The texts that a run made active, and the registry."""
        record = _SuiteRecord.of(run.header.project.config)
        changed: dict[str, int] = {}
        for change in read_all(run.events, PolicyChanged):
            changed.update(change.versions)
        if record is None or not changed:
            return
        for name, version in changed.items():
            yield f"policy   {name} v{version} is active"
        yield f"         burnish policy list --db {in_shell(record.registry)}"


def _policy(spec: PolicySpec, registry: PolicyRegistry) -> PolicyTexts:
    """The texts that the training starts from: as the suite says, else those in force.

    A resumed run starts from the same texts, whatever it has changed since.
    """
    if spec.policy_versions is not None:
        return registry.at(spec.policy_versions)
    versions, pins = spec.baseline_artifacts, registry.pins()
    problems = [
        Problem(
            where=name,
            message=f"the registry pins version {pins[name]}, but the suite names {number}",
            remedy=f"`burnish policy unpin {name}`, or change the suite",
        )
        for name, number in versions.items()
        if pins.get(name, number) != number
    ]
    if problems:
        raise ConfigError(problems)
    return registry.at(versions)
