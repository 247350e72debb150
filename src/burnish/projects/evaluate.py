"""`burnish.evaluate`: measure any agent from a program or a test."""

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard, TypeVar, get_args

from burnish.core.cases import Case, Dataset
from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.core.evaluations import Objective
from burnish.core.protocols import Metric, Target
from burnish.datasets.formats import read_cases
from burnish.datasets.rows import cases_of
from burnish.journal.limits import Budget
from burnish.metrics.files import (
    MetricList,
    RagBlock,
    StandardName,
    make_agent_metrics,
    read_metric_file,
)
from burnish.metrics.judges import MetricMaking, check_names
from burnish.metrics.turns import ROLE as USER_SIMULATOR
from burnish.metrics.turns import user_simulator as simulated
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.models.roles import in_force
from burnish.projects.called_agents import FrameworkBlock, target_for
from burnish.projects.evaluation_setup import User
from burnish.projects.measurements import (
    RESULTS,
    Evaluated,
    PreparedMeasurement,
    load_measurement,
    measured,
)
from burnish.runs.case_work import CasePolicy
from burnish.runs.directory import Project
from burnish.runs.evaluation import Closable
from burnish.runs.setup import Setup
from burnish.runs.spec import DEFAULT_CONCURRENCY, DEFAULT_SEED
from burnish.strategies.measure import Measure
from burnish.system import validate_config
from burnish.system.shutdown import notebook_display, run_to_end
from burnish.system.user_code import is_reference
from burnish.targets.callables import CallableTarget, CallingTarget
from burnish.targets.callables.target import no_player, notes_for

_Agent: TypeAlias = Any
"""A function, an agent of a known framework, a Target, `module:name` or a file."""


@dataclass(frozen=True, kw_only=True)
class How:
    """How an agent is measured."""

    repeats: int | None = None
    """How often each case is run: once, unless a file says otherwise."""
    concurrency: int | None = None
    """How many cases run at once: 8, unless a file says otherwise."""
    judge: ModelRef | str | None = None
    """The judge for metrics that do not name one."""
    user_simulator: ModelRef | str | None = None
    """Who plays the user in scenarios."""
    policy: CasePolicy | None = None
    """Time limit, retries, and what is not the agent's fault."""
    budget: Budget | None = None
    seed: int | None = None
    models: Models | None = None
    """How models are reached; doubles come in here."""


def target_of(
    agent: Callable[..., Any] | Target | str, cases: Sequence[Case], how: How, models: Models
) -> tuple[Target, str]:
    """The target, and its name."""
    if _is_target(agent):
        return agent, agent.description.kind
    user = player_for(cases, how.user_simulator, models)
    if isinstance(agent, str):
        return FrameworkBlock(call=agent).made(Path.cwd(), user), agent
    if (known := target_for(agent, user)) is not None:
        return known, known.name
    assert callable(agent)
    made = CallableTarget(agent=agent, user=user)
    return made, made.title


def _is_target(agent: object) -> TypeGuard[Target]:
    members = ("description", "surfaces", "baseline", "run", "estimate")
    return not isinstance(agent, type) and all(hasattr(agent, name) for name in members)


def is_closable(target: Target) -> TypeGuard[Closable]:
    """Whether a target has resources to close."""
    return inspect.iscoroutinefunction(getattr(target, "close", None))


def player_for(cases: Sequence[Case], named: ModelRef | str | None, models: Models) -> User | None:
    """The simulated user, if a case is a scenario."""
    scenarios = [case for case in cases if case.scenario is not None and case.recorded is None]
    if not scenarios:
        return None
    if named is None:
        raise ConfigError([no_player(scenarios[0])])
    prompt = in_force(USER_SIMULATOR, Path.cwd())
    client = models.client(as_reference(named), prompt.settings, role=USER_SIMULATOR)
    client.check()
    return simulated(client, prompt)


def as_reference(model: ModelRef | str) -> ModelRef:
    """A model from its name."""
    return ModelRef.parse(model) if isinstance(model, str) else model


_MetricChoice: TypeAlias = Sequence[str | Mapping[str, Json] | Metric] | Path


def _make_metrics(
    metrics: _MetricChoice, cases: Sequence[Case], making: MetricMaking
) -> tuple[Metric, ...]:
    if isinstance(metrics, Path):
        read = read_metric_file(metrics)
        judge = making.judge or read.judge
        making = replace(making, folder=metrics.resolve().parent, judge=judge)
        return make_agent_metrics(read.blocks, cases, making)
    if isinstance(metrics, str):
        metrics = [metrics]
    written: list[Json] = [
        _block(each) if isinstance(each, str) else dict(each)
        for each in metrics
        if isinstance(each, str | Mapping)
    ]
    blocks = validate_config(written, MetricList, source="metrics").root
    made = {metric.name: metric for metric in make_agent_metrics(blocks, cases, making)}
    own = [each for each in metrics if not isinstance(each, str | Mapping)]
    check_names([*made, *(metric.name for metric in own)])
    return (*made.values(), *own)


def _block(name: str) -> Json:
    if name in get_args(StandardName):
        return {"type": "standard", "metric": name}
    if name in get_args(RagBlock.model_fields["metric_type"].annotation):
        return {"type": "rag", "metric_type": name}
    if is_reference(name):
        return {"type": "code", "grader": name}
    return {"metric_name": name}


T = TypeVar("T")
_Cases: TypeAlias = Sequence[Case | Mapping[str, Json]] | Sequence[Case] | str | Path


