"""Statistics of few cases: intervals, pass@k and pass^k, races, and savings."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import comb
from typing import Literal, TypeAlias

from burnish.core.evaluations import CaseResult, Evaluation, Objective, mean
from burnish.core.money import to_usd
from burnish.core.surfaces import EPSILON

FUTILE = 1.5
"""How many standard deviations of the remaining cases a challenger may be behind."""
_USUAL_SPREAD, _USUAL_WEIGHT = 0.5, 2.0
"""The prior of the spread of gains, and how many cases it counts as."""


@dataclass(frozen=True, kw_only=True)
class Race:
    """A challenger against the incumbent, part of the way through the cases."""

    gains: tuple[float, ...]
    """Challenger minus incumbent, for each case so far that both have."""
    room: tuple[float, ...]
    """The most that each remaining case could add: one minus the incumbent's score."""
    promised: float = 0.0
    """What the remaining cases are known to add: in a second run, half of the first."""
    slack: float | None = None
    """How far behind it may end; None if it must win."""

    @property
    def ahead(self) -> float:
        return math.fsum(self.gains)

    @property
    def best_end(self) -> float:
        """The final sum if every remaining case went as well as it can."""
        return self.ahead + math.fsum(self.room)

    @property
    def far_behind(self) -> bool:
        """Whether the sum so far is below zero by more than its spread."""
        return self.ahead < -math.sqrt(math.fsum(gain * gain for gain in self.gains)) - EPSILON

    def hope(self) -> Literal["open", "hopeless", "futile"]:
        """Whether the challenger can still win, and is likely enough to."""
        if self._falls_short(self.best_end):
            return "hopeless"
        chance = FUTILE * spread_of(self.gains) * math.sqrt(len(self.room))
        if self.room and self._falls_short(self.ahead + self.promised + chance):
            return "futile"
        return "open"

    def _falls_short(self, end: float) -> bool:
        return end <= EPSILON if self.slack is None else end < -self.slack - EPSILON


def spread_of(gains: Sequence[float]) -> float:
    """The spread of gains around zero, with a prior that matters while there are few."""
    squares = math.fsum(gain * gain for gain in gains)
    usual = _USUAL_WEIGHT * _USUAL_SPREAD**2
    return math.sqrt((squares + usual) / (len(gains) + _USUAL_WEIGHT))


@dataclass(frozen=True, kw_only=True)
class _Repeated:
    """A rate over cases that were tried several times."""

    k: int
    value: float | None
    """The mean over cases; None when no case was tried often enough."""
    cases: int
    left_out: tuple[str, ...] = ()
    """Cases with fewer than k verdicts."""


def pass_at_k(evaluation: Evaluation, k: int, metrics: Collection[str] | None = None) -> _Repeated:
    """The chance that at least one of k tries passes, without bias from having n ≥ k tries."""
    return _over_cases(evaluation, k, metrics, lambda n, c: 1 - comb(n - c, k) / comb(n, k))


def pass_hat_k(evaluation: Evaluation, k: int, metrics: Collection[str] | None = None) -> _Repeated:
    """The chance that all of k tries pass."""
    return _over_cases(evaluation, k, metrics, lambda n, c: comb(c, k) / comb(n, k))


def _over_cases(
    evaluation: Evaluation,
    k: int,
    metrics: Collection[str] | None,
    chance: Callable[[int, int], float],
) -> _Repeated:
    if k < 1:
        raise ValueError(f"k must be at least 1, found {k}")
    names = evaluation.metrics if metrics is None else metrics
    chances: list[float] = []
    left_out: list[str] = []
    for case in evaluation.cases:
        verdicts = [v for r in evaluation.of_case(case) if (v := r.passed(names)) is not None]
        if len(verdicts) < k:
            left_out.append(case)
        else:
            chances.append(chance(len(verdicts), sum(verdicts)))
    value = mean(chances) if chances else None
    return _Repeated(k=k, value=value, cases=len(chances), left_out=tuple(left_out))


_Z = 1.959963984540054
"""Of a two-sided 95 %."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """A share of a count with its Wilson interval (95 %)."""

    count: int
    of: int
    value: float
    low: float
    high: float

    @classmethod
    def of_counts(cls, count: int, of: int) -> "Share | None":
        """The share; None if there is nothing to count."""
        if not of:
            return None
        p, z2 = count / of, _Z * _Z
        middle = (p + z2 / (2 * of)) / (1 + z2 / of)
        reach = _Z / (1 + z2 / of) * math.sqrt(p * (1 - p) / of + z2 / (4 * of * of))
        # At the ends the interval touches 0 or 1, which rounding must not blur.
        low = 0.0 if count == 0 else middle - reach
        high = 1.0 if count == of else middle + reach
        return cls(count=count, of=of, value=p, low=low, high=high)

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A mean difference with its confidence interval."""

    mean: float
    low: float
    high: float
    cases: int

    @property
    def distinguishable(self) -> bool:
        return self.low > 0 or self.high < 0


