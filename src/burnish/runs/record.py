"""A run as it lies on disk, read without disturbing whoever drives it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from burnish.core.candidates import Candidate
from burnish.core.money import NOTHING, Spend, total
from burnish.core.trials import SplitResult, TrialRow
from burnish.core.words import counted, number
from burnish.effects.journal_reader import JournalReader
from burnish.runs.directory import LOCK, events, look_into, trial_rows
from burnish.runs.events import Event, RunEnded, SealedResult, SearchEnded, SessionBegun, read_all
from burnish.runs.header import Header
from burnish.runs.leading import files_by_trial
from burnish.runs.standing import BASELINE
from burnish.system import is_held

_ENDS = {
    "run_finished": "finished",
    "run_interrupted": "interrupted",
    "run_failed": "failed",
}


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """Everything that is known of a run."""

    folder: Path
    header: Header
    rows: tuple[TrialRow, ...]
    events: tuple[Event, ...]
    unrecorded: Spend = NOTHING
    """What was completed in the trial under way when it was last driven."""
    billed: Spend
    active_seconds: float
    driven: bool
    """Whether a process drives it now."""

    @classmethod
    def read(cls, folder: Path) -> "RunRecord":
        """Read a run's folder."""
        header = Header.read(folder)
        with look_into(folder, whole=True) as journal:
            rows = tuple(trial_rows(journal))
            return cls(
                folder=folder,
                header=header,
                rows=rows,
                unrecorded=_completed_since(journal, len(rows)),
                events=tuple(events(journal)),
                billed=journal.billed,
                active_seconds=journal.active_seconds,
                driven=is_held(folder / LOCK),
            )

    @property
    def status(self) -> str:
        """`running`, `finished`, `interrupted`, `failed`, or `killed`: the last can be resumed."""
        if self.driven:
            return "running"
        last = self._last_of_session()
        return _ENDS[last.kind] if last is not None else "killed"

    @property
    def ending(self) -> RunEnded | None:
        """How it ended, if it did."""
        last = None if self.driven else self._last_of_session()
        return None if last is None else last.read(RunEnded)

    @property
    def ended_at(self) -> str:
        """When it ended, if it did."""
        last = None if self.driven else self._last_of_session()
        return "" if last is None else last.at

    @property
    def search_end(self) -> str:
        """Why the strategy had nothing left to try, where it tells."""
        ends = [*read_all(self.events, SearchEnded)]
        return ends[-1].reason if ends else ""

    @property
    def trials(self) -> int:
        """How many trials were recorded, the baseline not counted."""
        return sum(row.trial.phase != BASELINE for row in self.rows)

    @property
    def accepted(self) -> int:
        """How many trials were accepted."""
        return sum(row.trial.accepted for row in self.rows)

    @property
    def baseline(self) -> TrialRow | None:
        """The trial that measured where the run started."""
        return next((row for row in self.rows if row.trial.phase == BASELINE), None)

    @property
    def best(self) -> TrialRow | None:
        """The last accepted trial, or the baseline."""
        accepted = [row for row in self.rows if row.trial.accepted]
        return accepted[-1] if accepted else self.baseline

    @property
    def best_candidate(self) -> Candidate | None:
        """The candidate to adopt."""
        return None if self.best is None else self.best.trial.candidate

    @property
    def spent(self) -> Spend:
        """What the results that were used cost; of a run that ended without saying what it spent,
        with what was completed since its last trial, which a resume will use."""
        spent = None if self.ending is None else self.ending.spent
        return total(row.spend for row in self.rows) + self.unrecorded if spent is None else spent

    @property
    def sealed(self) -> SealedResult | None:
        """What the sealed test said, if it was read."""
        return next(read_all(self.events, SealedResult), None)

    @property
    def files(self) -> Mapping[int, tuple[str, ...]]:
        """The files of each candidate that became the incumbent, by trial, from the folder."""
        return files_by_trial(self.events)

    def _last_of_session(self) -> Event | None:
        for event in reversed(self.events):
            if event.kind in _ENDS:
                return event
            if event.kind in SessionBegun.kinds:
                return None
        return None


def _completed_since(journal: JournalReader, trial: int) -> Spend:
    # Each effect by itself: what is nested in it has a row of its own.
    return total(next(iter(row.spends.values())) for row in journal.costs(since=trial))


def result_of(row: TrialRow | None, split: str) -> SplitResult | None:
    """A trial's result on `train` or `holdout`."""
    if row is None:
        return None
    return row.trial.train if split == "train" else row.trial.holdout


def loss_of(row: TrialRow | None, split: str) -> float | None:
    """A trial's loss on `train` or `holdout`, where it was measured."""
    result = result_of(row, split)
    return None if result is None else result.measurement.loss


def sealed_words(sealed: SealedResult) -> str:
    """The headline: what the sealed test said, and whether it says anything."""
    before, after = number(sealed.baseline_score), number(sealed.best_score)
    lost = f", {counted(sealed.missing, 'case')} missing" if sealed.missing else ""
    gain = sealed.gain
    if gain is None:
        same = sealed.baseline_score == sealed.best_score
        told = f"score {before}, baseline and best alike" if same else f"score {before} → {after}"
        return f"{told}{lost}"
    bounds = f"[{number(gain.low)}, {number(gain.high)}]"
    told = f"score {before} → {after}   gain {number(gain.mean)} {bounds}{lost}"
    if not gain.distinguishable:
        return f"{told}, not distinguishable from noise"
    return told if gain.mean > 0 else f"{told}, worse than the baseline"
