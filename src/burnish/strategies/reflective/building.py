"""Reflective search from a description: the texts, the reflector, and a budget that ends it."""

from collections.abc import Iterator
from dataclasses import fields, replace

from burnish.core.cases import Dataset
from burnish.core.errors import Problem
from burnish.effects.budget import Budget
from burnish.runs.parts import Building, RoleNeed, StrategyParts, TargetParts
from burnish.strategies.reflective.settings import ReflectiveSettings
from burnish.strategies.reflective.strategy import Reflective, budget_floor
from burnish.strategies.reflective.wording import ROLE, reflector

REFLECTOR = RoleNeed(
    name=ROLE,
    help="Who rewrites texts: provider:name.",
    instead=("proposer", "critic"),
    panel="Prompts of any agent",
)
PATIENCE = 10
"""Trials in a row without an accept that end a search which nothing else would end."""
_GOALS = ("score_threshold", "pass_rate_threshold", "required_metrics", "metric_thresholds")


def build(building: Building, parts: TargetParts) -> StrategyParts | None:
    """The search over the texts of a target; None, with what is wrong kept, where it cannot be."""
    problems, spec = building.problems, building.spec
    texts = parts.texts()
    settings: ReflectiveSettings = spec.strategy.settings.model_copy(update={"fields": texts})
    budget, notes = ending(spec.budget.budget())
    small = too_small(budget, parts.dataset, settings)
    if small is not None and not spec.output.baseline_only:
        problems.add("budget.max_metric_calls", small.message, small.remedy)
    ref = building.writer(REFLECTOR, parts)
    asked = None if ref is None else building.asked(ROLE, ref)
    if asked is None:
        return None
    return StrategyParts(
        strategy=Reflective(reflector=reflector(*asked), settings=settings),
        budget=budget,
        client=asked[0],
        notes=(*notes, *_notes(parts, settings)),
    )


def ending(budget: Budget) -> tuple[Budget, tuple[str, ...]]:
    """The budget, with patience where nothing would end the search, and what to say of that.

    A reflector never runs out of words, and a goal may never be reached.
    """
    limits = [getattr(budget, each.name) for each in fields(budget) if each.name not in _GOALS]
    if any(limit is not None for limit in limits):
        return budget, ()
    note = f"the search ends after {PATIENCE} trials in a row without an accept"
    return replace(budget, patience=PATIENCE), (f"no limit is set: {note}",)


def too_small(budget: Budget, dataset: Dataset, settings: ReflectiveSettings) -> Problem | None:
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
