"""From a description to a Setup: the target builds its part, the strategy its own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from burnish.core.cases import Case
from burnish.core.evaluations import Objective
from burnish.core.formatting import alternatives
from burnish.core.protocols import Target
from burnish.metrics.judged import judged_parts
from burnish.models.chat import ModelClient
from burnish.models.factory import Models
from burnish.runs.directory import Project
from burnish.runs.draft import Places, Problems, without_literals
from burnish.runs.plugins import (
    Building,
    StrategyPlugin,
    TargetParts,
    fitting,
    lack,
    strategy_plugin,
    target_plugin,
)
from burnish.runs.setup import Setup, with_outputs
from burnish.runs.spec import AnySpec
from burnish.system import Redactor
from burnish.system.settings import FieldPath


@dataclass(frozen=True, kw_only=True)
class RunDescription:
    """A description that was read and is sound, and where each of its values came from."""

    spec: AnySpec
    places: Places = field(default_factory=Places)
    notes: tuple[str, ...] = ()
    """What the reader of a file has to tell the user."""
    written: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """The whole description with `${VAR}` as written, where variables have made values of it."""


def building_of(
    description: RunDescription, *, models: Models | None = None, live: Target | None = None
) -> Building:
    """A description about to be built; `models` stand in for the real ones."""
    return Building(
        spec=description.spec,
        problems=Problems(places=description.places),
        models=models or description.spec.models.models(),
        given_models=models,
        live=live,
    )


def build(
    description: RunDescription,
    *,
    models: Models | None = None,
    live: Target | None = None,
    cases: tuple[Case, ...] | None = None,
    folder: Path | None = None,
) -> Setup:
    """The run that is described; everything that is wrong is said at once.

    `models` stand in for the real ones. `live` is the target itself, where a program has it: then
    only that program can set the run up again. So it is with `cases`, which are measured in place
    of those that the description names. `folder` is that of a run that goes on.
    """
    spec = description.spec
    building = building_of(description, models=models, live=live)
    building = replace(building, cases=cases, run_folder=folder)
    strategy = strategy_plugin(spec.strategy.name)
    target = target_plugin(spec.target.kind)
    parts = target.build(building, strategy)
    if parts is not None:
        _check_surfaces(building, parts, strategy)
    if parts is not None and not strategy.proposes:
        parts = replace(parts, exporter=None, record={})  # nothing changes, nothing is adopted
    search = None if parts is None else strategy.build(building, parts)
    reviewed = (
        () if parts is None or search is None else tuple(target.review(building, parts, search))
    )
    building.problems.settle()
    assert parts is not None
    assert search is not None
    settings, metrics = spec.strategy.settings, parts.metrics
    return with_outputs(
        Setup(
            target=parts.target,
            metrics=metrics,
            objective=parts.objective or Objective(weights={m.name: 1.0 for m in metrics}),
            dataset=parts.dataset,
            strategy=search.strategy,
            seed=spec.execution.seed,
            budget=search.budget or spec.budget.budget(),
            concurrency=spec.execution.concurrency,
            case_policy=spec.execution.case_policy(),
            grace_seconds=strategy.grace_seconds,
            test_repeats=settings.repeats,
            exporter=parts.exporter,
            project=_project(description, building, parts),
            notes=(
                *parts.notes,
                *search.notes,
                *reviewed,
                *(
                    _judge_notes(parts, repeats=settings.repeats, writer=search.client)
                    if strategy.proposes
                    else ()
                ),
                *description.notes,
            ),
            resources=(*parts.resources, building.models),
        ),
        spec.output,
    )


def _check_surfaces(building: Building, parts: TargetParts, strategy: StrategyPlugin) -> None:
    """Of the kinds of surfaces that a strategy needs, this very target must have one to tune."""
    kinds = {type(each) for each in parts.target.surfaces if each.id not in parts.left_out}
    missing = lack(strategy, kinds, strategy.requires)
    if missing and not building.problems.found:
        others = fitting(kinds, target_plugin(parts.target.description.kind).abilities)
        other = f", or take the strategy {alternatives(others)}" if others else ""
        message = f"'{strategy.name}' needs {missing}, and there are none to tune"
        building.problems.add("target", message, f"name one{other}")


def _project(description: RunDescription, building: Building, parts: TargetParts) -> Project:
    """What run.json says of where the run came from."""
    if building.live is not None:
        return Project(config=parts.record)
    source = description.spec.source
    spec = kept_spec(description)
    spec["target"] = {**cast("dict[str, JsonValue]", spec["target"]), **parts.settled}
    return Project(kind=source.kind, file=source.file, config=parts.record, spec=spec)


def kept_spec(description: RunDescription) -> dict[str, JsonValue]:
    """The description as run.json and the store of the service keep it."""
    data = description.spec.to_json()
    for path in description.spec.source.variables:
        _write(data, description.written, path)
    return without_literals(data, description.places, Redactor.from_environment())


def _write(data: dict[str, JsonValue], written: Mapping[str, JsonValue], path: FieldPath) -> None:
    """Put what was written in place of a value, or of the block around it that has another form."""
    key, *rest = path
    inner, raw = data.get(key), written[key]
    if rest and isinstance(inner, dict) and isinstance(raw, dict):
        _write(inner, raw, tuple(rest))
    else:
        data[key] = raw


def _judge_notes(parts: TargetParts, *, repeats: int, writer: ModelClient | None) -> Iterator[str]:
    """What is to be said of models that judge."""
    judged = [metric for each in parts.metrics for metric in judged_parts(each)]
    if judged and repeats == 1:
        names = ", ".join(dict.fromkeys(metric.name for metric in judged))
        about = f"each case is run once, and a model judges {names}"
        yield f"{about}: verdicts vary, and one run cannot tell by how much"
    same = {
        metric.name: None
        for metric in judged
        for judge in metric.panel.judges
        if writer is not None and judge.client.ref.label == writer.ref.label
    }
    if same and writer is not None:
        about = f"{writer.ref.label} writes {parts.written} and judges {', '.join(same)}"
        yield f"{about}: it may come to please itself"
