"""The space of numbers and choices, and the next point by TPE."""

import math
import random
from collections.abc import Container, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, TypeAlias

from burnish.core.content import stream
from burnish.core.errors import ConfigError, Problem
from burnish.core.evaluations import mean
from burnish.core.surfaces import (
    EPSILON,
    ChoiceSurface,
    NumberSurface,
    Scalar,
    at_unit,
    grid_place,
    on_grid,
    rounded,
    unit,
    value_key,
    values_of,
)
from burnish.system.extras import install_command

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


Axis: TypeAlias = NumberSurface | ChoiceSurface
Point: TypeAlias = Mapping[str, Scalar]


@dataclass(frozen=True, kw_only=True)
class Observation:
    """A point that was measured, and its loss."""

    point: Point
    loss: float


@dataclass(frozen=True, kw_only=True)
class SearchSpace:
    """The axes that are searched together."""

    axes: tuple[Axis, ...]

    @cached_property
    def size(self) -> float:
        """How many points there are; infinite where an axis is continuous."""
        return math.prod(map(values_of, self.axes))

    def key(self, point: Point) -> tuple[bytes, ...]:
        return tuple(value_key(_to_optuna(axis, point[axis.id])) for axis in self.axes)

    def contains(self, point: Point) -> bool:
        """Whether the point is within all bounds and on all grids."""
        return not any(axis.problems(point[axis.id]) for axis in self.axes)


_QUANTILE = 0.25
"""The share of points that counts as good when convergence is judged; a tenth, as the sampler
takes it, is one of ten."""
SAMPLER_QUANTILE = 0.1
"""The share of points that counts as good for optuna's sampler."""
CANDIDATES = 24
"""Points that optuna looks at for one suggestion, and points that are looked at here."""


@dataclass(frozen=True, kw_only=True)
class _Marginal:
    """How dense good and other points are around one value of one axis."""

    value: Scalar
    good_density: float
    bad_density: float


@dataclass(frozen=True, kw_only=True)
class Densities:
    """Good and other points of a space."""

    space: SearchSpace
    good: tuple[Observation, ...]
    bad: tuple[Observation, ...]

    @classmethod
    def of(cls, space: SearchSpace, observations: Sequence[Observation]) -> "Densities":
        """The best quarter, at least one, against the rest."""
        ranked = sorted(observations, key=lambda each: each.loss)
        count = math.ceil(_QUANTILE * len(ranked))
        return cls(space=space, good=tuple(ranked[:count]), bad=tuple(ranked[count:]))

    def marginals(self, point: Point) -> dict[str, _Marginal]:
        """Both densities at a point, axis by axis."""
        return {
            axis.id: _Marginal(
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


def ratio(marginals: Mapping[str, _Marginal]) -> float:
    """Good against other density over all axes."""
    return math.prod(m.good_density / m.bad_density for m in marginals.values())


def best_expected_improvement(
    space: SearchSpace, observations: Sequence[Observation], rng: random.Random
) -> float:
    """The most that is still expected anywhere: at the good points and around them."""
    if not observations:
        return math.inf
    densities = Densities.of(space, observations)
    points = [each.point for each in densities.good]
    for _ in range(CANDIDATES):
        centre = rng.choice(densities.good).point
        points.append({axis.id: _moved(axis, centre[axis.id], rng) for axis in space.axes})
    return max(map(densities.expected_improvement, points))


def _density(axis: Axis, among: Sequence[Observation], value: Scalar) -> float:
    if isinstance(axis, ChoiceSurface):
        same = sum(value_key(each.point[axis.id]) == value_key(value) for each in among)
        return (same + 1 / len(axis.choices)) / (len(among) + 1) * len(axis.choices)
    at = unit(axis, float(value))
    # Narrower with every point: Scott's rule on the unit range.
    width = max(0.02, 0.3 * (len(among) + 1) ** -0.2)
    curves = [NormalDist(unit(axis, float(each.point[axis.id])), width) for each in among]
    # Each curve is cut off at the ends of the range.
    heights = (curve.pdf(at) / (curve.cdf(1.0) - curve.cdf(0.0)) for curve in curves)
    return (math.fsum(heights) + 1.0) / (len(among) + 1)


def _moved(axis: Axis, value: Scalar, rng: random.Random) -> Scalar:
    if isinstance(axis, ChoiceSurface):
        return rng.choice(axis.choices)
    at = min(1.0, max(0.0, rng.gauss(unit(axis, float(value)), 0.1)))
    return at_unit(axis, at)


_SECOND_TRIES = 8
"""How often the model is asked again when it suggests a point that was tried."""
WARM_UP = 10
"""Random points before the model is asked, where patience leaves room for so many."""


def warm_up(patience: int | None) -> int:
    """Points at random: never so many that patience ends the phase before the model is asked."""
    return WARM_UP if patience is None else max(1, min(WARM_UP, patience - 1))


def suggest_new(
    space: SearchSpace,
    observations: Sequence[Observation],
    *,
    seed: int,
    start: int = WARM_UP,
    seen: Container[Hashable] = (),
) -> Point:
    """A point to try that was not seen, if one of a few suggestions is such a point.

    Rounded numbers repeat. Where no axis is continuous, the first suggestion is taken as it is.
    """
    rng = stream(seed, "suggested again")
    point = suggest(space, observations, seed=seed, start=start)
    for _ in range(_SECOND_TRIES if math.isinf(space.size) else 0):
        if space.key(point) not in seen:
            break
        point = suggest(space, observations, seed=rng.getrandbits(31), start=start)
    return point


def suggest(
    space: SearchSpace, observations: Sequence[Observation], *, seed: int, start: int = WARM_UP
) -> Point:
    """A point to try, given what is known; at random while fewer than `start` are known."""
    optuna: Any = _optuna()
    distributions = {axis.id: _distribution(axis) for axis in space.axes}
    study: Any = optuna.create_study(
        direction="minimize",
        sampler=optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=start, n_ei_candidates=CANDIDATES, multivariate=True
        ),
    )
    for each in observations:
        params = {axis.id: _to_optuna(axis, each.point[axis.id]) for axis in space.axes}
        study.add_trial(
            optuna.trial.create_trial(params=params, distributions=distributions, value=each.loss)
        )
    suggested: dict[str, Any] = study.ask(distributions).params
    return {axis.id: _from_optuna(axis, suggested[axis.id]) for axis in space.axes}


def _distribution(axis: Axis) -> "BaseDistribution":
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(axis, ChoiceSurface):
        return CategoricalDistribution(axis.choices)
    if axis.step is not None:
        # Places of the grid: optuna's own steps neither go with a log scale nor with an end
        # that is off the grid, and add up rounding errors.
        return IntDistribution(0, int(values_of(axis)) - 1)
    if axis.integer:
        return IntDistribution(math.ceil(axis.low), math.floor(axis.high), log=axis.log)
    return FloatDistribution(axis.low, axis.high, log=axis.log)


def _to_optuna(axis: Axis, value: Scalar) -> Scalar:
    if isinstance(axis, ChoiceSurface) or axis.step is None:
        return value
    return grid_place(axis, float(value))


def _from_optuna(axis: Axis, value: Scalar) -> Scalar:
    if isinstance(axis, NumberSurface) and axis.step is not None:
        return on_grid(axis, int(value))
    if isinstance(axis, ChoiceSurface) or axis.integer:
        return value
    return rounded(axis, float(value))


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        message = "searching over numbers needs optuna"
        remedy = install_command("numeric")
        raise ConfigError([Problem(where="axes.numeric", message=message, remedy=remedy)]) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
