"""`burnish optimize graph.yaml --request FILE`: a run request of PromptIter, as overrides."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import typer

from burnish.cli.optimize_asking import Asked
from burnish.compat.promptiter.requests import (
    BurnishOptions,
    EvalSetInput,
    RunRequest,
    SurfaceOptions,
    read_request,
)
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.projects.overrides import FlagValue
from burnish.strategies.backprop.packets import Severity
from burnish.system import read_tree

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
    told = request.burnish
    limits = {name: getattr(told, name) for name in _LIMITS} if told is not None else {}
    options = request.evaluation_options
    at_once = options.eval_case_parallelism if options.eval_case_parallel_inference_enabled else 1
    return {"asked": asked, "concurrency": at_once or None, "strategy": "backprop", **limits}


def _optimizer(request: RunRequest) -> dict[str, Json]:
    """The keys of a graph file's optimizer block."""
    backward, stop = request.backward_options, request.stop_policy
    sets = request.train_inputs
    found: dict[str, Json] = {
        "targets": [*request.target_surface_ids],
        "min_score_gain": request.acceptance_policy.min_score_gain,
        "max_rounds_without_acceptance": stop.max_rounds_without_acceptance,
        "target_score": stop.target_score,
        "loss_hints": [
            {
                "case": hint.eval_case_id,
                "metric": hint.metric_name,
                "reason": hint.reason,
                "severity": hint.severity or Severity.P1.value,
            }
            for each in sets
            for hint in each.loss_hints
        ],
        "loss_targets": {
            goal.metric_name: goal.node_id for each in sets for goal in each.loss_targets
        },
        "backward_parallelism": _parallel(
            backward.case_parallelism, enabled=backward.case_parallelism_enabled
        ),
        "aggregation_parallelism": _surfaces(request.aggregation_options),
        "patch_parallelism": _surfaces(request.optimizer_options),
        **({"max_rounds": request.max_rounds} if request.max_rounds else {}),
        **(_burnish(request.burnish) if request.burnish is not None else {}),
    }
    return {name: value for name, value in found.items() if value not in ([], {}, None)}


def _burnish(options: BurnishOptions) -> dict[str, Json]:
    return {
        "repeats": options.repeats,
        "gate": options.gate,
        "accept_sigma": options.accept_sigma,
        "candidates_per_round": options.candidates_per_round,
        "cases_per_round": options.cases_per_round,
        "guards": {
            "protected": [*options.protected_cases],
            "no_new_failures": options.no_new_failures,
            "floors": {**options.metric_floors},
        },
    }


def _surfaces(options: SurfaceOptions) -> Json:
    return _parallel(options.surface_parallelism, enabled=options.surface_parallelism_enabled)


def _parallel(at_once: int, *, enabled: bool) -> Json:
    return {"enabled": enabled, **({"at_once": at_once} if at_once else {})}


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
