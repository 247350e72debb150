"""Agent files as projects: what is measured, on which cases, by which metrics."""

from collections.abc import Sequence
from pathlib import Path

from burnish.core.cases import Case, Dataset
from burnish.core.errors import ConfigError, Problem
from burnish.core.objectives import Objective
from burnish.core.protocols import Metric, Role
from burnish.evaluation.configs.layering import make_agent_metrics
from burnish.evaluation.configs.making import MetricMaking
from burnish.evaluation.configs.reading import MetricsRead
from burnish.evaluation.judges.judged import check_judges
from burnish.evaluation.metrics.expected_tools import ExpectedTools
from burnish.evaluation.simulation import ROLE as USER_SIMULATOR
from burnish.evaluation.simulation import NextRemark, TalkSoFar, user_simulator
from burnish.models.calling import ModelClient
from burnish.models.factory import Models
from burnish.models.prompts import in_force
from burnish.models.references import ModelRef
from burnish.projects.evaluating import RESULTS, Measurement, Wanted
from burnish.projects.settings import DEFAULT_CONCURRENCY
from burnish.runs.header import Project
from burnish.runs.setup import Setup
from burnish.strategies.measure import Measure
from burnish.targets.agent.documents_checks import check_attachments, pinned
from burnish.targets.agent.loading import LoadedAgent, load_agent
from burnish.targets.agent.target import AgentTarget

KIND = "agent"


def prepare_agent(path: Path, wanted: Wanted, *, models: Models | None = None) -> Measurement:
    """An agent file ready to be measured."""
    agent = load_agent(path, with_cases=not wanted.replaces_cases)
    used = models or Models()
    cases = wanted.read_cases() if wanted.replaces_cases else agent.cases
    _require(agent, cases)
    cases = pinned(cases, agent.folder)
    metrics = agent_metrics(agent, cases, used, wanted=wanted)
    target = AgentTarget(agent, used, user=user_of(agent, cases, used))
    target.client.check()
    check_judges(metrics)
    measure = Measure(repeats=wanted.repeats or 1)
    setup = Setup(
        target=target,
        metrics=metrics,
        objective=Objective(weights={metric.name: 1.0 for metric in metrics}),
        dataset=Dataset(train=tuple(cases)),
        strategy=measure,
        concurrency=wanted.concurrency or concurrency_of(agent),
        project=Project(kind=KIND, file=str(path.resolve())),
        notes=(*target.notes, *_prices(target.client)),
        resources=(target, used),
    )
    root = path.resolve().parent / RESULTS
    return Measurement(name=agent.block.name, setup=setup, measure=measure, root=root)


def agent_metrics(
    agent: LoadedAgent, cases: Sequence[Case], models: Models, *, wanted: Wanted
) -> tuple[Metric, ...]:
    """The metrics of the file, and whether the expected tools were used where cases name any."""
    block = agent.block.evaluations
    if block is None:
        remedy = (
            "add evaluations with at least one metric, such as {type: standard, metric: equality}"
        )
        message = "it does not say how it is measured"
        raise ConfigError([Problem(where=agent.path.name, message=message, remedy=remedy)])
    judge = ModelRef.parse(wanted.judge) if wanted.judge else None
    if judge is None and block.model is not None:
        judge = block.model.reference()
    read = MetricsRead(blocks=block.metrics).only(wanted.metrics)
    making = MetricMaking(models=models, folder=agent.folder, judge=judge or agent.own_model)
    made = make_agent_metrics(read.blocks, cases, making)
    uses_tools = any(turn.expected_tools is not None for case in cases for turn in case.turns)
    return (*made, ExpectedTools()) if uses_tools and not wanted.metrics else made


def agent_judge(agent: LoadedAgent) -> ModelRef:
    """Who judges where nobody is named."""
    return agent.own_model


def user_of(
    agent: LoadedAgent, cases: Sequence[Case], models: Models
) -> Role[TalkSoFar, NextRemark] | None:
    """Who plays the user, where a case is a scenario."""
    if not any(case.scenario for case in cases):
        return None
    block = agent.block.user_simulator
    ref = block.reference() if block else agent.own_model
    prompt = in_force(USER_SIMULATOR, agent.folder)
    return user_simulator(models.client(ref, prompt.settings), prompt)


def concurrency_of(agent: LoadedAgent) -> int:
    """As many cases at once as the file says, else as many as usual."""
    execution = agent.block.execution
    said = "parallel_test_cases" in execution.model_fields_set
    return execution.parallel_test_cases if said else DEFAULT_CONCURRENCY


def _require(agent: LoadedAgent, cases: Sequence[Case]) -> None:
    if not cases:
        named = agent.block.test_cases_file
        where = f"{agent.path.name} test_cases_file: {named}" if named else agent.path.name
        add = "some" if named else "test_cases or test_cases_file"
        remedy = f"add {add}, or give --cases FILE"
        raise ConfigError([Problem(where=where, message="there are no cases", remedy=remedy)])
    problems = check_attachments(cases, agent.folder)
    if problems:
        raise ConfigError(problems)


def _prices(client: ModelClient) -> tuple[str, ...]:
    if client.priced:
        return ()
    return (f"the price of {client.ref.label} is unknown: US dollars leave it out",)
