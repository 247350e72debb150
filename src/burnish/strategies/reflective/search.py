"""The strategy `reflective`: a pool of candidates, rewritten by reflection."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from burnish.core.cases import Dataset, Split
from burnish.core.content import short_id
from burnish.core.errors import ConfigError, Problem
from burnish.core.protocols import Role, Target
from burnish.core.surfaces import TextSurface
from burnish.core.trials import MAX_MISSING, SplitResult, Trial
from burnish.journal.limits import Budget
from burnish.runs.evaluation import GIVE_UP_AFTER, require_baseline
from burnish.runs.events import BASELINE, SearchEnded
from burnish.runs.plugins import Building, RoleNeed, StrategyParts, TargetParts
from burnish.runs.run import Run
from burnish.strategies.reflective.pool import Pool, SearchMemory
from burnish.strategies.reflective.race import Holdout, Stopped
from burnish.strategies.reflective.rounds import (
    ROLE,
    Proposer,
    Reflection,
    ReflectRequest,
    Rounds,
    reflector,
)
from burnish.strategies.reflective.settings import ReflectiveSettings

_VERSION = 1
IDLE_ROUNDS = 12
"""Rounds in a row without a candidate to run, after which nothing more is to be had: so many,
or two passes over train where that is more."""


@dataclass(frozen=True, kw_only=True)
class Reflective:
    """Reflective search over the texts of a target."""

    reflector: Role[ReflectRequest, Reflection]
    settings: ReflectiveSettings = field(default_factory=ReflectiveSettings)
    name: str = "reflective"

    @property
    def fingerprint(self) -> str:
        """A hash of the settings."""
        return short_id([_VERSION, self.settings.model_dump()])

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        """The reflector."""
        return [self.reflector]

    def fields(self, target: Target) -> list[str]:
        """The texts to rewrite."""
        texts = [s.id for s in target.surfaces if isinstance(s, TextSurface)]
        return [name for name in texts if name in self.settings.fields or not self.settings.fields]

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """There must be texts, and those that are named; each within its own bounds."""
        texts = {s.id: s for s in target.surfaces if isinstance(s, TextSurface)}
        problems = [
            Problem(where=name, message="there is no such text surface")
            for name in self.settings.fields
            if name not in texts
        ]
        if not texts:
            problems.append(Problem(message="there is no text to rewrite"))
        values = target.baseline.values
        troubles = (texts[name].problems(values[name]) for name in self.fields(target))
        return [*problems, *(problem for each in troubles for problem in each)]

    async def search(self, run: Run) -> None:
        """Measure the baseline, then make rounds until there is a reason to stop."""
        require_splits(run.dataset)
        memory = SearchMemory(objective=run.objective)
        holdout = Holdout(run, self.settings)
        proposer = Proposer(run, self.settings, self.reflector, memory)
        pool = Pool(run.objective, self.settings.frontier)
        rounds = Rounds(
            run,
            self.settings,
            fields=self.fields(run.target),
            pool=pool,
            proposer=proposer,
            holdout=holdout,
            memory=memory,
        )
        need = run.estimate(Split.HOLDOUT, repeats=self.settings.repeats)
        if run.stop_reason(need) is not None:
            return
        await _baseline(run, pool, holdout)
        ended = ""
        try:
            while not ended and run.stop_reason(rounds.need) is None:
                await rounds.next()
                run.answering.require(self.reflector.name, after=GIVE_UP_AFTER)
                ended = _ended(rounds, proposer)
                if ended and await rounds.finish():
                    ended = ""
        except Stopped:
            return
        if ended:
            over = SearchEnded(cycle=rounds.number, reason=ended)
            run.tell(over, f"round:{rounds.number}:{ended}")


def require_splits(dataset: Dataset) -> None:
    """Reflection needs cases to learn from and others to decide on."""
    splits = {"train": dataset.train, "holdout": dataset.holdout}
    problems = [
        Problem(where=name, message="reflective search needs cases here")
        for name, cases in splits.items()
        if not cases
    ]
    if problems:
        raise ConfigError(problems)


def least_metric_calls(dataset: Dataset, settings: ReflectiveSettings) -> int:
    """The runs of cases that it takes to measure the baseline and finish one round."""
    looks = 2 * min(settings.minibatch, len(dataset.train)) * settings.proposals_per_round
    raced = 1 if settings.parent_selection == "trail" else settings.proposals_per_round
    runs = raced * (2 if settings.racing else 1)
    return settings.repeats * (len(dataset.holdout) * (1 + runs) + looks)


def budget_floor(dataset: Dataset, settings: ReflectiveSettings, *, test_repeats: int) -> int:
    """The metric calls that it takes to finish one round, the sealed test set aside."""
    sealed = 2 * len(dataset.test) * test_repeats
    return least_metric_calls(dataset, settings) + sealed


async def _baseline(run: Run, pool: Pool, holdout: Holdout) -> None:
    """Measure where the search starts."""
    start = run.target.baseline
    evaluation = await holdout.all(start)
    result = SplitResult.of(evaluation, run.objective)
    run.record(Trial(candidate=start, phase=BASELINE, holdout=result))
    run.advance(start)
    pool.add(start, evaluation, leads=True)
    require_baseline(evaluation, objective=run.objective, max_missing=MAX_MISSING)


def _ended(rounds: Rounds, proposer: Proposer) -> str:
    """Why the search is over, though no limit is reached; empty when it is not."""
    if proposer.failures >= IDLE_ROUNDS:
        return "reflector_failed"
    if rounds.learned_all:
        return "no_failures"
    return "nothing_new" if rounds.idle >= max(IDLE_ROUNDS, rounds.two_passes) else ""


# -- Reflective search from a description ---------------------------------------------------------


REFLECTOR = RoleNeed(
    name=ROLE,
    help="Who rewrites texts: provider:name.",
    instead=("proposer", "critic"),
    panel="Prompts of any agent",
)
_PATIENCE = 10
"""Trials in a row without an accept that end a search which nothing else would end."""
_GOALS = ("score_threshold", "pass_rate_threshold", "required_metrics", "metric_thresholds")


def build(building: Building, parts: TargetParts) -> StrategyParts | None:
    """The search over the texts of a target; None, with what is wrong kept, where it cannot be."""
    problems, spec = building.problems, building.spec
    texts = parts.texts()
    settings: ReflectiveSettings = spec.strategy.settings.model_copy(update={"fields": texts})
    budget, notes = _ending(spec.budget.budget())
    small = _too_small(budget, parts.dataset, settings)
    if small is not None and not spec.output.baseline_only:
        problems.add("budget.max_metric_calls", small.message, small.remedy)
    ref = building.writer(REFLECTOR, parts)
    client = None if ref is None else building.asked(ROLE, ref)
    if client is None:
        return None
    return StrategyParts(
        strategy=Reflective(reflector=reflector(*client), settings=settings),
        budget=budget,
        client=client[0],
        notes=(*notes, *_notes(parts, settings)),
    )


def _ending(budget: Budget) -> tuple[Budget, tuple[str, ...]]:
    """The budget, with patience where nothing would end the search, and what to say of that.

    A reflector never runs out of words, and a goal may never be reached.
    """
    limits = [getattr(budget, each.name) for each in fields(budget) if each.name not in _GOALS]
    if any(limit is not None for limit in limits):
        return budget, ()
    note = f"the search ends after {_PATIENCE} trials in a row without an accept"
    return replace(budget, patience=_PATIENCE), (f"no limit is set: {note}",)


def _too_small(budget: Budget, dataset: Dataset, settings: ReflectiveSettings) -> Problem | None:
    """What to say of a budget that cannot finish one round."""
    limit = budget.max_metric_calls
    floor = budget_floor(dataset, settings, test_repeats=settings.repeats)
    if limit is None or limit >= floor:
        return None
    sealed = ", the sealed test included" if dataset.test else ""
    return Problem(
        where="max_metric_calls",
        message=f"{limit} runs of cases cannot finish one round: measuring the baseline and one "
        f"candidate takes {floor}{sealed}",
        remedy=f"allow {floor} or more, use fewer cases, or a smaller minibatch",
    )


def _notes(parts: TargetParts, settings: ReflectiveSettings) -> Iterator[str]:
    others = [*parts.numbers(), *parts.demonstrations()]
    if others:
        yield f"reflection rewrites texts only; left as they are: {', '.join(others)}"
    if settings.merge and len(settings.fields) < 2:
        yield "merging has no effect: it takes the texts of two prompts, and there is only one"
