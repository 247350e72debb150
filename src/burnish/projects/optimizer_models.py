"""The models of a search: whether each can be asked, and whether its price is known."""

from collections.abc import Iterator, Sequence
from typing import Any

from burnish.core.cases import Case
from burnish.core.errors import ConfigError
from burnish.core.protocols import Metric
from burnish.models.calling import ModelClient
from burnish.models.factory import Models
from burnish.models.roles import ModelRole
from burnish.models.troubles import ModelRefused
from burnish.projects.optimizer_findings import Findings
from burnish.projects.optimizer_ranges import NumericSurface, probes
from burnish.targets.agent.editing import edit
from burnish.targets.agent.target import AgentTarget, client_for

_MODEL = "model."


def check_models(
    target: AgentTarget, numbers: Sequence[NumericSurface], models: Models, findings: Findings
) -> None:
    """Whether the agent's model can be asked, with every value of its axes too."""
    try:
        target.client.check()
    except ModelRefused as error:
        findings.add(("model",), error.message, error.remedy)
        return
    for surface in numbers:
        for value, client in _variants(target, surface, models):
            try:
                client.check()
            except ModelRefused as error:
                told = f"{surface.id} {value}: {error.message}"
                findings.add(("evaluations", "optimizer", "axes", "numeric"), told, error.remedy)
                break


def unpriced_models(
    target: AgentTarget,
    numbers: Sequence[NumericSurface],
    models: Models,
    measured: tuple[Sequence[Metric], Sequence[Case]],
    roles: Sequence[ModelRole[Any, Any]],
) -> dict[str, str]:
    """Who has no known price, by its job: the agent, a metric's judge, whoever writes texts."""
    metrics, cases = measured
    variants = [c for surface in numbers for _, c in _variants(target, surface, models)]
    found: dict[str, str] = {}
    for client in (target.client, *variants):
        if not client.priced:
            found.setdefault("the agent", client.ref.label)
    for metric in metrics:
        if any(metric.estimate(case).unpriced for case in cases):
            found[f"the judge of {metric.name}"] = "its model"
    for role in roles:
        if not role.priced:
            found[f"the {role.name}"] = role.client.ref.label
    return found


def _variants(
    target: AgentTarget, surface: NumericSurface, models: Models
) -> Iterator[tuple[object, ModelClient]]:
    """The agent's model as an axis would have it."""
    if not surface.id.startswith(_MODEL):
        return
    for value in probes(surface):
        try:
            edited = edit(target.agent, {surface.id: value})
        except ConfigError:
            continue
        yield value, client_for(models, edited.block)
