"""Trials and their decisions, what screens a candidate, and why a run stops."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, ClassVar, Self, TypeAlias

from pydantic import Field, PlainSerializer

from burnish.core.cases import Case, Turn, labels_of, squeeze
from burnish.core.content import Json, JsonFields, codec
from burnish.core.errors import NotJournalable, Problem
from burnish.core.evaluations import Evaluation, Measurement, Objective
from burnish.core.money import NOTHING, Spend
from burnish.core.surfaces import Candidate, Surface, TextSurface, Value, out_of_bounds

MAX_MISSING = 0.25
"""The share of cases that may be missing in a comparison."""


class Verdict(StrEnum):
    """The verdict of a gate."""

    ACCEPT = "accept"
    KEEP = "keep"
    """Worth building on, although it is not the best."""
    REJECT = "reject"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, kw_only=True)
class MissingCases:
    """The cases that are missing in a comparison."""

    compared: int = 0
    """Cases that both sides have."""
    candidate: int = 0
    """Cases missing on the candidate's side."""
    incumbent: int = 0
    """Cases missing on the incumbent's side."""
    dropped: int = 0
    """Cases left out because they are missing on either side."""
    lost: int = 0
    """Compared cases in which a metric applied to the incumbent, but not to the candidate: there
    it counts as its worst."""
    silent: tuple[str, ...] = ()
    """The metrics of these cases."""
    allowed: float = 1.0
    """The share of cases in which something may be missing."""
    could_turn: bool = False
    """Whether what is missing could have turned the verdict."""

    @property
    def share(self) -> float:
        whole = self.compared + self.dropped
        return (self.dropped + self.lost) / whole if whole else 0.0

    @property
    def too_many(self) -> bool:
        """Whether too many cases are missing, or none is left to compare."""
        return not self.compared or self.share > self.allowed


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A gate's verdict and everything it is based on."""

    gate: str
    verdict: Verdict
    code: str
    """The reason in one word, for tables: `better`, `noise`, `worse`, `holdout`, …"""
    reason: str
    """The reason in one sentence, based on `numbers`."""
    numbers: Mapping[str, float] = field(default_factory=dict[str, float])
    missing: MissingCases = field(default_factory=MissingCases)

    @property
    def accepted(self) -> bool:
        """Whether the candidate becomes the incumbent."""
        return self.verdict is Verdict.ACCEPT


def screen(
    candidate: Candidate,
    *,
    parent: Candidate,
    surfaces: Mapping[str, Surface],
    seen: Collection[str],
    training: Iterable[Case] = (),
) -> list[Problem]:
    """Every reason to reject this candidate before it is run; empty if it is worth running."""
    try:
        candidate.id  # noqa: B018 - a value without a JSON form has no id
    except NotJournalable as error:
        return [Problem(message=error.message)]
    if candidate.id == parent.id or _reads_the_same(candidate, parent, surfaces):
        return [Problem(message="the candidate changes nothing")]
    if candidate.id in seen:
        return [Problem(message=f"the same candidate ({candidate.id}) was tried before")]
    gone = sorted(set(parent.values) - set(candidate.values))
    problems = [Problem(where=name, message="the value is gone") for name in gone]
    problems += out_of_bounds(candidate.values, surfaces)
    cases = tuple(training)
    for name, surface in surfaces.items():
        text, before = candidate.values.get(name), parent.values.get(name)
        if isinstance(surface, TextSurface) and isinstance(text, str) and text != before:
            problems += _copied_answers(name, text, cases, already=before)
    return problems


def _reads_the_same(
    candidate: Candidate, parent: Candidate, surfaces: Mapping[str, Surface]
) -> bool:
    """Whether only white space around texts changed: models drop the last newline."""
    return set(candidate.values) == set(parent.values) and all(
        value == parent.values[name]
        or (
            isinstance(surfaces.get(name), TextSurface)
            and _bare(value) == _bare(parent.values[name])
        )
        for name, value in candidate.values.items()
    )


