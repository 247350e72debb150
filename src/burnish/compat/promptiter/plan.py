"""Checks a request and plans its run before any paid call."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pydantic import JsonValue

from burnish.compat.agent_calls import AroundTarget
from burnish.compat.promptiter.evaluation import Assets, CaseOrigin, EvaluationStack, in_turn
from burnish.compat.promptiter.requests import (
    LIMITS,
    EvalSetInput,
    LossHint,
    RunRequest,
    settings_data,
)
from burnish.compat.promptiter.snapshot import SurfaceMap, unknown
from burnish.compat.promptiter.stages import (
    STAGE_KINDS,
    Aggregator,
    Backwarder,
    Kind,
    ModelStage,
    Optimizer,
    StageRole,
    StageViews,
)
from burnish.compat.promptiter.translation import RoundContext
from burnish.core.cases import Case, Split
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.evaluations import Objective
from burnish.core.formatting import shorten
from burnish.core.money import Spend
from burnish.core.protocols import Role, Target
from burnish.core.surfaces import Candidate, Structure
from burnish.journal.limits import Budget
from burnish.journal.outages import WAIT_MINUTES
from burnish.models.factory import Models, ModelUse
from burnish.models.references import ModelRef
from burnish.runs import progress
from burnish.runs.case_work import CasePolicy
from burnish.runs.directory import Project
from burnish.runs.draft import Places, validated
from burnish.runs.first_round import FirstRound
from burnish.runs.setup import Setup
from burnish.runs.spec import DEFAULT_CONCURRENCY, DEFAULT_SEED
from burnish.strategies.backprop.packets import BackpropSettings, Severity
from burnish.strategies.backprop.packets import LossHint as BackpropLossHint
from burnish.strategies.backprop.search import Watcher
from burnish.strategies.backprop.strategy import Backprop, unknown_names
from burnish.system.config import dotted


def _problem(where: str, message: str, remedy: str = "") -> Problem:
    """A problem that may name what a client sent, which is of any length."""
    return Problem(where=shorten(where, 100), message=shorten(message, 300), remedy=remedy)


def _mismatches(request: RunRequest, assets: Assets) -> Iterator[Problem]:
    """Metrics and cases that the request names but its sets do not have."""
    for each in request.train_inputs:
        name = each.eval_set_id
        metrics = [entry.metric_name for entry in (*each.loss_hints, *each.loss_targets)]
        for metric in dict.fromkeys(metrics):
            if metric not in assets.names.get(name, ()):
                yield _problem(name, f"this set has no metric '{metric}'")
        cases = {origin.case for origin in assets.origins.values() if origin.eval_set == name}
        for case in dict.fromkeys(hint.eval_case_id for hint in each.loss_hints):
            if case not in cases:
                yield _problem(name, f"a loss hint names an unknown case: '{case}'")
    yield from _uneven_targets(request, assets)
    yield from _guards(request, assets)


def _sets(request: RunRequest) -> Iterator[Problem]:
    for split, inputs, ids in (
        ("train", request.train, request.train_eval_set_ids),
        ("validation", request.validation, request.validation_eval_set_ids),
    ):
        if inputs and ids:
            message = "the sets are given twice, as inputs and as ids"
            yield _problem(split, message, "keep one of the two lists")
    for split, inputs in (
        ("train", request.train_inputs),
        ("validation", request.validation_inputs),
    ):
        if not inputs:
            yield _problem(split, f"{split} evaluation sets are empty")
        for each in inputs:
            yield from _input(split, each)
    yield from _twice_targeted(request.train_inputs)
    for each in request.validation_inputs:
        if each.loss_targets:
            message = "loss targets only apply to train sets: nothing is learned from validation"
            yield _problem(f"validation {each.eval_set_id}", message)


def _names_a_file(name: str) -> bool:
    """Whether a set's file can have this name, and no other file can be meant."""
    is_path = {"/", "\\"} & set(name) or name.startswith(".") or name[1:2] == ":"
    return name.isprintable() and len(name) <= 128 and not is_path


def _input(split: str, entry: EvalSetInput) -> Iterator[Problem]:
    name = entry.eval_set_id
    where = f"{split} {name}".strip()
    if not name:
        yield _problem(split, "an eval set id is empty")
    elif not _names_a_file(name):
        yield _problem(split, "an eval set id must be a short name, and cannot be a path")
    if any(not case for case in entry.eval_case_ids):
        yield _problem(where, "an eval case id is empty")
    for hint in entry.loss_hints:
        yield from _hint(where, hint, entry.eval_case_ids)
    for target in entry.loss_targets:
        if not target.metric_name or not target.node_id:
            yield _problem(where, "a loss target needs a metric and a node")


