"""Keeping what a training brings: its epochs, and its accepted texts, in the policy registry.

The registry is the user's: nothing in it becomes active before a trial is on record that says so,
and nothing at all where somebody else has changed it meanwhile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path

from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.core.trials import TrialRow
from burnish.runs.events import Advanced, Event, Tick, TrialRecorded, Warned
from burnish.runs.run import Run
from burnish.runs.standing import BASELINE
from burnish.strategies.epochs.proposing import EpochDetails, TaskRun, TextUpdate
from burnish.strategies.epochs.strategy import PolicyChanged
from burnish.system.redaction import MARKER
from burnish.targets.delegation.training import Epoch, EpochRun, Source, TrainingLog

KEPT = "suite"
"""Where `Project.config` of a training keeps all this."""


@dataclass(frozen=True, kw_only=True)
class SuiteRecord:
    """What a training is about, kept in the header of its run."""

    name: str
    registry: str
    tasks: Sequence[Json] = ()
    baseline: Mapping[str, int] = field(default_factory=dict[str, int])
    active: Mapping[str, int] = field(default_factory=dict[str, int])
    """The versions that were active when it began."""

    def to_json(self) -> Json:
        """For the header."""
        return codec(SuiteRecord).encode(self)

    @classmethod
    def of(cls, config: Mapping[str, Json]) -> "SuiteRecord | None":
        """What the config of a run's project keeps; None where it is no training."""
        kept = config.get(KEPT)
        return codec(SuiteRecord).decode(kept) if isinstance(kept, dict) else None


class RegistryKeeper:
    """Listens to a training and keeps its registry."""

    def __init__(self, run: Run, record: SuiteRecord) -> None:
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
        told = advanced or recorded
        row = None if told is None else self._run.directory.trial(told.trial)
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

    def _source(self, row: TrialRow) -> Source:
        return Source(run=self._run.directory.header.id, trial=row.number)

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
        found = self._log.registry.in_force()
        return {**found, **self._record.baseline} if row.trial.phase == BASELINE else found


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
