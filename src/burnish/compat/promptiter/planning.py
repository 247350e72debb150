"""From a request to a run: everything it is made of, checked before anything is paid."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from burnish.compat.promptiter.anatomy import Anatomy
from burnish.compat.promptiter.checking import mismatches, problems_of
from burnish.compat.promptiter.eval_stack import Assets, EvaluationStack
from burnish.compat.promptiter.judging_in_turn import in_turn
from burnish.compat.promptiter.patches import LIMITS
from burnish.compat.promptiter.requests import RunRequest
from burnish.compat.promptiter.settings import RunDefaults, settings_of, unknown_in
from burnish.compat.promptiter.stage_models import Kind, ModelStage
from burnish.compat.promptiter.stage_roles import aggregate_role, backward_role, optimize_role
from burnish.compat.promptiter.stage_views import StageViews
from burnish.compat.promptiter.stages import Aggregator, Backwarder, Optimizer
from burnish.compat.promptiter.starting import StartingFrom
from burnish.compat.promptiter.whereabouts import Whereabouts
from burnish.core.candidates import Candidate
from burnish.core.cases import Case, Dataset
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.objectives import Objective
from burnish.core.protocols import Metric, Role, Target
from burnish.effects.budget import Budget
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.runs.header import Project
from burnish.runs.setup import Setup
from burnish.strategies.backprop.settings import BackpropSettings
from burnish.strategies.backprop.strategy import Backprop
from burnish.strategies.backprop.watching import Watcher


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Who does the three stages: a model, a runner as a model, or an object of one's own."""

    backwarder: Backwarder | ModelStage | ModelRef | str | None
    aggregator: Aggregator | ModelStage | ModelRef | str | None
    optimizer: Optimizer | ModelStage | ModelRef | str | None

    def problems(self) -> Iterator[Problem]:
        """The stages that nobody does."""
        wanted = {"backwarder": "backward", "aggregator": "aggregate", "optimizer": "optimize"}
        for name, method in wanted.items():
            stage: object = getattr(self, name)
            known = isinstance(stage, ModelStage | ModelRef | str) or hasattr(stage, method)
            if not known:
                remedy = f"give a model's name, or an object with `async {method}(request)`"
                yield Problem(where=name, message=f"there is no {name}", remedy=remedy)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A request that was found good, with all that it needs."""

    request: RunRequest
    anatomy: Anatomy
    assets: Assets
    stages: Stages
    stack: EvaluationStack
    target: Target
    start: Candidate
    budget: Budget = field(default_factory=Budget)
    """The limits of the engine, which a request can only make stricter."""
    settings: BackpropSettings = field(default_factory=BackpropSettings)
    defaults: RunDefaults = field(default_factory=RunDefaults)
    whereabouts: Whereabouts = field(init=False)

    def __post_init__(self) -> None:
        found = Whereabouts(homes=self.assets.homes)
        object.__setattr__(self, "whereabouts", found)

    @classmethod
    def of(
        cls,
        request: RunRequest,
        target: Target,
        stages: Stages,
        stack: EvaluationStack,
        budget: Budget | None = None,
        defaults: RunDefaults | None = None,
    ) -> "Plan":
        """The plan; everything that is wrong is said at once, as far as it can be told."""
        anatomy = Anatomy.of(target)
        problems = [*stages.problems(), *problems_of(request, anatomy)]
        start = anatomy.baseline
        try:
            start = anatomy.candidate(request.initial_profile) if request.initial_profile else start
        except ConfigError as error:
            problems += error.problems
        if problems:
            raise ConfigError(problems)
        assets = stack.load(request)
        if problems := mismatches(request, assets):
            raise ConfigError(problems)
        # An aggregator of one's own may do more than merge, so it sees single remarks too.
        by_model = isinstance(stages.aggregator, ModelStage | ModelRef | str)
        usual = defaults or RunDefaults()
        settings = settings_of(request, anatomy, assets, usual.settings, merge_single=not by_model)
        if problems := unknown_in(settings, target, assets):
            raise ConfigError(problems)
        return cls(
            request=request,
            anatomy=anatomy,
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
            target=StartingFrom(target=self.target, anatomy=self.anatomy, start=self.start),
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
        views = StageViews(anatomy=self.anatomy, whereabouts=self.whereabouts)
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
            home = self.assets.homes[case.id]
            sizes[home.eval_set] = sizes.get(home.eval_set, 0) + 1
        if len(set(sizes.values())) > 1:
            told = ", ".join(f"{name} {size}" for name, size in sizes.items())
            yield (
                f"the validation sets have different sizes ({told}): OverallScore counts each set "
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
    sets = [assets.homes[case.id].eval_set for case in assets.dataset.holdout]
    return {m.name: sum(m.name in assets.names[each] for each in sets) for m in metrics}
