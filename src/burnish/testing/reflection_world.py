"""Worlds for reflective search with known truth: hidden rules, luck, and rewrites of every kind.

A support desk's agent answers from one or several texts, and an answer keeps a rule when the
right text states it. What lacks is named in the reasons of failures, and nowhere else. Luck is
a hash of case, draw and candidate, so every call is a function of its key.
"""

from burnish.core.objectives import Objective
from burnish.effects.budget import Budget
from burnish.runs.setup import Setup
from burnish.strategies.reflective.settings import ReflectiveSettings
from burnish.strategies.reflective.strategy import Reflective
from burnish.testing.doubles import CallCounter
from burnish.testing.reflection_world_agent import dataset, metrics, reflector, target
from burnish.testing.reflection_world_truth import (
    CONFLICT,
    ONE_RULE_A_FIELD,
    World,
    best_score,
    true_score,
)

__all__ = [
    "CONFLICT",
    "ONE_RULE_A_FIELD",
    "World",
    "best_score",
    "dataset",
    "metrics",
    "reflector",
    "setup",
    "target",
    "true_score",
]

CALLS = 400
"""Metric calls of a run, unless a budget is given."""


def setup(
    world: World | None = None,
    settings: ReflectiveSettings | None = None,
    *,
    budget: Budget | None = None,
    counter: CallCounter | None = None,
) -> Setup:
    """Everything a run of reflective search in this world needs."""
    world = world or World()
    measured = metrics(world)
    return Setup(
        target=target(world, counter=counter),
        metrics=measured,
        objective=Objective(weights={metric.name: 1.0 for metric in measured}),
        dataset=dataset(world),
        strategy=Reflective(
            settings=settings or ReflectiveSettings(), reflector=reflector(world, counter=counter)
        ),
        budget=budget or Budget(max_metric_calls=CALLS),
    )
