"""The events of a run, its incumbent, and the files of candidates."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal, Protocol, TypeAlias, TypeVar

from burnish.core.cases import Split
from burnish.core.content import Json, JsonFields, codec
from burnish.core.errors import JournalTrouble
from burnish.core.money import Spend
from burnish.core.protocols import Target
from burnish.core.statistics import Interval
from burnish.core.surfaces import Candidate
from burnish.core.trials import SplitResult, Standing, Trial, TrialRow
from burnish.models.addresses import ModelAddress

Data = TypeVar("Data", bound="EventData")


@dataclass(frozen=True, kw_only=True)
class EventData(JsonFields):
    """The data of one kind of event. Every field has a default, since old journals may lack it."""

    kinds: ClassVar[tuple[str, ...]] = ()
    """The kinds of events with this data; `Run.tell` stores it under the first one."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened, stored in the journal under a stable id.

    Delivery is at least once: after a crash an event may come again with the same id.
    """

    schema: int = 1
    id: str
    kind: str
    at: str
    """UTC, ISO 8601."""
    data: Mapping[str, Json] = field(default_factory=dict[str, Json])

    def read(self, kind: type[Data]) -> Data | None:
        """Its data if it is of this kind, else None."""
        if self.kind not in kind.kinds:
            return None
        try:
            return codec(kind).decode(dict(self.data))
        except ValueError as error:
            raise JournalTrouble(
                f"the event '{self.id}' of the journal is damaged: it is no '{self.kind}'",
                remedy="restore the journal from a backup, or start a new run",
            ) from error


def read_all(events: Iterable[Event], kind: type[Data]) -> Iterator[Data]:
    """The data of all events of one kind, in order."""
    return (data for event in events if (data := event.read(kind)) is not None)


@dataclass(frozen=True, kw_only=True)
class SessionBegun(EventData):
    """A process starts to drive the run."""

    kinds: ClassVar[tuple[str, ...]] = ("run_started", "run_resumed")
    optional: ClassVar[frozenset[str]] = frozenset({"title", "models"})

    run: str = ""
    folder: str = ""
    strategy: str = ""
    target: str = ""
    """The kind of target."""
    title: str | None = None
    """What is optimised, such as the agent's name and model; None if the target does not say."""
    cases: Mapping[str, int] = field(default_factory=dict[str, int])
    """The number of cases in each split."""
    budget: Mapping[str, int | float] = field(default_factory=dict[str, int | float])
    trials_recorded: int = 1
    """The baseline included."""
    models: tuple[ModelAddress, ...] | None = None
    """Where the models are that will be asked; None if there are none but scripted ones."""


@dataclass(frozen=True, kw_only=True)
class RunResumed(SessionBegun):
    """The same for a run that was started before."""

    kinds: ClassVar[tuple[str, ...]] = ("run_resumed",)


@dataclass(frozen=True, kw_only=True)
class RunEnded(EventData):
    """No process drives the run any more, and why."""

    kinds: ClassVar[tuple[str, ...]] = ("run_finished", "run_interrupted", "run_failed")
    optional: ClassVar[frozenset[str]] = frozenset({"code", "spent", "billed"})

    reason: str = ""
    code: str | None = None
    spent: Spend | None = None
    billed: Spend | None = None
    """Runs that failed have neither `spent` nor `billed`."""


@dataclass(frozen=True, kw_only=True)
class RunFinished(RunEnded):
    """The run ended."""

    kinds: ClassVar[tuple[str, ...]] = ("run_finished", "run_interrupted")

    best: str = ""
    best_score: float | None = None


@dataclass(frozen=True, kw_only=True)
class RunInterrupted(RunFinished):
    """The run was stopped and can be resumed."""

    kinds: ClassVar[tuple[str, ...]] = ("run_interrupted",)


