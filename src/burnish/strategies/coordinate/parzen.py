"""The two densities of TPE, computed here: where good points lie, where the others do.

optuna proposes; its densities are its own. These are the textbook ones, per axis, on a scale
of 0 to 1: a mixture of normal curves around the points and a flat one for what nobody tried.
They explain a suggestion, and say what is still to be gained.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from burnish.core.evaluations import mean
from burnish.core.surfaces import EPSILON, ChoiceSurface, Scalar, value_key
from burnish.strategies.coordinate.space import (
    Axis,
    Observation,
    Point,
    Space,
    at_unit,
    unit,
)

QUANTILE = 0.25
"""The share of points that counts as good here; a tenth, as optuna takes it, is one of ten."""
CANDIDATES = 24
"""Points that optuna looks at for one suggestion, and points that are looked at here."""


@dataclass(frozen=True, kw_only=True)
class Marginal:
    """How dense good and other points are around one value of one axis."""

    value: Scalar
    good_density: float
    bad_density: float


@dataclass(frozen=True, kw_only=True)
class Densities:
    """Good and other points of a space."""

    space: Space
    good: tuple[Observation, ...]
    bad: tuple[Observation, ...]

    @classmethod
    def of(cls, space: Space, observations: Sequence[Observation]) -> "Densities":
        """The best quarter, at least one, against the rest."""
        ranked = sorted(observations, key=lambda each: each.loss)
        count = math.ceil(QUANTILE * len(ranked))
        return cls(space=space, good=tuple(ranked[:count]), bad=tuple(ranked[count:]))

    def marginals(self, point: Point) -> dict[str, Marginal]:
        """Both densities at a point, axis by axis."""
        return {
            axis.id: Marginal(
                value=point[axis.id],
                good_density=_density(axis, self.good, point[axis.id]),
                bad_density=_density(axis, self.bad, point[axis.id]),
            )
            for axis in self.space.axes
        }

    def ratio(self, point: Point) -> float:
        """How much denser good points are there than the others: what TPE looks for."""
        return ratio(self.marginals(point))

    def expected_improvement(self, point: Point) -> float:
        """What TPE expects to gain at a point, in units of the loss (Bergstra 2011, eq. 3).

        The gain is below a bar: the best of the other points. Where good ones tie with it, the
        next loss above them is the bar, since a few cases give few different losses and a tie
        at the top says nothing of what is left.
        """
        if not self.good or not self.bad:
            return math.inf
        losses = [each.loss for each in (*self.good, *self.bad)]
        best = self.good[0].loss
        bar = next((e.loss for e in self.bad if e.loss > best + EPSILON), best)
        below = mean([max(0.0, bar - loss) for loss in losses])
        share = mean([float(loss < bar - EPSILON) for loss in losses])
        return below / (share + (1 - share) / self.ratio(point))


def ratio(marginals: Mapping[str, Marginal]) -> float:
    """Good against other density over all axes."""
    return math.prod(m.good_density / m.bad_density for m in marginals.values())


def best_expected_improvement(
    space: Space, observations: Sequence[Observation], rng: random.Random
) -> float:
    """The most that is still expected anywhere: at the good points and around them."""
    if not observations:
        return math.inf
    densities = Densities.of(space, observations)
    near = [_near(space, rng.choice(densities.good).point, rng) for _ in range(CANDIDATES)]
    points = [*(each.point for each in densities.good), *near]
    return max(map(densities.expected_improvement, points))


def _density(axis: Axis, among: Sequence[Observation], value: Scalar) -> float:
    if isinstance(axis, ChoiceSurface):
        same = sum(value_key(each.point[axis.id]) == value_key(value) for each in among)
        return (same + 1 / len(axis.choices)) / (len(among) + 1) * len(axis.choices)
    at = unit(axis, float(value))
    curves = (_curve(unit(axis, float(each.point[axis.id])), at, len(among)) for each in among)
    return (math.fsum(curves) + 1.0) / (len(among) + 1)


def _curve(centre: float, at: float, count: int) -> float:
    """A normal curve around a point, cut off at the ends of the range."""
    curve = NormalDist(centre, _width(count))
    return curve.pdf(at) / (curve.cdf(1.0) - curve.cdf(0.0))


def _width(count: int) -> float:
    """Narrower with every point: Scott's rule on the unit range."""
    return max(0.02, 0.3 * (count + 1) ** -0.2)


def _near(space: Space, centre: Point, rng: random.Random) -> Point:
    return {axis.id: _moved(axis, centre[axis.id], rng) for axis in space.axes}


def _moved(axis: Axis, value: Scalar, rng: random.Random) -> Scalar:
    if isinstance(axis, ChoiceSurface):
        return rng.choice(axis.choices)
    at = min(1.0, max(0.0, rng.gauss(unit(axis, float(value)), 0.1)))
    return at_unit(axis, at)
