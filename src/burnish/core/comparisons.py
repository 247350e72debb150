"""Comparing two evaluations on the cases that both sides have, overall and case by case."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from burnish.core.evaluations import (
    CaseResult,
    Evaluation,
    Measurement,
    Objective,
    Penalties,
    Score,
    floors_from,
    spread,
)
from burnish.core.pairing import paired
from burnish.core.surfaces import EPSILON
from burnish.core.trials import Decision, MissingCases, Verdict


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A candidate's evaluation beside the incumbent's, over the same split."""

    candidate: Evaluation
    incumbent: Evaluation


@dataclass(frozen=True, kw_only=True)
class Range:
    """The least and the most a number could be."""

    low: float
    high: float


_LONGEST_REASON = 400
"""Characters of an error that a message repeats."""
_ANYTHING = Range(low=-math.inf, high=math.inf)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Both sides measured on the cases that both have in full.

    Where a metric that applied to the incumbent does not apply to the candidate, its score is
    unknown: the candidate is taken at its worst, and `at_best` is as good as it could be.
    """

    pair: Pair
    """Both sides, as if only those cases had been run; the candidate at its worst."""
    highest: Evaluation
    """The candidate at its best."""
    candidate: Measurement
    at_best: Measurement
    incumbent: Measurement
    own: tuple[Measurement, ...]
    """The candidate by itself, at its worst and at its best: what constraints look at."""
    missing: MissingCases
    possible_gain: Range
    """The gain, had everything that is missing gone against the candidate, or its way."""
    possible_noise: Range
    """The noise of both sides, whatever is missing had been."""

    @property
    def gain(self) -> float:
        """How much lower the candidate's loss is, at its worst."""
        return _gain(self.candidate, self.incumbent)

    @property
    def noise(self) -> Range:
        """The spread between sweeps, both sides together."""
        candidate = possible_spread(self.at_best.runs, self.candidate.runs)
        return Range(
            low=math.hypot(candidate.low, self.incumbent.std),
            high=math.hypot(candidate.high, self.incumbent.std),
        )

    @property
    def measured(self) -> bool:
        """Whether both losses are known."""
        return self.candidate.loss is not None and self.incumbent.loss is not None

    def worst(self, name: str, *, lower_is_better: bool) -> float | None:
        """A number of the candidate, at its worst; None when it is not known."""
        ends = (self.candidate.values.get(name), self.at_best.values.get(name))
        numbers = [value for value in ends if value is not None]
        if len(numbers) < len(ends):
            return None
        return max(numbers) if lower_is_better else min(numbers)


def compare(
    pair: Pair, objective: Objective, *, max_missing: float, also: Iterable[str] = ()
) -> Comparison:
    """Measure both sides on the cases that both have in every repeat.

    A case with one missing repeat is left out whole, so that every sweep covers the same
    cases and the spread between sweeps is noise, not composition. `also` names what the
    verdict reads beside the loss: where that is missing, the case is missing.
    """
    shared = [case for case in pair.candidate.cases if pair.incumbent.of_case(case)]
    metrics = _metrics_read(pair, objective, also)
    pairing = paired(pair.candidate, pair.incumbent, metrics)
    low, high = pairing.at(0.0), pairing.at(1.0)
    gone_here = set(low.missing_cases(metrics)).intersection(shared)
    gone_there = set(pair.incumbent.missing_cases(metrics)).intersection(shared)
    dropped = gone_here | gone_there
    compared = set(shared) - dropped
    worst, incumbent = low.only(compared), pair.incumbent.only(compared)
    floors = floors_from(incumbent)

    def measured(side: Evaluation) -> Measurement:
        return objective.measure(side.only(compared), floors=floors)

    candidate = measured(low)
    alone = (pairing.own_at(0.0), pairing.own_at(1.0)) if objective.constraints else ()
    comparison = Comparison(
        pair=Pair(candidate=worst, incumbent=incumbent),
        highest=high.only(compared),
        candidate=candidate,
        at_best=candidate if high is low else measured(high),
        incumbent=objective.measure(incumbent, floors=floors_from(worst)),
        own=tuple(map(measured, alone)),
        missing=MissingCases(
            compared=len(compared),
            candidate=len(gone_here),
            incumbent=len(gone_there),
            dropped=len(dropped),
            lost=len(compared.intersection(pairing.lost_cases)),
            silent=pairing.lost_metrics if compared.intersection(pairing.lost_cases) else (),
            allowed=max_missing,
        ),
        possible_gain=_ANYTHING,
        possible_noise=_ANYTHING,
    )
    if dropped:
        return _with_bounds(comparison, (low, high), pair.incumbent, objective, set(shared))
    most = _gain(comparison.at_best, comparison.incumbent)
    return replace(
        comparison,
        possible_gain=Range(low=comparison.gain, high=most),
        possible_noise=comparison.noise,
    )