_CONFIDENCE = 0.95
_STEADY = 3
"""So many draws that are all the same show that a number does not vary."""
_FEW = 4
"""With fewer cases that differ from the most frequent gain, their spread says too little."""


def paired_interval(
    differences: Sequence[float],
    *,
    span: tuple[float, float] = (-1.0, 1.0),
    confidence: float = _CONFIDENCE,
) -> Interval | None:
    """The mean of paired differences with its 95 % interval over cases; None for fewer than two.

    Student's interval, for few cases, with two additions:

    - On the side of a long tail it is wider, by the skewness (after Hall and Johnson).
    - If nearly all differences are equal, they show no spread, but a rare case may still come.
      Then each end is computed as if one more case had gone to that end of the `span`. For n equal
      ones, this is about the rule of three: n ties show that the gain is within 3.7 / n.

    `span` is the range that a difference can have; it is widened to what was seen.
    """
    n = len(differences)
    if n < 2:
        return None
    low, high = min(span[0], *differences), max(span[1], *differences)
    ends, shift = _student(differences, confidence), _tail_shift(differences, confidence)
    ends = ends[0] + min(0.0, shift), ends[1] + max(0.0, shift)
    if n - max(Counter(round(each, 9) for each in differences).values()) < _FEW:
        ends = (
            min(ends[0], _student([*differences, low], confidence)[0]),
            max(ends[1], _student([*differences, high], confidence)[1]),
        )
    centre = mean(differences)
    return Interval(
        mean=centre,
        low=min(centre, max(low, ends[0])),
        high=max(centre, min(high, ends[1])),
        cases=n,
    )


def unpaired_interval(new: Sequence[float], old: Sequence[float]) -> Interval | None:
    """The difference of the means of independent draws, with Welch's 95 % interval.

    None if a side has fewer than two draws, or if no draw differs and there are fewer than three
    of each: that shows no spread. With three, two sides that do not differ would look so in 3 % of
    runs at most.
    """
    if min(len(new), len(old)) < 2:
        return None
    gain = mean(new) - mean(old)
    errors = [_error(side) ** 2 for side in (new, old)]
    whole = math.fsum(errors)
    if whole < EPSILON**2:
        steady = min(len(new), len(old)) >= _STEADY
        return Interval(mean=gain, low=gain, high=gain, cases=1) if steady else None
    shares = zip(errors, (new, old), strict=True)
    degrees = whole**2 / math.fsum(error**2 / (len(side) - 1) for error, side in shares)
    half = _student_quantile(math.floor(degrees + EPSILON)) * math.sqrt(whole)
    return Interval(mean=gain, low=gain - half, high=gain + half, cases=1)


def _student(values: Sequence[float], confidence: float) -> tuple[float, float]:
    """Student's interval of the mean."""
    centre, half = mean(values), _student_quantile(len(values) - 1, confidence) * _error(values)
    return centre - half, centre + half


def _error(values: Sequence[float]) -> float:
    """The standard error of the mean."""
    n, centre = len(values), mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (n * (n - 1)))


def _tail_shift(values: Sequence[float], confidence: float) -> float:
    """By how much a long tail moves the end of the interval on its side."""
    n, centre, error = len(values), mean(values), _error(values)
    if n < 3 or error < EPSILON:
        return 0.0
    deviation = error * math.sqrt(n - 1)
    skewness = math.fsum(((value - centre) / deviation) ** 3 for value in values) / n
    # The estimate of few values is too small: the usual correction, and a little more.
    skewness *= math.sqrt(n * (n - 1)) / (n - 2) * (1 + 3 / n)
    reach = 1 + 2 * _student_quantile(n - 1, confidence) ** 2
    return skewness * reach / (6 * math.sqrt(n)) * error


@cache
def _student_quantile(degrees: int, confidence: float = _CONFIDENCE) -> float:
    """The number that Student's t exceeds, either way, with a chance of 5 %, or of the rest."""
    low, high = 0.0, 20.0
    while _within(high, degrees) < confidence:
        high *= 2
    while high - low > 1e-10:
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < confidence else (low, middle)
    return high


def _within(t: float, degrees: int) -> float:
    """The chance that Student's t is between -t and t (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(degrees))
    odd = degrees % 2
    term = math.cos(angle) if odd else 1.0
    terms = 0.0
    for step in range(2 if odd else 1, degrees, 2):
        terms += term
        term *= math.cos(angle) ** 2 * step / (step + 1)
    sine = math.sin(angle) * terms
    return 2 / math.pi * (angle + sine) if odd else sine


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