@dataclass(frozen=True, kw_only=True)
class RunFailed(RunEnded):
    """The run failed and can be resumed once the cause is fixed."""

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
    """A trial was stored, with what progress views show."""

    kinds: ClassVar[tuple[str, ...]] = ("trial_recorded",)
    optional: ClassVar[frozenset[str]] = frozenset(
        {"parent_train", "part_of_holdout", "primary", "train_score"}
    )

    trial: int = 0
    index: int | None = None
    """Its number in its phase; None in runs of an earlier burnish."""
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
    """The numbers behind the decision."""
    train: float | None = None
    """The loss."""
    train_std: float | None = None
    holdout: float | None = None
    holdout_cases: int | None = None
    usd: float | None = None
    calls: int = 0
    seconds: float = 0.0
    spent: Spend | None = None
    """By the run so far."""
    best_score: float | None = None
    parent_train: float | None = None
    """The parent's loss on the same few cases, if it was run on them."""
    part_of_holdout: bool | None = None
    """True if a race ended before all of holdout was run."""
    primary: Json = None
    """The primary number of a task, in its unit."""
    train_score: float | None = None
    """The incumbent's score on train, before the patch."""

    @property
    def measured(self) -> bool:
        """Whether the candidate was run at all."""
        return self.train is not None or self.holdout is not None


@dataclass(frozen=True, kw_only=True)
class Advanced(EventData):
    """A candidate became the incumbent and its files are written."""

    kinds: ClassVar[tuple[str, ...]] = ("advanced",)

    trial: int = 0
    candidate: str = ""
    files: tuple[str, ...] = ()
    """Relative to the run's folder."""


@dataclass(frozen=True, kw_only=True)
class Withheld(EventData):
    """The last incumbent is not offered: compared with the baseline once more, it is worse."""

    kinds: ClassVar[tuple[str, ...]] = ("withheld",)

    trial: int = 0
    """The trial of the last incumbent."""
    offered: int = 0
    """The trial that is offered in its place; 0 for the baseline."""
    reason: str = ""

    @property
    def words(self) -> str:
        """What is offered, and why."""
        instead = f"trial {self.offered}" if self.offered else "the baseline"
        return (
            f"trial {self.trial} is not offered: compared with the baseline once more, it is "
            f"worse ({self.reason}). {instead[0].upper()}{instead[1:]} is offered in its place"
        )


@dataclass(frozen=True, kw_only=True)
class SealedResult(EventData):
    """The result of the sealed test."""

    kinds: ClassVar[tuple[str, ...]] = ("sealed_test",)
    optional: ClassVar[frozenset[str]] = frozenset(
        {
            "primary",
            "fault",
            "unchecked",
            "score_change",
            "margin",
            "forgeable",
            "looked_at_before",
        }
    )

    baseline_score: float | None
    best_score: float | None
    gain: Interval | None
    """None if the best is the baseline, there are too few cases, or it was looked at before."""
    missing: int = 0
    primary: str | None = None
    """The number that was compared, if the run has one of its own: then both are in its unit."""
    fault: str | None = None
    """What makes the best one worse, whatever its number is, such as a broken constraint."""
    unchecked: str | None = None
    """Why nobody can tell whether the best one is better, whatever the interval shows: too much is
    missing, or a constraint that the baseline keeps could not be checked."""
    score_change: Interval | None = None
    """If something else than the score is to be gained, the change of the score,"""
    margin: float | None = None
    """and how much lower it may be."""
    forgeable: tuple[str, ...] | None = None
    """The numbers that decide, and that code of the best candidate could have written itself."""
    looked_at_before: bool | None = None
    """True if an earlier run, from which this one was forked, had read the test."""


ClaimBasis: TypeAlias = Literal["sealed test", "fresh draws", "selected on holdout"]
"""What a claim rests on; only the first two were not used to choose the winner."""
ClaimVerdict: TypeAlias = Literal["improved", "not shown", "worse", "unchanged", "looked at before"]
"""`looked at before`: a sealed test that an earlier run had read, so that it shows no gain."""


