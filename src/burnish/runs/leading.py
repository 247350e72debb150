"""Who is ahead after each trial, and where the files of that candidate lie."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from burnish.core.candidates import Candidate
from burnish.core.trials import SplitResult, TrialRow
from burnish.runs.events import Advanced, Event, read_all
from burnish.runs.exporting import CANDIDATES
from burnish.runs.standing import BASELINE


@dataclass(frozen=True, kw_only=True)
class Leader:
    """The incumbent, as the rows and events so far tell it."""

    number: int | None = None
    """The trial that brought it."""
    candidate: Candidate | None = None
    train: SplitResult | None = None
    holdout: SplitResult | None = None
    path: str | None = None
    """Its file or folder, from the run's folder."""

    def after(self, row: TrialRow) -> "Leader":
        """Who is ahead once this trial is recorded; its files are not written yet."""
        if not leads(row):
            return self
        return replace(self._led_by(row), path=self.path_at(row.number))

    def advanced(self, row: TrialRow, files: Sequence[str]) -> "Leader":
        """Who is ahead once the files of the last trial are written."""
        return replace(self._led_by(row), path=_path(files, row.number))

    def path_at(self, number: int) -> str | None:
        """Where the candidate of a later trial will lie: beside this one, under its own number."""
        if self.path is None or self.number is None:
            return None
        return self.path.replace(_name(self.number), _name(number))

    def _led_by(self, row: TrialRow) -> "Leader":
        trial = row.trial
        return Leader(
            number=row.number,
            candidate=trial.candidate,
            train=trial.train,
            holdout=trial.holdout or self.holdout,
        )


def leads(row: TrialRow) -> bool:
    """Whether the trial's candidate became the incumbent, or is where the run starts."""
    return row.trial.accepted or row.trial.phase == BASELINE


def files_by_trial(events: Iterable[Event]) -> Mapping[int, tuple[str, ...]]:
    """The files of each candidate that became the incumbent, by trial."""
    return {advanced.trial: advanced.files for advanced in read_all(events, Advanced)}


def _path(files: Sequence[str], number: int) -> str | None:
    """The file of a candidate, or the folder where it has several."""
    name = f"{CANDIDATES}/{_name(number)}"
    for file in files:
        if file.startswith(f"{name}/"):
            return name
        if file.startswith(f"{name}."):
            return file
    return None


def _name(number: int) -> str:
    return f"iter-{number:02d}"
