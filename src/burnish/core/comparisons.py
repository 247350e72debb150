"""Comparing two evaluations on the cases that both sides have, and saying so in words."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from burnish.core.decisions import Decision, MissingCases, Verdict
from burnish.core.evaluations import Evaluation
from burnish.core.objectives import Measurement, Objective, floors_from
from burnish.core.surfaces import EPSILON


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A candidate's evaluation beside the incumbent's, over the same split."""

    candidate: Evaluation
    incumbent: Evaluation


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Both sides measured on the cases that both have in full."""

    candidate: Measurement
    incumbent: Measurement
    missing: MissingCases
    gain_low: float
    """The gain if everything that is missing had gone against the candidate."""
    gain_high: float
    """The gain if everything that is missing had gone its way."""

    @property
    def gain(self) -> float:
        """How much lower the candidate's loss is."""
        if self.candidate.loss is None or self.incumbent.loss is None:
            return 0.0
        return self.incumbent.loss - self.candidate.loss

    @property
    def measured(self) -> bool:
        """Whether both losses are known."""
        return self.candidate.loss is not None and self.incumbent.loss is not None


def compare(pair: Pair, objective: Objective, *, max_missing: float) -> Comparison:
    """Measure both sides on the cases that both have in every repeat.

    A case with one missing repeat is left out whole, so that every sweep covers the same
    cases and the spread between sweeps is noise, not composition.
    """
    shared = [case for case in pair.candidate.cases if pair.incumbent.of_case(case)]
    gone_here = set(pair.candidate.missing_cases(objective.weights)).intersection(shared)
    gone_there = set(pair.incumbent.missing_cases(objective.weights)).intersection(shared)
    kept = [case for case in shared if case not in gone_here | gone_there]
    candidate, incumbent = pair.candidate.only(set(kept)), pair.incumbent.only(set(kept))
    measured = (
        objective.measure(candidate, floors=floors_from(incumbent)),
        objective.measure(incumbent, floors=floors_from(candidate)),
    )
    bounds = _bounds(pair, objective, gone_here | gone_there)
    found = Comparison(
        candidate=measured[0],
        incumbent=measured[1],
        missing=MissingCases(
            compared=len(kept),
            candidate=len(gone_here),
            incumbent=len(gone_there),
            dropped=len(gone_here | gone_there),
            allowed=max_missing,
        ),
        gain_low=0.0,
        gain_high=0.0,
    )
    whole = max(1, len(shared))
    return replace(
        found,
        gain_low=(len(kept) * found.gain + bounds[0]) / whole,
        gain_high=(len(kept) * found.gain + bounds[1]) / whole,
    )


def _bounds(pair: Pair, objective: Objective, dropped: Collection[str]) -> tuple[float, float]:
    """The least and most that the cases left out could have added to the gain."""
    low = high = 0.0
    for case in dropped:
        new = objective.case_score(pair.candidate, case)
        old = objective.case_score(pair.incumbent, case)
        low += (0.0 if new is None else new) - (1.0 if old is None else old)
        high += (1.0 if new is None else new) - (0.0 if old is None else old)
    return low, high


def settle(
    decision: Decision,
    *comparisons: Comparison,
    accepts: Callable[[float], bool] | None = None,
    by_loss: bool = True,
) -> Decision:
    """The decision with what was missing: too much of it, and nobody can tell.

    `accepts` says whether a gain on the first comparison would pass; it tells whether the
    cases left out could have turned the verdict. Without it nothing bounds them, so they could.
    """
    missing = _together([comparison.missing for comparison in comparisons])
    if missing.dropped:
        first = comparisons[0]
        turned = accepts is None or {accepts(first.gain_low), accepts(first.gain_high)} != {
            decision.accepted
        }
        missing = replace(missing, could_turn=turned)
    if any(c.missing.too_many or (by_loss and not c.measured) for c in comparisons):
        return replace(
            decision,
            verdict=Verdict.CANNOT_TELL,
            code="missing",
            reason=_cannot_tell(comparisons),
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
            words = f"constraint {constraint} is broken: {constraint.metric} is {found:g}"
            return decide(gate, "constraint", words, {constraint.metric: found})
    return None


def decide(gate: str, code: str, words: str, numbers: Mapping[str, float]) -> Decision:
    """A decision whose verdict follows from its code."""
    verdict = {"better": Verdict.ACCEPT, "missing": Verdict.CANNOT_TELL}.get(code, Verdict.REJECT)
    return Decision(gate=gate, verdict=verdict, code=code, reason=words, numbers=numbers)


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
        if missing.too_many:
            whole = missing.compared + missing.dropped
            return (
                f"cannot tell: {missing.dropped} of {cases(whole)} are missing on a side, "
                f"at most {missing.allowed:.0%} may be"
            )
    return "cannot tell: a weighted metric, or a price that the loss needs, is not known"


def cases(n: int) -> str:
    """`1 case`, `2 cases`."""
    return f"{n} case" if n == 1 else f"{n} cases"


def versus(left: float, right: float) -> tuple[str, str, str]:
    """Two numbers and the sign between them, with enough digits to see the difference."""
    sign = "=" if abs(left - right) <= EPSILON else ("<" if left < right else ">")
    for digits in range(3, 12):
        shown = (f"{left:.{digits}f}", f"{right:.{digits}f}")
        if sign == "=" or shown[0] != shown[1]:
            return shown[0], sign, shown[1]
    return f"{left:g}", sign, f"{right:g}"


def tied(gain: float) -> bool:
    """Whether a difference is no difference."""
    return abs(gain) <= EPSILON
