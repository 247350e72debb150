"""Demonstrations: which worked examples there are, and which of them to show, in which order."""

import math
import random
from collections.abc import Sequence

from burnish.core.cases import Case
from burnish.core.demonstrations import Demonstration
from burnish.core.evaluations import Evaluation
from burnish.core.surfaces import ChoiceSurface, DemosSurface, NumberSurface
from burnish.strategies.coordinate.space import Point, Space
from burnish.strategies.coordinate.worked_examples import labelled, right_runs, traced
from burnish.system.redaction import MARKER

POOL = 16
"""Examples to choose from: enough for variety, few enough to learn which are good."""
COUNT = "count"
FIRST_COUNTS = (2, 4, 8)
"""The first trials: how much do any demonstrations help?"""


def pool_of(
    cases: Sequence[Case],
    measured: Evaluation,
    metrics: Sequence[str],
    surface: DemosSurface,
    *,
    shown: Sequence[Demonstration] = (),
) -> tuple[Demonstration, ...]:
    """Worked examples: those shown now, then what the agent got right, then what the labels say.

    What it got right is shown as it happened, tools included: that is how a right answer is come
    by. Only cases of one turn: a demonstration is a question and an answer.
    """
    there = {demo.case for demo in shown if demo.case}
    fit = [case for case in cases if case.id not in there and _stands_alone(case)]
    right = right_runs(measured, metrics)
    traces = [traced(case, right[case.id]) for case in fit if case.id in right]
    found = [demo for demo in traces if _may_be_shown(demo, surface)]
    had = {demo.case for demo in found}
    labels = [labelled(case) for case in fit if case.id not in had and case.expected]
    found += [demo for demo in labels if _may_be_shown(demo, surface)]
    return tuple([*shown, *found][:POOL])


def space_of(pool: Sequence[Demonstration], surface: DemosSurface) -> Space:
    """How many, none included, and which stands where."""
    most = min(surface.max_demos, len(pool))
    count = NumberSurface(id=COUNT, low=0, high=most, integer=True)
    places = [ChoiceSurface(id=_place(n), choices=tuple(range(len(pool)))) for n in range(most)]
    return Space(axes=(count, *places))


def first_points(
    pool: Sequence[Demonstration],
    surface: DemosSurface,
    *,
    shown: Sequence[Demonstration] = (),
) -> list[Point]:
    """Points to start with: the first few of the pool; where some are shown, none of them."""
    most = min(surface.max_demos, len(pool))
    order = {_place(n): n for n in range(most)}
    wanted = (0,) if shown else FIRST_COUNTS
    counts = dict.fromkeys(min(count, most) for count in wanted)
    return [{COUNT: count, **order} for count in counts]


def shown(
    pool: Sequence[Demonstration], point: Point, surface: DemosSurface
) -> tuple[Demonstration, ...]:
    """The demonstrations of a point; each once, and as many as there is room for."""
    chosen = dict.fromkeys(int(point[_place(n)]) for n in range(int(point[COUNT])))
    found: list[Demonstration] = []
    for demo in (pool[index] for index in chosen):
        if sum(each.size for each in found) + demo.size <= _room(surface):
            found.append(demo)
    return tuple(found)


def drawn(pool: Sequence[Demonstration], surface: DemosSurface, rng: random.Random) -> Point:
    """A point by chance that shows something."""
    most = min(surface.max_demos, len(pool))
    order = rng.sample(range(len(pool)), most)
    places = {_place(n): index for n, index in enumerate(order)}
    return {COUNT: rng.randint(1, most), **places}


def ways_to_show(pool: Sequence[Demonstration], surface: DemosSurface) -> int:
    """How many different showings there are: subsets in every order, the empty one included."""
    most = min(surface.max_demos, len(pool))
    return sum(math.perm(len(pool), count) for count in range(most + 1))


def point_of(
    pool: Sequence[Demonstration], demos: Sequence[Demonstration], surface: DemosSurface
) -> Point | None:
    """The point that shows these demonstrations; None where the pool does not have them."""
    if any(demo not in pool for demo in demos):
        return None
    most = min(surface.max_demos, len(pool))
    places = [pool.index(demo) for demo in demos][:most]
    rest = [index for index in range(len(pool)) if index not in places]
    filled = [*places, *rest][:most]
    return {COUNT: len(places), **{_place(n): index for n, index in enumerate(filled)}}


def _place(number: int) -> str:
    return f"place-{number + 1}"


def _stands_alone(case: Case) -> bool:
    more = case.history or case.scenario or case.turns[0].attachments
    return len(case.turns) == 1 and not more


def _may_be_shown(demo: Demonstration, surface: DemosSurface) -> bool:
    """It fits, and nothing was taken out of it that might have been a secret."""
    return demo.size <= _room(surface) and MARKER not in str(demo)


def _room(surface: DemosSurface) -> float:
    return math.inf if surface.max_chars is None else surface.max_chars