def _gain(candidate: Measurement, incumbent: Measurement) -> float:
    if candidate.loss is None or incumbent.loss is None:
        return 0.0
    return incumbent.loss - candidate.loss


def _metrics_read(pair: Pair, objective: Objective, also: Iterable[str]) -> set[str]:
    names = {*objective.weights, *also}
    if "pass_rate" not in names:
        return names
    every = {*pair.candidate.metrics, *pair.incumbent.metrics}
    return names | (every if objective.required is None else set(objective.required))


def _with_bounds(
    comparison: Comparison,
    candidate: tuple[Evaluation, Evaluation],
    incumbent: Evaluation,
    objective: Objective,
    shared: set[str],
) -> Comparison:
    """The comparison with what the cases left out could have made of it.

    `candidate` is the candidate at its worst and at its best. Scores lie in [0, 1], so filling
    the gaps with 0 and with 1 bounds both losses. Nothing bounds what a missing run would have
    cost, so with penalties anything is possible.
    """
    if objective.penalties != Penalties():
        return comparison
    (low, high), old = (side.only(shared) for side in candidate), incumbent.only(shared)
    worst = objective.measure(_filled(low, old, objective, 0.0))
    best = objective.measure(_filled(high, old, objective, 1.0))
    strong, weak = (objective.measure(_filled(old, low, objective, v)) for v in (1.0, 0.0))
    if best.loss is None or worst.loss is None or strong.loss is None or weak.loss is None:
        return comparison
    spreads = (possible_spread(best.runs, worst.runs), possible_spread(strong.runs, weak.runs))
    return replace(
        comparison,
        possible_gain=Range(low=strong.loss - worst.loss, high=weak.loss - best.loss),
        possible_noise=Range(
            low=math.hypot(*(spread.low for spread in spreads)),
            high=math.hypot(*(spread.high for spread in spreads)),
        ),
    )


def _filled(side: Evaluation, other: Evaluation, objective: Objective, value: float) -> Evaluation:
    """The evaluation as if everything missing had scored `value`."""
    results: list[CaseResult] = []
    for result in side.results:
        scores = tuple(replace(s, value=value) if s.missing else s for s in result.scores)
        if result.outcome.missing and not scores:
            runs = side.of_case(result.case) + other.of_case(result.case)
            usual = [m for m in objective.weights if any(run.applies(m) for run in runs)]
            scores = tuple(Score(metric=m, value=value) for m in usual or objective.weights)
        results.append(replace(result, scores=scores))
    return replace(side, results=tuple(results))


def possible_spread(one: Sequence[float], other: Sequence[float]) -> Range:
    """How far sweeps can spread that lie between two: a spread adds at most half its range."""
    if len(one) < 2 or len(one) != len(other):
        return Range(low=0.0, high=0.0)
    least, reach = spread(one), max(abs(a - b) for a, b in zip(one, other, strict=True)) / 2
    return Range(low=max(0.0, least - reach), high=least + reach)


def could_turn(seen: Comparison, accepts: Callable[[float], bool], *, accepted: bool) -> bool:
    """Whether a rule that looks at the gain alone could have said otherwise."""
    possible = seen.possible_gain
    return {accepts(possible.low), accepts(possible.high)} != {accepted}


