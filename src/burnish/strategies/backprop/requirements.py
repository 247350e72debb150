"""What the settings must be, and name, before anything is paid."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from burnish.core.errors import ConfigError, Problem
from burnish.runs.run import Run
from burnish.strategies.backprop.settings import BackpropSettings

_AT_LEAST = {
    "max_rounds": 1,
    "max_rounds_without_acceptance": 0,
    "repeats": 1,
    "candidates_per_round": 1,
    "cases_per_round": 1,
    "backward_parallelism": 1,
    "aggregation_parallelism": 1,
    "patch_parallelism": 1,
}


def out_of_range(settings: BackpropSettings) -> list[Problem]:
    """The numbers that make no sense."""
    found: list[Problem] = []
    for name, least in _AT_LEAST.items():
        value = getattr(settings, name)
        if value is not None and value < least:
            message = f"must be at least {least}, found {value}"
            found.append(Problem(where=name, message=message))
    if settings.accept_sigma < 0:
        found.append(Problem(where="accept_sigma", message="cannot be negative"))
    return found


def require_known(run: Run, settings: BackpropSettings) -> None:
    """Refuse splits without cases, and names of cases and metrics that do not exist."""
    train = [case.id for case in run.dataset.train]
    holdout = [case.id for case in run.dataset.holdout]
    metrics = [metric.name for metric in run.setup.metrics]
    problems = [
        Problem(where=name, message="back-propagation needs cases here")
        for name, cases in (("train", train), ("holdout", holdout))
        if not cases
    ]
    hinted, guards = settings.loss_hints, settings.guards
    problems += _unknown("loss hint", "train case", (hint.case for hint in hinted), train)
    problems += _unknown("loss hint", "metric", (hint.metric for hint in hinted), metrics)
    problems += _unknown("loss target", "metric", settings.loss_targets, metrics)
    problems += _unknown("protected", "holdout case", guards.protected, holdout)
    problems += _unknown("floor", "metric", guards.floors, metrics)
    if problems:
        raise ConfigError(problems)


def listed(names: Sequence[str]) -> str:
    """What there is, for whoever named something else."""
    return f"there are: {', '.join(names) or 'none'}"


def _unknown(
    where: str, what: str, names: Iterable[str], known: Collection[str]
) -> Iterator[Problem]:
    for name in dict.fromkeys(names):
        if name not in known:
            yield Problem(
                where=where, message=f"there is no {what} '{name}'", remedy=listed([*known])
            )
