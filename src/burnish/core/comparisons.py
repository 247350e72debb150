"""Comparing two evaluations on the cases that both sides have, and saying so in words."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from burnish.core.decisions import Decision, MissingCases, Verdict
from burnish.core.evaluations import CaseResult, Evaluation
from burnish.core.objectives import Measurement, Objective, Penalties, floors_from
from burnish.core.scores import Score
from burnish.core.surfaces import EPSILON


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


ANYTHING = Range(low=-math.inf, high=math.inf)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Both sides measured on the cases that both have in full."""

    pair: Pair
    """Both sides, as if only those cases had been run."""
    candidate: Measurement
    incumbent: Measurement
    missing: MissingCases
    possible_gain: Range
    """The gain, had everything that is missing gone against the candidate, or its way."""
    possible_noise: Range
    """The noise of both sides, whatever is missing had been."""

    @property
    def gain(self) -> float:
        """How much lower the candidate's loss is."""
        if self.candidate.loss is None or self.incumbent.loss is None:
            return 0.0
        return self.incumbent.loss - self.candidate.loss

    @property
    def noise(self) -> float:
        """The spread between sweeps, both sides together."""
        return math.hypot(self.candidate.std, self.incumbent.std)

    @property
    def measured(self) -> bool:
        """Whether both losses are known."""
        return self.candidate.loss is not None and self.incumbent.loss is not None


def compare(
    pair: Pair, objective: Objective, *, max_missing: float, also: Iterable[str] = ()
) -> Comparison:
    """Measure both sides on the cases that both have in every repeat.

    A case with one missing repeat is left out whole, so that every sweep covers the same
    cases and the spread between sweeps is noise, not composition. `also` names what the
    verdict reads beside the loss: where that is missing, the case is missing.
    """
    shared = [case for case in pair.candidate.cases if pair.incumbent.of_case(case)]
    wanted = _metrics_read(pair, objective, also)
    gone_here = set(pair.candidate.missing_cases(wanted)).intersection(shared)
    gone_there = set(pair.incumbent.missing_cases(wanted)).intersection(shared)
    dropped = gone_here | gone_there
    kept = Pair(
        candidate=pair.candidate.only(set(shared) - dropped),
        incumbent=pair.incumbent.only(set(shared) - dropped),
    )
    found = Comparison(
        pair=kept,
        candidate=objective.measure(kept.candidate, floors=floors_from(kept.incumbent)),
        incumbent=objective.measure(kept.incumbent, floors=floors_from(kept.candidate)),
        missing=MissingCases(
            compared=len(shared) - len(dropped),
            candidate=len(gone_here),
            incumbent=len(gone_there),
            dropped=len(dropped),
            allowed=max_missing,
        ),
        possible_gain=ANYTHING,
        possible_noise=ANYTHING,
    )
    if not dropped:
        return replace(
            found,
            possible_gain=Range(low=found.gain, high=found.gain),
            possible_noise=Range(low=found.noise, high=found.noise),
        )
    return _with_bounds(found, pair, objective, set(shared))


def _metrics_read(pair: Pair, objective: Objective, also: Iterable[str]) -> set[str]:
    names = {*objective.weights, *also}
    if "pass_rate" not in names:
        return names
    every = {*pair.candidate.metrics, *pair.incumbent.metrics}
    return names | (every if objective.required is None else set(objective.required))


def _with_bounds(
    found: Comparison, pair: Pair, objective: Objective, shared: set[str]
) -> Comparison:
    """The comparison with what the cases left out could have made of it.

    Scores lie in [0, 1], so filling the gaps with 0 and with 1 bounds both losses. Nothing
    bounds what a missing run would have cost, so with penalties anything is possible.
    """
    if objective.penalties != Penalties():
        return found
    new, old = pair.candidate.only(shared), pair.incumbent.only(shared)
    best, worst = (objective.measure(_filled(new, old, objective, v)) for v in (1.0, 0.0))
    strong, weak = (objective.measure(_filled(old, new, objective, v)) for v in (1.0, 0.0))
    if best.loss is None or worst.loss is None or strong.loss is None or weak.loss is None:
        return found
    stds = (_possible_std(best, worst), _possible_std(strong, weak))
    return replace(
        found,
        possible_gain=Range(low=strong.loss - worst.loss, high=weak.loss - best.loss),
        possible_noise=Range(
            low=math.hypot(*(std.low for std in stds)),
            high=math.hypot(*(std.high for std in stds)),
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


def _possible_std(best: Measurement, worst: Measurement) -> Range:
    """How far sweeps can spread that lie between two: a spread adds at most half its range."""
    if len(best.runs) == 1:
        return Range(low=0.0, high=0.0)
    reach = max(high - low for low, high in zip(best.runs, worst.runs, strict=True)) / 2
    return Range(low=max(0.0, best.std - reach), high=best.std + reach)


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
    missing = replace(missing, could_turn=turns and missing.dropped > 0)
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
    if not missing.dropped:
        return replace(decision, missing=missing)
    turn = "could" if missing.could_turn else "could not"
    words = f"{cases(missing.dropped)} missing on a side and left out; they {turn} have turned it"
    return replace(decision, reason=f"{decision.reason} ({words})", missing=missing)


def broken_constraint(gate: str, objective: Objective, candidate: Measurement) -> Decision | None:
    """The decision that follows from a constraint that does not hold, or cannot be told."""
    for constraint in objective.constraints:
        holds = constraint.holds(candidate.values)
        if holds is None:
            words = f"cannot tell: '{constraint.metric}' of constraint {constraint} is not known"
            return decide(gate, "missing", words, {})
        if not holds:
            found = candidate.values[constraint.metric]
            shown = " ".join(versus(found, constraint.value))
            words = f"constraint {constraint} is broken: {constraint.metric} is {shown}"
            numbers = {constraint.metric: found, "constraint": constraint.value}
            return decide(gate, "constraint", words, numbers)
    return None


def decide(gate: str, code: str, words: str, numbers: Mapping[str, float]) -> Decision:
    """A decision whose verdict follows from its code."""
    verdict = {"better": Verdict.ACCEPT, "missing": Verdict.CANNOT_TELL}.get(code, Verdict.REJECT)
    return Decision(gate=gate, verdict=verdict, code=code, reason=words, numbers=numbers)


def unmeasured(evaluation: Evaluation, objective: Objective, *, max_missing: float) -> str:
    """Why nothing could ever be compared with this evaluation; empty when it can."""
    alone = Pair(candidate=evaluation, incumbent=evaluation)
    seen = compare(alone, objective, max_missing=max_missing)
    if seen.missing.too_many:
        whole = cases(seen.missing.compared + seen.missing.dropped)
        return f"of {whole} of {evaluation.split.value}, {seen.missing.dropped} are missing"
    if not seen.measured:
        return "a weighted metric, or a price that the loss needs, is not known"
    return ""


def _together(parts: list[MissingCases]) -> MissingCases:
    return MissingCases(
        compared=sum(part.compared for part in parts),
        candidate=sum(part.candidate for part in parts),
        incumbent=sum(part.incumbent for part in parts),
        dropped=sum(part.dropped for part in parts),
        allowed=parts[0].allowed,
    )


def _cannot_tell(comparisons: tuple[Comparison, ...]) -> str:
    for comparison in comparisons:
        missing = comparison.missing
        whole = missing.compared + missing.dropped
        if not missing.compared:
            return f"cannot tell: of {cases(whole)}, both sides have none"
        if missing.too_many:
            return (
                f"cannot tell: {missing.dropped} of {cases(whole)} are missing on a side, "
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
