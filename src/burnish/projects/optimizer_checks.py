"""What must be right in an optimizer block beyond each value by itself."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec

from burnish.core.cases import Case, Dataset, Split
from burnish.core.protocols import Metric
from burnish.evaluation.layers import Layered
from burnish.evaluation.turn_metric import TurnMetric
from burnish.projects.optimizer_axes import Axes
from burnish.projects.optimizer_fields import NOISY
from burnish.projects.optimizer_findings import Findings
from burnish.projects.optimizer_plan import BACKPROP, COORDINATE, REFLECTIVE, TuningPlan
from burnish.strategies.coordinate.tpe import WARM_UP, warm_up

STRATEGIES = (COORDINATE, REFLECTIVE, BACKPROP)
"""The strategies that can tune an agent file."""
_NUMBERS = ("loss", "pass_rate", "cost_usd", "latency_sec", "failed_cases")
"""What a constraint may speak of beside metrics."""


def check_settings(plan: TuningPlan, axes: Axes, findings: Findings) -> None:
    """What can be said of the settings without looking at the agent."""
    _strategy(plan, findings)
    _written_twice(plan, findings)
    if plan.reflects:
        check_reflection(plan, axes, findings)
        return
    if plan.walks_back:
        _require_holdout(plan, findings, "back-propagation")
        return
    _repeats(plan, axes, findings)
    _warm_up(plan, axes, findings)
    if (axes.numbers or axes.demonstrations) and find_spec("optuna") is None:
        told = "searching over numbers and demonstrations needs optuna"
        findings.wrong(("axes",), told, "pip install 'burnish[numeric]'")
    if plan.block.min_delta is not None:
        findings.note(
            "min_delta has no effect: the bar is the noise that was measured (accept_sigma)"
        )


def check_reflection(plan: TuningPlan, axes: Axes, findings: Findings) -> None:
    """What a reflective search needs, and what it leaves alone."""
    if not axes.texts and not findings.problems:
        told = "reflection rewrites texts, and no textual axis is given"
        findings.wrong(("axes", "textual"), told, "add one, or take the strategy 'coordinate'")
    _require_holdout(plan, findings, "a reflective search")
    if axes.numbers or axes.demonstrations:
        findings.note("reflection rewrites texts only: the other axes are left as they are")


def _require_holdout(plan: TuningPlan, findings: Findings, what: str) -> None:
    if not plan.holdout:
        told = f"{what} decides on holdout, which may not be skipped"
        findings.wrong(("holdout_eval_policy",), told, "remove it")


def check_metrics(
    plan: TuningPlan, metrics: Sequence[Metric], dataset: Dataset, findings: Findings
) -> None:
    """Whether loss and constraints speak of metrics that there are, in every split."""
    known = {metric.name: metric for metric in metrics}
    for name in plan.block.loss:
        if name not in known:
            findings.wrong(("loss", name), f"no metric '{name}'", _there_are(name, known))
            continue
        for split in Split:
            cases = dataset.cases(split)
            if cases and not any(_looks_at(known[name], case) for case in cases):
                told = f"no case of {split.value} has the metric '{name}'"
                findings.wrong(("loss", name), told, "every split needs what the loss is made of")
    for index, constraint in enumerate(plan.block.constraints):
        if constraint.metric not in (*known, *_NUMBERS):
            told = f"nothing is called '{constraint.metric}'"
            remedy = _there_are(constraint.metric, (*known, *_NUMBERS))
            findings.wrong(("constraints", index, "metric"), told, remedy)


def check_prices(plan: TuningPlan, unpriced: Mapping[str, str], findings: Findings) -> None:
    """Refuse what needs a price where one is unknown; `unpriced` are models by their job."""
    listed = ", ".join(f"{job} ({model})" for job, model in unpriced.items())
    if not unpriced:
        return
    findings.note(f"the price is unknown of: {listed}; US dollars leave it out")
    remedy = "limit max_calls, max_tokens or max_minutes instead"
    if plan.budget.max_usd is not None:
        told = f"US dollars cannot be limited: the price is unknown of {listed}"
        at = ("budget", "global", "max_usd")
        findings.wrong(at, told, remedy, flag=plan.place("max_usd"))
    if "the agent" not in unpriced:
        return
    if plan.block.penalties.cost_per_usd:
        told = "what a trial costs cannot be told: the price of the agent's model is unknown"
        findings.wrong(("penalties", "cost_per_usd"), told, "set it to 0")
    for index, constraint in enumerate(plan.block.constraints):
        if constraint.metric == "cost_usd":
            told = "cost_usd cannot be told: the price of the agent's model is unknown"
            findings.wrong(("constraints", index), told, "remove it, or limit latency_sec")


def _strategy(plan: TuningPlan, findings: Findings) -> None:
    if plan.strategy not in STRATEGIES:
        told = f"no strategy '{plan.strategy}' for agent files"
        remedy = _there_are(plan.strategy, STRATEGIES)
        findings.wrong(("strategy",), told, remedy, flag=plan.place("strategy"))


def _written_twice(plan: TuningPlan, findings: Findings) -> None:
    for name in plan.block.said_twice():
        told = f"{name} is written twice: here and under budget"
        findings.wrong((name,), told, "keep one of the two")


def _repeats(plan: TuningPlan, axes: Axes, findings: Findings) -> None:
    if plan.repeats > 1:
        return
    noisy = [surface.id for surface in axes.numbers if surface.id in NOISY]
    if noisy:
        named = " and ".join(noisy)
        told = f"{named} makes answers vary, and one repeat cannot tell by how much"
        findings.wrong(("repeats",), told, "set it to 2 or more", flag=plan.place("repeats"))
        return
    findings.note(
        "repeats is 1: a candidate shows no noise of its own, so the bar is "
        f"{plan.accept_sigma:g} × the incumbent's, which is 0 as well; take 2 or more unless the "
        "agent always answers alike"
    )


def _warm_up(plan: TuningPlan, axes: Axes, findings: Findings) -> None:
    trials = plan.numeric.max_trials
    if axes.numbers and trials < WARM_UP:
        start = warm_up(min(plan.numeric.patience, trials))
        findings.note(
            f"numeric_phase.max_trials is {trials}, below the usual warm-up of {WARM_UP} points: "
            f"the model is asked after {start}, and has little to go by"
        )


def _looks_at(metric: Metric, case: Case) -> bool:
    """Whether the metric would look at any turn of the case."""
    turns: Iterable[TurnMetric | None]
    if isinstance(metric, Layered):
        turns = metric.places.get(case.id, (metric.default,) * len(case.turns))
    elif isinstance(metric, TurnMetric):
        turns = (metric,) * len(case.turns)
    else:
        return True
    return any(_asked(case, turns))


def _asked(case: Case, turns: Iterable[TurnMetric | None]) -> Iterator[bool]:
    for turn, metric in zip(case.turns, turns, strict=False):
        if metric is not None:
            yield metric.name in turn.metrics or not (turn.metrics or metric.explicit)


def _there_are(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    meant = f"did you mean '{near[0]}'? " if near else ""
    return f"{meant}there are: {', '.join(names) or 'none'}"
