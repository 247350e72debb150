"""Telling what happens in a run: events, kept and delivered once, and ticks."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from burnish.core.candidates import Candidate
from burnish.core.cases import Split
from burnish.core.content import Json
from burnish.core.money import Spend
from burnish.core.stopping import Standing
from burnish.core.trials import Trial, TrialDetails, TrialRow
from burnish.runs.audit import axis_target, proposal_source
from burnish.runs.directory import RunDirectory
from burnish.runs.evaluating import Done
from burnish.runs.events import Event, Listener, Tick, TrialRecorded


def now() -> str:
    """The time, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Teller:
    """Tells listeners; silent about what was told before."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Tell this listener too, from now on."""
        self._listeners.append(listener)

    def announce(self, kind: str, key: str, data: Mapping[str, Json] | None = None) -> None:
        """Keep an event under its key; tell it unless it was told before."""
        told = self._directory.add_event(Event(id=key, kind=kind, at=now(), data=data or {}))
        if told is None:
            return
        for listener in self._listeners:
            listener.event(told)
        self._directory.delivered(told)

    def counter(
        self, candidate: Candidate, split: Split, whole: int, spent: Callable[[], Spend]
    ) -> Callable[[Done], None]:
        """Counts the cases of one evaluation as they end, and ticks."""
        done = failed = missing = 0

        def seen(ended: Done) -> None:
            nonlocal done, failed, missing
            done += 1
            failed += ended.result.outcome.failed
            missing += ended.result.outcome.missing
            if not self._listeners:
                return
            tick = Tick(
                candidate=candidate.id,
                split=split,
                done=done,
                total=whole,
                failed=failed,
                missing=missing,
                spent=spent(),
                billed=self._directory.journal.billed,
                active_seconds=self._directory.journal.active_seconds,
            )
            for listener in self._listeners:
                listener.tick(tick)

        return seen


def summary(row: TrialRow, standing: Standing, index: int) -> TrialRecorded:
    """What a progress view says about a trial, which is the `index`-th of its phase."""
    trial, decision, details = row.trial, row.trial.decision, TrialDetails.of(row.trial)
    train, holdout, before = trial.train, trial.holdout, details.parent_score
    part = holdout is not None and details.whole_holdout is False
    return TrialRecorded(
        trial=row.number,
        index=index,
        cycle=trial.cycle,
        phase=trial.phase,
        touched=trial.touched,
        axis_target=axis_target(trial),
        candidate=trial.candidate.id,
        note=trial.candidate.origin.note,
        accepted=trial.accepted,
        kept=trial.kept,
        code=turned_away(trial) or (decision.code if decision else ""),
        reason="; ".join(map(str, trial.problems)) or (decision.reason if decision else ""),
        numbers=dict(decision.numbers) if decision else {},
        train=None if train is None else train.measurement.loss,
        train_std=None if train is None else train.measurement.std,
        holdout=None if holdout is None else holdout.measurement.loss,
        holdout_cases=None if holdout is None else holdout.measurement.cases,
        usd=row.spend.usd,
        calls=row.spend.calls,
        seconds=round(row.seconds, 3),
        spent=standing.spent,
        best_score=standing.best_score,
        parent_train=None if train is None or before is None else 1 - before,
        part_of_holdout=True if part else None,
        primary=details.primary,
        train_score=details.train_score,
    )


def turned_away(trial: Trial) -> str:
    """The word for a candidate that was turned away; empty when it was not.

    `crit` where the critic was too unsure for an edit; `seen` for a point that was tried before,
    which is the only thing wrong with a point as a whole; `skipped` where nothing was proposed.
    """
    if not trial.problems:
        return ""
    if TrialDetails.of(trial).skipped:
        return "skipped"
    source = proposal_source(trial)
    answered = not any(proposal.error for proposal in trial.proposals)
    if "critic" in source and "applier" not in source and answered:
        return "crit"
    if "params" in source and not any(problem.where for problem in trial.problems):
        return "seen"
    return "turned away"