def evaluate(
    agent: _Agent,
    cases: _Cases | None = None,
    metrics: _MetricChoice | None = None,
    *,
    repeats: int | None = None,
    concurrency: int | None = None,
    judge: ModelRef | str | None = None,
    user_simulator: ModelRef | str | None = None,
    policy: CasePolicy | None = None,
    budget: Budget | None = None,
    seed: int | None = None,
    models: Models | None = None,
    folder: Path | str | None = None,
) -> Evaluated:
    """Measure an agent on cases with metrics.

    The agent is a function, an agent of a known framework, `module:name` of either, a Target, or a
    file that `burnish eval` accepts, which may include cases and metrics. Cases are a file, or Case
    objects and rows as in files; metrics are a file, or names, blocks as in files, and Metric
    objects. With `folder` the run is kept there, and the same call again continues it, or returns
    its result without paying again.
    """
    _refuse_inside_a_loop()
    how = How(
        repeats=repeats,
        concurrency=concurrency,
        judge=judge,
        user_simulator=user_simulator,
        policy=policy,
        budget=budget,
        seed=seed,
        models=models,
    )
    measurement = measurement_of(agent, cases, metrics, how)
    return run_to_end(measured(measurement, None if folder is None else Path(folder)))


def _refuse_inside_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    if notebook_display():
        return
    raise BurnishError(
        "evaluate cannot be called inside a running event loop",
        remedy="await it: `await measured(measurement_of(agent, cases, metrics, How()))` from "
        "burnish.projects.evaluate and burnish.projects.measurements",
    )


def measurement_of(
    agent: _Agent,
    cases: _Cases | None,
    metrics: _MetricChoice | None,
    how: How,
    *,
    subject: str = "",
) -> PreparedMeasurement:
    """A measurement of an agent with cases and metrics; reports call it `subject`."""
    if isinstance(agent, Path):
        return _of_file(agent, cases, metrics, how)
    if isinstance(agent, str) and (Path(agent).exists() or not is_reference(agent)):
        return _of_file(Path(agent), cases, metrics, how)
    models = (how.models or Models()).for_run()
    source = _required(cases, "cases")
    is_file = isinstance(source, str | Path)
    train = read_cases(Path(source)).cases if is_file else tuple(cases_of(source))
    target, name = target_of(agent, train, how, models)
    made = _make_metrics(_required(metrics, "metrics"), train, _making(how, models))
    measure = Measure(repeats=how.repeats or 1, subject=subject or name)
    setup = Setup(
        target=target,
        metrics=made,
        objective=_objective(made),
        dataset=Dataset(train=train),
        strategy=measure,
        seed=DEFAULT_SEED if how.seed is None else how.seed,
        concurrency=how.concurrency or DEFAULT_CONCURRENCY,
        notes=notes_for(target, train) if isinstance(target, CallingTarget) else (),
        # What a target holds open belongs to the loop that it was used in.
        resources=(models, target) if is_closable(target) else (models,),
    )
    return PreparedMeasurement(setup=_with_options(setup, how), measure=measure, root=RESULTS)


def _of_file(
    path: Path, cases: _Cases | None, metrics: _MetricChoice | None, how: How
) -> PreparedMeasurement:
    """What the file describes, with these arguments in place of its own.

    With live objects, only the program that has them can continue the run.
    """
    _refuse_beside_a_file(how)
    case_list = None if cases is None or isinstance(cases, str | Path) else tuple(cases_of(cases))
    flags = {
        "cases": str(Path(cases).absolute()) if isinstance(cases, str | Path) else None,
        "metrics": str(metrics.absolute()) if isinstance(metrics, Path) else None,
        "judge": how.judge if isinstance(how.judge, str) else None,
        "repeats": how.repeats,
        "concurrency": how.concurrency,
        "seed": how.seed,
    }
    measurement = load_measurement(path, flags, cases=case_list)
    setup = measurement.setup
    if metrics is not None and not isinstance(metrics, Path):
        models = Models()
        made = _make_metrics(metrics, setup.dataset.train, _making(how, models))
        resources = (*setup.resources, models)
        setup = replace(setup, metrics=made, objective=_objective(made), resources=resources)
    setup = _with_options(setup, how)
    if setup is not measurement.setup or case_list is not None:
        setup = replace(setup, project=Project(file=setup.project.file))
    return replace(measurement, setup=setup)


def _refuse_beside_a_file(how: How) -> None:
    settings = {
        "user_simulator": how.user_simulator is not None,
        "models": how.models is not None,
        "judge as a ModelRef": isinstance(how.judge, ModelRef),
    }
    problems = [
        Problem(where=name, message="this cannot be passed for an agent that is a file")
        for name, is_set in settings.items()
        if is_set
    ]
    if problems:
        raise ConfigError(problems, remedy="Set it in the file, or pass the agent as a Target.")


def _with_options(setup: Setup, how: How) -> Setup:
    if how.budget is None and how.policy is None:
        return setup
    return replace(
        setup,
        budget=how.budget or setup.budget,
        case_policy=how.policy or setup.case_policy,
    )


def _objective(metrics: Sequence[Metric]) -> Objective:
    return Objective(weights={metric.name: 1.0 for metric in metrics})


def _making(how: How, models: Models) -> MetricMaking:
    judge = None if how.judge is None else as_reference(how.judge)
    return MetricMaking(models=models, folder=Path.cwd(), judge=judge)


def _required(value: T | None, what: str) -> T:
    if value is None:
        message = f"there are no {what}"
        remedy = f"pass {what}: only a file that describes an agent can include them"
        raise ConfigError([Problem(message=message, remedy=remedy)])
    return value
