"""From an optimizer.json, a target and its cases to a Setup."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from burnish.core.cases import Dataset, Split
from burnish.core.errors import Problem
from burnish.core.objectives import Objective
from burnish.core.protocols import Metric
from burnish.effects.budget import Budget
from burnish.evaluation.configs.layering import make_agent_metrics
from burnish.evaluation.configs.making import MetricMaking
from burnish.evaluation.configs.reading import MetricsRead
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.models.roles import ModelRole
from burnish.projects.called_parts import refuse_trajectories
from burnish.projects.gathering import Gathering, Keys
from burnish.projects.overrides import Overrides, flag_of
from burnish.projects.prompts.algorithm import BUILT_IN, ReflectiveAlgorithm
from burnish.projects.prompts.bounds import too_small, within_limits
from burnish.projects.prompts.config import OptimizerFile, as_json, thresholds_of
from burnish.projects.prompts.notes import agent_notes, judge_notes, reflective_notes
from burnish.projects.prompts.originals import prompt_files
from burnish.projects.prompts.roles import reflector_of
from burnish.projects.settings import DEFAULT_SEED
from burnish.runs.evaluating import CasePolicy
from burnish.runs.header import Project
from burnish.runs.setup import Setup
from burnish.strategies.reflective.result_files import OPTIMIZER
from burnish.strategies.reflective.strategy import Reflective
from burnish.strategies.reflective.wording import Reflection, ReflectRequest
from burnish.system import YamlTree
from burnish.system.settings import Limits
from burnish.targets.prompts.target import PromptsTarget

ALGORITHM: Keys = ("optimize", "algorithm")
NO_FILE = YamlTree(path=Path("optimizer.json"), data={}, text="")


@dataclass(frozen=True, kw_only=True)
class PromptsPlan:
    """What an optimizer.json asks for, with everything that it is asked of."""

    config: OptimizerFile
    target: PromptsTarget
    dataset: Dataset
    folder: Path
    """Where graders and installed role prompts lie."""
    models: Models
    flags: Overrides = field(default_factory=Overrides)
    environment: Overrides = field(default_factory=Overrides)
    tree: YamlTree = NO_FILE
    """The file as it stands, so that what is wrong is said with its line."""
    stop_callbacks: Mapping[str, Callable[[], bool]] = field(
        default_factory=dict[str, Callable[[], bool]]
    )

    @property
    def algorithm(self) -> ReflectiveAlgorithm:
        """The algorithm, by the name that a flag gives it."""
        said = self.config.optimize.algorithm
        named = self.flags.strategy
        return said if named is None else said.model_copy(update={"name": named})

    @property
    def repeats(self) -> int:
        """How often each case is run."""
        in_file = self.config.evaluate.num_runs
        return self.flags.choose("repeats", in_file, self.environment, 1)


def setup_of(plan: PromptsPlan) -> Setup:
    """Everything the search is made of; everything that is wrong is said at once."""
    wrong = Gathering(tree=plan.tree)
    _check_flags(plan, wrong)
    target = wrong.of(ALGORITHM, lambda: within_limits(plan.target, plan.algorithm), plan.target)
    metrics = wrong.of(("evaluate", "metrics"), lambda: _metrics(plan), ())
    role = wrong.of((*ALGORITHM, "reflection_lm"), lambda: _reflector(plan), None)
    settings, budget = plan.algorithm.settings(repeats=plan.repeats), _budget(plan)
    small = too_small(budget, plan.dataset, settings, test_repeats=plan.repeats)
    if small is not None and not plan.flags.baseline_only:
        at = (*ALGORITHM, "max_metric_calls")
        said = plan.flags.max_metric_calls is not None
        where = flag_of("max_metric_calls") if said else wrong.place(at)
        wrong.problems.append(replace(small, where=where))
    wrong.settle()
    assert role is not None
    return Setup(
        target=target,
        metrics=metrics,
        objective=Objective(weights={metric.name: 1.0 for metric in metrics}),
        dataset=plan.dataset,
        strategy=Reflective(reflector=role, settings=settings),
        seed=_seed(plan),
        budget=budget,
        concurrency=_concurrency(plan),
        case_policy=CasePolicy(time_limit=plan.config.optimize.time_limit),
        test_repeats=plan.repeats,
        stop_callbacks=plan.stop_callbacks,
        project=Project(config={OPTIMIZER: as_json(plan.config), **prompt_files(target.prompts)}),
        notes=tuple(_notes(plan, target, metrics, role)),
        resources=(target, plan.models),
    )


def _check_flags(plan: PromptsPlan, wrong: Gathering) -> None:
    named = plan.flags.strategy
    if named is not None and named not in BUILT_IN:
        told = f"no algorithm '{named}' for an optimizer.json"
        remedy = f"there are: {', '.join(BUILT_IN)}"
        wrong.problems.append(Problem(where=flag_of("strategy"), message=told, remedy=remedy))


def _metrics(plan: PromptsPlan) -> tuple[Metric, ...]:
    items = plan.config.evaluate.metrics
    refuse_trajectories(MetricsRead(blocks=items))
    cases = [case for split in Split for case in plan.dataset.cases(split)]
    making = MetricMaking(models=plan.models, folder=plan.folder)
    return make_agent_metrics(items, cases, making)


def _reflector(plan: PromptsPlan) -> ModelRole[ReflectRequest, Reflection]:
    said = plan.flags.reflector
    named = ModelRef.parse(said) if said else plan.algorithm.reflection_lm.reference()
    return reflector_of(named, plan.models, plan.folder)


def _budget(plan: PromptsPlan) -> Budget:
    """The limits of the file after flags and environment; a flag's score replaces a pass rate."""
    flags, said = plan.flags, plan.algorithm.budget()
    chosen = {
        name: flags.choose(name, getattr(said, name), plan.environment, None)
        for name in Limits.model_fields
    }
    rate = said.pass_rate_threshold if flags.score_threshold is None else None
    thresholds = thresholds_of(plan.config)
    return replace(said, **chosen, pass_rate_threshold=rate, metric_thresholds=thresholds)


def _seed(plan: PromptsPlan) -> int:
    return plan.flags.choose("seed", plan.algorithm.seed, plan.environment, DEFAULT_SEED)


def _concurrency(plan: PromptsPlan) -> int:
    places = plan.config.optimize.eval_case_parallelism
    return plan.flags.choose("concurrency", places, plan.environment, places)


def _notes(
    plan: PromptsPlan,
    target: PromptsTarget,
    metrics: tuple[Metric, ...],
    role: ModelRole[ReflectRequest, Reflection],
) -> Iterator[str]:
    model, settings = plan.algorithm.reflection_lm, plan.algorithm.settings(repeats=plan.repeats)
    yield from agent_notes(target, plan.dataset, settable=False)
    yield from reflective_notes(target, settings)
    yield from judge_notes(metrics, repeats=plan.repeats, reflector=role.client)
    yield from MetricsRead(blocks=plan.config.evaluate.metrics).notes
    if (keys := model.ignored()) and plan.flags.reflector is None:
        yield f"{', '.join(keys)} of reflection_lm has no effect here"