@dataclass(frozen=True, kw_only=True)
class Claim(EventData):
    """What a run may say of its winner, compared with the baseline."""

    kinds: ClassVar[tuple[str, ...]] = ("claim",)
    optional: ClassVar[frozenset[str]] = frozenset({"score_change", "margin", "forgeable"})

    candidate: str = ""
    """The winner; a run that searched on may have another one later."""
    basis: ClaimBasis = "selected on holdout"
    split: str = ""
    """The split that was measured; `train` in a run without holdout."""
    baseline_score: float | None = None
    best_score: float | None = None
    primary: str = ""
    """The number that was compared, if it is not the score."""
    gain: Interval | None = None
    """None if there are too few cases, if these scores chose the winner, or if the test was looked
    at before."""
    missing: int = 0
    """Cases that could not be compared."""
    verdict: ClaimVerdict = "not shown"
    """`improved` only if the whole interval is above zero."""
    reason: str = ""
    """Why nothing more can be said."""
    score_change: Interval | None = None
    """If the run is to save something, the change of the score, with its interval."""
    margin: float | None = None
    """How much lower the score may be in such a run."""
    forgeable: tuple[str, ...] | None = None
    """The numbers that decide, and that code of the winner could have written itself: then no gain
    is claimed."""


@dataclass(frozen=True, kw_only=True)
class SecondOpinion(EventData):
    """What a second judge says of baseline and best."""

    kinds: ClassVar[tuple[str, ...]] = ("second_opinion",)

    split: str
    baseline_score: float | None
    best_score: float | None
    gain: Interval | None
    """None if there are too few cases."""

    @property
    def agrees(self) -> bool:
        """Whether it sees a gain, too."""
        before, after = self.baseline_score, self.best_score
        return before is not None and after is not None and after > before


@dataclass(frozen=True, kw_only=True)
class ByLuck(EventData):
    """How often the run would accept an edit that changes nothing, as it begins."""

    kinds: ClassVar[tuple[str, ...]] = ("by_luck",)

    words: str = ""


@dataclass(frozen=True, kw_only=True)
class TextWithheld(EventData):
    """Held-out text was about to reach a role, and was withheld."""

    kinds: ClassVar[tuple[str, ...]] = ("text_withheld",)

    name: str = ""
    """The case or file whose text it is."""
    role: str = ""
    trial: int = 0
    """When it happened for the first time."""
    source: str = ""
    """What repeated the text."""

    @property
    def words(self) -> str:
        """What happened, in one sentence."""
        return (
            f"text of '{self.name}', which is held out, was withheld from the {self.role}: "
            f"it is repeated by {self.source}"
        )


@dataclass(frozen=True, kw_only=True)
class Warned(EventData):
    """Something that the user should know."""

    kinds: ClassVar[tuple[str, ...]] = ("warning",)

    message: str = ""


@dataclass(frozen=True, kw_only=True)
class Steered(EventData):
    """A person's note was taken in between two trials, or refused."""

    kinds: ClassVar[tuple[str, ...]] = ("steered",)

    action: str = ""
    """`try`, `tell`, `pin` or `unpin`."""
    by: str = ""
    sent_at: str = ""
    trial: int = 0
    """The next trial, the first one that it has an effect on."""
    surfaces: tuple[str, ...] = ()
    text: str = ""
    """The hint."""
    refused: str = ""
    """Why it has no effect; empty if it has one."""

    @property
    def what(self) -> str:
        """What the person did, without a name."""
        names = ", ".join(self.surfaces)
        own = {"try": f"tries an own {names}", "tell": f"tells the proposer: {self.text}"}
        return own.get(self.action) or f"{self.action}s {names}"

    @property
    def words(self) -> str:
        """Who did what, in one sentence."""
        end = f"; refused: {self.refused}" if self.refused else ""
        return f"{self.by} {self.what}{end}"


