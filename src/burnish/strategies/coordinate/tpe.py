"""The next point to try, by optuna's TPE: asked afresh each time, so that nothing is remembered.

A suggestion is a function of the observations and a seed. The journal keeps it, the ledger
keeps the observations, and a resume asks for nothing that was asked before.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import ChoiceSurface
from burnish.strategies.coordinate.parzen import CANDIDATES
from burnish.strategies.coordinate.space import Axis, Observation, Point, Space

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
        point = {axis.id: each.point[axis.id] for axis in space.axes}
        study.add_trial(
            optuna.trial.create_trial(params=point, distributions=distributions, value=each.loss)
        )
    params: dict[str, Any] = study.ask(distributions).params
    return {axis.id: params[axis.id] for axis in space.axes}


def _distribution(axis: Axis) -> "BaseDistribution":
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if isinstance(axis, ChoiceSurface):
        return CategoricalDistribution(axis.choices)
    if axis.integer:
        step = int(axis.step or 1)
        return IntDistribution(int(axis.low), int(axis.high), log=axis.log, step=step)
    return FloatDistribution(axis.low, axis.high, log=axis.log, step=axis.step)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        message = "searching over numbers needs optuna"
        remedy = "pip install 'burnish[numeric]'"
        raise ConfigError([Problem(where="axes.numeric", message=message, remedy=remedy)]) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
