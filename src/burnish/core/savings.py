"""What a candidate costs beside another, and whether its score stays within a margin."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from burnish.core.evaluations import CaseResult, Evaluation, Objective, mean
from burnish.core.money import to_usd
from burnish.core.statistics import Interval, paired_interval

Saved: TypeAlias = Literal["usd", "tokens", "seconds"]
"""What is saved, for each run of a case."""
SAVED_WORDS: dict[Saved, str] = {
    "usd": "USD per 1,000 cases",
    "tokens": "tokens a case",
    "seconds": "seconds a case",
}


@dataclass(frozen=True, kw_only=True)
class Saving:
    """Two evaluations beside each other: what they cost, and their scores."""

    before: float
    """The mean amount of a case."""
    after: float
    saved: Interval
    """Of a case; above zero is a saving."""
    score: Interval
    """The change of the score; below zero is a loss."""
    scores: tuple[float, float]
    """Before and after, over the same cases."""

    @property
    def share(self) -> float:
        """The part of the amount that is saved."""
        return 1 - self.after / self.before if self.before else 0.0

    def within(self, margin: float) -> bool:
        """Whether the score is shown not to be lower by more than the margin."""
        return self.score.low >= -margin


def unit_of(evaluation: Evaluation, *, faster: bool) -> Saved | None:
    """What can be saved: time, or US dollars, or tokens where no run has a price above zero."""
    if faster:
        return "seconds"
    units: tuple[Saved, ...] = ("usd", "tokens")
    return next((unit for unit in units if _is_known(evaluation.results, unit)), None)


def _is_known(results: Iterable[CaseResult], unit: Saved) -> bool:
    amounts = [_amount(result, unit) for result in results if not result.outcome.missing]
    known = [amount for amount in amounts if amount is not None]
    return len(known) == len(amounts) and any(known)


def _amount(result: CaseResult, unit: Saved) -> float | None:
    outcome = result.outcome
    if unit == "seconds":
        return outcome.seconds
    if unit == "tokens":
        return float(outcome.usage.input_tokens + outcome.usage.output_tokens)
    # Of a thousand cases: a single one costs too little to read.
    return None if outcome.nano_usd is None else to_usd(1_000 * outcome.nano_usd)


def saving(
    after: Evaluation, before: Evaluation, objective: Objective, unit: Saved
) -> Saving | None:
    """The saving over the cases that both sides have; None where it cannot be computed.

    A failed run costs at least what the other side's run of the case costs: who crashes early
    saves nothing.
    """
    amounts = list(_amounts(after, before, objective, unit))
    if not amounts:
        return None
    saved = [each.was - each.spent for each in amounts]
    reach = max(abs(amount) for amount in saved) or 1.0
    interval = paired_interval(saved, span=(-reach, reach))
    change = paired_interval([each.score - each.earlier for each in amounts])
    if interval is None or change is None:
        return None
    return Saving(
        before=mean([each.was for each in amounts]),
        after=mean([each.spent for each in amounts]),
        saved=interval,
        score=change,
        scores=(mean([each.earlier for each in amounts]), mean([each.score for each in amounts])),
    )


@dataclass(frozen=True, kw_only=True)
class _CaseAmounts:
    """One case on both sides."""

    spent: float
    was: float
    score: float
    earlier: float


def _amounts(
    after: Evaluation, before: Evaluation, objective: Objective, unit: Saved
) -> Iterator[_CaseAmounts]:
    for case in after.cases:
        new, old = after.of_case(case), before.of_case(case)
        score, earlier = (objective.case_score(side, case) for side in (after, before))
        was, spent = _mean(old, unit), _mean(new, unit)
        if was is None or spent is None or score is None or earlier is None:
            continue
        failed = any(result.outcome.failed for result in new)
        yield _CaseAmounts(
            spent=max(spent, was) if failed else spent, was=was, score=score, earlier=earlier
        )


def _mean(results: Sequence[CaseResult], unit: Saved) -> float | None:
    amounts = [_amount(result, unit) for result in results if not result.outcome.missing]
    known = [amount for amount in amounts if amount is not None]
    return mean(known) if known and len(known) == len(results) else None
