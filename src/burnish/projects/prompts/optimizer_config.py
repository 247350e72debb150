"""The sections of an optimizer.json, `evaluate` and `optimize`, in both spellings."""

import difflib
from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast

from pydantic import ConfigDict, Field, JsonValue, model_validator
from pydantic.alias_generators import to_camel

from burnish.core.bounds import AboveZero, NoneOrMore, Places
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.evaluation.configs.eval_metrics import EvalConfig, MetricItem
from burnish.evaluation.configs.judge_shapes import JudgeModel
from burnish.evaluation.configs.shapes import Positive, Shape, Share, block
from burnish.runs.draft import FilePlace
from burnish.strategies.reflective.settings import FieldSelection, FrontierType, ParentSelection
from burnish.system import YamlTree, validate_config
from burnish.system.yaml import TreePath
from burnish.targets.prompts.ways import Mode

GEPA, REFLECTIVE = "gepa_reflective", "reflective"
BUILT_IN = (GEPA, REFLECTIVE)
"""The algorithms that burnish has: the loop of AgentOptimizer, and the same with racing."""

STOPPERS = (
    "max_metric_calls",
    "max_iterations_without_improvement",
    "timeout_seconds",
    "score_threshold",
    "max_candidate_proposals",
    "max_tracked_candidates",
)


class ReflectionModel(JudgeModel):
    """Who rewrites prompts."""

    model_name: Annotated[str, Field(min_length=1)]
    job: ClassVar[str] = "the reflection model"

    @model_validator(mode="before")
    @classmethod
    def _no_nulls(cls, value: Any) -> Any:
        """`null` says nothing, as where the key is not there."""
        data = block(value)
        return {key: item for key, item in data.items() if item is not None} if data else value

    def ignored(self) -> list[str]:
        """The keys that are read and have no effect here."""
        more = {"num_samples": self.num_samples != 1, "weight": self.weight != 1}
        return [*super().ignored(), *(key for key, is_set in more.items() if is_set)]

    def model_block(self) -> dict[str, JsonValue]:
        """The keys of a model block that names the same model.

        Names are expanded now, address and key when they are used.
        """
        ref = self.reference()
        keys: dict[str, Any] = {
            "provider": ref.row.written,
            "name": ref.name,
            "base_url": ref.base_url,
            "api_key": ref.api_key,
            "api_version": ref.api_version,
            **ref.settings.sent(),
            "stop": [*ref.settings.stop],
            "timeout": self.timeout,
            "prices": None if self.prices is None else self.prices.model_dump(),
        }
        return {key: value for key, value in keys.items() if value not in (None, "", [])}


class CustomAlgorithm(Shape):
    """An algorithm of the user's own: its block is for itself to read."""

    model_config = ConfigDict(extra="allow")

    name: str
    seed: int = 42


class ReflectiveAlgorithm(Shape):
    """Reflective search."""

    name: Literal["gepa_reflective", "reflective"]
    reflection_lm: ReflectionModel
    seed: int = 42
    candidate_selection_strategy: ParentSelection | None = None
    """Whom to build on; not set, `trail` with racing and `pareto` without."""
    module_selector: FieldSelection = "round_robin"
    frontier_type: FrontierType = "instance"
    reflection_minibatch_size: Positive | None = None
    reflection_history_top_k: Annotated[int, Field(ge=0, le=5)] = 2
    perfect_score: float = 1.0
    skip_perfect_score: bool = True
    use_merge: bool = False
    max_merge_invocations: NoneOrMore = 5
    merge_val_overlap_floor: Positive = 5
    cache_evaluation: bool = False
    """Use what was measured of a candidate again. With racing it is so unless it is set here."""
    track_best_outputs: bool = False

    max_metric_calls: Positive | None = None
    max_iterations_without_improvement: Positive | None = None
    """Rounds. Each may have several proposals."""
    timeout_seconds: AboveZero | None = None
    score_threshold: Share | None = None
    """Of the pass rate on validation."""
    max_candidate_proposals: Positive | None = None
    max_tracked_candidates: Positive | None = None

    racing: bool | None = None
    """Stop evaluating when the verdict is clear; not set, only `reflective` does."""
    proposals_per_round: Positive = 1
    max_prompt_chars: Positive | None = None
    """Of each prompt; a longer text is turned away before any call."""
    max_prompt_tokens: Positive | None = None
    """The same, estimated: see `prompt_limits`."""

    @model_validator(mode="after")
    def _ends(self) -> "ReflectiveAlgorithm":
        if all(getattr(self, name) is None for name in STOPPERS):
            raise ValueError(f"nothing would end the search: set one of {', '.join(STOPPERS)}")
        return self

    @property
    def races(self) -> bool:
        """Whether candidates are raced."""
        return self.name == REFLECTIVE if self.racing is None else self.racing


class StopBlock(Shape):
    """The stop that the metrics themselves ask for."""

    required_metrics: Literal["all"] | list[str] | None = "all"
    """The metrics that must reach their thresholds; none of them where it is null or empty."""


class OptimizeShared(Shape):
    """What the `optimize` section says whatever the algorithm."""

    eval_case_parallelism: Places = 4
    stop: StopBlock = Field(default_factory=StopBlock)
    sealed_dataset_path: Annotated[str, Field(min_length=1)] | None = None
    """Cases that are looked at once, at the end; from the folder of the file."""
    isolation: Mode = "source"
    """Whether candidates are written where the agent reads its prompts, or handed to it."""


