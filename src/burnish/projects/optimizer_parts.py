"""What a search over an agent file is made of, each part checked as far as it can be."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from burnish.core.cases import Case, Dataset, Split
from burnish.core.protocols import Metric
from burnish.models.factory import Models
from burnish.models.roles import ModelRole
from burnish.projects.agent_files import agent_metrics, user_of
from burnish.projects.backprop_checks import BackpropChecks
from burnish.projects.evaluating import Wanted
from burnish.projects.optimizer_axes import Axes, axes_of
from burnish.projects.optimizer_block import AT
from burnish.projects.optimizer_cases import dataset_of
from burnish.projects.optimizer_checks import check_metrics, check_prices, check_settings
from burnish.projects.optimizer_findings import Findings
from burnish.projects.optimizer_models import check_models, unpriced_models
from burnish.projects.optimizer_plan import BACKPROP, TuningPlan
from burnish.projects.optimizer_roles import Writers, reflector_for, writers_of
from burnish.targets.agent.loading import LoadedAgent
from burnish.targets.agent.target import AgentTarget

if TYPE_CHECKING:
    from burnish.projects.backprop_roles import Proposers
    from burnish.strategies.reflective.wording import Reflection, ReflectRequest


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a Setup is made of; incomplete where something is wrong."""

    axes: Axes
    dataset: Dataset
    metrics: tuple[Metric, ...]
    target: AgentTarget | None
    writers: Writers | None
    reflector: "ModelRole[ReflectRequest, Reflection] | None" = None
    proposers: "Proposers | None" = None


def parts_of(agent: LoadedAgent, plan: TuningPlan, models: Models, findings: Findings) -> Parts:
    """The parts; what is wrong with them is kept, so that all of it is said at once."""
    axes = axes_of(agent, plan.block.axes, findings)
    check_settings(plan, axes, findings)
    dataset = dataset_of(agent, plan, findings)
    cases = [case for split in Split for case in dataset.cases(split)]
    metrics = _metrics(agent, cases, models, findings)
    if metrics:
        check_metrics(plan, metrics, dataset, findings)
    writers, reflector, proposers = None, None, None
    if plan.reflects:
        reflector = reflector_for(agent, plan, models, findings)
        axes = replace(axes, numbers=(), demonstrations=None)
    elif plan.walks_back:
        from burnish.projects.backprop_roles import proposers_for

        proposers = proposers_for(agent, plan, models, findings)
    else:
        writers = writers_of(agent, plan, models, findings) if axes.texts else None
        _something_left(axes, writers, findings)
        axes = axes if writers else replace(axes, texts=())
    target = _target(agent, axes, cases, models, findings)
    if target is not None:
        check_models(target, axes.numbers, models, findings)
        roles = _asked(writers, reflector, proposers)
        unpriced = unpriced_models(target, axes.numbers, models, (metrics, cases), roles)
        check_prices(plan, unpriced, findings)
        if plan.walks_back:
            _check_walk(plan, target, metrics, dataset, findings)
    if not plan.walks_back:
        _require_examples(axes, dataset, findings)
    return Parts(
        axes=axes,
        dataset=dataset,
        metrics=metrics,
        target=target,
        writers=writers,
        reflector=reflector,
        proposers=proposers,
    )


def _asked(
    writers: Writers | None,
    reflector: "ModelRole[ReflectRequest, Reflection] | None",
    proposers: "Proposers | None",
) -> list[ModelRole[Any, Any]]:
    """Whoever writes."""
    if writers is not None:
        return [writers.critic, writers.applier]
    if proposers is not None:
        return [proposers.backwarder, proposers.aggregator, proposers.patcher]
    return [] if reflector is None else [reflector]


def _check_walk(
    plan: TuningPlan,
    target: AgentTarget,
    metrics: Sequence[Metric],
    dataset: Dataset,
    findings: Findings,
) -> None:
    checks = BackpropChecks(block=plan.backprop, at=(*AT, BACKPROP), wrong=findings)
    checks.surfaces([surface.id for surface in target.surfaces])
    checks.nodes(target)
    checks.metrics(metrics)
    checks.cases(dataset)


def _metrics(
    agent: LoadedAgent, cases: Sequence[Case], models: Models, findings: Findings
) -> tuple[Metric, ...]:
    def made() -> tuple[Metric, ...]:
        return agent_metrics(agent, cases, models, wanted=Wanted())

    return findings.of(("evaluations", "metrics"), made, ())


def _target(
    agent: LoadedAgent, axes: Axes, cases: Sequence[Case], models: Models, findings: Findings
) -> AgentTarget | None:
    def made() -> AgentTarget:
        user = user_of(agent, cases, models)
        return AgentTarget(agent, models, surfaces=axes.surfaces, user=user)

    return findings.of((), made, None)


def _something_left(axes: Axes, writers: Writers | None, findings: Findings) -> None:
    only_texts = bool(axes.texts) and not axes.numbers and axes.demonstrations is None
    if only_texts and writers is None and not findings.problems:
        told = "only texts are to be tuned, and there is no model that could write them"
        findings.wrong(("critic",), told, "name one, such as critic: {provider: openai, name: …}")


def _require_examples(axes: Axes, dataset: Dataset, findings: Findings) -> None:
    if axes.demonstrations is None or not dataset.train:
        return
    if not any(len(c.turns) == 1 and not c.turns[0].attachments for c in dataset.train):
        told = "no case of train can be shown: it takes one turn, and no files"
        findings.wrong(("axes", "demonstrations"), told, "add such cases, or remove the axis")