@dataclass(frozen=True, kw_only=True)
class Stopping(EventData):
    """The run was asked to stop and finishes the current trial."""

    kinds: ClassVar[tuple[str, ...]] = ("stopping",)

    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Tick:
    """The progress of the current evaluation. It is not stored, so a replay has none."""

    candidate: str
    split: Split
    done: int
    total: int
    failed: int
    missing: int
    spent: Spend
    billed: Spend
    active_seconds: float
    purpose: str = ""
    """What is measured once the search is over, in words; empty during the search."""


class Listener(Protocol):
    """Receives events and ticks."""

    def event(self, event: Event) -> None:
        """Receive an event."""
        ...

    def tick(self, tick: Tick) -> None:
        """Receive the progress after a case has ended."""
        ...


CANDIDATES = "candidates"
BEST = "best"


@dataclass(frozen=True, kw_only=True)
class Exported:
    """A candidate's files and the links to them, by path relative to the run's folder."""

    files: Mapping[str, bytes]
    links: Mapping[str, str] = field(default_factory=dict[str, str])
    """By path, what each link points to relative to its folder."""


Exporter: TypeAlias = Callable[[Candidate, Path, int], Exported]
"""Candidate, run folder, number of the trial."""


def in_folders(target: Target) -> Exporter:
    """A folder per candidate, such as `candidates/iter-03/`, and a link `candidates/best`."""

    def export(candidate: Candidate, folder: Path, number: int) -> Exported:
        name = _name(number)
        files = target.export(candidate, folder / CANDIDATES / name)
        return Exported(
            files={f"{CANDIDATES}/{name}/{path}": content for path, content in files.items()},
            links={f"{CANDIDATES}/{BEST}": name},
        )

    return export


ALARM = "silent"
"""The beginning of the key of a warning that every summary repeats."""
BASELINE = "baseline"
"""The phase of the trial that measures the start."""
PERSON = "person"
"""The origin of a candidate that a person sent to the run, and the phase of its trial."""


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
    # Missing results may not make the incumbent look better than it is.
    measured = decisive.measurement
    partial = measured.missing_cases or any(measured.missing.values())
    return replace(
        counted,
        best_score=measured.score,
        best_pass_rate=None if partial else measured.pass_rate,
        best_passing=decisive.passing,
        best_means={m: v for m, v in measured.components.items() if not measured.missing.get(m)},
    )


@dataclass(frozen=True, kw_only=True)
class Leader:
    """The incumbent according to the rows and events so far."""

    number: int | None = None
    """Its trial."""
    candidate: Candidate | None = None
    train: SplitResult | None = None
    holdout: SplitResult | None = None
    path: str | None = None
    """Its file or folder, relative to the run's folder."""

    def after(self, row: TrialRow) -> "Leader":
        """The incumbent once this trial is recorded, before its files are written."""
        if not leads(row):
            return self
        return replace(self._led_by(row), path=self.path_at(row.number))

    def advanced(self, row: TrialRow, files: Sequence[str]) -> "Leader":
        """The incumbent once the files of the last trial are written."""
        return replace(self._led_by(row), path=_path(files, row.number))

    def path_at(self, number: int) -> str | None:
        """The path of a later trial's candidate: the same with its number."""
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
    """Whether the trial's candidate became the incumbent or is the baseline."""
    return row.trial.accepted or row.trial.phase == BASELINE


def files_by_trial(events: Iterable[Event]) -> Mapping[int, tuple[str, ...]]:
    """By trial, the files of each candidate that became the incumbent."""
    return {advanced.trial: advanced.files for advanced in read_all(events, Advanced)}


def _path(files: Sequence[str], number: int) -> str | None:
    """The file of a candidate, or the folder if it has several."""
    name = f"{CANDIDATES}/{_name(number)}"
    for file in files:
        if file.startswith(f"{name}/"):
            return name
        if file.startswith(f"{name}."):
            return file
    return None


def _name(number: int) -> str:
    return f"iter-{number:02d}"
