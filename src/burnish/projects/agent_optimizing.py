"""Agent files as projects of `burnish optimize`: from `evaluations.optimizer` to a Setup."""

from collections.abc import Mapping
from pathlib import Path

from burnish.core.errors import ConfigError, Problem
from burnish.effects.budget import Budget
from burnish.models.factory import Models
from burnish.projects.adopting_originals import FILES, measured_files
from burnish.projects.agent_exports import named_exports
from burnish.projects.loading import AGENT, Given, LoadedProject, loaded_from
from burnish.projects.optimizer_block import AT, OptimizerBlock, read_optimizer
from burnish.projects.optimizer_findings import Findings
from burnish.projects.optimizer_parts import Parts, parts_of
from burnish.projects.optimizer_plan import TuningPlan, plan_of
from burnish.projects.optimizer_starter import starter
from burnish.projects.overrides import Overrides
from burnish.projects.reflective_block import ending
from burnish.projects.settings import DEFAULT_CONCURRENCY
from burnish.runs.header import Project
from burnish.runs.outputs import with_outputs
from burnish.runs.setup import Setup
from burnish.runs.strategy import Strategy
from burnish.strategies.coordinate.settings import CoordinateSettings
from burnish.strategies.coordinate.strategy import Coordinate
from burnish.targets.agent.loading import LoadedAgent, load_agent


def load(given: Given) -> Setup:
    """An agent file as a Setup: the loader of the project kind `agent`."""
    return tuning_of(given, Models())


def prepare_optimization(
    path: Path,
    flags: Overrides,
    *,
    environ: Mapping[str, str] | None = None,
    models: Models | None = None,
) -> LoadedProject:
    """An agent file ready to be tuned; `models` stand in for the real ones."""
    given = Given.read(path, flags, environ=environ)
    return loaded_from(given, AGENT, tuning_of(given, models or Models()))


def tuning_of(given: Given, models: Models) -> Setup:
    """Everything a search is made of; everything that is wrong is said at once."""
    agent, plan = _read(given, models)
    findings = Findings(tree=given.tree)
    parts = parts_of(agent, plan, models, findings)
    budget = _budget(plan, parts, findings)
    findings.settle()
    assert parts.target is not None
    setup = Setup(
        target=parts.target,
        metrics=parts.metrics,
        objective=plan.block.objective(),
        dataset=parts.dataset,
        strategy=_strategy(plan, parts),
        seed=plan.seed,
        budget=budget,
        concurrency=_concurrency(agent, given),
        test_repeats=plan.repeats,
        exporter=named_exports(agent),
        project=Project(config={FILES: measured_files(agent)}),
        notes=(*findings.notes, *parts.target.notes),
        resources=(parts.target, models),
    )
    return with_outputs(setup, given.flags)


def _read(given: Given, models: Models) -> tuple[LoadedAgent, TuningPlan]:
    """The agent, and what is planned for it; the mistakes of both together."""
    problems: list[Problem] = []
    agent: LoadedAgent | None = None
    plan: TuningPlan | None = None
    block: OptimizerBlock | None = None
    try:
        agent = load_agent(given.path)
    except ConfigError as error:
        problems += error.problems
    try:
        block = read_optimizer(given.tree)
        plan = None if block is None else plan_of(block, given)
    except ConfigError as error:
        problems += error.problems
    if problems or agent is None:
        raise ConfigError(list(dict.fromkeys(problems)))
    if plan is None:
        raise _no_block(agent, models)
    return agent, plan


def _no_block(agent: LoadedAgent, models: Models) -> ConfigError:
    problem = Problem(
        where=f"{agent.path.name} {'.'.join(AT)}",
        message="the file does not say how it is to be tuned",
        remedy="a block to start with, made for this agent:",
    )
    return ConfigError([problem], remedy=f"\n{starter(agent, models)}")


def _budget(plan: TuningPlan, parts: Parts, findings: Findings) -> Budget:
    """The limits; a reflective search needs one, and enough to finish a round."""
    if not plan.reflects:
        return plan.budget
    from burnish.projects.prompts.bounds import too_small

    budget, notes = ending(plan.budget)
    findings.notes += notes
    settings = plan.block.reflective.settings(repeats=plan.repeats)
    small = too_small(budget, parts.dataset, settings, test_repeats=plan.repeats)
    if small is not None and not plan.flags.baseline_only:
        at = ("budget", "global", "max_metric_calls")
        flag = plan.place("max_metric_calls")
        findings.wrong(at, small.message, small.remedy, flag=flag)
    return budget


def _strategy(plan: TuningPlan, parts: Parts) -> Strategy:
    if parts.reflector is not None:
        from burnish.strategies.reflective.strategy import Reflective

        texts = tuple(surface.id for surface in parts.axes.texts)
        settings = plan.block.reflective.settings(repeats=plan.repeats, fields=texts)
        return Reflective(reflector=parts.reflector, settings=settings)
    if parts.proposers is not None:
        return parts.proposers.strategy(plan.backprop.settings(repeats=plan.repeats))
    return _coordinate(plan, parts)


def _coordinate(plan: TuningPlan, parts: Parts) -> Coordinate:
    axes, writers, block = parts.axes, parts.writers, plan.block
    settings = CoordinateSettings(
        numbers=tuple(surface.id for surface in axes.numbers),
        texts=tuple(surface.id for surface in axes.texts),
        demonstrations=axes.demonstrations.id if axes.demonstrations else "",
        repeats=plan.repeats,
        accept_sigma=plan.accept_sigma,
        holdout_policy=block.holdout_eval_policy,
        max_errored_fraction=block.max_errored_fraction,
        min_confidence=block.min_confidence,
        max_cycles=plan.max_cycles,
        numeric_phase=plan.numeric,
        textual_phase=plan.textual,
        demonstration_phase=plan.demonstrations,
        numeric_convergence_eps=block.numeric_convergence_eps,
    )
    if writers is None:
        return Coordinate(settings=settings)
    return Coordinate(settings=settings, critic=writers.critic, applier=writers.applier)


def _concurrency(agent: LoadedAgent, given: Given) -> int:
    execution = agent.block.execution
    said = "parallel_test_cases" in execution.model_fields_set
    in_file = execution.parallel_test_cases if said else None
    return given.flags.choose("concurrency", in_file, given.environment, DEFAULT_CONCURRENCY)
