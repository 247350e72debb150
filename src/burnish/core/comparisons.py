"""Comparing two evaluations on the cases that both sides have, overall and case by case.

A metric without a score does not apply to a case. If it applied to the incumbent's run and not
to the candidate's, the candidate caused that: it retrieved nothing, or called no tool. Such a
score is *lost*. It is missing, and every comparison takes it at its worst, so that no candidate
gains by avoiding a metric. Scores that only the candidate has are not compared.
"""

import math
import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

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
from burnish.core.surfaces import EPSILON
from burnish.core.trials import Decision, MissingCases, Verdict


class _Place(NamedTuple):
    metric: str
    turn: int


class _Run(NamedTuple):
    case: str
    draw: int


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """A candidate beside an incumbent, on the cases that both ran."""

    own: Evaluation
    """The candidate as it was measured."""
    shared: Evaluation
    """The same without the scores that the incumbent has no counterpart for."""
    lost: Mapping[_Run, Collection[_Place]]
    """By run of the candidate, the scores that only the incumbent has there."""
    doubtful: Mapping[_Run, Collection[_Place]]
    """The same where the incumbent only has the zeros of a failed run: perhaps no such score."""

    @cached_property
    def lost_cases(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(run.case for run in self.lost))

    @cached_property
    def lost_metrics(self) -> tuple[str, ...]:
        """The metrics that no longer apply somewhere."""
        return tuple(sorted({place.metric for lost in self.lost.values() for place in lost}))

    def at(self, value: float) -> Evaluation:
        """The shared scores, with every lost score as `value`."""
        return self._filled(self.shared, value)

    def own_at(self, value: float) -> Evaluation:
        """All of the candidate's scores, with every lost score as `value`."""
        return self._filled(self.own, value)

    @cached_property
    def known(self) -> Evaluation:
        """The shared scores, with every lost score missing."""
        return _with(self.shared, self.lost, None)

    @cached_property
    def own_known(self) -> Evaluation:
        """All of the candidate's scores, with every lost score missing."""
        return _with(self.own, self.lost, None)

    def _filled(self, side: Evaluation, value: float) -> Evaluation:
        return _with(_with(side, self.lost, value), self.doubtful, value)


def paired(
    candidate: Evaluation,
    incumbent: Evaluation,
    metrics: Collection[str] | None = None,
    *,
    dropped: Collection[str] = (),
) -> Pairing:
    """Pair a candidate's scores of these metrics, or of all, with an incumbent's.

    Cases that are `dropped` say nothing about which metrics could have applied to the others.
    """
    names = {*candidate.metrics, *incumbent.metrics}
    kept = set(candidate.cases).intersection(incumbent.cases).difference(dropped)
    applied = {*candidate.only(kept).metrics, *incumbent.only(kept).metrics}
    if metrics is not None:
        # `metrics` may also name numbers of a run, such as its cost.
        names, applied = names & set(metrics), applied & set(metrics)
    lost: dict[_Run, list[_Place]] = {}
    doubtful: dict[_Run, list[_Place]] = {}
    results: list[CaseResult] = []
    for result in candidate.results:
        others = incumbent.of_case(result.case)
        finished = [run for run in others if run.outcome.failure is None]
        if not others or result.outcome.failure is not None:
            results.append(result)
            continue
        run, here = _Run(result.case, result.draw), _places(result)
        there = {place for other in finished for place in _places(other)}
        if finished and there == here:
            results.append(result)
            continue
        gone = {p for p in there - here if p.metric in names and _has(result, p.turn)}
        if gone:
            lost[run] = sorted(gone)
        if not finished and any(other.outcome.failed for other in others):
            known = names if result.case in dropped else applied
            silent = known - {place.metric for place in here}
            doubtful[run] = [_Place(metric, 0) for metric in sorted(silent)]
        alone = {
            place for place in here - there if any(_has(other, place.turn) for other in finished)
        }
        scores = tuple(score for score in result.scores if _place(score) not in alone)
        results.append(
            result if len(scores) == len(result.scores) else replace(result, scores=scores)
        )
    same = all(map(operator.is_, results, candidate.results))
    shared = candidate if same else replace(candidate, results=tuple(results))
    return Pairing(own=candidate, shared=shared, lost=lost, doubtful=doubtful)


def _places(result: CaseResult) -> set[_Place]:
    return {_place(score) for score in result.scores}


