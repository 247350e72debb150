"""The last check of a run: what is offered is not worse than the baseline, for all strategies."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from burnish.core.cases import Case, Dataset, Split
from burnish.core.comparisons import Pair
from burnish.core.evaluations import CaseResult, Evaluation, Objective
from burnish.core.outcomes import Trace
from burnish.core.strict_gate import OfferRule, not_worse
from burnish.core.surfaces import Candidate
from burnish.core.trials import Standing
from burnish.runs.evaluation import Conditions
from burnish.runs.events import Withheld


@runtime_checkable
class HasOfferRule(Protocol):
    """A strategy with a rule of its own for what may be offered."""

    @property
    def offer_rule(self) -> OfferRule:
        """When its winner is not worse than the baseline."""
        ...


@dataclass(frozen=True, kw_only=True)
class Lead:
    """A candidate that became the incumbent."""

    trial: int
    candidate: Candidate
    score: float | None
    """As the standing had it then."""


@dataclass
class IncumbentResults:
    """The results of the candidates that may be offered, without what the agent said."""

    _results: dict[tuple[str, Split], dict[tuple[str, int], CaseResult]] = field(
        default_factory=dict[tuple[str, Split], dict[tuple[str, int], CaseResult]]
    )

    def add(self, candidate: str, split: Split, results: Iterable[CaseResult]) -> None:
        """Keep results of a candidate."""
        kept = self._results.setdefault((candidate, split), {})
        for result in results:
            outcome = replace(result.outcome, replies=(), asked=(), data=None, trace=Trace())
            kept[result.case, result.draw] = replace(result, outcome=outcome)

    def forget(self, candidate: str) -> None:
        """Drop the results of a candidate that leads to nothing."""
        for split in Split:
            self._results.pop((candidate, split), None)

    def results(self, candidate: str, split: Split) -> Sequence[CaseResult]:
        """All results of a candidate."""
        return [*self._results.get((candidate, split), {}).values()]

    def evaluation(self, candidate: str, split: Split, cases: Iterable[Case]) -> Evaluation | None:
        """The repeats in which all of these cases were run; None if there is none."""
        kept = self._results.get((candidate, split), {})
        names = [case.id for case in cases]
        whole = [
            draw
            for draw in sorted({draw for _, draw in kept})
            if all((name, draw) in kept for name in names)
        ]
        if not names or not whole:
            return None
        results = tuple(kept[name, draw] for draw in whole for name in names)
        return Evaluation(candidate=candidate, split=split, results=results)


def _worse_than_baseline(
    lead: Candidate,
    baseline: Candidate,
    *,
    measured: IncumbentResults,
    dataset: Dataset,
    objective: Objective,
    rule: OfferRule,
) -> str:
    """Why a candidate may not be offered; empty if it may.

    The splits that the rule names are compared, or train if none of them was measured on both
    sides.
    """
    if lead.id == baseline.id:
        return ""
    pairs: dict[Split, Pair] = {}
    for split in (Split.TRAIN, Split.HOLDOUT):
        cases = dataset.cases(split)
        new, old = (measured.evaluation(each.id, split, cases) for each in (lead, baseline))
        if new is not None and old is not None:
            pairs[split] = Pair(candidate=new, incumbent=old)
    compared = [split for split in rule.splits if split in pairs] or list(pairs)[:1]
    for split in compared:
        decision = not_worse(rule=rule, objective=objective, pair=pairs[split])
        if not decision.accepted:
            return f"on {split.value}, {decision.reason}"
    return ""


class Offers:
    """The candidates that became the incumbent of a run, and which of them is offered at last."""

    def __init__(self, setup: Conditions) -> None:
        self._setup = setup
        self.measured = IncumbentResults()
        self._leads: list[Lead] = []
        self._offered: Lead | None = None
        """What is offered in place of the last incumbent."""

    @property
    def rule(self) -> OfferRule:
        """When a winner is not worse than the baseline, and by which number."""
        strategy = self._setup.strategy
        return strategy.offer_rule if isinstance(strategy, HasOfferRule) else OfferRule()

    @property
    def last(self) -> Lead:
        """What is offered; the baseline if nothing else can be."""
        if self._offered is not None or not self._leads:
            return self._offered or self._start
        return self._leads[-1]

    def add(self, lead: Lead) -> None:
        """Remember who leads now."""
        self._leads.append(lead)

    def forget(self, candidate: str) -> None:
        """Drop the results of a candidate, unless it leads or has led."""
        if candidate not in {each.candidate.id for each in (self._start, *self._leads)}:
            self.measured.forget(candidate)

    def standing(self, standing: Standing) -> Standing:
        """A standing with the score of what is offered."""
        offered = self._offered
        return standing if offered is None else replace(standing, best_score=offered.score)

    def results(self, candidate: str) -> Sequence[CaseResult]:
        """What the search saw of an incumbent on the cases that decided."""
        return self.measured.results(candidate, self._setup.deciding_split)

    def evaluation(self, candidate: str) -> Evaluation | None:
        """The same in whole repeats; None if there is none."""
        split = self._setup.deciding_split
        return self.measured.evaluation(candidate, split, self._setup.dataset.cases(split))

    def settle(self) -> Withheld | None:
        """Offer the last incumbent that is not worse than the baseline; None if it is the last."""
        if not self._leads or not (why := self._fault(self._leads[-1])):
            return None
        better = (lead for lead in reversed(self._leads) if not self._fault(lead))
        self._offered = next(better, self._start)
        return Withheld(trial=self._leads[-1].trial, offered=self._offered.trial, reason=why)

    @property
    def _start(self) -> Lead:
        return Lead(trial=0, candidate=self._setup.target.baseline, score=None)

    def _fault(self, lead: Lead) -> str:
        return _worse_than_baseline(
            lead.candidate,
            self._setup.target.baseline,
            measured=self.measured,
            dataset=self._setup.dataset,
            objective=self._setup.objective,
            rule=self.rule,
        )
