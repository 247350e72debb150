"""The next point to try, by optuna's TPE: asked afresh each time, so that nothing is remembered.

A suggestion is a function of the observations and a seed. The journal keeps it, the ledger
keeps the observations, and a resume asks for nothing that was asked before.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import ChoiceSurface, Scalar
from burnish.strategies.coordinate.parzen import CANDIDATES
from burnish.strategies.coordinate.space import (
    Axis,
    Observation,
    Point,
    Space,
    grid_place,
    on_grid,
    values_of,
)

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

WARM_UP = 10
"""Random points before the model is asked, where patience leaves room for so many."""


def warm_up(patience: int | None) -> int:
    """Points at random: never so many that patience ends the phase before the model is asked."""
    return WARM_UP if patience is None else max(1, min(WARM_UP, patience - 1))


def suggest(
    space: Space, observations: Sequence[Observation], *, seed: int, start: int = WARM_UP
) -> Point:
    """A point to try, given what is known; at random while fewer than `start` are known."""
    optuna: Any = _optuna()
    distributions = {axis.id: _distribution(axis) for axis in space.axes}
    study: Any = optuna.create_study(
        direction="minimize",
        sampler=optuna.samplers.TPESampler(
            seed=seed,
            n_startup_trials=start,
            n_ei_candidates=CANDIDATES,
            multivariate=True,
        ),
    )
    for each in observations:
        params = {axis.id: _to_optuna(axis, each.point[axis.id]) for axis in space.axes}
        study.add_trial(
            optuna.trial.create_trial(params=params, distributions=distributions, value=each.loss)
        )
    found: dict[str, Any] = study.ask(distributions).params
    return {axis.id: _from_optuna(axis, found[axis.id]) for axis in space.axes}


def _distribution(axis: Axis) -> "BaseDistribution":
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

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
    if isinstance(axis, ChoiceSurface):
        return value
    if axis.step is not None:
        return on_grid(axis, int(value))
    if axis.integer:
        return value
    # The last bits differ between processors: without them a run that moves replays as it went.
    return min(axis.high, max(axis.low, float(f"{value:.12g}")))


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        message = "searching over numbers needs optuna"
        remedy = "pip install 'burnish[numeric]'"
        raise ConfigError([Problem(where="axes.numeric", message=message, remedy=remedy)]) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
