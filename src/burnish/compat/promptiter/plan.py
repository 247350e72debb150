"""From a request to a run: checked before anything is paid."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pydantic import JsonValue

from burnish.compat.callbacks import AroundTarget
from burnish.compat.promptiter.evaluation import Assets, CaseOrigin, EvaluationStack, in_turn
from burnish.compat.promptiter.requests import (
    LIMITS,
    EvalSetInput,
    LossHint,
    RunRequest,
    settings_data,
)
from burnish.compat.promptiter.snapshot import SurfaceMap, unknown
from burnish.compat.promptiter.stage_models import (
    Kind,
    ModelStage,
    aggregate_role,
    backward_role,
    optimize_role,
)
from burnish.compat.promptiter.stages import Aggregator, Backwarder, Optimizer, StageViews
from burnish.compat.promptiter.translation import RoundContext
from burnish.core.cases import Case, Dataset
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.evaluations import Objective
from burnish.core.protocols import Metric, Role, Target
from burnish.core.structures import Structure
from burnish.core.surfaces import Candidate
from burnish.journal.limits import Budget
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.runs.directory import Project
from burnish.runs.draft import Places, validated
from burnish.runs.evaluation import CasePolicy
from burnish.runs.setup import Setup
from burnish.runs.spec import DEFAULT_CONCURRENCY, DEFAULT_SEED
from burnish.strategies.backprop.packets import Severity
from burnish.strategies.backprop.search import Watcher
from burnish.strategies.backprop.settings import BackpropSettings
from burnish.strategies.backprop.settings import LossHint as BackpropLossHint
from burnish.strategies.backprop.strategy import Backprop, unknown_names
from burnish.system.config_errors import dotted

_SEVERITIES = ("", *(each.value for each in Severity))


def _problems_of(request: RunRequest, surface_map: SurfaceMap) -> list[Problem]:
    """What can be seen without reading any set."""
    return [
        *_sets(request),
        *_numbers(request),
        *_targets(request, surface_map),
        *_loss_targets(request, surface_map),
    ]


def _mismatches(request: RunRequest, assets: Assets) -> list[Problem]:
    """What the sets do not have: metrics and cases that hints, targets and guards name."""
    problems: list[Problem] = []
    for each in request.train_inputs:
        metrics = assets.names.get(each.eval_set_id, ())
        named = [hint.metric_name for hint in each.loss_hints]
        named += [target.metric_name for target in each.loss_targets]
        problems += [
            Problem(where=each.eval_set_id, message=f"this set has no metric '{name}'")
            for name in dict.fromkeys(named)
            if name not in metrics
        ]
        cases = {
            origin.case for origin in assets.origins.values() if origin.eval_set == each.eval_set_id
        }
        problems += [
            Problem(where=each.eval_set_id, message=f"a loss hint names no case: '{name}'")
            for name in dict.fromkeys(hint.eval_case_id for hint in each.loss_hints)
            if name not in cases
        ]
    return [*problems, *_uneven_targets(request, assets), *_guards(request, assets)]


def _protected_cases(request: RunRequest, assets: Assets) -> dict[str, list[str]]:
    """By protected case, the cases of validation that may be meant."""
    holdout = [case.id for case in assets.dataset.holdout]
    return {
        name: [case for case in holdout if name in (case, assets.origins[case].case)]
        for name in request.options.protected_cases
    }


def _sets(request: RunRequest) -> Iterator[Problem]:
    for split, inputs, ids in (
        ("train", request.train, request.train_eval_set_ids),
        ("validation", request.validation, request.validation_eval_set_ids),
    ):
        if inputs and ids:
            message = "the sets are named twice, as inputs and as ids"
            yield Problem(where=split, message=message, remedy="keep one of the two lists")
    for split, inputs in (
        ("train", request.train_inputs),
        ("validation", request.validation_inputs),
    ):
        if not inputs:
            yield Problem(where=split, message=f"{split} evaluation sets are empty")
        for each in inputs:
            yield from _input(split, each)
    for each in request.validation_inputs:
        if each.loss_targets:
            message = "loss targets are for train sets: nothing is learned from validation"
            yield Problem(where=f"validation {each.eval_set_id}", message=message)


def _input(split: str, entry: EvalSetInput) -> Iterator[Problem]:
    name = entry.eval_set_id
    where = f"{split} {name}".strip()
    if not name.strip():
        yield Problem(where=split, message="an eval set id is empty")
    elif {"/", "\\"} & set(name) or name.startswith("."):
        yield Problem(where=where, message="an eval set id cannot be a path")
    if any(not case.strip() for case in entry.eval_case_ids):
        yield Problem(where=where, message="an eval case id is empty")
    for hint in entry.loss_hints:
        yield from _hint(where, hint, entry.eval_case_ids)
    metrics = [target.metric_name for target in entry.loss_targets]
    for target in entry.loss_targets:
        if not target.metric_name.strip() or not target.node_id.strip():
            yield Problem(where=where, message="a loss target needs a metric and a node")
    for metric in sorted({name for name in metrics if metrics.count(name) > 1}):
        yield Problem(where=where, message=f"there are two loss targets for '{metric}'")


def _hint(where: str, hint: LossHint, chosen: Sequence[str]) -> Iterator[Problem]:
    for name in ("eval_case_id", "metric_name", "reason"):
        if not getattr(hint, name).strip():
            yield Problem(where=where, message=f"a loss hint has no {name.replace('_', ' ')}")
    if hint.severity not in _SEVERITIES:
        message = f"a loss hint has the severity '{hint.severity}'"
        yield Problem(where=where, message=message, remedy="P0, P1, P2, P3, or none")
    if chosen and hint.eval_case_id and hint.eval_case_id not in chosen:
        message = f"a loss hint is about '{hint.eval_case_id}', which is not among the chosen cases"
        yield Problem(where=where, message=message)


def _numbers(request: RunRequest) -> Iterator[Problem]:
    if request.max_rounds <= 0:
        yield Problem(where="MaxRounds", message="there must be at least one round")
    if request.stop_policy.max_rounds_without_acceptance < 0:
        yield Problem(where="MaxRoundsWithoutAcceptance", message="it cannot be negative")
    widths = {
        "EvalCaseParallelism": request.evaluation_options.eval_case_parallelism,
        "CaseParallelism": request.backward_options.case_parallelism,
        "AggregationOptions": request.aggregation_options.surface_parallelism,
        "OptimizerOptions": request.optimizer_options.surface_parallelism,
    }
    for name, width in widths.items():
        if width < 0:
            yield Problem(where=name, message=f"parallelism cannot be negative, found {width}")


def _targets(request: RunRequest, surface_map: SurfaceMap) -> Iterator[Problem]:
    if not request.target_surface_ids:
        remedy = f"there are: {', '.join(surface_map.targets) or 'none'}"
        message = "target surface ids are empty"
        yield Problem(where="TargetSurfaceIDs", message=message, remedy=remedy)
    for name in dict.fromkeys(request.target_surface_ids):
        if name not in surface_map.targets:
            yield unknown(name, surface_map.targets)


def _loss_targets(request: RunRequest, surface_map: SurfaceMap) -> Iterator[Problem]:
    nodes = {node.id for node in surface_map.structure.nodes}
    for each in request.train_inputs:
        for target in each.loss_targets:
            if target.node_id.strip() and target.node_id not in nodes:
                remedy = f"there are: {', '.join(sorted(nodes))}"
                message = f'loss target node "{target.node_id}" is unknown'
                yield Problem(where=each.eval_set_id, message=message, remedy=remedy)


def _uneven_targets(request: RunRequest, assets: Assets) -> Iterator[Problem]:
    """Loss targets that one set has and another, with the same metric, has not."""
    named: dict[str, dict[str, str]] = {}
    for each in request.train_inputs:
        for target in each.loss_targets:
            named.setdefault(target.metric_name, {})[each.eval_set_id] = target.node_id
    sets = {each.eval_set_id for each in request.train_inputs}
    for metric, by_set in named.items():
        scored = {name for name in sets if metric in assets.names.get(name, ())}
        if len(set(by_set.values())) > 1 or not scored <= set(by_set):
            message = f"the loss target of '{metric}' differs from set to set"
            remedy = "burnish has one for each metric: say the same for every train set"
            yield Problem(where="train", message=message, remedy=remedy)


def _guards(request: RunRequest, assets: Assets) -> Iterator[Problem]:
    for name, cases in _protected_cases(request, assets).items():
        if len(cases) != 1:
            message = "several validation sets have it" if cases else "no validation set has it"
            remedy = "say set/case" if cases else ""
            yield Problem(where=f"ProtectedCases {name}", message=message, remedy=remedy)
    names = [metric.name for metric in assets.metrics]
    for name in request.options.metric_floors:
        if name not in names:
            remedy = f"there are: {', '.join(names)}"
            yield Problem(where=f"MetricFloors {name}", message="no such metric", remedy=remedy)


# -- The settings of a run of the engine ----------------------------------------------------------


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


def _settings_of(
    request: RunRequest,
    surface_map: SurfaceMap,
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
    has_hints = any(each.loss_hints for each in request.train_inputs)
    hints = _request_hints(request) if has_hints else _own_hints(settings, assets)
    surfaces = sorted(set(request.target_surface_ids))
    return settings.model_copy(
        update={
            "targets": tuple(surface_map.targets[name] for name in surfaces),
            "guards": settings.guards.model_copy(update={"protected": tuple(protected)}),
            "loss_hints": tuple(hints),
            "merge_single": merge_single or settings.merge_single,
        }
    )


def _unknown_in(settings: BackpropSettings, target: Target, assets: Assets) -> list[Problem]:
    """What the settings name and the sets of a request do not have."""
    faults = unknown_names(settings, target, assets.metrics, assets.dataset)
    return [
        Problem(where=dotted(each.at), message=each.message, remedy=each.remedy) for each in faults
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
    whole = [each.id for each in cases if name in (each.id, assets.origins[each.id].case)]
    return whole or [name]


def _own_hints(settings: BackpropSettings, assets: Assets) -> Iterator[BackpropLossHint]:
    for hint in settings.loss_hints:
        for case in _cases_called(hint.case, assets.dataset.train, assets):
            yield hint.model_copy(update={"case": case})


def _request_hints(request: RunRequest) -> Iterator[BackpropLossHint]:
    for each in request.train_inputs:
        for hint in each.loss_hints:
            origin = CaseOrigin(eval_set=each.eval_set_id, case=hint.eval_case_id)
            severity = Severity(hint.severity) if hint.severity else Severity.P1
            yield BackpropLossHint(
                case=origin.name, metric=hint.metric_name, reason=hint.reason, severity=severity
            )


@dataclass(frozen=True, kw_only=True)
class ProfileTarget(AroundTarget):
    """Another target, whose baseline is what the initial profile says."""

    surface_map: SurfaceMap
    start: Candidate

    @property
    def baseline(self) -> Candidate:
        """What the profile says."""
        return self.start

    @property
    def structure(self) -> Structure:
        """The other's, or one node where it has none."""
        return self.surface_map.structure