def _place(score: Score) -> _Place:
    return _Place(score.metric, score.turn or 0)


def _has(result: CaseResult, turn: int) -> bool:
    """Whether a run reached this turn: a generated conversation may be shorter."""
    questions = result.outcome.asked
    return not questions or turn < len(questions)


def _with(
    side: Evaluation, places: Mapping[_Run, Collection[_Place]], value: float | None
) -> Evaluation:
    """The evaluation with scores of this value added at these places."""
    if not places:
        return side
    results = [
        replace(result, scores=(*result.scores, *(_score(place, value) for place in due)))
        if (due := places.get(_Run(result.case, result.draw)))
        else result
        for result in side.results
    ]
    return replace(side, results=tuple(results))


def _score(place: _Place, value: float | None) -> Score:
    return Score(
        metric=place.metric,
        value=value,
        passed=None if value is None else value > 0,
        reason="the metric applied to the incumbent here and does not apply any more",
        turn=place.turn,
    )


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A candidate's evaluation beside the incumbent's, over the same split."""

    candidate: Evaluation
    incumbent: Evaluation


@dataclass(frozen=True, kw_only=True)
class Range:
    """The least and the most that a number could be."""

    low: float
    high: float

    def combined(self, other: "Range") -> "Range":
        """The spread of two independent numbers together."""
        return Range(low=math.hypot(self.low, other.low), high=math.hypot(self.high, other.high))


_ANYTHING = Range(low=-math.inf, high=math.inf)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Both sides measured on the cases that both have in full.

    If a metric applied to the incumbent but not to the candidate, its score is unknown:
    `candidate` is the candidate at its worst, `at_best` at its best.
    """

    pair: Pair
    """Both sides as if only those cases had been run; the candidate at its worst."""
    highest: Evaluation
    """The candidate at its best."""
    candidate: Measurement
    at_best: Measurement
    incumbent: Measurement
    own: tuple[Measurement, ...]
    """The candidate alone, at its worst and at its best; constraints look at these."""
    missing: MissingCases
    possible_gain: Range
    """The gain if everything missing had gone against the candidate, or in its favour."""
    possible_noise: Range
    """The noise of both sides, whatever the missing values had been."""

    @property
    def gain(self) -> float:
        """How much lower the candidate's loss is, at its worst."""
        return _gain(self.candidate, self.incumbent)

    @property
    def noise(self) -> Range:
        """The spread between sweeps, both sides together."""
        incumbent = Range(low=self.incumbent.std, high=self.incumbent.std)
        return possible_spread(self.at_best.runs, self.candidate.runs).combined(incumbent)

    @property
    def measured(self) -> bool:
        return self.candidate.loss is not None and self.incumbent.loss is not None

    def worst(self, name: str, *, lower_is_better: bool) -> float | None:
        """A number of the candidate at its worst; None when it is not known."""
        one, other = self.candidate.values.get(name), self.at_best.values.get(name)
        if one is None or other is None:
            return None
        return max(one, other) if lower_is_better else min(one, other)