def _twice_targeted(inputs: Sequence[EvalSetInput]) -> Iterator[Problem]:
    """A set may be named more than once, but each of its metrics has one loss target."""
    goals = Counter((e.eval_set_id, goal.metric_name) for e in inputs for goal in e.loss_targets)
    for (name, metric), times in sorted(goals.items()):
        if times > 1:
            yield _problem(f"train {name}", f"there are two loss targets for '{metric}'")


def _hint(where: str, hint: LossHint, chosen: Sequence[str]) -> Iterator[Problem]:
    for name in ("eval_case_id", "metric_name", "reason"):
        if not getattr(hint, name).strip():
            yield _problem(where, f"a loss hint has no {name.replace('_', ' ')}")
    if hint.severity not in ("", *Severity):
        message = f"a loss hint has the unknown severity '{hint.severity}'"
        yield _problem(where, message, "use P0, P1, P2 or P3, or leave it empty")
    if chosen and hint.eval_case_id and hint.eval_case_id not in chosen:
        message = f"a loss hint is about '{hint.eval_case_id}', which is not among the chosen cases"
        yield _problem(where, message)


def _numbers(request: RunRequest) -> Iterator[Problem]:
    if request.max_rounds <= 0:
        yield _problem("MaxRounds", "there must be at least one round")
    if request.stop_policy.max_rounds_without_acceptance < 0:
        yield _problem("MaxRoundsWithoutAcceptance", "it cannot be negative")
    widths = {
        "EvalCaseParallelism": request.evaluation_options.eval_case_parallelism,
        "CaseParallelism": request.backward_options.case_parallelism,
        "AggregationOptions": request.aggregation_options.surface_parallelism,
        "OptimizerOptions": request.optimizer_options.surface_parallelism,
    }
    for name, width in widths.items():
        if width < 0:
            yield _problem(name, f"parallelism cannot be negative, found {width}")


def _targets(request: RunRequest, surface_map: SurfaceMap) -> Iterator[Problem]:
    if not request.target_surface_ids:
        remedy = f"there are: {', '.join(surface_map.targets) or 'none'}"
        yield _problem("TargetSurfaceIDs", "target surface ids are empty", remedy)
    for name in dict.fromkeys(request.target_surface_ids):
        if name not in surface_map.targets:
            yield unknown(name, surface_map.targets)


def _loss_targets(request: RunRequest, surface_map: SurfaceMap) -> Iterator[Problem]:
    nodes = {node.id for node in surface_map.structure.nodes}
    for each in request.train_inputs:
        for target in each.loss_targets:
            if target.node_id and target.node_id not in nodes:
                remedy = f"there are: {', '.join(sorted(nodes))}"
                message = f'loss target node "{target.node_id}" is unknown'
                yield _problem(each.eval_set_id, message, remedy)


def _uneven_targets(request: RunRequest, assets: Assets) -> Iterator[Problem]:
    """Loss targets that differ between sets with the same metric."""
    named: dict[str, dict[str, str]] = {}
    for each in request.train_inputs:
        for target in each.loss_targets:
            named.setdefault(target.metric_name, {})[each.eval_set_id] = target.node_id
    sets = {each.eval_set_id for each in request.train_inputs}
    for metric, by_set in named.items():
        scored = {name for name in sets if metric in assets.names.get(name, ())}
        if len(set(by_set.values())) > 1 or not scored <= set(by_set):
            message = f"the loss target of '{metric}' differs from set to set"
            remedy = "burnish uses one for each metric: set the same for every train set"
            yield _problem("train", message, remedy)


def _guards(request: RunRequest, assets: Assets) -> Iterator[Problem]:
    for name in request.options.protected_cases:
        cases = _cases_called(name, assets.dataset.holdout, assets)
        if len(cases) != 1:
            owners = "several validation sets have" if cases else "no validation set has"
            remedy = "write it as set/case" if cases else ""
            yield _problem(f"ProtectedCases {name}", f"{owners} this case", remedy)
    names = [metric.name for metric in assets.metrics]
    for name in request.options.metric_floors:
        if name not in names:
            remedy = f"there are: {', '.join(names)}"
            yield _problem(f"MetricFloors {name}", "no such metric", remedy)


