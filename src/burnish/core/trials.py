"""Trials: one propose-evaluate-decide each, one row of the ledger."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self, TypeAlias

from burnish.core.candidates import Candidate
from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.core.decisions import Decision, Verdict
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation
from burnish.core.money import NOTHING, Spend
from burnish.core.objectives import Measurement, Objective

CaseScores: TypeAlias = dict[str, dict[str, list[float | None]]]


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
            scores=case_scores(evaluation),
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


def case_scores(evaluation: Evaluation) -> CaseScores:
    """The scores of each case and metric, one value a repeat."""
    found: CaseScores = {}
    for result in evaluation.results:
        of_case = found.setdefault(result.case, {})
        for metric in evaluation.metrics:
            if result.applies(metric):
                of_case.setdefault(metric, []).append(result.value(metric))
    return found


def _failed_cases(evaluation: Evaluation, objective: Objective) -> tuple[str, ...]:
    wanted = evaluation.metrics if objective.required is None else objective.required
    failed = {result.case for result in evaluation.results if result.passed(wanted) is False}
    return tuple(case for case in evaluation.cases if case in failed)


def _passing(evaluation: Evaluation) -> dict[str, bool]:
    verdicts = {
        metric: [r.passed((metric,)) for r in evaluation.results if r.applies(metric)]
        for metric in evaluation.metrics
    }
    return {metric: all(found) for metric, found in verdicts.items()}
