"""`burnish.evaluate`: measure any agent from a program or a test."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias, TypeVar

from burnish.core.cases import Case, Dataset
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.core.objectives import Objective
from burnish.core.protocols import Metric, Target
from burnish.effects.budget import Budget
from burnish.evaluation.configs.making import MetricMaking
from burnish.evaluation.datasets.formats import read_cases
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.projects.evaluated import Evaluated
from burnish.projects.given_agents import (
    Agent,
    How,
    as_reference,
    is_closable,
    names_a_function,
    target_of,
)
from burnish.projects.given_metrics import GivenMetrics, make_given
from burnish.projects.measurements import RESULTS, Measurement, load_measurement
from burnish.projects.measuring import measured
from burnish.runs.evaluating import CasePolicy
from burnish.runs.header import Project
from burnish.runs.setup import Setup
from burnish.runs.spec import DEFAULT_CONCURRENCY, DEFAULT_SEED
from burnish.strategies.measure import Measure
from burnish.system.shutdown import run_to_end
from burnish.targets.calling import CallingTarget
from burnish.targets.calling.notes import notes_for

T = TypeVar("T")
Cases: TypeAlias = Sequence[Case] | str | Path


def evaluate(
    agent: Agent,
    cases: Cases | None = None,
    metrics: GivenMetrics | None = None,
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
    """Measure an agent on cases by metrics.

    The agent is a function, `module:function`, a Target, or a file that `burnish eval` takes,
    which may bring its own cases and metrics. Cases are a file or a sequence; metrics are a
    file, or names, blocks as in files, and metrics of one's own. With `folder` the run is kept
    there, and the same call again goes on where it was, or gives its result without paying.
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
    raise BurnishError(
        "an event loop is running here already, in which evaluate cannot wait",
        remedy="await it: `await measured(measurement_of(agent, cases, metrics, How()))` from "
        "burnish.projects.evaluate_api, .given_agents and .measuring",
    )


def measurement_of(
    agent: Agent,
    cases: Cases | None,
    metrics: GivenMetrics | None,
    how: How,
    *,
    subject: str = "",
) -> Measurement:
    """An agent, cases and metrics, ready to be measured; reports call it `subject`."""
    if isinstance(agent, Path) or (isinstance(agent, str) and not names_a_function(agent)):
        return _of_file(Path(agent), cases, metrics, how)
    models = how.models or Models()
    chosen = _read(cases)
    target, name = target_of(agent, chosen, how, models)
    made = make_given(_required(metrics, "metrics"), chosen, _making(how, models))
    return _measurement(subject or name, target, made, chosen, how, models)


def _of_file(
    path: Path, cases: Cases | None, metrics: GivenMetrics | None, how: How
) -> Measurement:
    """What the file says, with what is said here in its place.

    Where live objects take the place of what a description could say, only the program that has
    them can go on with the run.
    """
    _refuse_beside_a_file(how)
    case_list = None if cases is None or isinstance(cases, str | Path) else tuple(cases)
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
        made = make_given(metrics, setup.dataset.train, _making(how, models))
        resources = (*setup.resources, models)
        setup = replace(setup, metrics=made, objective=_objective(made), resources=resources)
    setup = _said_here(setup, how)
    if setup is not measurement.setup or case_list is not None:
        setup = replace(setup, project=Project(file=setup.project.file))
    return replace(measurement, setup=setup)


def _refuse_beside_a_file(how: How) -> None:
    """What a file that describes an agent says itself, or cannot be told."""
    given = {
        "user_simulator": how.user_simulator is not None,
        "models": how.models is not None,
        "judge as a ModelRef": isinstance(how.judge, ModelRef),
    }
    problems = [
        Problem(where=name, message="an agent that is a file cannot be given this here")
        for name, told in given.items()
        if told
    ]
    if problems:
        raise ConfigError(problems, remedy="Say it in the file, or give the agent as a Target.")


def _said_here(setup: Setup, how: How) -> Setup:
    if how.budget is None and how.policy is None:
        return setup
    return replace(
        setup,
        budget=how.budget or setup.budget,
        case_policy=how.policy or setup.case_policy,
    )


def _measurement(
    subject: str,
    target: Target,
    metrics: tuple[Metric, ...],
    cases: tuple[Case, ...],
    how: How,
    models: Models,
) -> Measurement:
    measure = Measure(repeats=how.repeats or 1, subject=subject)
    setup = Setup(
        target=target,
        metrics=metrics,
        objective=_objective(metrics),
        dataset=Dataset(train=cases),
        strategy=measure,
        seed=DEFAULT_SEED if how.seed is None else how.seed,
        concurrency=how.concurrency or DEFAULT_CONCURRENCY,
        notes=notes_for(target, cases) if isinstance(target, CallingTarget) else (),
        # What a target holds open belongs to the loop that it was used in.
        resources=(models, target) if is_closable(target) else (models,),
    )
    return Measurement(setup=_said_here(setup, how), measure=measure, root=RESULTS)


def _objective(metrics: Sequence[Metric]) -> Objective:
    return Objective(weights={metric.name: 1.0 for metric in metrics})


def _making(how: How, models: Models) -> MetricMaking:
    judge = None if how.judge is None else as_reference(how.judge)
    return MetricMaking(models=models, folder=Path.cwd(), judge=judge)


def _read(cases: Cases | None) -> tuple[Case, ...]:
    given = _required(cases, "cases")
    return read_cases(Path(given)).cases if isinstance(given, str | Path) else tuple(given)


def _required(given: T | None, what: str) -> T:
    if given is None:
        message = f"there are no {what}"
        remedy = f"give {what}: only a file that describes an agent can bring them itself"
        raise ConfigError([Problem(message=message, remedy=remedy)])
    return given
