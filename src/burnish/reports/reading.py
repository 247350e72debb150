"""A run as it lies on disk, read without disturbing whoever drives it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from burnish.core.candidates import Candidate
from burnish.core.codec import codec
from burnish.core.money import NOTHING, Spend, total
from burnish.core.stopping import FINISHED
from burnish.core.trials import SplitResult, TrialRow
from burnish.effects.journal_reader import JournalReader
from burnish.reports.coordinate_words import ended_words
from burnish.runs.directory import LOCK, events, look_into, trial_rows
from burnish.runs.driving import SealedResult
from burnish.runs.events import Event
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
    def ending(self) -> Event | None:
        """The event that told how it ended, if it did."""
        return None if self.driven else self._last_of_session()

    @property
    def reason(self) -> str:
        """Why it ended, with the code that programs look at."""
        if self.ending is None:
            return ""
        code, words = self.ending.data.get("code"), self.ending.data.get("reason")
        if code == FINISHED.code and self.search_end:
            return ended_words(self.search_end)
        return f"{code}: {words}" if code and code != self.status else str(words)

    @property
    def search_end(self) -> str:
        """Why the strategy had nothing left to try, where it tells."""
        told = [event for event in self.events if event.kind == "search_ended"]
        return str(told[-1].data.get("reason")) if told else ""

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
        """What the results that were used cost; of a run that did not say goodbye, with what was
        completed since its last trial, which a resume will use."""
        if self.ending is not None and (spent := self.ending.data.get("spent")) is not None:
            return codec(Spend).decode(spent)
        return total(row.spend for row in self.rows) + self.unrecorded

    @property
    def sealed(self) -> SealedResult | None:
        """What the sealed test said, if it was read."""
        told = next((event for event in self.events if event.kind == "sealed_test"), None)
        return None if told is None else codec(SealedResult).decode(dict(told.data))

    @property
    def files(self) -> Mapping[int, tuple[str, ...]]:
        """The files of each candidate that became the incumbent, by trial, from the folder."""
        found = files_by_trial(self.events)
        return {number: tuple(map(str, names)) for number, names in found.items()}

    def _last_of_session(self) -> Event | None:
        for event in reversed(self.events):
            if event.kind in _ENDS:
                return event
            if event.kind in {"run_started", "run_resumed"}:
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
