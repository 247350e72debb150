"""Checks of candidates for all strategies: whether one does anything new, and what may be offered.

Probing costs nothing: it compares with the runs that were measured. What is offered at the end is
not worse than the baseline.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from burnish.core.cases import Case, Dataset, Outcome, Split, Trace, Usage
from burnish.core.comparisons import Pair
from burnish.core.content import Json, codec, short_id
from burnish.core.evaluations import CaseResult, Evaluation, Objective, Score
from burnish.core.gates import OfferRule, not_worse
from burnish.core.money import NOTHING
from burnish.core.protocols import Call, Effects, Receipt, Rehearsable, Scope, Target
from burnish.core.surfaces import Candidate
from burnish.core.trials import Standing
from burnish.journal.once import JournaledEffects, Rehearsal
from burnish.runs.evaluation import Conditions
from burnish.runs.events import Withheld

_MOST_RUNS = 50
"""Measured runs that are rehearsed; those with the most steps come first."""


@dataclass(frozen=True, kw_only=True)
class Probed:
    """The result of a probe, as the journal stores it."""

    reaches: bool
    """Whether a change affects requests or answers, or that cannot be told."""
    runs: int = 0
    """If not, the number of measured runs that are the same under every candidate."""


@dataclass(frozen=True, kw_only=True)
class Prober:
    """Rehearses measured runs with the results in the journal."""

    target: Target
    effects: JournaledEffects

    async def probe(
        self,
        candidates: Sequence[Candidate],
        *,
        before: Candidate,
        measured: Evaluation,
        cases: Mapping[str, Case],
        scope: Scope,
    ) -> Probed:
        """Whether any of the candidates differs from `before`, gone over in the measured runs.

        If `before` itself was not measured, its runs end at the first request without an answer.
        Then the candidates are the same if they end at that request too.

        The result is journaled, so a replay gets the same one whatever else the journal holds.
        """
        # Only runs in which the agent really ran and came to an end.
        runs = [
            (cases[result.case], result)
            for result in measured.results
            if cases[result.case].recorded is None and not result.outcome.missing
        ]
        runs = sorted(runs, key=lambda run: -len(run[1].outcome.trace.steps))[:_MOST_RUNS]

        ends = measured.candidate == before.id

        async def perform(effects: Effects) -> Receipt[Probed]:
            del effects
            return Receipt(value=await self._probed(candidates, before, runs, must_end=ends))

        ids: list[Json] = [candidate.id for candidate in candidates]
        request: Json = {
            "target": self.target.description.fingerprint,
            "before": before.id,
            "candidates": ids,
            "runs": short_id([[case.content_id, result.draw] for case, result in runs]),
        }
        call = Call(
            kind="probe", request=request, codec=codec(Probed), estimate=NOTHING, computed=True
        )
        return await scope.once(call, perform)

    async def _probed(
        self,
        candidates: Sequence[Candidate],
        before: Candidate,
        runs: Sequence[tuple[Case, CaseResult]],
        *,
        must_end: bool,
    ) -> Probed:
        target = self.target
        sound = [candidate for candidate in candidates if not target.check(candidate)]
        if not isinstance(target, Rehearsable) or not sound or not runs:
            return Probed(reaches=True)
        for case, result in runs:
            rehearsal = self.effects.rehearsal()
            outcome = await _rehearsed(target, before, case, result, rehearsal)
            if outcome is None and (must_end or not rehearsal.ended):
                return Probed(reaches=True)
            for candidate in sound:
                # Only what this run used: the journal may hold the requests of other trials.
                again = self.effects.rehearsal(within=rehearsal.used)
                same = await _rehearsed(target, candidate, case, result, again) == outcome
                if not same or again.ended_at != rehearsal.ended_at:
                    return Probed(reaches=True)
        return Probed(reaches=False, runs=len(runs))


async def _rehearsed(
    target: Rehearsable,
    candidate: Candidate,
    case: Case,
    result: CaseResult,
    rehearsal: Rehearsal,
) -> Outcome | None:
    """The outcome of a rehearsed run; None if it cannot be rehearsed to its end."""
    try:
        outcome = await target.rehearse(
            candidate, case, draw=result.draw, effects=rehearsal, past=result.outcome
        )
    except Exception:  # noqa: BLE001 - the border to the agent: not knowing is no error
        return None
    return None if rehearsal.ended else outcome


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


_NO_TRACE, _NO_USAGE = Trace(), Usage()
_NO_MEASURES: Mapping[str, float] = {}


def _without_words(outcome: Outcome) -> Outcome:
    """The numbers of an outcome; those of many runs share what is empty."""
    return Outcome(
        measures=outcome.measures or _NO_MEASURES,
        trace=_NO_TRACE,
        usage=_NO_USAGE if outcome.usage == _NO_USAGE else outcome.usage,
        nano_usd=outcome.nano_usd,
        seconds=outcome.seconds,
        failure=outcome.failure,
        withheld=outcome.withheld,
    )


@lru_cache(maxsize=4096)
def _numbers(scores: tuple[tuple[Any, ...], ...]) -> tuple[Score, ...]:
    """Scores without their reasons; equal ones of many runs are the same."""
    return tuple(
        Score(metric=metric, value=value, passed=passed, turn=turn, unreachable=unreachable)
        for metric, value, passed, turn, unreachable in scores
    )


@dataclass
class IncumbentResults:
    """The results of the candidates that may be offered, without what agents and judges said."""

    _results: dict[tuple[str, Split], dict[tuple[str, int], CaseResult]] = field(
        default_factory=dict[tuple[str, Split], dict[tuple[str, int], CaseResult]]
    )

    def add(self, candidate: str, split: Split, results: Iterable[CaseResult]) -> None:
        """Keep results of a candidate."""
        kept = self._results.setdefault((candidate, split), {})
        for result in results:
            kept[result.case, result.draw] = CaseResult(
                case=result.case,
                draw=result.draw,
                outcome=_without_words(result.outcome),
                scores=_numbers(
                    tuple(
                        (each.metric, each.value, each.passed, each.turn, each.unreachable)
                        for each in result.scores
                    )
                ),
            )

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
        self._led = {setup.target.baseline.id}
        """The ids of the baseline and of every lead."""
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
        self._led.add(lead.candidate.id)

    def forget(self, candidate: str) -> None:
        """Drop the results of a candidate, unless it leads or has led."""
        if candidate not in self._led:
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
