"""Checks of an agent that span several settings: its model, its loss, its prices."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from burnish.core.cases import Case, Dataset, Split
from burnish.core.errors import ConfigError
from burnish.core.protocols import Metric, Role
from burnish.core.surfaces import ChoiceSurface, NumberSurface
from burnish.metrics.turns import Layered, TurnMetric
from burnish.models.chat import ModelClient
from burnish.models.errors import ModelRefused
from burnish.models.factory import Models
from burnish.models.prices import nearest_model
from burnish.projects.agent.axes import AXES, NumericSurface, probes
from burnish.projects.dialects import likely_of
from burnish.runs.plugins import Building, TargetParts
from burnish.runs.progress import role_label
from burnish.targets.agent.files import edit
from burnish.targets.agent.runner import client_for
from burnish.targets.agent.target import AgentTarget

MODEL = "target.document.model"
"""Where the agent's model stands in a description."""
_AGENT = "the agent"
_NUMBERS = ("loss", "pass_rate", "cost_usd", "latency_sec", "failed_cases")
"""What a constraint may speak of beside metrics."""


def check_model(building: Building, target: AgentTarget) -> None:
    """Whether the agent's model can be called, with every value of its axes too."""
    problems = building.problems
    try:
        target.client.check()
    except ModelRefused as error:
        problems.add(MODEL, error.message, error.remedy)
        return
    for surface in _model_axes(target):
        for value, client in _variants(target, surface, building.models):
            try:
                client.check()
            except ModelRefused as error:
                message = f"{surface.id} {value}: {error.message}"
                problems.add((*AXES, "numeric"), message, error.remedy)
                break


def check_objective(building: Building, metrics: Sequence[Metric], dataset: Dataset) -> None:
    """Whether the metrics of loss and constraints exist in every split."""
    problems, objective = building.problems, building.spec.objective
    by_name = {metric.name: metric for metric in metrics}
    for name in objective.weights:
        at = ("objective", "weights", name)
        if name not in by_name:
            problems.add(at, f"there is no metric '{name}'", likely_of(name, sorted(by_name)))
            continue
        for split in Split:
            cases = dataset.cases(split)
            if cases and not any(_looks_at(by_name[name], case) for case in cases):
                message = f"no case of {split.value} has the metric '{name}'"
                problems.add(at, message, "every split needs all metrics of the loss")
    for index, constraint in enumerate(objective.constraints):
        if constraint.metric not in (*by_name, *_NUMBERS):
            message = f"there is no metric or number '{constraint.metric}'"
            remedy = likely_of(constraint.metric, sorted((*by_name, *_NUMBERS)))
            problems.add(("objective", "constraints", index, "metric"), message, remedy)


def check_prices(
    building: Building, target: AgentTarget, parts: TargetParts, roles: Iterable[Role[Any, Any]]
) -> Iterator[str]:
    """Report unknown prices, and reject settings that need them."""
    unpriced = _unpriced(building.models, target, parts, roles)
    if not unpriced:
        return
    problems, objective = building.problems, building.spec.objective
    listed = ", ".join(f"{job} ({model})" for job, model in unpriced.items())
    how = "set `prices` in the block of a model to count it"
    yield f"unknown prices: {listed}; amounts in US dollars do not include them; {how}"
    if likely := "" if target.client.priced else nearest_model(target.client.ref):
        yield f"burnish does not know the model {target.client.ref.label}: did you mean {likely}?"
    if building.spec.budget.max_usd is not None:
        message = f"US dollars cannot be limited, because these prices are unknown: {listed}"
        remedy = "limit max_calls, max_tokens or max_minutes instead"
        problems.add("budget.max_usd", message, remedy)
    if _AGENT not in unpriced:
        return
    if objective.penalties.cost_per_usd:
        message = "the cost of a trial is unknown, because the agent's model has no known price"
        problems.add("objective.penalties.cost_per_usd", message, "set it to 0")
    for index, constraint in enumerate(objective.constraints):
        if constraint.metric == "cost_usd":
            message = "cost_usd is unknown, because the agent's model has no known price"
            at = ("objective", "constraints", index)
            problems.add(at, message, "remove it, or limit latency_sec")


def _unpriced(
    models: Models, target: AgentTarget, parts: TargetParts, roles: Iterable[Role[Any, Any]]
) -> dict[str, str]:
    """The models without a known price, by role: the agent, a metric's judge, a writer of texts."""
    axes = _model_axes(target)
    variants = [client for axis in axes for _, client in _variants(target, axis, models)]
    unpriced: dict[str, str] = {}
    for client in (target.client, *variants):
        if not client.priced:
            unpriced.setdefault(_AGENT, client.ref.label)
    for metric in parts.metrics:
        if any(metric.estimate(case).unpriced for case in parts.cases):
            unpriced[f"the judge of {metric.name}"] = "its model"
    for role in roles:
        if not role.priced:
            unpriced[f"the {role.name}"] = role_label(role) or "its model"
    return unpriced


def _model_axes(target: AgentTarget) -> list[NumericSurface]:
    numeric = [s for s in target.surfaces if isinstance(s, NumberSurface | ChoiceSurface)]
    return [surface for surface in numeric if surface.id.startswith("model.")]


def _variants(
    target: AgentTarget, surface: NumericSurface, models: Models
) -> Iterator[tuple[object, ModelClient]]:
    for value in probes(surface):
        try:
            edited = edit(target.agent, {surface.id: value})
        except ConfigError:
            continue
        yield value, client_for(models, edited.block)


def _looks_at(metric: Metric, case: Case) -> bool:
    """Whether the metric applies to any turn of the case."""
    turns: Iterable[TurnMetric | None]
    if isinstance(metric, Layered):
        turns = metric.places.get(case.id, (metric.default,) * len(case.turns))
    elif isinstance(metric, TurnMetric):
        turns = (metric,) * len(case.turns)
    else:
        return True
    return any(
        each.name in turn.metrics or not (turn.metrics or each.explicit)
        for turn, each in zip(case.turns, turns, strict=False)
        if each is not None
    )
