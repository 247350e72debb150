"""Records trials with their times, and informs listeners."""

from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from burnish.core.cases import Split
from burnish.core.content import Json
from burnish.core.errors import ReplayDiverged, SealedTestRead
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import WorkUnit
from burnish.core.surfaces import Candidate
from burnish.core.trials import Proposal, Standing, Trial, TrialDetails, TrialRow
from burnish.journal.journal import Journal
from burnish.runs.directory import RunDirectory
from burnish.runs.evaluation import EvaluatedCase
from burnish.runs.events import BASELINE, Event, Listener, Tick, TrialRecorded, after
from burnish.runs.ledger import axis_target, proposal_source


def now() -> str:
    """The current time, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Announcer:
    """Stores events and delivers them to listeners once."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Add a listener for events from now on."""
        self._listeners.append(listener)

    def announce(self, kind: str, key: str, data: Mapping[str, Json] | None = None) -> None:
        """Store an event under its key and deliver it unless it was delivered before."""
        event = self._directory.add_event(Event(id=key, kind=kind, at=now(), data=data or {}))
        if event is None:
            return
        for listener in self._listeners:
            listener.event(event)
        self._directory.delivered(event)

    def counter(
        self,
        split: Split,
        whole: int,
        spent: Callable[[], Spend],
        *,
        purpose: str = "",
    ) -> Callable[[WorkUnit, EvaluatedCase], None]:
        """A function that counts the cases of one evaluation as they end, and ticks."""
        done = failed = missing = 0

        def seen(unit: WorkUnit, ended: EvaluatedCase) -> None:
            nonlocal done, failed, missing
            done += 1
            failed += ended.result.outcome.failed
            missing += ended.result.outcome.missing
            if not self._listeners:
                return
            tick = Tick(
                candidate=unit.candidate.id,
                split=split,
                done=done,
                total=whole,
                failed=failed,
                missing=missing,
                spent=spent(),
                billed=self._directory.journal.billed,
                active_seconds=self._directory.journal.active_seconds,
                purpose=purpose,
            )
            for listener in self._listeners:
                listener.tick(tick)

        return seen


def summary(row: TrialRow, standing: Standing, index: int) -> TrialRecorded:
    """The event for a trial, which is the `index`-th of its phase."""
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
    """The word for a candidate that was rejected before it was run; empty when it was not.

    `crit` if the critic was too unsure for an edit; `seen` for a point that was tried before,
    which is all that can be wrong with a whole point; `skipped` if nothing was proposed.
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


class _SplitTimes:
    """The active time of each split in the current trial, unless results came from a journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: dict[str, float] = {}
        self._unknown: set[str] = set()

    @contextmanager
    def measuring(self, split: str, runs: int) -> Generator[None, None, None]:
        """Time an evaluation of so many runs; one that does not finish has no time."""
        journal, whole = self._journal, False
        started, billed = journal.active_seconds, journal.billed.metric_calls
        try:
            yield
            whole = journal.billed.metric_calls - billed >= runs
        finally:
            if whole:
                taken = journal.active_seconds - started
                self._known[split] = self._known.get(split, 0.0) + taken
            else:
                self._unknown.add(split)

    def taken(self) -> dict[str, float]:
        """The seconds of each split with a known time; resets for the next trial."""
        known, unknown = self._known, self._unknown
        self._known, self._unknown = {}, set()
        return {name: seconds for name, seconds in known.items() if name not in unknown}


class Recorder:
    """Records the trials of a run and keeps their totals."""

    def __init__(self, directory: RunDirectory, *, baseline: Candidate) -> None:
        self.trial = 0
        self.standing = Standing()
        self.seen: set[str] = {baseline.id}
        self.tried = False
        """Whether anything but the baseline was measured."""
        self._directory = directory
        self._proposals: list[Proposal] = []
        self._in_phase = Counter[tuple[int, str]]()
        self._spent_before = NOTHING
        self._seconds_before = directory.journal.active_seconds
        self.times = _SplitTimes(directory.journal)

    def asking(self, role: str, request: Json) -> int:
        """Add a request to a role to the record, and return its place there."""
        self._proposals.append(Proposal(role=role, request=request))
        return len(self._proposals) - 1

    def answered(self, place: int, proposal: Proposal) -> None:
        """Replace a request by the whole proposal."""
        self._proposals[place] = proposal

    def record(self, trial: Trial, *, spent: Spend, replaying: bool) -> tuple[TrialRow, int]:
        """Store a trial on disk; the row, and its index in its phase."""
        active = self._directory.journal.active_seconds
        row = TrialRow(
            number=self.trial,
            trial=replace(trial, proposals=(*trial.proposals, *self._proposals)),
            spend=spent.minus(self._spent_before),
            at=now(),
            seconds=active - self._seconds_before,
            split_seconds=self.times.taken(),
        )
        row = self._replayed(row) if replaying else self._recorded(row)
        self._proposals = []
        self._spent_before, self._seconds_before = spent, active
        trial = row.trial
        self.standing = after(self.standing, trial)
        self.seen.add(trial.candidate.id)
        self.tried |= trial.phase != BASELINE and (trial.train or trial.holdout) is not None
        self.trial += 1
        self._in_phase[trial.cycle, trial.phase] += 1
        return row, self._in_phase[trial.cycle, trial.phase]

    def _recorded(self, row: TrialRow) -> TrialRow:
        if self._directory.journal.sealed_read:
            raise SealedTestRead(
                "the sealed test of this run was read, so it cannot record another trial",
                remedy="fork it with --fork: the new run marks its test as spent",
            )
        return self._directory.add_trial(row)

    def _replayed(self, row: TrialRow) -> TrialRow:
        recorded = self._directory.trial(row.number)
        if recorded is None or not recorded.same_story(self._directory.redacted(row)):
            raise ReplayDiverged(
                f"trial {row.number} differs from what is recorded",
                remedy="the strategy, the target or the data now behave differently than when this "
                "run was made; nothing was paid. Start a new run, or fork this one with --fork",
            )
        return recorded