@dataclass(frozen=True, kw_only=True)
class RunDefaults:
    """The settings of an engine's runs that a request may override."""

    settings: BackpropSettings = field(default_factory=BackpropSettings)
    seed: int = DEFAULT_SEED
    concurrency: int = DEFAULT_CONCURRENCY
    """The number of cases that run at once."""
    case_policy: CasePolicy = field(default_factory=CasePolicy)
    wait_minutes: float = WAIT_MINUTES

    def over(self, request: RunRequest) -> "RunDefaults":
        """The defaults with the values of a request."""
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
    own = cast("dict[str, JsonValue]", base.model_dump(mode="json"))
    data = _merged(own, settings_data(request))
    settings = validated(data, BackpropSettings, Places(source="run"))
    protected = (
        case
        for name in settings.guards.protected
        for case in _cases_called(name, assets.dataset.holdout, assets) or [name]
    )
    hints = [*_request_hints(request)] or [
        hint.model_copy(update={"case": case})
        for hint in settings.loss_hints
        for case in _cases_called(hint.case, assets.dataset.train, assets) or [hint.case]
    ]
    surfaces = sorted(set(request.target_surface_ids))
    return settings.model_copy(
        update={
            "targets": tuple(surface_map.targets[name] for name in surfaces),
            "guards": settings.guards.model_copy(update={"protected": tuple(protected)}),
            "loss_hints": tuple(hints),
            "merge_single": merge_single or settings.merge_single,
        }
    )


