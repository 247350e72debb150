"""The settings of a run of the engine: what a request says, over what the engine was made with."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from pydantic import JsonValue

from burnish.compat.promptiter.anatomy import Anatomy
from burnish.compat.promptiter.eval_stack import Assets, Home
from burnish.compat.promptiter.patches import settings_data
from burnish.compat.promptiter.requests import RunRequest
from burnish.core.cases import Case
from burnish.core.errors import Problem
from burnish.core.protocols import Target
from burnish.runs.draft import Places, validated
from burnish.runs.evaluating import CasePolicy
from burnish.runs.spec import DEFAULT_CONCURRENCY, DEFAULT_SEED
from burnish.strategies.backprop.building import unknown_names
from burnish.strategies.backprop.packets import Severity
from burnish.strategies.backprop.settings import BackpropSettings, LossHint
from burnish.system.config_errors import dotted


@dataclass(frozen=True, kw_only=True)
class RunDefaults:
    """What holds for the runs of an engine where their request says nothing."""

    settings: BackpropSettings = field(default_factory=BackpropSettings)
    seed: int = DEFAULT_SEED
    concurrency: int = DEFAULT_CONCURRENCY
    """Cases run at once."""
    case_policy: CasePolicy = field(default_factory=CasePolicy)
    """Time limit and retries of a case."""

    def over(self, request: RunRequest) -> "RunDefaults":
        """The same with what a request says of them."""
        options, evaluation = request.burnish, request.evaluation_options
        says_seed = options is not None and "seed" in options.model_fields_set
        parallel = evaluation.eval_case_parallel_inference_enabled
        width = evaluation.eval_case_parallelism or self.concurrency
        return replace(
            self,
            seed=request.options.seed if says_seed else self.seed,
            concurrency=width if parallel else 1,
        )


def settings_of(
    request: RunRequest,
    anatomy: Anatomy,
    assets: Assets,
    base: BackpropSettings,
    *,
    merge_single: bool,
) -> BackpropSettings:
    """How far, how wide, and by which rule."""
    own = cast("dict[str, JsonValue]", base.model_dump(mode="json"))
    data = _merged(own, settings_data(request))
    settings = validated(data, BackpropSettings, Places(source="run"))
    protected = (
        case
        for name in settings.guards.protected
        for case in _cases_called(name, assets.dataset.holdout, assets)
    )
    hints = _request_hints(request) if _has_hints(request) else _own_hints(settings, assets)
    surfaces = sorted(set(request.target_surface_ids))
    return settings.model_copy(
        update={
            "targets": tuple(anatomy.targets[name] for name in surfaces),
            "guards": settings.guards.model_copy(update={"protected": tuple(protected)}),
            "loss_hints": tuple(hints),
            "merge_single": merge_single or settings.merge_single,
        }
    )


def unknown_in(settings: BackpropSettings, target: Target, assets: Assets) -> list[Problem]:
    """What the settings name and the sets of a request do not have."""
    found = unknown_names(settings, target, assets.metrics, assets.dataset)
    return [
        Problem(where=dotted(each.at), message=each.message, remedy=each.remedy) for each in found
    ]


def _merged(base: Mapping[str, JsonValue], over: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The one over the other, mappings merged, as a draft lays them."""
    merged = dict(base)
    for key, value in over.items():
        before = merged.get(key)
        nested = isinstance(value, dict) and isinstance(before, dict)
        merged[key] = _merged(before, value) if nested else value  # pyright: ignore[reportArgumentType]
    return merged


def _cases_called(name: str, cases: tuple[Case, ...], assets: Assets) -> list[str]:
    """The cases that a name stands for, by whole name or as their set calls them."""
    whole = [each.id for each in cases if name in (each.id, assets.homes[each.id].case)]
    return whole or [name]


def _has_hints(request: RunRequest) -> bool:
    return any(each.loss_hints for each in request.train_inputs)


def _own_hints(settings: BackpropSettings, assets: Assets) -> Iterator[LossHint]:
    for hint in settings.loss_hints:
        for case in _cases_called(hint.case, assets.dataset.train, assets):
            yield hint.model_copy(update={"case": case})


def _request_hints(request: RunRequest) -> Iterator[LossHint]:
    for each in request.train_inputs:
        for hint in each.loss_hints:
            home = Home(eval_set=each.eval_set_id, case=hint.eval_case_id)
            severity = Severity(hint.severity) if hint.severity else Severity.P1
            yield LossHint(
                case=home.name, metric=hint.metric_name, reason=hint.reason, severity=severity
            )