def _bare(value: Value) -> Value:
    return value.strip() if isinstance(value, str) else value


def _copied_answers(
    surface: str, text: str, cases: Collection[Case], *, already: Value | None = None
) -> list[Problem]:
    """Problems for training answers that a text gives away and did not contain before.

    A long answer of a single case counts as copied wherever it occurs. Labels and formats belong
    in the text, and count as copied only together with the case's question.
    """
    new, old = squeeze(text), squeeze(already) if isinstance(already, str) else ""
    labels = labels_of(cases)

    def copied(turn: Turn) -> bool:
        return _gives_away(new, turn, labels) and not _gives_away(old, turn, labels)

    return [
        Problem(
            where=surface,
            message=f"the text contains the answer to training case '{case.id}'",
            remedy="state the rule behind it; demonstrations are the place for examples",
        )
        for case in cases
        if any(map(copied, case.turns))
    ]


def _gives_away(text: str, turn: Turn, labels: Collection[str]) -> bool:
    answer, question = squeeze(turn.expected or ""), squeeze(turn.input)
    if not answer or answer not in text:
        return False
    if len(question) >= 24 and question in text:  # even a short answer was copied then
        return True
    # Texts this long are no coincidence, unless they are part of a label.
    return len(answer) >= 16 and not any(answer in label for label in labels)


@dataclass(frozen=True, kw_only=True)
class StopReason:
    """A stable code for programs, and a sentence for people."""

    code: str
    detail: str = ""


FINISHED = StopReason(code="finished", detail="the strategy had nothing left to try")


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The totals of a run's recorded trials, on which stop reasons are based."""

    spent: Spend = NOTHING
    trials: int = 0
    """Recorded trials without the baseline."""
    proposals: int = 0
    """Answers of proposing roles."""
    since_accept: int = 0
    """Trials since the last accept."""
    best_score: float | None = None
    """The incumbent's score, if it was measured."""
    best_pass_rate: float | None = None
    """The share of cases in which the incumbent passes everything; None if any is missing."""
    best_passing: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Whether the incumbent passes each metric on every case."""
    best_means: Mapping[str, float] = field(default_factory=dict[str, float])
    """The incumbent's mean of each metric without missing scores."""
    tracked_candidates: int = 0
    """Candidates accepted or kept in a pool so far, including the baseline."""


_CaseScores: TypeAlias = dict[str, dict[str, list[float | None]]]


@dataclass(frozen=True, kw_only=True)
class SplitResult:
    """What a trial measured on one split: the totals, and the scores of each case."""

    measurement: Measurement
    scores: Annotated[Mapping[str, Mapping[str, list[float | None]]], PlainSerializer(dict)]
    """By case and metric, one value per repeat; None if it is missing."""
    passing: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Whether each metric passed on every case that has it."""
    errors: Mapping[str, str] = field(default_factory=dict[str, str])
    """The error of each case that failed or is missing."""
    failed_cases: tuple[str, ...] = ()
    """The cases that did not pass in one of their repeats, without missing ones."""

    @classmethod
    def of(cls, evaluation: Evaluation, objective: Objective) -> "SplitResult":
        """Summarize an evaluation."""
        names = evaluation.metrics if objective.required is None else objective.required
        results = evaluation.results
        failed = {r.case for r in results if r.outcome.failed or r.passed(names) is False}
        return cls(
            measurement=objective.measure(evaluation),
            scores=_case_scores(evaluation),
            passing=_passing(evaluation),
            errors={
                result.case: result.outcome.failure.message
                for result in results
                if result.outcome.failure is not None
            },
            failed_cases=tuple(case for case in evaluation.cases if case in failed),
        )


ASKED_AGAIN = "asked again"
"""How the note begins if a first answer was of no use, and a second one was requested."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A proposer's request and answer."""

    role: str
    request: Json = None
    answer: Json = None
    error: str = ""
    """Why there is no answer."""
    mended: tuple[str, ...] = ()
    """Errors in the answer that were repaired, and why a second one was requested."""
    unusable: Annotated[tuple[str, ...], Field(exclude_if=lambda texts: not texts)] = ()
    """What the role answered and could not be used, as the model wrote it."""

    @property
    def asked_again(self) -> bool:
        """Whether a first answer was of no use."""
        return any(note.startswith(ASKED_AGAIN) for note in self.mended)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One propose-evaluate-decide, also for a candidate that was rejected before it was run."""

    candidate: Candidate
    phase: str = ""
    cycle: int = 0
    touched: tuple[str, ...] = ()
    """The surfaces this trial changed."""
    proposals: tuple[Proposal, ...] = ()
    problems: tuple[Problem, ...] = ()
    """Why the candidate was rejected before it was run."""
    train: SplitResult | None = None
    holdout: SplitResult | None = None
    decision: Decision | None = None
    details: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Data of the strategy."""

    @property
    def accepted(self) -> bool:
        """Whether the candidate became the incumbent."""
        return self.decision is not None and self.decision.accepted

    @property
    def kept(self) -> bool:
        """Whether the candidate is built on, although it is not the best."""
        return self.decision is not None and self.decision.verdict is Verdict.KEEP