class OptimizeBlock(OptimizeShared):
    """The `optimize` section with an algorithm of burnish."""

    time_limit: AboveZero | None = None
    """Seconds a case may take; not set, 300 for each call of the agent."""
    algorithm: ReflectiveAlgorithm


class CustomOptimizeBlock(OptimizeShared):
    """The `optimize` section with an algorithm of the user's own."""

    algorithm: CustomAlgorithm


class OptimizerConfig(Shape):
    """An optimizer.json with an algorithm of burnish."""

    evaluate: EvalConfig
    optimize: OptimizeBlock


class CustomOptimizerConfig(Shape):
    """An optimizer.json with an algorithm that somebody registered."""

    evaluate: EvalConfig
    optimize: CustomOptimizeBlock


AnyOptimizerConfig: TypeAlias = OptimizerConfig | CustomOptimizerConfig


def read_optimizer(tree: YamlTree) -> OptimizerConfig:
    """An optimizer.json with an algorithm of burnish; everything that is wrong is said at once."""
    return cast("OptimizerConfig", read_any_optimizer(tree))


def read_any_optimizer(tree: YamlTree, *, algorithms: Collection[str] = ()) -> AnyOptimizerConfig:
    """The same of a file that may name one of these `algorithms` too."""
    names = dict.fromkeys((*BUILT_IN, *algorithms))
    name = algorithm_name(tree.data)
    problems: list[Problem] = []
    if name is not None and name not in names:
        problems.append(_unknown_algorithm(tree, name, names))
    is_custom = name in names and name not in BUILT_IN
    config = _validated(tree, CustomOptimizerConfig if is_custom else OptimizerConfig, problems)
    if config is not None:
        problems += _metric_problems(tree, config)
    if problems or config is None:
        raise ConfigError(problems)
    return config


def algorithm_name(data: Json) -> str | None:
    """What `optimize.algorithm.name` says."""
    for key in ("optimize", "algorithm", "name"):
        data = data.get(key) if isinstance(data, Mapping) else None
    return data if isinstance(data, str) else None


def unknown_algorithm(where: str, name: str, names: Collection[str]) -> Problem:
    """What to say of an algorithm that is not there."""
    likely = difflib.get_close_matches(name, names, n=1)
    meant = f"did you mean '{likely[0]}'? " if likely else ""
    remedy = f"{meant}there are: {', '.join(names)}"
    return Problem(where=where, message=f"no algorithm '{name}'", remedy=remedy)


def metric_thresholds(config: AnyOptimizerConfig) -> dict[str, float]:
    """The metrics that must reach their thresholds for the search to end, with these."""
    required = _required_metrics(config)
    return {
        item.metric_name: item.threshold
        for item in config.evaluate.metrics
        if item.metric_name in required and _has_threshold(item)
    }


def as_json(config: AnyOptimizerConfig) -> dict[str, Json]:
    """What a file says, so that it can be read again; `${VAR}` stays."""
    return config.model_dump(mode="json", by_alias=True, exclude_unset=True)


def key_path(data: Json, *names: str) -> TreePath:
    """The keys that lead to a place, each in the spelling in which it is written."""
    path: list[str | int] = []
    for name in names:
        here = data if isinstance(data, Mapping) else {}
        key = next((each for each in (name, to_camel(name)) if each in here), name)
        path.append(key)
        data = here.get(key)
    return tuple(path)


def _unknown_algorithm(tree: YamlTree, name: str, names: Collection[str]) -> Problem:
    place = FilePlace(tree=tree, keys=("optimize", "algorithm", "name"))
    return unknown_algorithm(str(place), name, names)


def _validated(
    tree: YamlTree, shape: type[AnyOptimizerConfig], problems: list[Problem]
) -> AnyOptimizerConfig | None:
    """The sections; where the algorithm is unknown, nothing more is said of that block."""
    is_unknown, data = bool(problems), tree.data
    if isinstance(data, dict):
        data = {key: value for key, value in data.items() if key != "kind"}
    try:
        return validate_config(data, shape, source=tree.path.name, tree=tree)
    except ConfigError as error:
        problems += [
            problem
            for problem in error.problems
            if not (is_unknown and "optimize.algorithm" in problem.where)
        ]
    return None


def _metric_problems(tree: YamlTree, config: AnyOptimizerConfig) -> list[Problem]:
    names = [item.metric_name for item in config.evaluate.metrics]
    if not names:
        place = FilePlace(tree=tree, keys=("evaluate", "metrics"))
        remedy = 'add one, such as {"metric_name": "final_response_avg_score"}'
        return [Problem(where=str(place), message="there are no metrics", remedy=remedy)]
    unknown = [name for name in _required_metrics(config) if name not in names]
    if not unknown:
        return []
    path = key_path(tree.data, "optimize", "stop", "required_metrics")
    message = f"no such metric in evaluate.metrics: {', '.join(unknown)}"
    remedy = f"there are: {', '.join(names)}"
    return [Problem(where=str(FilePlace(tree=tree, keys=path)), message=message, remedy=remedy)]


def _required_metrics(config: AnyOptimizerConfig) -> list[str]:
    required = config.optimize.stop.required_metrics
    if required == "all":
        return [item.metric_name for item in config.evaluate.metrics]
    return list(required or ())


def _has_threshold(item: MetricItem) -> bool:
    """The usual threshold of 1 says nothing where two answers are compared."""
    return item.kind != "llm_verifier_pairwise" or "threshold" in item.model_fields_set