def settle(
    decision: Decision,
    *comparisons: Comparison,
    turns: bool = True,
    by_loss: bool = True,
) -> Decision:
    """The decision with what was missing: too much of it, and nobody can tell.

    `turns` says whether the cases left out could have turned the verdict.
    """
    missing = _together([comparison.missing for comparison in comparisons])
    missing = replace(missing, could_turn=turns and missing.share > 0)
    unknown = by_loss and not all(comparison.measured for comparison in comparisons)
    if unknown or any(comparison.missing.too_many for comparison in comparisons):
        return replace(
            decision,
            verdict=Verdict.CANNOT_TELL,
            code="missing",
            reason=_cannot_tell(comparisons),
            numbers={} if unknown else decision.numbers,
            missing=missing,
        )
    if not missing.share:
        return replace(decision, missing=missing)
    turn = "could" if missing.could_turn else "could not"
    words = f"{_gaps(missing)}; they {turn} have turned it"
    return replace(decision, reason=f"{decision.reason} ({words})", missing=missing)


def _gaps(missing: MissingCases) -> str:
    """What was missing, and what became of it."""
    left_out = f"{cases(missing.dropped)} missing on a side and left out"
    if not missing.lost:
        return left_out
    silent = " and ".join(missing.silent)
    lost = f"{cases(missing.lost)} to which {silent} no longer applies, taken at the worst"
    return f"{left_out}, {lost}" if missing.dropped else lost


def broken_constraint(gate: str, objective: Objective, *candidate: Measurement) -> Decision | None:
    """The decision that follows from a constraint that does not hold, or cannot be told.

    `candidate` is what was measured of it; more than once where a number lies between two.
    """
    for constraint in objective.constraints:
        numbers = [measured.values.get(constraint.metric) for measured in candidate]
        present = [number for number in numbers if number is not None]
        if len(present) < len(numbers):
            words = f"cannot tell: '{constraint.metric}' of constraint {constraint} is not known"
            return decide(gate, "missing", words, {})
        if (value := constraint.broken_between(min(present), max(present))) is not None:
            shown = " ".join(versus(value, constraint.value))
            words = f"constraint {constraint} is broken: {constraint.metric} is {shown}"
            figures = {constraint.metric: value, "constraint": constraint.value}
            return decide(gate, "constraint", words, figures)
    return None


def decide(gate: str, code: str, words: str, numbers: Mapping[str, float]) -> Decision:
    """A decision whose verdict follows from its code."""
    verdict = {"better": Verdict.ACCEPT, "missing": Verdict.CANNOT_TELL}.get(code, Verdict.REJECT)
    return Decision(gate=gate, verdict=verdict, code=code, reason=words, numbers=numbers)


def unmeasured(
    evaluation: Evaluation, objective: Objective, *, max_missing: float, primary: str = ""
) -> str:
    """Why nothing could ever be compared with this evaluation; empty when it can.

    `primary` is what is compared where that is not the loss.
    """
    alone = Pair(candidate=evaluation, incumbent=evaluation)
    seen = compare(alone, objective, max_missing=max_missing, also=[primary] if primary else ())
    if seen.missing.too_many:
        whole = cases(seen.missing.compared + seen.missing.dropped)
        count = f"of {whole} of {evaluation.split.value}, {seen.missing.dropped} are missing"
        common = commonest_reason(evaluation.missing_reasons().values())
        return f"{count}; in {common}" if common else count
    if not primary and not seen.measured:
        return "a weighted metric, or a price that the loss needs, is not known"
    return ""


def commonest_reason(reasons: Iterable[str]) -> str:
    """`6 cases: connection refused`, from one reason a case; empty where nobody said why."""
    lines = (" ".join(reason.split()) for reason in reasons)
    # What an endpoint said may hold anything; this goes to terminals.
    shown = ("".join(sign if sign.isprintable() else "�" for sign in line) for line in lines)
    counts = Counter(line for line in shown if line)
    for reason, count in counts.most_common(1):
        cut = reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 1]}…"
        return f"{cases(count)}: {cut}"
    return ""


def _together(parts: list[MissingCases]) -> MissingCases:
    return MissingCases(
        compared=sum(part.compared for part in parts),
        candidate=sum(part.candidate for part in parts),
        incumbent=sum(part.incumbent for part in parts),
        dropped=sum(part.dropped for part in parts),
        lost=sum(part.lost for part in parts),
        silent=tuple(sorted({metric for part in parts for metric in part.silent})),
        allowed=parts[0].allowed,
    )


