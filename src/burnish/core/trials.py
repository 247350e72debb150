"""Trials and their decisions, what screens a candidate, and why a run stops."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Self, TypeAlias

from burnish.core.cases import Case, Turn, labels_of, squeeze
from burnish.core.content import Json, codec
from burnish.core.errors import NotJournalable, Problem
from burnish.core.evaluations import Evaluation, Measurement, Objective
from burnish.core.money import NOTHING, Spend
from burnish.core.surfaces import Candidate, Surface, TextSurface, Value, out_of_bounds

MAX_MISSING = 0.25
"""The share of cases that may be missing before nobody can tell."""


class Verdict(StrEnum):
    """What a gate says."""

    ACCEPT = "accept"
    KEEP = "keep"
    """Worth building on, though it does not lead."""
    REJECT = "reject"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, kw_only=True)
class MissingCases:
    """What a comparison had to do without."""

    compared: int = 0
    """Cases that both sides have."""
    candidate: int = 0
    """Cases missing on the candidate's side."""
    incumbent: int = 0
    """Cases missing on the incumbent's side."""
    dropped: int = 0
    """Cases left out because either side lacks them."""
    lost: int = 0
    """Of the cases compared, those in which a metric that applied to the incumbent does not apply
    to the candidate: there it counts as the worst it could be."""
    silent: tuple[str, ...] = ()
    """The metrics of these cases."""
    allowed: float = 1.0
    """The share of cases in which something may be missing."""
    could_turn: bool = False
    """Whether what is missing could have turned the verdict."""

    @property
    def share(self) -> float:
        """The share of cases in which something is missing."""
        whole = self.compared + self.dropped
        return (self.dropped + self.lost) / whole if whole else 0.0

    @property
    def too_many(self) -> bool:
        """Too many are missing, or nothing is left, to tell anything."""
        return not self.compared or self.share > self.allowed


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What a gate decided, and everything it decided on."""

    gate: str
    verdict: Verdict
    code: str
    """The reason in one word, for tables: `better`, `noise`, `worse`, `holdout`, …"""
    reason: str
    """The reason in one sentence, made from `numbers`."""
    numbers: Mapping[str, float] = field(default_factory=dict[str, float])
    missing: MissingCases = field(default_factory=MissingCases)

    @property
    def accepted(self) -> bool:
        """Whether the candidate becomes the incumbent."""
        return self.verdict is Verdict.ACCEPT


_MIN_ANSWER_CHARS = 16
"""An answer of a single case that is this long does not get into a prompt by chance."""
_MIN_QUESTION_CHARS = 24
"""With the question this long beside it, even a short answer was copied."""


# -- Law 7 ----------------------------------------------------------------------------------------


def screen(
    candidate: Candidate,
    *,
    parent: Candidate,
    surfaces: Mapping[str, Surface],
    seen: Collection[str],
    training: Iterable[Case] = (),
) -> list[Problem]:
    """Every reason to turn this candidate away; none means it is worth paying for."""
    try:
        candidate.id  # noqa: B018 - a value that has no JSON form has no id either
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
    """Whether all that changed is the space around a text: models drop the last line's end."""
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
    """The training answers that a text gives away and that were not in it before.

    A long answer of a single case is copied wherever it turns up. Labels and formats belong in
    the text; together with a case's own question, they are copied too.
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
    if len(question) >= _MIN_QUESTION_CHARS and question in text:
        return True
    # What is part of a label comes into the text with the label.
    return len(answer) >= _MIN_ANSWER_CHARS and not any(answer in label for label in labels)


# -- Why a run ends -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class StopReason:
    """A stable code for programs, and a sentence for people."""

    code: str
    detail: str = ""


FINISHED = StopReason(code="finished", detail="the strategy had nothing left to try")


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where a run stands: everything a pure stopper may decide on, from recorded trials only."""

    spent: Spend = NOTHING
    trials: int = 0
    """Trials recorded, the baseline not counted."""
    proposals: int = 0
    """Answers of proposing roles used."""
    since_accept: int = 0
    """Trials since the last accept."""
    best_score: float | None = None
    """The incumbent's score, where a trial told one."""
    best_pass_rate: float | None = None
    """The share of cases in which the incumbent passes everything; None where any is missing."""
    best_passing: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Whether the incumbent passes each metric on every case."""
    best_means: Mapping[str, float] = field(default_factory=dict[str, float])
    """The incumbent's mean of each metric of which nothing is missing."""
    tracked_candidates: int = 0
    """Candidates accepted or kept in a pool so far, the baseline included."""


Stopper: TypeAlias = Callable[[Standing], StopReason | None]
"""Pure: the same standing gives the same answer, so a replay stops where the run did."""


# -- Trials ---------------------------------------------------------------------------------------


_CaseScores: TypeAlias = dict[str, dict[str, list[float | None]]]