# -- From a request to a run ----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Who does the three stages: a model, a runner as a model, or an object of one's own."""

    backwarder: Backwarder | ModelStage | ModelRef | str | None
    aggregator: Aggregator | ModelStage | ModelRef | str | None
    optimizer: Optimizer | ModelStage | ModelRef | str | None

    def problems(self) -> Iterator[Problem]:
        """The stages that nobody does."""
        methods = {"backwarder": "backward", "aggregator": "aggregate", "optimizer": "optimize"}
        for name, method in methods.items():
            stage: object = getattr(self, name)
            usable = isinstance(stage, ModelStage | ModelRef | str) or hasattr(stage, method)
            if not usable:
                remedy = f"give a model's name, or an object with `async {method}(request)`"
                yield Problem(where=name, message=f"there is no {name}", remedy=remedy)


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """A request that was found good, with all that it needs."""

    request: RunRequest
    surface_map: SurfaceMap
    assets: Assets
    stages: Stages
    stack: EvaluationStack
    target: Target
    start: Candidate
    budget: Budget = field(default_factory=Budget)
    """The limits of the engine, which a request can only make stricter."""
    settings: BackpropSettings = field(default_factory=BackpropSettings)
    defaults: RunDefaults = field(default_factory=RunDefaults)
    context: RoundContext = field(init=False)

    def __post_init__(self) -> None:
        context = RoundContext(origins=self.assets.origins)
        object.__setattr__(self, "context", context)

    @classmethod
    def of(
        cls,
        request: RunRequest,
        target: Target,
        stages: Stages,
        stack: EvaluationStack,
        budget: Budget | None = None,
        defaults: RunDefaults | None = None,
    ) -> "RunPlan":
        """The plan; everything that is wrong is said at once, as far as it can be told."""
        surface_map = SurfaceMap.of(target)
        problems = [*stages.problems(), *_problems_of(request, surface_map)]
        start = surface_map.baseline
        try:
            start = (
                surface_map.candidate(request.initial_profile) if request.initial_profile else start
            )
        except ConfigError as error:
            problems += error.problems
        if problems:
            raise ConfigError(problems)
        assets = stack.load(request)
        if problems := _mismatches(request, assets):
            raise ConfigError(problems)
        # An aggregator of one's own may do more than merge, so it sees single remarks too.
        by_model = isinstance(stages.aggregator, ModelStage | ModelRef | str)
        usual = defaults or RunDefaults()
        settings = _settings_of(
            request, surface_map, assets, usual.settings, merge_single=not by_model
        )
        if problems := _unknown_in(settings, target, assets):
            raise ConfigError(problems)
        return cls(
            request=request,
            surface_map=surface_map,
            assets=assets,
            stages=stages,
            stack=stack,
            target=target,
            start=start,
            budget=budget or Budget(),
            settings=settings,
            defaults=usual.over(request),
        )

    @property
    def objective(self) -> Objective:
        """Every score of a validation case counts the same, whichever metric gave it."""
        counts = _counts(self.assets.metrics, self.assets)
        return Objective(weights={name: float(count) for name, count in counts.items() if count})

    def setup(self, watch: Watcher) -> Setup:
        """Everything the run is made of."""
        options = self.request.options
        evaluation, metrics = self.request.evaluation_options, self.assets.metrics
        config = {"app": self.stack.app_name, "request": cast("Json", self.request.to_json())}
        return Setup(
            target=ProfileTarget(
                target=self.target, surface_map=self.surface_map, start=self.start
            ),
            metrics=metrics
            if evaluation.eval_case_parallel_evaluation_enabled
            else in_turn(metrics),
            objective=self.objective,
            dataset=self.assets.dataset,
            strategy=self._strategy(watch),
            seed=self.defaults.seed,
            budget=self.budget.within(**{name: getattr(options, name) for name in LIMITS}),
            concurrency=self.defaults.concurrency,
            case_policy=self.defaults.case_policy,
            project=Project(config={"promptiter": config}),
            notes=tuple(self._notes()),
            resources=(_Borrowed(self.assets.models),),
        )

    def _strategy(self, watch: Watcher) -> Backprop:
        return Backprop(
            backwarder=self._role("backwarder", self.stages.backwarder),
            aggregator=self._role("aggregator", self.stages.aggregator),
            patcher=self._role("optimizer", self.stages.optimizer),
            settings=self.settings,
            watch=watch,
        )

    def _role(self, kind: Kind, stage: Any) -> Role[Any, Any]:
        views = StageViews(surface_map=self.surface_map, context=self.context)
        if isinstance(stage, str | ModelRef):
            stage = ModelStage(kind=kind, who=stage)
        if isinstance(stage, ModelStage):
            return stage.role(self.stack.models, views)
        match kind:
            case "backwarder":
                return backward_role(stage, views)
            case "aggregator":
                return aggregate_role(stage, views)
            case "optimizer":
                return optimize_role(stage, views)

    def _notes(self) -> Iterator[str]:
        sizes: dict[str, int] = {}
        for case in self.assets.dataset.holdout:
            origin = self.assets.origins[case.id]
            sizes[origin.eval_set] = sizes.get(origin.eval_set, 0) + 1
        if len(set(sizes.values())) > 1:
            text = ", ".join(f"{name} {size}" for name, size in sizes.items())
            yield (
                f"the validation sets have different sizes ({text}): OverallScore counts each set "
                "the same, while decisions count each case the same"
            )


class _Borrowed:
    """Models that belong to the engine: a run knows their secrets, and does not close them."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def secrets(self) -> Sequence[str]:
        """The keys that they were given."""
        return self._models.secrets()

    async def close(self) -> None:
        """Another run may use them."""


def cases_of(dataset: Dataset) -> dict[str, Case]:
    """The cases by name."""
    return {case.id: case for case in (*dataset.train, *dataset.holdout)}


def _counts(metrics: Sequence[Metric], assets: Assets) -> dict[str, int]:
    """By metric, how many cases of validation are in sets that it scores."""
    sets = [assets.origins[case.id].eval_set for case in assets.dataset.holdout]
    return {m.name: sum(m.name in assets.names[each] for each in sets) for m in metrics}
