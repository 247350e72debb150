"""What the settings must be, and name, before anything is paid."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from burnish.core.errors import ConfigError, Problem
from burnish.runs.run import Run
from burnish.strategies.backprop.settings import BackpropSettings


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
