"""The Pareto frontier: who is best at something, and who of them is worth building on.

What "something" is, the type of the frontier says: a holdout case, a metric, either of them, or
a metric on a case.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeAlias

from burnish.core.evaluations import Evaluation
from burnish.core.objectives import Objective
from burnish.core.surfaces import EPSILON
from burnish.strategies.reflective.settings import FrontierType

Standards: TypeAlias = Mapping[Hashable, float]
"""How one candidate does at each thing there is to be best at."""
Fronts: TypeAlias = Mapping[Hashable, frozenset[int]]
"""For each thing, the candidates that are best at it, by number."""


def standards(evaluation: Evaluation, objective: Objective, kind: FrontierType) -> Standards:
    """How a candidate does at each thing that the type of frontier looks at."""
    found: dict[Hashable, float] = {}
    if kind in ("instance", "hybrid"):
        scores = ((case, objective.case_score(evaluation, case)) for case in evaluation.cases)
        found |= {("case", case): score for case, score in scores if score is not None}
    if kind in ("objective", "hybrid"):
        means = ((metric, evaluation.mean_of(metric)) for metric in objective.weights)
        found |= {("metric", metric): mean for metric, mean in means if mean is not None}
    if kind == "cartesian":
        found |= _cells(evaluation, objective)
    return found


def fronts_of(members: Sequence[Standards]) -> Fronts:
    """Who is best at each thing; ties stand side by side."""
    best: dict[Hashable, float] = {}
    for does in members:
        for thing, score in does.items():
            best[thing] = max(score, best.get(thing, score))
    return {
        thing: frozenset(
            number
            for number, does in enumerate(members)
            if thing in does and does[thing] >= score - EPSILON
        )
        for thing, score in best.items()
    }


def without_dominated(fronts: Fronts, scores: Sequence[float]) -> Fronts:
    """Leave out, the worst first, whoever is nowhere best alone."""
    there = {number for front in fronts.values() for number in front}
    for number in sorted(there, key=lambda each: (scores[each], -each)):
        others = there - {number}
        if all(front & others for front in fronts.values() if number in front):
            there = others
    return {thing: front & there for thing, front in fronts.items()}


def presence(fronts: Fronts) -> Counter[int]:
    """At how many things each candidate is best."""
    return Counter(number for front in fronts.values() for number in sorted(front))


def _cells(evaluation: Evaluation, objective: Objective) -> dict[Hashable, float]:
    found: dict[Hashable, float] = {}
    for case in evaluation.cases:
        alone = evaluation.only({case})
        means = ((metric, alone.mean_of(metric)) for metric in objective.weights)
        found |= {(case, metric): mean for metric, mean in means if mean is not None}
    return found