def _cannot_tell(comparisons: tuple[Comparison, ...]) -> str:
    for comparison in comparisons:
        missing = comparison.missing
        whole = missing.compared + missing.dropped
        if not missing.compared:
            return f"cannot tell: of {cases(whole)}, both sides have none"
        if missing.too_many:
            gone = missing.dropped + missing.lost
            why = f" ({_gaps(missing)})" if missing.lost else ""
            return (
                f"cannot tell: {gone} of {cases(whole)} are missing on a side{why}, "
                f"at most {100 * missing.allowed:g}% may be"
            )
    return "cannot tell: a weighted metric, or a price that the loss needs, is not known"


def cases(n: int) -> str:
    """`1 case`, `2 cases`."""
    return f"{n} case" if n == 1 else f"{n} cases"


def versus(left: float, right: float) -> tuple[str, str, str]:
    """Two numbers and the sign between them, with enough digits to see the difference."""
    if abs(left - right) <= EPSILON:
        return f"{right:z.3f}", "=", f"{right:z.3f}"
    sign = "<" if left < right else ">"
    for digits in range(3, 12):
        shown = (f"{left:z.{digits}f}", f"{right:z.{digits}f}")
        if shown[0] != shown[1]:
            return shown[0], sign, shown[1]
    return f"{left:g}", sign, f"{right:g}"


def amount(value: float) -> str:
    """A number with enough digits to see that it is not 0."""
    return versus(value, 0.0)[0]


def tied(gain: float) -> bool:
    """Whether a difference is no difference."""
    return abs(gain) <= EPSILON


# -- What changed case by case between two evaluations --------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CaseChanges:
    """The cases that both sides have, by what became of them."""

    new_pass: tuple[str, ...] = ()
    new_fail: tuple[str, ...] = ()
    """It passed and fails now, or the agent gave an answer and now gives none."""
    up: tuple[str, ...] = ()
    """A higher score than before, whether or not it passes now."""
    down: tuple[str, ...] = ()


def case_changes(pair: Pair, objective: Objective) -> CaseChanges:
    """Compare case by case; a case that is missing on a side changed in no way that is known.

    Nor did one to which a metric applied before and does not apply any more.
    """
    pairing = paired(pair.candidate, pair.incumbent)
    scored = replace(pair, candidate=pairing.known)
    pair = replace(pair, candidate=pairing.own_known)
    new_pass: list[str] = []
    new_fail: list[str] = []
    up: list[str] = []
    down: list[str] = []
    metrics = judged_metrics(pair, objective)
    for case in pair.candidate.cases:
        now, before = passes(pair.candidate, case, metrics), passes(pair.incumbent, case, metrics)
        if now is True and before is False:
            new_pass.append(case)
        if now is False and (before is True or (before is None and _broke(pair, case))):
            new_fail.append(case)
        gain = _case_gain(scored, objective, case)
        if gain > EPSILON:
            up.append(case)
        if gain < -EPSILON:
            down.append(case)
    return CaseChanges(
        new_pass=tuple(new_pass), new_fail=tuple(new_fail), up=tuple(up), down=tuple(down)
    )


def judged_metrics(pair: Pair, objective: Objective) -> tuple[str, ...]:
    """The metrics a case must pass to pass: those that the objective names, else all."""
    if objective.required is not None:
        return objective.required
    return tuple(sorted({*pair.candidate.metrics, *pair.incumbent.metrics}))


def passes(evaluation: Evaluation, case: str, metrics: Collection[str]) -> bool | None:
    """Whether a case passes in every repeat; None when it is missing or has no verdict."""
    verdicts = [result.passed(metrics) for result in evaluation.of_case(case)]
    if not verdicts or None in verdicts:
        # One run that fails is enough to know, whatever the others would have said.
        return False if False in verdicts else None
    return all(verdicts)


def _broke(pair: Pair, case: str) -> bool:
    """Whether the agent fails on a case now that had scores without a verdict before."""
    runs = pair.incumbent.of_case(case)
    there = bool(runs) and not any(run.outcome.missing for run in runs)
    gave_scores = all(score.value is not None for run in runs for score in run.scores)
    fails = any(run.outcome.failed for run in pair.candidate.of_case(case))
    return there and gave_scores and fails


def _case_gain(pair: Pair, objective: Objective, case: str) -> float:
    now, before = (objective.case_score(side, case) for side in (pair.candidate, pair.incumbent))
    return 0.0 if now is None or before is None else now - before
