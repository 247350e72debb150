"""Demonstrations: which worked examples there are, and which of them to show, in which order."""

import math
from collections.abc import Sequence

from burnish.core.cases import Case
from burnish.core.evaluations import Evaluation
from burnish.core.surfaces import ChoiceSurface, Demonstration, DemosSurface, NumberSurface
from burnish.strategies.coordinate.space import Point, Space

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

    What it got right is shown as the agent said it: that is how a right answer looks. Only cases
    of one turn: a demonstration is a question and an answer.
    """
    right: dict[str, str] = {}
    for result in measured.results:
        if result.passed(metrics) and result.outcome.output:
            right.setdefault(result.case, result.outcome.output)
    there = {demo.case for demo in shown if demo.case}
    fit = [case for case in cases if case.id not in there and _stands_alone(case)]
    found = [
        *(_demo(case, right[case.id]) for case in fit if case.id in right),
        *(_demo(case, case.expected) for case in fit if case.id not in right and case.expected),
    ]
    return tuple([*shown, *(demo for demo in found if _size(demo) <= _room(surface))][:POOL])


def space_of(pool: Sequence[Demonstration], surface: DemosSurface) -> Space:
    """How many, and which stands where."""
    most = min(surface.max_demos, len(pool))
    count = NumberSurface(id=COUNT, low=1, high=most, integer=True)
    places = [ChoiceSurface(id=_place(n), choices=tuple(range(len(pool)))) for n in range(most)]
    return Space(axes=(count, *places))


def first_points(pool: Sequence[Demonstration], surface: DemosSurface) -> list[Point]:
    """Points to start with: the first few of the pool, in order."""
    most = min(surface.max_demos, len(pool))
    order = {_place(n): n for n in range(most)}
    counts = dict.fromkeys(min(count, most) for count in FIRST_COUNTS)
    return [{COUNT: count, **order} for count in counts]


def shown(
    pool: Sequence[Demonstration], point: Point, surface: DemosSurface
) -> tuple[Demonstration, ...]:
    """The demonstrations of a point; each once, and as many as there is room for."""
    chosen = dict.fromkeys(int(point[_place(n)]) for n in range(int(point[COUNT])))
    found: list[Demonstration] = []
    for demo in (pool[index] for index in chosen):
        if sum(map(_size, found)) + _size(demo) <= _room(surface):
            found.append(demo)
    return tuple(found)


def ways_to_show(pool: Sequence[Demonstration], surface: DemosSurface) -> int:
    """How many different showings there are: subsets in every order."""
    most = min(surface.max_demos, len(pool))
    return sum(math.perm(len(pool), count) for count in range(1, most + 1))


def point_of(
    pool: Sequence[Demonstration], demos: Sequence[Demonstration], surface: DemosSurface
) -> Point | None:
    """The point that shows these demonstrations; None where the pool does not have them."""
    if not demos or any(demo not in pool for demo in demos):
        return None
    most = min(surface.max_demos, len(pool))
    places = [pool.index(demo) for demo in demos][:most]
    rest = [index for index in range(len(pool)) if index not in places]
    filled = [*places, *rest][:most]
    return {COUNT: len(places), **{_place(n): index for n, index in enumerate(filled)}}


def _place(number: int) -> str:
    return f"place-{number + 1}"


def _demo(case: Case, output: str) -> Demonstration:
    return Demonstration(input=case.input, output=output, case=case.id)


def _stands_alone(case: Case) -> bool:
    more = case.history or case.scenario or case.turns[0].attachments
    return len(case.turns) == 1 and not more


def _size(demo: Demonstration) -> int:
    return len(demo.input) + len(demo.output)


def _room(surface: DemosSurface) -> float:
    return math.inf if surface.max_chars is None else surface.max_chars
