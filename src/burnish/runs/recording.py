"""Recording trials: numbered, timed, paid for, and on a replay compared with what is kept."""

from collections import Counter
from dataclasses import replace

from burnish.core.candidates import Candidate
from burnish.core.content import Json
from burnish.core.errors import ReplayDiverged, SealedTestRead
from burnish.core.money import NOTHING, Spend
from burnish.core.stopping import Standing
from burnish.core.trials import Proposal, Trial, TrialRow
from burnish.runs.directory import RunDirectory
from burnish.runs.standing import BASELINE, after
from burnish.runs.telling import now
from burnish.runs.timing import SplitTimes


class Recorder:
    """Keeps the trials of a run, and what they add up to."""

    def __init__(self, directory: RunDirectory, *, baseline: Candidate) -> None:
        self.trial = 0
        """The number of the trial under way."""
        self.standing = Standing()
        self.seen: set[str] = {baseline.id}
        """The candidates that were recorded."""
        self.tried = False
        """Whether anything but the baseline was measured."""
        self._directory = directory
        self._asked: list[Proposal] = []
        self._in_phase = Counter[tuple[int, str]]()
        self._spent_before = NOTHING
        self._seconds_before = directory.journal.active_seconds
        self.times = SplitTimes(directory.journal)

    def asking(self, role: str, request: Json) -> int:
        """Note what a role is asked; its place in the record is the order of asking."""
        self._asked.append(Proposal(role=role, request=request))
        return len(self._asked) - 1

    def answered(
        self, place: int, *, answer: Json = None, error: str = "", mended: tuple[str, ...] = ()
    ) -> None:
        """Note what came back."""
        self._asked[place] = replace(self._asked[place], answer=answer, error=error, mended=mended)

    def record(self, trial: Trial, *, spent: Spend, replaying: bool) -> tuple[TrialRow, int]:
        """Put a trial on disk; the row, and which of its phase it is."""
        active = self._directory.journal.active_seconds
        row = TrialRow(
            number=self.trial,
            trial=replace(trial, proposals=(*trial.proposals, *self._asked)),
            spend=spent.minus(self._spent_before),
            at=now(),
            seconds=active - self._seconds_before,
            split_seconds=self.times.taken(),
        )
        row = self._replayed(row) if replaying else self._recorded(row)
        self._asked = []
        self._spent_before, self._seconds_before = spent, active
        self.standing = after(self.standing, row.trial)
        self.seen.add(row.trial.candidate.id)
        self.tried = self.tried or _is_tried(row.trial)
        self.trial += 1
        self._in_phase[row.trial.cycle, row.trial.phase] += 1
        return row, self._in_phase[row.trial.cycle, row.trial.phase]

    def _recorded(self, row: TrialRow) -> TrialRow:
        if self._directory.journal.sealed_read:
            raise SealedTestRead(
                "the sealed test of this run was read, so no trial may follow",
                remedy="fork it with --fork: the new run marks its test as spent",
            )
        return self._directory.add_trial(row)

    def _replayed(self, row: TrialRow) -> TrialRow:
        kept = self._directory.trial(row.number)
        if kept is None or not kept.same_story(self._directory.redacted(row)):
            raise ReplayDiverged(
                f"trial {row.number} came out differently from what is recorded",
                remedy="the strategy, the target or the data behave differently from when this "
                "run was made; nothing was paid. Start a new run, or fork this one with --fork",
            )
        return kept


def _is_tried(trial: Trial) -> bool:
    return trial.phase != BASELINE and (trial.train is not None or trial.holdout is not None)
