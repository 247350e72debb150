"""What is settled before a search: the limits and the baseline it needs."""

from collections.abc import Collection, Iterable
from dataclasses import fields, replace

from burnish.core.comparisons import commonest_reason, silent_metrics, unmeasured
from burnish.core.errors import BaselineUnmeasured
from burnish.core.evaluations import Evaluation, Objective
from burnish.core.protocols import DescribedMetric, Metric
from burnish.journal.limits import Budget
from burnish.runs.evaluation import Conditions
from burnish.runs.events import ALARM, Warned
from burnish.runs.run import Run

# -- Settings that several strategies share --------------------------------------------------------


_PATIENCE = 10
"""Trials in a row without an accept that end a search which nothing else would end."""
_GOALS = ("score_threshold", "pass_rate_threshold", "required_metrics", "metric_thresholds")


def budget_with_an_end(budget: Budget) -> tuple[Budget, tuple[str, ...]]:
    """The budget, with patience if nothing else would end the search, and a note about that.

    A model that writes never runs out of words, and a goal may never be reached.
    """
    limits = [getattr(budget, each.name) for each in fields(budget) if each.name not in _GOALS]
    if any(limit is not None for limit in limits):
        return budget, ()
    note = f"the search ends after {_PATIENCE} trials in a row without an accept"
    return replace(budget, patience=_PATIENCE), (f"no limit is set: {note}",)


# -- The baseline ----------------------------------------------------------------------------------


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

    An agent whose answers are all of no use is measured: it scores 0. But the user should know at
    once, and only a proposer that reads the errors can mend it. Where a single number decides, a
    scorer that does not run has measured nothing.
    """
    require_measured(*sides, conditions=run.setup, max_missing=max_missing, primary=primary)
    crashed = [side for side in sides if side is not None and _crash(side)]
    if not crashed:
        return
    # Numbers and choices are moved by no model that could read the error.
    reads = bool(run.setup.strategy.roles)
    hopeless = [side for side in crashed if not reads or (primary and not _is_mendable(side))]
    if hopeless and not run.replaying:
        raise BaselineUnmeasured(_crash(hopeless[0]), remedy=_CRASHED)
    message = f"{_crash(crashed[0])}. The search tries to mend that"
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


def _is_mendable(side: Evaluation) -> bool:
    """Whether another candidate could avoid a failure of this evaluation."""
    failures = (result.outcome.failure for result in side.results)
    return any(failure is not None and failure.mendable for failure in failures)


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


def left_behind(evaluation: Evaluation) -> str:
    """What the last run wrote that no scorer gets, in words, if its log says so."""
    log = evaluation.results[-1].outcome.data if evaluation.results else None
    runner = log.get("runner") if isinstance(log, dict) else None
    words = runner.get("left_behind") if isinstance(runner, dict) else None
    return words if isinstance(words, str) else ""


def tell_left_behind(run: Run, *sides: Evaluation | None) -> None:
    """Warn if the baseline's scorer may miss a file; one that failed says so itself."""
    for side in sides:
        if side is not None and not side.failed_cases() and (words := left_behind(side)):
            run.tell(Warned(message=f"of what the runner writes, {words}"), "baseline:left_behind")
            return


def _not_returned(evaluation: Evaluation, objective: Objective, names: Iterable[str]) -> str:
    """Which of these numbers the scorer did not return; empty if none, or if it did not run."""
    values = objective.measure(evaluation).values
    absent = [f"'{name}'" for name in dict.fromkeys(names) if name not in values]
    if not absent or evaluation.failed_cases():
        return ""
    there = ", ".join(sorted(values))
    split = evaluation.split.value
    return f"the scorer does not return {', '.join(absent)} (on {split}); there are: {there}"
