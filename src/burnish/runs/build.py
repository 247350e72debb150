"""Builds a Setup from a description, with the target's and the strategy's plug-in."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from burnish.core.evaluations import Objective
from burnish.core.formatting import alternatives
from burnish.core.protocols import Metric, takes_turns
from burnish.metrics.judged import check_judges, judged_again, judged_parts
from burnish.metrics.judges import Judge, Panel
from burnish.models.chat import ModelClient
from burnish.models.factory import Models
from burnish.models.references import INSTEAD
from burnish.models.roles import RolePrompt
from burnish.runs.directory import COLUMNS, Project
from burnish.runs.draft import Places, Problems, literal_paths, without_literals
from burnish.runs.evaluation import WorkerPool, uses_of
from burnish.runs.first_round import FirstRound
from burnish.runs.plugins import (
    Building,
    LiveParts,
    StrategyPlugin,
    TargetParts,
    executor_plugin,
    fitting,
    lack,
    strategy_plugin,
    target_plugin,
)
from burnish.runs.setup import Setup, with_outputs, work_fingerprint
from burnish.runs.spec import AnySpec
from burnish.system import Redactor
from burnish.system.extras import extra_named, install_command
from burnish.system.files import translated
from burnish.system.settings import FieldPath


@dataclass(frozen=True, kw_only=True)
class RunDescription:
    """A valid description, and where each of its values came from."""

    spec: AnySpec
    places: Places = field(default_factory=Places)
    notes: tuple[str, ...] = ()
    """Messages for the user from reading the file."""
    written: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """The whole description with `${VAR}` as written, if it has variables."""


def building_of(
    description: RunDescription, *, models: Models | None = None, live: LiveParts | None = None
) -> Building:
    """A description that is about to be built; `models` replace the real ones."""
    return Building(
        spec=description.spec,
        problems=Problems(places=description.places),
        models=(models or description.spec.models.models()).for_run(),
        given_models=models,
        live=live or LiveParts(),
    )


def build(
    description: RunDescription,
    *,
    models: Models | None = None,
    live: LiveParts | None = None,
    folder: Path | None = None,
) -> Setup:
    """Build the described run; raises everything that is wrong at once.

    `models` replace the real ones. With `live` parts, only the program that passes them can set
    the run up again.
    `folder` is the folder of a run that is resumed.
    """
    spec = description.spec
    building = building_of(description, models=models, live=live)
    building = replace(building, run_folder=folder)
    strategy = strategy_plugin(spec.strategy.name)
    target = target_plugin(spec.target.kind)
    # Paths in a description may be anything, and many parts look at them.
    with translated("read", Path(spec.source.file)):
        parts = target.build(building, strategy)
    if parts is not None:
        _check_surfaces(building, parts, strategy)
    if parts is not None and not strategy.proposes:
        parts = replace(parts, exporter=None, record={})  # nothing changes or is adopted
    search = None if parts is None else strategy.build(building, parts)
    reviewed = (
        () if parts is None or search is None else tuple(target.review(building, parts, search))
    )
    second = _second_metrics(building, parts) if strategy.proposes else ()
    for name in spec.tracking.to:
        if missing := extra_named(name).missing:
            message = f"{name} needs packages that are not installed: {', '.join(missing)}"
            building.problems.add("tracking.to", message, install_command(name))
    building.problems.settle()
    assert parts is not None
    assert search is not None
    settings, metrics = spec.strategy.settings, parts.metrics
    project = _project(description, building, parts)
    setup = Setup(
        target=parts.target,
        metrics=metrics,
        second_metrics=second,
        objective=parts.objective or Objective(weights={m.name: 1.0 for m in metrics}),
        dataset=parts.dataset,
        strategy=search.strategy,
        seed=spec.execution.seed,
        budget=search.budget or spec.budget.budget(),
        concurrency=spec.execution.concurrency,
        case_policy=spec.execution.case_policy(),
        wait_minutes=spec.execution.wait_minutes,
        grace_seconds=strategy.grace_seconds,
        test_repeats=settings.repeats,
        confirm=spec.execution.confirm and strategy.proposes,
        exporter=parts.exporter,
        project=project,
        pool=_pool(building, parts, project),
        notes=(
            *building.columns.values(),
            *parts.notes,
            *search.notes,
            *reviewed,
            *(
                _judge_notes(parts, repeats=settings.repeats, writer=search.client)
                if strategy.proposes
                else ()
            ),
            *_key_notes(description),
            *description.notes,  # last, since a resume has others, and they have numbers
        ),
        redact=spec.output.redact,
        tracking=spec.tracking,
        resources=(*parts.resources, building.models),
    )
    if not spec.output.baseline_only:
        setup = replace(setup, first_round=_first_round(building, strategy, setup))
    return with_outputs(setup, spec.output)


def _first_round(building: Building, strategy: StrategyPlugin, setup: Setup) -> FirstRound | None:
    """What a search takes to finish one round, with the places of the limits."""
    first = strategy.first_round(setup)
    names = ("max_metric_calls", "max_calls")
    places = {name: building.problems.where(f"budget.{name}") for name in names}
    return None if first is None else replace(first, places=places)


def _check_surfaces(building: Building, parts: TargetParts, strategy: StrategyPlugin) -> None:
    """Check that the target has a surface to tune of a kind that the strategy needs."""
    kinds = {type(each) for each in parts.target.surfaces if each.id not in parts.left_out}
    missing = lack(strategy, kinds, strategy.requires)
    if missing and not building.problems.found:
        others = fitting(kinds, target_plugin(parts.target.description.kind).abilities)
        other = f", or take the strategy {alternatives(others)}" if others else ""
        message = f"'{strategy.name}' needs {missing}, but there are none to tune"
        building.problems.add("target", message, f"name one{other}")


def _project(description: RunDescription, building: Building, parts: TargetParts) -> Project:
    """Where the run comes from, for run.json."""
    source = description.spec.source
    config = dict(parts.record)
    if building.columns:
        config[COLUMNS] = next(iter(building.columns)).by_part
    if building.live.any:
        return Project(file=source.file, config=config)
    settled = [("target", name) for name in parts.settled]
    kept = description.spec.overriding(*settled) if settled else description.spec
    spec = kept_spec(replace(description, spec=kept))
    spec["target"] = {**cast("dict[str, JsonValue]", spec["target"]), **parts.settled}
    return Project(kind=source.kind, file=source.file, config=config, spec=spec)


def _pool(building: Building, parts: TargetParts, project: Project) -> WorkerPool | None:
    """The workers that run cases; None if this process does."""
    execution, kind = building.spec.execution, building.spec.target.kind
    if execution.executor == "local":
        return None
    problem, at = "", "execution.executor"
    remedy = "take the executor 'local'"
    if building.live.any or building.given_models is not None:
        problem = "a program passes parts of the run, which cannot be sent to workers"
    elif not target_plugin(kind).runs_elsewhere:
        problem = f"a target of the kind '{kind}' can only be run in this process"
    elif takes_turns(parts.target):
        problem = "the target writes its candidates into files, one at a time"
    elif execution.executor == "dask" and (execution.address is None) == (
        execution.workers is None
    ):
        problem, at = "dask needs either a scheduler or a number of workers", "execution.address"
        remedy = "set address or workers, not both"
    if problem:
        building.problems.add(at, problem, remedy)
        building.problems.settle()
    plugin = executor_plugin(execution.executor)
    return plugin.pool(
        execution,
        project.spec,
        target=work_fingerprint(parts.target, uses_of((*parts.resources, building.models))),
        limits=building.models.limits,
    )


def kept_spec(description: RunDescription) -> dict[str, JsonValue]:
    """The description as run.json and the service store it."""
    data = written_spec(description)
    return without_literals(data, description.places, Redactor.from_environment())


def written_spec(description: RunDescription) -> dict[str, JsonValue]:
    """The description with `${VAR}` as written."""
    data = description.spec.to_json()
    for path in description.spec.source.variables:
        _write(data, description.written, path)
    return data


def _key_notes(description: RunDescription) -> Iterator[str]:
    """Keys that stand in a file, where others may read them."""
    for path in literal_paths(kept_spec(description)):
        place = description.places.place(path) or ".".join(map(str, path))
        yield f"{place}: a key is written in plain text; {INSTEAD}"


def _write(data: dict[str, JsonValue], written: Mapping[str, JsonValue], path: FieldPath) -> None:
    """Replace a value, or the closest block with another form, by what was written."""
    key, *rest = path
    inner, raw = data.get(key), written[key]
    if rest and isinstance(inner, dict) and isinstance(raw, dict):
        _write(inner, raw, tuple(rest))
    else:
        data[key] = raw


def _second_metrics(building: Building, parts: TargetParts | None) -> tuple[Metric, ...]:
    """The metrics with the second judge, if there is one."""
    block, at = building.spec.metrics.second_judge, "metrics.second_judge"
    if block is None or parts is None:
        return ()

    def panel(prompt: RolePrompt) -> Panel:
        client = building.models.client(block.reference(), prompt.settings, role="second judge")
        return Panel(judges=(Judge(client=client),))

    def make() -> list[Metric]:
        metrics = judged_again(parts.metrics, panel)
        check_judges(metrics)
        return metrics

    before = len(building.problems.found)
    metrics = building.problems.attempt(at, make, list[Metric]())
    if not metrics and len(building.problems.found) == before:
        message = "no metric of this run is judged by a model"
        building.problems.add(at, message, "leave it out")
    return tuple(metrics)


def _judge_notes(parts: TargetParts, *, repeats: int, writer: ModelClient | None) -> Iterator[str]:
    """Notes about models that judge."""
    judged = [metric for each in parts.metrics for metric in judged_parts(each)]
    if judged and repeats == 1:
        names = ", ".join(dict.fromkeys(metric.name for metric in judged))
        about = f"each case is run once, and a model judges {names}"
        yield f"{about}: verdicts vary, and one run cannot show by how much"
    same = {
        metric.name: None
        for metric in judged
        for judge in metric.panel.judges
        if writer is not None and judge.client.ref.label == writer.ref.label
    }
    if same and writer is not None:
        about = f"{writer.ref.label} writes {parts.written} and judges {', '.join(same)}"
        yield f"{about}: it may favour its own writing"
