"""`burnish optimize graph.yaml --request FILE`: a run request of PromptIter, as overrides."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel

from burnish.cli.optimize_asking import Asked
from burnish.compat.promptiter.requests import (
    BurnishOptions,
    EvalSetInput,
    RunRequest,
    read_request,
)
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.projects.overrides import FlagValue
from burnish.strategies.backprop.packets import Severity
from burnish.system import read_tree

_GUARDS = {
    "protected_cases": "protected",
    "no_new_failures": "no_new_failures",
    "metric_floors": "floors",
}
"""What the request calls a guard, and what the file does."""
_LIMITS = ("max_metric_calls", "max_calls", "max_tokens", "max_usd", "max_minutes", "seed")


def with_request(asked: Asked, file: Path) -> Asked:
    """What is asked, with what the request says where no flag does."""
    if asked.request is None:
        return asked
    request, warnings = read_request(_inner(read_tree(asked.request).data), strict=False)
    for warning in warnings:
        typer.echo(f"! {asked.request.name}: {warning}", err=True)
    _require_plain(request, asked.request)
    said = {name: value for name, value in asked.overrides.items() if value is not None}
    return replace(asked, overrides={**overrides_of(request, file), **said})


def overrides_of(request: RunRequest, file: Path) -> dict[str, FlagValue]:
    """The request as flags; sets of cases are found beside the graph file."""
    finding = _Finding(file)
    asked: dict[str, Json] = {
        "optimizer": _optimizer(request),
        "train": [finding.named(each) for each in request.train_inputs],
        "holdout": [finding.named(each) for each in request.validation_inputs],
    }
    finding.settle()
    told: dict[str, FlagValue] = {**_said(request.burnish, *_LIMITS)} if request.burnish else {}
    options = request.evaluation_options
    parallel = (
        options.eval_case_parallel_inference_enabled
        and options.eval_case_parallel_evaluation_enabled
    )
    at_once = options.eval_case_parallelism if parallel else 1
    return {"asked": asked, "concurrency": at_once or None, "strategy": "backprop", **told}


def _optimizer(request: RunRequest) -> dict[str, Json]:
    """The keys of a graph file's optimizer block; what the request leaves open stays the file's."""
    backward = _parallel(
        _said(request.backward_options, "case_parallelism_enabled", "case_parallelism")
    )
    merging, patching = (
        _parallel(_said(options, "surface_parallelism_enabled", "surface_parallelism"))
        for options in (request.aggregation_options, request.optimizer_options)
    )
    found: dict[str, Json] = {
        "targets": [*request.target_surface_ids],
        **_said(request.acceptance_policy, "min_score_gain"),
        **_said(request.stop_policy, "max_rounds_without_acceptance", "target_score"),
        **_hints(request),
        "backward_parallelism": backward,
        "aggregation_parallelism": merging,
        "patch_parallelism": patching,
        "max_rounds": request.max_rounds or None,
        **(_burnish(request.burnish) if request.burnish is not None else {}),
    }
    return {name: value for name, value in found.items() if value not in ([], {}, None)}


def _hints(request: RunRequest) -> dict[str, Json]:
    hints: list[Json] = [
        {
            "case": hint.eval_case_id,
            "metric": hint.metric_name,
            "reason": hint.reason,
            "severity": hint.severity or Severity.P1.value,
        }
        for each in request.train_inputs
        for hint in each.loss_hints
    ]
    goals = [goal for each in request.train_inputs for goal in each.loss_targets]
    targets: dict[str, Json] = {goal.metric_name: goal.node_id for goal in goals}
    return {"loss_hints": hints, "loss_targets": targets}


def _burnish(options: BurnishOptions) -> dict[str, Json]:
    names = ("repeats", "gate", "accept_sigma", "candidates_per_round", "cases_per_round")
    guards = {_GUARDS[name]: value for name, value in _said(options, *_GUARDS).items() if value}
    return {**_said(options, *names), "guards": {**guards}}


def _said(block: BaseModel, *names: str) -> dict[str, Any]:
    """What a block of the request says itself, without what it would be by default."""
    data = block.model_dump(mode="json", by_alias=False)
    return {name: data[name] for name in names if name in block.model_fields_set}


def _parallel(said: Mapping[str, Any]) -> dict[str, Json]:
    """`{enabled, at_once}` of two keys that PromptIter calls otherwise; 0 leaves it open."""
    found: dict[str, Json] = {}
    for key, value in said.items():
        if key.endswith("_enabled"):
            found["enabled"] = value
        elif value:
            found["at_once"] = value
    return found


class _Finding:
    """Finds eval sets by their ids, in the places where PromptIter and graphs have them."""

    def __init__(self, file: Path) -> None:
        data = read_tree(file).data
        name = data.get("name") if isinstance(data, dict) else None
        self._folder = file.resolve().parent
        self._app = name if isinstance(name, str) else ""
        self._problems: list[Problem] = []

    def named(self, each: EvalSetInput) -> dict[str, Json]:
        """The file of a set, and which of its cases."""
        places = list(self._places(f"{each.eval_set_id}.evalset.json"))
        found = next((path for path in places if path.is_file()), None)
        if found is None:
            looked = ", ".join(str(path.relative_to(self._folder)) for path in places)
            message = f"there is no eval set '{each.eval_set_id}'"
            remedy = f"looked for: {looked} in {self._folder}"
            self._problems.append(Problem(where="--request", message=message, remedy=remedy))
        return {"file": str(found or ""), "cases": [*each.eval_case_ids]}

    def settle(self) -> None:
        """Raise everything that was not found."""
        if self._problems:
            raise ConfigError(self._problems)

    def _places(self, name: str) -> Iterator[Path]:
        for folder in (self._folder, self._folder / "data"):
            yield folder / name
            if self._app:
                yield folder / self._app / name


def _require_plain(request: RunRequest, path: Path) -> None:
    """Refuse what only the engine in Python can do."""
    if request.initial_profile is not None and request.initial_profile.overrides:
        message = "InitialProfile: a graph file is started from as it stands"
        remedy = (
            "put the values into the file first, or run the request from Python with "
            "burnish.compat.promptiter.Engine"
        )
        raise ConfigError([Problem(where=path.name, message=message, remedy=remedy)])


def _inner(data: Json) -> Json:
    """The request itself: a body for the HTTP service has it under `run`."""
    found = data if isinstance(data, dict) else {}
    return next((value for key, value in found.items() if key.lower() == "run"), data)