@dataclass(frozen=True, kw_only=True)
class SplitResult:
    """What a trial measured on one split: the sums, and the scores of each case."""

    measurement: Measurement
    scores: Mapping[str, Mapping[str, list[float | None]]]
    """Case, metric, one value a repeat; None where it is missing."""
    passing: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Whether each metric passed on every case that has it."""
    errors: Mapping[str, str] = field(default_factory=dict[str, str])
    """The error of each case that failed or is missing."""
    failed_cases: tuple[str, ...] = ()
    """The cases that did not pass in one of their repeats; those that are missing are not here."""

    @classmethod
    def of(cls, evaluation: Evaluation, objective: Objective) -> "SplitResult":
        """What to keep of an evaluation."""
        return cls(
            measurement=objective.measure(evaluation),
            scores=_case_scores(evaluation),
            passing=_passing(evaluation),
            errors={
                result.case: result.outcome.failure.message
                for result in evaluation.results
                if result.outcome.failure is not None
            },
            failed_cases=_failed_cases(evaluation, objective),
        )


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What the proposer saw and said."""

    role: str
    request: Json = None
    answer: Json = None
    error: str = ""
    """Why there is no answer."""
    mended: tuple[str, ...] = ()
    """What was wrong with the answer as it was written, and read as it was meant."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One propose-evaluate-decide. A candidate turned away for free is a trial too."""

    candidate: Candidate
    phase: str = ""
    cycle: int = 0
    touched: tuple[str, ...] = ()
    """The surfaces this trial changed."""
    proposals: tuple[Proposal, ...] = ()
    problems: tuple[Problem, ...] = ()
    """Why the candidate was turned away before anything was paid."""
    train: SplitResult | None = None
    holdout: SplitResult | None = None
    decision: Decision | None = None
    details: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What only this strategy knows."""

    @property
    def accepted(self) -> bool:
        """Whether the candidate became the incumbent."""
        return self.decision is not None and self.decision.accepted

    @property
    def kept(self) -> bool:
        """Whether the candidate is built on, though it does not lead."""
        return self.decision is not None and self.decision.verdict is Verdict.KEEP


@dataclass(frozen=True, kw_only=True)
class TrialDetails:
    """What a strategy knows of a trial beyond what every trial has.

    These are the details that the ledger and progress views know; a strategy with more to keep
    derives its own class. Every field has a default: old journals may lack it.
    """

    optional: ClassVar[frozenset[str]] = frozenset(
        {
            *("axis_target", "proposal_source", "skipped", "parent_score", "whole_holdout"),
            *("primary", "train_score"),
        }
    )
    """Fields that are left out of the JSON where they are None."""

    axis_target: str | None = None
    """What the trial aimed at, where that is not what it touched."""
    proposal_source: Mapping[str, Json] | None = None
    """Where the proposal came from: the study, or the critic and the applier."""
    skipped: str | bool | None = None
    """Why nothing was proposed, or that nothing was."""
    parent_score: float | None = None
    """The parent's score on the same few cases of train."""
    whole_holdout: bool | None = None
    """False where a race was over before all of holdout was run."""
    primary: Json = None
    """The primary number of a task, in its own unit: its name, and the value on each split."""
    train_score: float | None = None
    """The incumbent's score on train."""

    def to_json(self) -> dict[str, Json]:
        """As the journal keeps it."""
        data = codec(type(self)).encode(self)
        assert isinstance(data, dict)
        return {k: v for k, v in data.items() if v is not None or k not in self.optional}

    @classmethod
    def of(cls, trial: Trial) -> Self:
        """The details of a trial; none where another strategy means something else by them."""
        try:
            return codec(cls).decode(dict(trial.details))
        except ValueError:
            return cls()


@dataclass(frozen=True, kw_only=True)
class TrialRow:
    """A trial as the ledger keeps it: numbered, timed, paid for."""

    schema: int = 1
    number: int
    trial: Trial
    spend: Spend = NOTHING
    """What was first used in this trial."""
    at: str = ""
    """When it was recorded, UTC."""
    seconds: float = 0.0
    """Active time since the trial before."""
    split_seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """Of that, what measuring each split took; left out where a result was there already."""

    def same_story(self, other: "TrialRow") -> bool:
        """Whether two rows tell the same, times aside."""
        return (self.number, self.trial, self.spend) == (other.number, other.trial, other.spend)


def _case_scores(evaluation: Evaluation) -> _CaseScores:
    """The scores of each case and metric, one value a repeat."""
    scores: _CaseScores = {}
    for result in evaluation.results:
        of_case = scores.setdefault(result.case, {})
        for metric in evaluation.metrics:
            if result.applies(metric):
                of_case.setdefault(metric, []).append(result.value(metric))
    return scores


def _failed_cases(evaluation: Evaluation, objective: Objective) -> tuple[str, ...]:
    names = evaluation.metrics if objective.required is None else objective.required
    failed = {result.case for result in evaluation.results if result.passed(names) is False}
    return tuple(case for case in evaluation.cases if case in failed)


def _passing(evaluation: Evaluation) -> dict[str, bool]:
    verdicts = {
        metric: [r.passed((metric,)) for r in evaluation.results if r.applies(metric)]
        for metric in evaluation.metrics
    }
    return {metric: all(passed) for metric, passed in verdicts.items()}
