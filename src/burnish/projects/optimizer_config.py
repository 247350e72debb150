"""optimizer.json: its sections, and which field each key sets."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator
from pydantic.alias_generators import to_camel

from burnish.core.content import AboveZero, Json, NoneOrMore, NotNegative, Places, Share
from burnish.core.errors import ConfigError, Problem
from burnish.journal.outages import WAIT_MINUTES
from burnish.metrics.eval_metrics import EvalConfig
from burnish.metrics.judges import JudgeModel, Positive, Shape, block
from burnish.projects.dialects import Dialect, Document, Flags, likely_of
from burnish.runs.draft import Draft, FilePlace, Strength
from burnish.runs.plugins import StrategyPlugin
from burnish.strategies.reflective.attempts import FieldSelection, FrontierType, ParentSelection
from burnish.system import Redactor, YamlTree, validate_config
from burnish.system.config import near
from burnish.system.yaml import TreePath
from burnish.targets.prompts.target import Mode

BUILT_IN = ("gepa_reflective", "reflective")
"""The algorithms that burnish has: the loop of AgentOptimizer, and the same with racing."""

_STOPPERS = (
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
            "api_key": self.written_key,
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

    name: Annotated[str, Field(json_schema_extra={"not": {"enum": [*BUILT_IN]}})]
    seed: int = 42


class ReflectiveAlgorithm(Shape):
    """Reflective search."""

    name: Literal["gepa_reflective", "reflective"]
    reflection_lm: ReflectionModel
    seed: int = 42
    candidate_selection_strategy: ParentSelection | None = None
    """Which candidate to build on; by default `trail` with racing and `pareto` without."""
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
    """Reuse measurements of a candidate; by default only with racing."""
    track_best_outputs: bool = False

    max_metric_calls: Positive | None = None
    max_iterations_without_improvement: Positive | None = None
    """Rounds. Each may have several proposals."""
    timeout_seconds: AboveZero | None = None
    score_threshold: Share | None = None
    """The pass rate on validation that ends the search."""
    max_candidate_proposals: Positive | None = None
    max_tracked_candidates: Positive | None = None

    racing: bool | None = None
    """Stop evaluating when the verdict is clear; by default only `reflective` does."""
    proposals_per_round: Positive = 1
    max_prompt_chars: Positive | None = None
    """The most characters of each prompt; a longer text is rejected before any call."""
    max_prompt_tokens: Positive | None = None
    """The same, estimated: see `prompt_limits`."""

    @model_validator(mode="after")
    def _ends(self) -> "ReflectiveAlgorithm":
        if all(getattr(self, name) is None for name in _STOPPERS):
            raise ValueError(f"nothing would stop the search: set one of {', '.join(_STOPPERS)}")
        return self

    @property
    def races(self) -> bool:
        return self.name == "reflective" if self.racing is None else self.racing


class StopBlock(Shape):
    """When the metrics end the search."""

    required_metrics: Literal["all"] | list[str] | None = "all"
    """The metrics that must reach their thresholds; none if it is null or empty."""


class OptimizeShared(Shape):
    """What the `optimize` section says whatever the algorithm."""

    eval_case_parallelism: Places = 4
    stop: StopBlock = Field(default_factory=StopBlock)
    sealed_dataset_path: Annotated[str, Field(min_length=1)] | None = None
    """Cases that are only read once, at the end; relative to the folder of the file."""
    isolation: Mode = "source"
    """Whether candidates are written where the agent reads its prompts, or passed to it."""


class OptimizeBlock(OptimizeShared):
    """The `optimize` section with an algorithm of burnish."""

    time_limit: AboveZero | None = None
    """Seconds a case may take; by default 300 for each call of the agent."""
    wait_minutes: NotNegative = WAIT_MINUTES
    """Minutes to wait while nobody answers."""
    confirm: bool = False
    """Without sealed cases, measure baseline and best again at the end, on fresh draws."""
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


class _EitherOptimizeBlock(OptimizeShared):
    """The `optimize` section, with either algorithm."""

    algorithm: ReflectiveAlgorithm | CustomAlgorithm


class _OptimizerDocument(Shape):
    """What an optimizer.json may hold, for its schema."""

    evaluate: EvalConfig
    optimize: _EitherOptimizeBlock


AnyOptimizerConfig: TypeAlias = OptimizerConfig | CustomOptimizerConfig


def read_optimizer(tree: YamlTree) -> OptimizerConfig:
    """An optimizer.json with an algorithm of burnish; everything that is wrong is said at once."""
    return cast("OptimizerConfig", read_any_optimizer(tree))


def read_any_optimizer(tree: YamlTree, *, algorithms: Collection[str] = ()) -> AnyOptimizerConfig:
    """The same of a file that may name one of these `algorithms` too."""
    names = dict.fromkeys((*BUILT_IN, *algorithms))
    name = tree.data
    for key in ("optimize", "algorithm", "name"):
        name = name.get(key) if isinstance(name, Mapping) else None
    problems: list[Problem] = []
    if isinstance(name, str) and name not in names:
        place = FilePlace(tree=tree, keys=("optimize", "algorithm", "name"))
        problems.append(_unknown_algorithm(str(place), name, names))
    is_custom = isinstance(name, str) and name in names and name not in BUILT_IN
    config = _validated(tree, CustomOptimizerConfig if is_custom else OptimizerConfig, problems)
    if config is not None:
        problems += _metric_problems(tree, config)
    if problems or config is None:
        raise ConfigError(problems)
    return config


def metric_thresholds(config: AnyOptimizerConfig) -> dict[str, float]:
    """The metrics that must reach their thresholds for the search to end, with these."""
    required = _required_metrics(config)
    # The usual threshold of 1 says nothing where two answers are compared.
    return {
        item.metric_name: item.threshold
        for item in config.evaluate.metrics
        if item.metric_name in required
        and (item.kind != "llm_verifier_pairwise" or "threshold" in item.model_fields_set)
    }


def as_json(config: AnyOptimizerConfig) -> dict[str, Json]:
    """What a file says, so that it can be read again; `${VAR}` stays."""
    return config.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _key_path(data: Json, *names: str) -> TreePath:
    """The keys that lead to a place, each in the spelling in which it is written."""
    path: list[str | int] = []
    for name in names:
        here = data if isinstance(data, Mapping) else {}
        key = next((each for each in (name, to_camel(name)) if each in here), name)
        path.append(key)
        data = here.get(key)
    return tuple(path)


def _unknown_algorithm(where: str, name: str, names: Collection[str]) -> Problem:
    return Problem(where=where, message=f"no algorithm '{name}'", remedy=likely_of(name, names))


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
    path = _key_path(tree.data, "optimize", "stop", "required_metrics")
    message = f"no such metric in evaluate.metrics: {', '.join(unknown)}"
    remedy = near(unknown[0], list(names))
    return [Problem(where=str(FilePlace(tree=tree, keys=path)), message=message, remedy=remedy)]


def _required_metrics(config: AnyOptimizerConfig) -> list[str]:
    required = config.optimize.stop.required_metrics
    if required == "all":
        return [item.metric_name for item in config.evaluate.metrics]
    return list(required or ())


_OPTIMIZE = {
    "eval_case_parallelism": "execution.concurrency",
    "time_limit": "execution.time_limit",
    "wait_minutes": "execution.wait_minutes",
    "isolation": "target.isolation",
    "confirm": "execution.confirm",
    "sealed_dataset_path": "data.test",
}
_ALGORITHM = {
    "seed": "execution.seed",
    "candidate_selection_strategy": "strategy.settings.parent_selection",
    "module_selector": "strategy.settings.field_selection",
    "frontier_type": "strategy.settings.frontier",
    "reflection_minibatch_size": "strategy.settings.minibatch",
    "reflection_history_top_k": "strategy.settings.history_top_k",
    "perfect_score": "strategy.settings.perfect_score",
    "skip_perfect_score": "strategy.settings.skip_perfect",
    "use_merge": "strategy.settings.merge",
    "max_merge_invocations": "strategy.settings.max_merges",
    "merge_val_overlap_floor": "strategy.settings.merge_overlap",
    "cache_evaluation": "strategy.settings.reuse",
    "racing": "strategy.settings.racing",
    "proposals_per_round": "strategy.settings.proposals_per_round",
    "max_metric_calls": "budget.max_metric_calls",
    "score_threshold": "budget.pass_rate_threshold",
    "max_candidate_proposals": "budget.max_proposals",
    "max_tracked_candidates": "budget.max_tracked_candidates",
    "max_prompt_chars": "target.max_prompt_chars",
    "max_prompt_tokens": "target.max_prompt_tokens",
}
_FLAGS = {
    "target.agent": "--agent",
    "target.prompts": "--prompt",
    "data.train": "--train",
    "data.holdout": "--val",
}
"""What such a file has no key for, and a flag has to say."""


class OptimizerFile(Dialect):
    """optimizer.json: how to evaluate and how to optimise the prompts that flags name."""

    kind: ClassVar[str] = "optimizer"
    target: ClassVar[str] = "prompts"
    strategy: ClassVar[str] = "reflective"
    evaluates: ClassVar[bool] = False
    confirms: ClassVar[bool] = False
    document: ClassVar[type[BaseModel] | None] = _OptimizerDocument
    known_by: ClassVar[str] = "evaluate and optimize"

    def recognises(self, document: Document) -> bool:
        if "kind" in document.data:
            return super().recognises(document)
        return {"evaluate", "optimize"} <= set(document.data)

    def strategy_named(self, document: Document) -> JsonValue:
        del document
        return self.strategy

    def with_flags(self, document: Document, flags: Flags) -> tuple[Document, Flags]:
        """`--strategy` names the algorithm, and with it the defaults of the file."""
        name = flags.get("strategy")
        if name is None:
            return document, flags
        if name not in BUILT_IN:
            raise ConfigError([_unknown_algorithm("--strategy", str(name), BUILT_IN)])
        algorithm = {**document.block(("optimize", "algorithm")), "name": name}
        optimize = {**document.block(("optimize",)), "algorithm": algorithm}
        tree = replace(document.tree, data={**document.data, "optimize": optimize})
        return replace(document, tree=tree), {**flags, "strategy": None}

    def translate(self, document: Document, draft: Draft, strategy: StrategyPlugin) -> None:
        del strategy
        _Translation(document, draft, read_optimizer(document.tree)).put_all()


class _Translation:
    def __init__(self, document: Document, draft: Draft, config: OptimizerConfig) -> None:
        self._document = document
        self._draft = draft
        self._config = config

    def put_all(self) -> None:
        config, algorithm, draft = self._config, self._config.optimize.algorithm, self._draft
        for path, flag in _FLAGS.items():
            draft.mark(path, flag)
        document = Redactor.from_environment().json(as_json(config))
        draft.default("source.document", document)
        draft.default("execution.concurrency", config.optimize.eval_case_parallelism)
        races = algorithm.races
        parents = "trail" if races else "pareto"
        usual: JsonValue = {"racing": races, "reuse": races, "parent_selection": parents}
        draft.default("strategy.settings", usual)
        self._block(config.evaluate, {"num_runs": "strategy.settings.repeats"}, "evaluate")
        self._block(config.optimize, _OPTIMIZE, "optimize")
        self._block(algorithm, _ALGORITHM, "optimize", "algorithm")
        key = "metrics" if self._document.at(("evaluate", "metrics")) else "criteria"
        metrics = config.evaluate.metrics
        items = (item.model_dump(mode="json", exclude_unset=True) for item in metrics)
        self._put("metrics.blocks", [*items], "evaluate", key)
        thresholds = metric_thresholds(config)
        self._put("budget.metric_thresholds", {**thresholds}, "optimize", "stop")
        self._limits(algorithm)
        self._reflector(algorithm.reflection_lm)

    def _block(self, block: BaseModel, fields: Mapping[str, str], *path: str) -> None:
        """What a section sets; what it leaves out is left to the environment and to defaults."""
        for name, field in fields.items():
            if name in block.model_fields_set:
                self._put(field, getattr(block, name), *path, name)

    def _limits(self, algorithm: ReflectiveAlgorithm) -> None:
        """Limits that burnish counts in other units: trials and minutes."""
        rounds, seconds = algorithm.max_iterations_without_improvement, algorithm.timeout_seconds
        if rounds is not None:
            name = "max_iterations_without_improvement"
            trials = rounds * algorithm.proposals_per_round
            self._put("budget.patience", trials, "optimize", "algorithm", name)
        if seconds is not None:
            minutes = seconds / 60
            self._put("budget.max_minutes", minutes, "optimize", "algorithm", "timeout_seconds")

    def _reflector(self, model: ReflectionModel) -> None:
        # By the whole place: the keys of a model block are other ones than those of the file.
        place = str(self._place("optimize", "algorithm", "reflection_lm"))
        try:
            block = model.model_block()
        except ConfigError as error:
            raise ConfigError(
                [
                    replace(each, where=f"{place}: {each.where}" if each.where else place)
                    for each in error.problems
                ]
            ) from None
        self._draft.put("roles.reflector", block, place=place, strength=Strength.FILE)
        if keys := model.ignored():
            message = f"{', '.join(keys)} of reflection_lm has no effect here"
            self._draft.note(message, about="roles.reflector")

    def _put(self, field: str, value: JsonValue, *names: str) -> None:
        self._draft.put(field, value, place=self._place(*names), strength=Strength.FILE)

    def _place(self, *names: str) -> FilePlace:
        return self._document.place(*_key_path(self._document.tree.data, *names))