def _merged(base: Mapping[str, JsonValue], over: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    merged = dict(base)
    for key, value in over.items():
        before = merged.get(key)
        nested = isinstance(value, dict) and isinstance(before, dict)
        merged[key] = _merged(before, value) if nested else value  # pyright: ignore[reportArgumentType]
    return merged


def _cases_called(name: str, cases: tuple[Case, ...], assets: Assets) -> list[str]:
    """The cases with this name, as `set/case` or as a case id."""
    return [each.id for each in cases if name in (each.id, assets.origins[each.id].case)]


def _request_hints(request: RunRequest) -> Iterator[BackpropLossHint]:
    for each in request.train_inputs:
        for hint in each.loss_hints:
            origin = CaseOrigin(eval_set=each.eval_set_id, case=hint.eval_case_id)
            severity = Severity(hint.severity) if hint.severity else Severity.P1
            yield BackpropLossHint(
                case=origin.name, metric=hint.metric_name, reason=hint.reason, severity=severity
            )


@dataclass(frozen=True, kw_only=True)
class _ProfileTarget(AroundTarget):
    """Wraps a target so that its baseline is the initial profile."""

    surface_map: SurfaceMap
    start: Candidate

    @property
    def baseline(self) -> Candidate:
        return self.start

    @property
    def structure(self) -> Structure:
        return self.surface_map.structure


@dataclass(frozen=True, kw_only=True)
class Stages:
    """The three stages: a model, a runner, or a custom object each."""

    backwarder: Backwarder | ModelStage | ModelRef | str | None
    aggregator: Aggregator | ModelStage | ModelRef | str | None
    optimizer: Optimizer | ModelStage | ModelRef | str | None

    def problems(self) -> Iterator[Problem]:
        """Stages that are missing."""
        for name, kind in STAGE_KINDS.items():
            stage, method = getattr(self, name), kind.method
            if not isinstance(stage, ModelStage | ModelRef | str) and not hasattr(stage, method):
                remedy = f"pass a model name, or an object with `async {method}(request)`"
                yield Problem(where=name, message=f"there is no {name}", remedy=remedy)


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """A checked request with everything that its run needs."""

    request: RunRequest
    surface_map: SurfaceMap
    assets: Assets
    stages: Stages
    stack: EvaluationStack
    target: Target
    start: Candidate
    budget: Budget
    """The engine's limits; a request can only tighten them."""
    settings: BackpropSettings
    defaults: RunDefaults
    context: RoundContext

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
        """Check a request and plan its run; problems are raised together where possible."""
        surface_map = SurfaceMap.of(target)
        problems = [
            *stages.problems(),
            *_sets(request),
            *_numbers(request),
            *_targets(request, surface_map),
            *_loss_targets(request, surface_map),
        ]
        start = surface_map.baseline
        try:
            if request.initial_profile:
                start = surface_map.candidate(request.initial_profile)
        except ConfigError as error:
            problems += error.problems
        if problems:
            raise ConfigError(problems)
        stack = replace(stack, models=stack.models.for_run())
        assets = stack.load(request)
        if problems := list(_mismatches(request, assets)):
            raise ConfigError(problems)
        # A custom aggregator may do more than merge, so it gets single remarks too.
        by_model = isinstance(stages.aggregator, ModelStage | ModelRef | str)
        usual = defaults or RunDefaults()
        settings = _settings_of(
            request, surface_map, assets, usual.settings, merge_single=not by_model
        )
        unknown_settings = unknown_names(settings, target, assets.metrics, assets.dataset)
        if faults := list(unknown_settings):
            raise ConfigError([_problem(dotted(f.at), f.message, f.remedy) for f in faults])
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
            context=RoundContext(origins=assets.origins),
        )

    @property
    def objective(self) -> Objective:
        """Weights by which every score of a validation case counts the same."""
        assets = self.assets
        sets = [assets.origins[case.id].eval_set for case in assets.dataset.holdout]
        counts = {m.name: sum(m.name in assets.names[s] for s in sets) for m in assets.metrics}
        return Objective(weights={name: float(count) for name, count in counts.items() if count})

    def setup(self, watch: Watcher) -> Setup:
        options = self.request.options
        evaluation, metrics = self.request.evaluation_options, self.assets.metrics
        config = {"app": self.stack.app_name, "request": cast("Json", self.request.to_json())}
        setup = Setup(
            target=_ProfileTarget(
                target=self.target, surface_map=self.surface_map, start=self.start
            ),
            metrics=metrics
            if evaluation.eval_case_parallel_evaluation_enabled
            else in_turn(metrics),
            objective=self.objective,
            dataset=self.assets.dataset,
            strategy=Backprop(
                backwarder=self._role("backwarder", self.stages.backwarder),
                aggregator=self._role("aggregator", self.stages.aggregator),
                patcher=self._role("optimizer", self.stages.optimizer),
                settings=self.settings,
                watch=watch,
            ),
            seed=self.defaults.seed,
            budget=self.budget.within(**{name: getattr(options, name) for name in LIMITS}),
            concurrency=self.defaults.concurrency,
            case_policy=self.defaults.case_policy,
            wait_minutes=self.defaults.wait_minutes,
            confirm=options.confirm,
            project=Project(config={"promptiter": config}),
            notes=tuple(self._notes()),
            resources=(_Borrowed(self.assets.models),),
        )
        return replace(setup, first_round=self._first_round(setup))

    def _first_round(self, setup: Setup) -> FirstRound:
        """The baseline: PromptIter's result of a run that stops after it is one."""
        return FirstRound(
            baseline=progress.sweeps(setup, Split.HOLDOUT, self.settings.repeats),
            reserved=Spend(calls=len(setup.preflight())) + progress.last_sweeps(setup),
            including="both again at the end" if setup.confirm else "",
            places={"max_metric_calls": "Burnish.MaxMetricCalls", "max_calls": "Burnish.MaxCalls"},
        )

    def _role(self, kind: Kind, stage: Any) -> Role[Any, Any]:
        views = StageViews(surface_map=self.surface_map, context=self.context)
        if isinstance(stage, str | ModelRef):
            stage = ModelStage(stage, kind=kind)
        if isinstance(stage, ModelStage):
            return stage.role(self.stack.models, views)
        return StageRole(kind=kind, stage=stage, views=views)

    def _notes(self) -> Iterator[str]:
        origins = self.assets.origins
        sizes = Counter(origins[case.id].eval_set for case in self.assets.dataset.holdout)
        if len(set(sizes.values())) > 1:
            text = ", ".join(f"{name} {size}" for name, size in sizes.items())
            yield (
                f"the validation sets have different sizes ({text}): OverallScore counts each set "
                "the same, while decisions count each case the same"
            )


class _Borrowed:
    """The engine's models: a run uses their secrets but does not close them."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def secrets(self) -> Sequence[str]:
        return self._models.secrets()

    def uses(self) -> tuple[ModelUse, ...]:
        return self._models.uses()

    async def close(self) -> None:
        """The engine may use the models for other runs."""
