"""The events of a run, who leads it, and how candidates lie in its folder."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Protocol, TypeAlias, TypeVar

from burnish.core.cases import Split
from burnish.core.content import Json, codec
from burnish.core.money import Spend
from burnish.core.protocols import Target
from burnish.core.statistics import Interval
from burnish.core.surfaces import Candidate
from burnish.core.trials import SplitResult, Standing, Trial, TrialRow

Data = TypeVar("Data", bound="EventData")


@dataclass(frozen=True, kw_only=True)
class EventData:
    """What an event of one kind says. Every field has a default: old journals may lack it."""

    kinds: ClassVar[tuple[str, ...]] = ()
    """The kinds of event that say this; the first one is what `Run.tell` keeps it under."""
    optional: ClassVar[frozenset[str]] = frozenset()
    """Fields that are left out of the JSON where they are None."""

    def to_json(self) -> dict[str, Json]:
        """As the journal keeps it."""
        data = codec(type(self)).encode(self)
        assert isinstance(data, dict)
        return {k: v for k, v in data.items() if v is not None or k not in self.optional}


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened, kept in the journal under a stable id.

    Delivery is at least once: after a crash an event may come again, with the same id.
    """

    schema: int = 1
    id: str
    kind: str
    at: str
    """UTC, ISO 8601."""
    data: Mapping[str, Json] = field(default_factory=dict[str, Json])

    def read(self, kind: type[Data]) -> Data | None:
        """What it says, if it is of this kind."""
        return codec(kind).decode(dict(self.data)) if self.kind in kind.kinds else None


def read_all(events: Iterable[Event], kind: type[Data]) -> Iterator[Data]:
    """What the events of one kind say, in order."""
    return (data for event in events if (data := event.read(kind)) is not None)


@dataclass(frozen=True, kw_only=True)
class SessionBegun(EventData):
    """A process drives the run from here on."""

    kinds: ClassVar[tuple[str, ...]] = ("run_started", "run_resumed")

    run: str = ""
    folder: str = ""
    strategy: str = ""
    target: str = ""
    """The kind of target."""
    cases: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many cases each split has."""
    budget: Mapping[str, int | float] = field(default_factory=dict[str, int | float])
    trials_recorded: int = 1
    """The baseline included."""


@dataclass(frozen=True, kw_only=True)
class RunResumed(SessionBegun):
    """The same, of a run that was begun before."""

    kinds: ClassVar[tuple[str, ...]] = ("run_resumed",)


@dataclass(frozen=True, kw_only=True)
class RunEnded(EventData):
    """Nobody drives the run any more, and why."""

    kinds: ClassVar[tuple[str, ...]] = ("run_finished", "run_interrupted", "run_failed")
    optional: ClassVar[frozenset[str]] = frozenset({"code", "spent", "billed"})

    reason: str = ""
    code: str | None = None
    spent: Spend | None = None
    billed: Spend | None = None
    """Spent and billed are told by runs that did not fail."""


@dataclass(frozen=True, kw_only=True)
class RunFinished(RunEnded):
    """The run came to its end."""

    kinds: ClassVar[tuple[str, ...]] = ("run_finished", "run_interrupted")

    best: str = ""
    best_score: float | None = None


@dataclass(frozen=True, kw_only=True)
class RunInterrupted(RunFinished):
    """The run was stopped, and can be resumed."""

    kinds: ClassVar[tuple[str, ...]] = ("run_interrupted",)


@dataclass(frozen=True, kw_only=True)
class RunFailed(RunEnded):
    """The run failed; it can be resumed once the reason is mended."""

    kinds: ClassVar[tuple[str, ...]] = ("run_failed",)


@dataclass(frozen=True, kw_only=True)
class RunBroken(RunEnded):
    """The run was stopped at once."""

    kinds: ClassVar[tuple[str, ...]] = ("run_interrupted",)


@dataclass(frozen=True, kw_only=True)
class PhaseStarted(EventData):
    """A phase of a search begins."""

    kinds: ClassVar[tuple[str, ...]] = ("phase_started",)

    cycle: int = 0
    phase: str = ""


@dataclass(frozen=True, kw_only=True)
class PhaseEnded(EventData):
    """A phase of a search is over, and why."""

    kinds: ClassVar[tuple[str, ...]] = ("phase_ended",)

    cycle: int = 0
    phase: str = ""
    reason: str = ""
    trials: int = 0
    accepts: int = 0


@dataclass(frozen=True, kw_only=True)
class SearchEnded(EventData):
    """The strategy has nothing left to try, and why."""

    kinds: ClassVar[tuple[str, ...]] = ("search_ended",)

    cycle: int = 0
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class TrialRecorded(EventData):
    """A trial is on disk: what a progress view says about it."""

    kinds: ClassVar[tuple[str, ...]] = ("trial_recorded",)
    optional: ClassVar[frozenset[str]] = frozenset(
        {"parent_train", "part_of_holdout", "primary", "train_score"}
    )

    trial: int = 0
    index: int | None = None
    """Which of its phase it is; runs of an earlier burnish do not say."""
    cycle: int = 0
    phase: str = ""
    touched: tuple[str, ...] = ()
    axis_target: str = ""
    candidate: str = ""
    note: str = ""
    accepted: bool = False
    kept: bool = False
    code: str = ""
    reason: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict[str, float])
    """What the decision was made on."""
    train: float | None = None
    """The loss."""
    train_std: float | None = None
    holdout: float | None = None
    holdout_cases: int | None = None
    usd: float | None = None
    calls: int = 0
    seconds: float = 0.0
    spent: Spend | None = None
    """By the whole run."""
    best_score: float | None = None
    parent_train: float | None = None
    """The parent's loss on the same few cases, where it was run on them."""
    part_of_holdout: bool | None = None
    """True where a race was over before all of holdout was run."""
    primary: Json = None
    """The primary number of a task, in its own unit."""
    train_score: float | None = None
    """The incumbent's score on train, before the patch."""

    @property
    def measured(self) -> bool:
        """Whether the candidate was run at all."""
        return self.train is not None or self.holdout is not None