def compare(
    pair: Pair, objective: Objective, *, max_missing: float, also: Iterable[str] = ()
) -> Comparison:
    """Measure both sides on the cases that both have in every repeat.

    A case with one missing repeat is left out, so that every sweep covers the same cases and
    the spread between sweeps is noise. `also` names what the verdict reads besides the loss: a
    case without it is missing too.
    """
    shared = [case for case in pair.candidate.cases if pair.incumbent.of_case(case)]
    metrics = {*objective.weights, *also}
    if "pass_rate" in metrics:
        metrics |= set(judged_metrics(pair, objective))
    gone_here = set(pair.candidate.missing_cases(metrics)).intersection(shared)
    gone_there = set(pair.incumbent.missing_cases(metrics)).intersection(shared)
    dropped = gone_here | gone_there
    compared = set(shared) - dropped
    pairing = paired(pair.candidate, pair.incumbent, metrics, dropped=dropped)
    low, high = pairing.at(0.0), pairing.at(1.0)
    worst, incumbent = low.only(compared), pair.incumbent.only(compared)

    def measured(side: Evaluation) -> Measurement:
        return _beside(incumbent, side.only(compared), objective)

    candidate = measured(low)
    alone = (pairing.own_at(0.0), pairing.own_at(1.0)) if objective.constraints else ()
    comparison = Comparison(
        pair=Pair(candidate=worst, incumbent=incumbent),
        highest=high.only(compared),
        candidate=candidate,
        at_best=candidate if high is low else measured(high),
        incumbent=_beside(worst, incumbent, objective),
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


def _beside(other: Evaluation, side: Evaluation, objective: Objective) -> Measurement:
    """The numbers of a side; its failed runs are charged at least what the other's cost."""
    floors = floors_from(other) if side.failed_cases() else None
    return objective.measure(side, floors=floors)


def _gain(candidate: Measurement, incumbent: Measurement) -> float:
    if candidate.loss is None or incumbent.loss is None:
        return 0.0
    return incumbent.loss - candidate.loss


def _with_bounds(
    comparison: Comparison,
    candidate: tuple[Evaluation, Evaluation],
    incumbent: Evaluation,
    objective: Objective,
    shared: set[str],
) -> Comparison:
    """The comparison with bounds for the cases that were left out.

    `candidate` is the candidate at its worst and at its best. Scores are in [0, 1], so filling
    the gaps with 0 and 1 bounds both losses. The cost of a missing run has no bound, so with
    penalties anything is possible.
    """
    if objective.penalties != Penalties():
        return comparison
    (low, high), old = (side.only(shared) for side in candidate), incumbent.only(shared)
    worst = objective.measure(_filled(low, old, objective, 0.0))
    best = objective.measure(_filled(high, old, objective, 1.0))
    strong, weak = (objective.measure(_filled(old, low, objective, v)) for v in (1.0, 0.0))
    if best.loss is None or worst.loss is None or strong.loss is None or weak.loss is None:
        return comparison
    noise = possible_spread(best.runs, worst.runs)
    return replace(
        comparison,
        possible_gain=Range(low=strong.loss - worst.loss, high=weak.loss - best.loss),
        possible_noise=noise.combined(possible_spread(strong.runs, weak.runs)),
    )


def _filled(side: Evaluation, other: Evaluation, objective: Objective, value: float) -> Evaluation:
    """The evaluation as if every missing score were `value`."""
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
    """The possible spread of sweeps that lie between these two."""
    if len(one) < 2 or len(one) != len(other):
        return Range(low=0.0, high=0.0)
    least, reach = spread(one), max(abs(a - b) for a, b in zip(one, other, strict=True)) / 2
    return Range(low=max(0.0, least - reach), high=least + reach)


def could_turn(seen: Comparison, accepts: Callable[[float], bool], *, accepted: bool) -> bool:
    """Whether a rule that depends on the gain alone could have decided otherwise."""
    possible = seen.possible_gain
    return {accepts(possible.low), accepts(possible.high)} != {accepted}


def settle(
    decision: Decision,
    *comparisons: Comparison,
    turns: bool = True,
    by_loss: bool = True,
) -> Decision:
    """Add what was missing to a decision; if too much was, nobody can tell.

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
    left_out = f"{cases(missing.dropped)} missing on a side and left out"
    if not missing.lost:
        return left_out
    silent = " and ".join(missing.silent)
    lost = f"{cases(missing.lost)} to which {silent} no longer applies, taken at the worst"
    return f"{left_out}, {lost}" if missing.dropped else lost


def broken_constraint(gate: str, objective: Objective, *candidate: Measurement) -> Decision | None:
    """The decision for a constraint that is broken or cannot be checked; None if all hold.

    There are two measurements of the candidate if a number is only known to lie between two.
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
    """Why nothing can be compared with this evaluation; empty when it can.

    `primary` is the number to compare if it is not the loss.
    """
    alone = Pair(candidate=evaluation, incumbent=evaluation)
    also = {primary, *objective.constrained_names} - {""}  # as gates have it
    seen = compare(alone, objective, max_missing=max_missing, also=also)
    if seen.missing.too_many:
        whole = cases(seen.missing.compared + seen.missing.dropped)
        count = f"of {whole} of {evaluation.split.value}, {seen.missing.dropped} are missing"
        common = commonest_reason(evaluation.missing_reasons().values())
        return f"{count}; in {common}" if common else count
    if not primary and not seen.measured:
        if silent := silent_metrics(evaluation, objective.weights):
            named = " and ".join(f"'{name}'" for name in silent)
            apply = "applies" if len(silent) == 1 else "apply"
            return f"{named} {apply} to no case of {evaluation.split.value}"
        return "a weighted metric, or a price that the loss needs, is not known"
    return ""


def silent_metrics(evaluation: Evaluation, metrics: Iterable[str]) -> tuple[str, ...]:
    """Those of these metrics that have no score of any run, not even a missing one."""
    return tuple(name for name in metrics if name not in evaluation.metrics)


def commonest_reason(reasons: Iterable[str]) -> str:
    """`6 cases: connection refused`, from one reason per case; empty if there is no reason."""
    lines = Counter(line for reason in reasons if (line := one_line(reason)))
    for reason, count in lines.most_common(1):
        return f"{cases(count)}: {reason}"
    return ""


def one_line(reason: str) -> str:
    """A reason as terminals can show it: an endpoint's error may contain anything."""
    line = " ".join(reason.split())
    shown = "".join(sign if sign.isprintable() else "�" for sign in line[:400])
    return shown if len(line) <= 400 else f"{shown[:399]}…"


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
    """Two numbers and the sign between them, with enough digits to show the difference."""
    if abs(left - right) <= EPSILON:
        return f"{right:z.3f}", "=", f"{right:z.3f}"
    sign = "<" if left < right else ">"
    for digits in range(3, 12):
        shown = (f"{left:z.{digits}f}", f"{right:z.{digits}f}")
        if shown[0] != shown[1]:
            return shown[0], sign, shown[1]
    return f"{left:g}", sign, f"{right:g}"


def amount(value: float) -> str:
    """A number with enough digits to show that it is not 0."""
    return versus(value, 0.0)[0]


def tied(gain: float) -> bool:
    """Whether a difference is too small to count."""
    return abs(gain) <= EPSILON


@dataclass(frozen=True, kw_only=True)
class CaseChanges:
    """How the cases that both sides have changed."""

    new_pass: tuple[str, ...] = ()
    new_fail: tuple[str, ...] = ()
    """Cases that passed and fail now, or that the agent answered and no longer answers."""
    up: tuple[str, ...] = ()
    """Cases with a higher score than before, whether or not they pass."""
    down: tuple[str, ...] = ()


def case_changes(pair: Pair, objective: Objective) -> CaseChanges:
    """Compare case by case.

    Cases that are missing on a side, or to which a metric no longer applies, did not change.
    """
    pairing = paired(pair.candidate, pair.incumbent)
    pair = replace(pair, candidate=pairing.own_known)
    metrics = judged_metrics(pair, objective)
    changes: dict[str, list[str]] = {name: [] for name in ("new_pass", "new_fail", "up", "down")}
    for case in pair.candidate.cases:
        now, before = passes(pair.candidate, case, metrics), passes(pair.incumbent, case, metrics)
        score, old = (objective.case_score(s, case) for s in (pairing.known, pair.incumbent))
        gain = 0.0 if score is None or old is None else score - old
        changed = {
            "new_pass": now is True and before is False,
            "new_fail": now is False and (before or (before is None and _broke(pair, case))),
            "up": gain > EPSILON,
            "down": gain < -EPSILON,
        }
        for name, holds in changed.items():
            if holds:
                changes[name].append(case)
    return CaseChanges(**{name: tuple(names) for name, names in changes.items()})


def judged_metrics(pair: Pair, objective: Objective) -> tuple[str, ...]:
    """The metrics a case must pass to pass: those that the objective names, else all."""
    if objective.required is not None:
        return objective.required
    return tuple(sorted({*pair.candidate.metrics, *pair.incumbent.metrics}))


def passes(evaluation: Evaluation, case: str, metrics: Collection[str]) -> bool | None:
    """Whether a case passes in every repeat; None when it is missing or has no verdict."""
    verdicts = [result.passed(metrics) for result in evaluation.of_case(case)]
    if not verdicts or None in verdicts:
        # One run that fails is enough, whatever the others would have been.
        return False if False in verdicts else None
    return all(verdicts)


def _broke(pair: Pair, case: str) -> bool:
    """Whether the agent fails on a case that had scores without a verdict before."""
    runs = pair.incumbent.of_case(case)
    there = bool(runs) and not any(run.outcome.missing for run in runs)
    gave_scores = all(score.value is not None for run in runs for score in run.scores)
    fails = any(run.outcome.failed for run in pair.candidate.of_case(case))
    return there and gave_scores and fails
