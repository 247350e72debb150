"""Demonstrations: which worked examples there are, and which of them to show, in which order."""

from collections.abc import Sequence

from burnish.core.cases import Case
from burnish.core.evaluations import Evaluation
from burnish.core.surfaces import ChoiceSurface, Demonstration, DemosSurface, NumberSurface
from burnish.strategies.coordinate.space import Observation, Point, Space

POOL = 16
"""Examples to choose from: enough for variety, few enough to learn which are good."""
COUNT = "count"
FIRST_COUNTS = (2, 4, 8)
"""The first trials: how much do any demonstrations help?"""


def pool_of(
    cases: Sequence[Case], measured: Evaluation, metrics: Sequence[str], surface: DemosSurface
) -> tuple[Demonstration, ...]:
    """Worked examples from train: what the agent got right, then what the labels say.

    Only cases of one turn with a reference: a demonstration shows what to say, and the
    reference is what to say.
    """
    right = {r.case for r in measured.results if r.passed(metrics)}
    fit = [case for case in cases if _shows(case, surface)]
    ranked = [*(c for c in fit if c.id in right), *(c for c in fit if c.id not in right)]
    return tuple(
        Demonstration(input=case.input, output=case.expected or "", case=case.id)
        for case in ranked[:POOL]
    )


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


def shown(pool: Sequence[Demonstration], point: Point) -> tuple[Demonstration, ...]:
    """The demonstrations of a point; one that stands in two places is shown once."""
    places = range(int(point[COUNT]))
    chosen = dict.fromkeys(int(point[_place(n)]) for n in places)
    return tuple(pool[index] for index in chosen)


def fits(demos: Sequence[Demonstration], surface: DemosSurface) -> bool:
    """Whether the demonstrations are within their bounds."""
    return not surface.problems(tuple(demos))


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


def observed(point: Point, loss: float) -> Observation:
    """A point with its loss."""
    return Observation(point=point, loss=loss)


def _place(number: int) -> str:
    return f"place-{number + 1}"


def _shows(case: Case, surface: DemosSurface) -> bool:
    if len(case.turns) != 1 or case.expected is None or case.turns[0].attachments:
        return False
    size = len(case.input) + len(case.expected)
    return surface.max_chars is None or size <= surface.max_chars