@dataclass(frozen=True, kw_only=True)
class Advanced(EventData):
    """A candidate became the incumbent, and its files are written."""

    kinds: ClassVar[tuple[str, ...]] = ("advanced",)

    trial: int = 0
    candidate: str = ""
    files: tuple[str, ...] = ()
    """From the run's folder."""


@dataclass(frozen=True, kw_only=True)
class SealedResult(EventData):
    """What the sealed test said, looked at once."""

    kinds: ClassVar[tuple[str, ...]] = ("sealed_test",)

    baseline_score: float | None
    best_score: float | None
    gain: Interval | None
    """None where the best is the baseline, or too few cases are there."""
    missing: int = 0


@dataclass(frozen=True, kw_only=True)
class Warned(EventData):
    """Something that the user should know."""

    kinds: ClassVar[tuple[str, ...]] = ("warning",)

    message: str = ""


@dataclass(frozen=True, kw_only=True)
class Stopping(EventData):
    """The run was asked to stop, and finishes the trial under way."""

    kinds: ClassVar[tuple[str, ...]] = ("stopping",)

    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Tick:
    """How far the evaluation under way is. Not kept: a replay has none."""

    candidate: str
    split: Split
    done: int
    total: int
    failed: int
    missing: int
    spent: Spend
    billed: Spend
    active_seconds: float


class Listener(Protocol):
    """Hears events and ticks."""

    def event(self, event: Event) -> None:
        """Something happened."""
        ...

    def tick(self, tick: Tick) -> None:
        """A case ended."""
        ...


# -- How accepted candidates lie in a run's folder ------------------------------------------------


CANDIDATES = "candidates"
BEST = "best"


@dataclass(frozen=True, kw_only=True)
class Exported:
    """A candidate's files and the links to them, by path relative to the run's folder."""

    files: Mapping[str, bytes]
    links: Mapping[str, str] = field(default_factory=dict[str, str])
    """A link's path, and what it leads to from its own folder."""


Exporter: TypeAlias = Callable[[Candidate, Path, int], Exported]
"""Candidate, run folder, number of the trial."""


def in_folders(target: Target) -> Exporter:
    """A folder for each candidate: `candidates/iter-03/`, and `candidates/best` to the leader."""

    def export(candidate: Candidate, folder: Path, number: int) -> Exported:
        name = f"iter-{number:02d}"
        files = target.export(candidate, folder / CANDIDATES / name)
        return Exported(
            files={f"{CANDIDATES}/{name}/{path}": content for path, content in files.items()},
            links={f"{CANDIDATES}/{BEST}": name},
        )

    return export


# -- The standing of a run ------------------------------------------------------------------------


BASELINE = "baseline"
"""The phase of the trial that measures where the run starts."""


def after(standing: Standing, trial: Trial) -> Standing:
    """The standing once this trial is recorded."""
    baseline = trial.phase == BASELINE
    leads = trial.accepted or baseline
    counted = replace(
        standing,
        trials=standing.trials + (not baseline),
        proposals=standing.proposals + len(trial.proposals),
        since_accept=0 if leads else standing.since_accept + 1,
        tracked_candidates=standing.tracked_candidates + (leads or trial.kept),
    )
    decisive = trial.holdout or trial.train
    if not leads or decisive is None:
        return counted
    return replace(
        counted,
        best_score=decisive.measurement.score,
        best_pass_rate=_pass_rate(decisive),
        best_passing=decisive.passing,
        best_means=_means(decisive),
    )


def _pass_rate(result: SplitResult) -> float | None:
    """What is missing may not look good: the rate of the rest is not the rate."""
    measured = result.measurement
    missing = measured.missing_cases or any(measured.missing.values())
    return None if missing else measured.pass_rate


def _means(result: SplitResult) -> dict[str, float]:
    """What is missing may not look good: its metric has no mean here."""
    missing = result.measurement.missing
    means = result.measurement.components
    return {metric: mean for metric, mean in means.items() if not missing.get(metric)}


# -- Who is ahead after each trial ----------------------------------------------------------------


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
