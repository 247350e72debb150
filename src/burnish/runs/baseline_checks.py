"""What is asked of the baseline: whether anything can be compared with it, and by what."""

from collections.abc import Collection, Iterable

from burnish.core.comparisons import commonest_reason, silent_metrics, unmeasured
from burnish.core.errors import BaselineUnmeasured
from burnish.core.evaluations import Evaluation, Objective
from burnish.core.protocols import DescribedMetric, Metric
from burnish.runs.evaluation import Conditions
from burnish.runs.events import ALARM, Warned
from burnish.runs.run import Run

_UNMEASURED = (
    "nothing can be compared with it, so nothing was tried. Fix the cause, then start a new run "
    "that retries what is missing: --fork RUN --retry-missing"
)
_SILENT = (
    "a loss without it would not be the one that was asked for, so nothing was tried. Remove it "
    "from the loss, or give the cases what it needs"
)
_CRASHED = (
    "every candidate would fail in the same way, and no model of this search can change that, so "
    "nothing was tried. Run one case with `burnish eval` and mend the agent first"
)


def require_baseline(
    run: Run, *sides: Evaluation | None, max_missing: float, primary: str = ""
) -> None:
    """Raise BaselineUnmeasured if the search has nothing to start from.

    An agent that fails on every case is measured: it scores 0. But the user should know at once,
    and only a proposer that reads the errors can mend it.
    """
    require_measured(*sides, conditions=run.setup, max_missing=max_missing, primary=primary)
    crashes = [crash for side in sides if side is not None and (crash := _crash(side))]
    if not crashes:
        return
    # Numbers and choices are moved by no model that could read the error.
    if not run.setup.strategy.roles and not run.replaying:
        raise BaselineUnmeasured(crashes[0], remedy=_CRASHED)
    message = f"{crashes[0]}. The search tries to mend that"
    run.tell(Warned(message=message), f"{ALARM}:baseline")


def require_measured(
    *sides: Evaluation | None, conditions: Conditions, max_missing: float, primary: str = ""
) -> None:
    """Raise BaselineUnmeasured if nothing can be compared with the baseline.

    `sides` are its evaluations, one per split; `primary` is the number to compare if it is not
    the loss.
    """
    objective = conditions.objective
    for side in sides:
        if side is None:
            continue
        why = unmeasured(side, objective, max_missing=max_missing, primary=primary)
        if not why:
            continue
        silent = silent_metrics(side, objective.weights)
        needs = [f"; {needed}" for m in conditions.metrics if (needed := _needs(m, silent))]
        raise BaselineUnmeasured(
            f"the baseline could not be measured: {why}{''.join(needs)}",
            remedy=_SILENT if needs else _UNMEASURED,
        )


def _crash(side: Evaluation) -> str:
    """How the agent failed if it did so in every run; empty if one went well or is missing."""
    failures = {r.case: r.outcome.failure for r in side.results if r.outcome.failed}
    if not side.results or not all(result.outcome.failed for result in side.results):
        return ""
    common = commonest_reason(failure.message for failure in failures.values() if failure)
    return f"the agent failed on every case of {side.split.value}, in {common}"


def _needs(metric: Metric, silent: Collection[str]) -> str:
    """What a metric that is silent needs, if it says so."""
    needs = metric.needs if isinstance(metric, DescribedMetric) and metric.name in silent else ""
    return f"{metric.name} needs {needs}" if needs else ""


def broken_constraints(evaluation: Evaluation, objective: Objective) -> tuple[str, ...]:
    """The constraints that an evaluation breaks, each with its number."""
    values = objective.measure(evaluation).values
    return tuple(
        f"{each}: {each.metric} is {values[each.metric]:g} on {evaluation.split.value}"
        for each in objective.constraints
        if each.holds(values) is False
    )


def check_constraints(run: Run, *sides: Evaluation | None, subject: str, meanwhile: str) -> None:
    """Raise if a constraint can never hold; warn if the baseline breaks one.

    `sides` are the baseline's evaluations, `subject` is what it is in words, and `meanwhile` says
    what is accepted until all constraints hold.
    """
    objective, measured = run.objective, [side for side in sides if side is not None]
    breakers = [each.metric for each in objective.tie_breakers]
    for side in measured:
        absent = _not_returned(side, objective, objective.constrained_names)
        # A run that went on before there was this check goes on.
        if absent and not run.replaying:
            raise BaselineUnmeasured(
                f"{absent}: no edit could keep the constraints",
                remedy="name one of these, or let the scorer return it",
            )
        if absent := _not_returned(side, objective, breakers):
            message = f"{absent}: this tie-breaker decides nothing"
            run.tell(Warned(message=message), f"baseline:{side.split.value}:breakers")
    if broken := [words for side in measured for words in broken_constraints(side, objective)]:
        message = f"{subject} break a constraint ({'; '.join(broken)}): {meanwhile}"
        run.tell(Warned(message=message), "baseline:constraints")


def _not_returned(evaluation: Evaluation, objective: Objective, names: Iterable[str]) -> str:
    """Which of these numbers the scorer did not return; empty if none, or if it did not run."""
    values = objective.measure(evaluation).values
    absent = [f"'{name}'" for name in dict.fromkeys(names) if name not in values]
    if not absent or evaluation.failed_cases():
        return ""
    there = ", ".join(sorted(values))
    split = evaluation.split.value
    return f"the scorer does not return {', '.join(absent)} (on {split}); there are: {there}"