@dataclass(frozen=True, kw_only=True)
class TrialDetails(JsonFields):
    """A strategy's data about a trial that the ledger and progress views read.

    A strategy with more data derives a class. Every field has a default, since old journals may
    lack it.
    """

    optional: ClassVar[frozenset[str]] = frozenset(
        {
            *("axis_target", "proposal_source", "skipped", "parent_score", "whole_holdout"),
            *("primary", "train_score"),
        }
    )

    axis_target: str | None = None
    """What the trial aimed at, if that is not what it touched."""
    proposal_source: Mapping[str, Json] | None = None
    """Where the proposal came from: the study, or the critic and the applier."""
    skipped: str | bool | None = None
    """Why nothing was proposed, or just True."""
    parent_score: float | None = None
    """The parent's score on the same few cases of train."""
    whole_holdout: bool | None = None
    """False if a race ended before all of holdout was run."""
    primary: Json = None
    """The name of a task's primary number, and its value on each split."""
    train_score: float | None = None
    """The incumbent's score on train."""

    @classmethod
    def of(cls, trial: Trial) -> Self:
        """The details of a trial; empty if another strategy uses these names differently."""
        try:
            return codec(cls).decode(dict(trial.details))
        except ValueError:
            return cls()


@dataclass(frozen=True, kw_only=True)
class TrialRow:
    """A trial with its number, time and cost, as the ledger stores it."""

    schema: int = 1
    number: int
    trial: Trial
    spend: Spend = NOTHING
    """The cost of results that were first used in this trial."""
    at: str = ""
    """When it was recorded, UTC."""
    seconds: float = 0.0
    """Active time since the previous trial."""
    split_seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """How long measuring each split took; left out if results came from a journal."""

    def same_story(self, other: "TrialRow") -> bool:
        """Whether two rows are the same apart from times."""
        return (self.number, self.trial, self.spend) == (other.number, other.trial, other.spend)


def _case_scores(evaluation: Evaluation) -> _CaseScores:
    scores: _CaseScores = {}
    for result in evaluation.results:
        of_case = scores.setdefault(result.case, {})
        for metric in evaluation.metrics:
            if result.applies(metric):
                of_case.setdefault(metric, []).append(result.value(metric))
    return scores


def _passing(evaluation: Evaluation) -> dict[str, bool]:
    verdicts = {
        metric: [r.passed((metric,)) for r in evaluation.results if r.applies(metric)]
        for metric in evaluation.metrics
    }
    return {metric: all(passed) for metric, passed in verdicts.items()}
