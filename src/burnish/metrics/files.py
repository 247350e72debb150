"""Metrics as plug-ins and as files describe them, with burnish's own types.

The module that computes a metric loads when a file names the metric.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue
from pydantic_core import PydanticCustomError, PydanticKnownError

from burnish.core.cases import Case
from burnish.core.content import AtLeastOne, Json, NotNegative, Share, short_id
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.core.protocols import Metric
from burnish.metrics.document_matching import JsonPath
from burnish.metrics.eval_metrics import EvalConfig, MetricItem, ignored_keys
from burnish.metrics.judges import MetricMaking, ShapeList, check_names
from burnish.metrics.turns import Layered, TurnMetric
from burnish.models.factory import ModelBlock
from burnish.models.references import ModelRef
from burnish.system import read_tree, validate_config
from burnish.system.config import near
from burnish.system.settings import ChosenModel, Settings
from burnish.system.user_code import installed

if TYPE_CHECKING:
    from burnish.metrics.geval import QualityJudge
    from burnish.metrics.judged import JudgedMetric
    from burnish.metrics.numbered_judges import NumberedJudge


METRICS = "burnish.metrics"
_TYPES_BY_KEY = {
    "metric": "standard",
    "criteria": "geval",
    "metric_type": "rag",
    "grader": "code",
}
"""Cases and turns may omit the type if one of these keys implies it."""
_ITEM_KEYS = ("metric_name", "metricName")


class MetricBlock(Settings):
    """The settings that all metrics of a file have; each type adds its own."""

    type: str
    """The type of the metric: the name of its plug-in."""
    enabled: bool = True
    """Whether the metric is measured."""
    fail_on_error: bool = False
    """Report a missing score as a failure of the run; it stays missing either way."""
    model: ModelBlock | None = None
    """The judge, if the metric needs one."""


class MetricPlugin:
    """A metric type: how a file describes it, and how it is made."""

    kind: ClassVar[str] = ""
    """What `type:` says in a file: the name of the entry point."""
    Block: ClassVar[type[MetricBlock]] = MetricBlock
    """The settings model for a file."""

    def name(self, block: Any) -> str:
        """The name in scores, losses and reports."""
        del block
        return self.kind

    def make(self, block: Any, making: "MetricMaking") -> "TurnMetric":
        """The metric that a block describes; raises ConfigError if it is invalid."""
        del making
        raise BurnishError(
            f"metrics of the type '{block.type}' are not installed",
            remedy="install the package that provides them",
        )


@cache
def _metric_types() -> tuple[str, ...]:
    return tuple(sorted({point.name for point in installed(METRICS)}))


@cache
def _metric_plugin(kind: str) -> MetricPlugin:
    point = next((each for each in installed(METRICS) if each.name == kind), None)
    return MetricPlugin() if point is None else cast("type[MetricPlugin]", point.load())()


class _BlockByType(ChosenModel):
    """Reads a metric with the settings model of its plug-in."""

    def model_for(self, value: object) -> type[BaseModel]:
        if isinstance(value, BaseModel):
            return type(value)
        if not isinstance(value, Mapping):
            raise PydanticKnownError("model_type", {"class_name": MetricBlock.__name__})
        block = cast("Mapping[str, object]", value)
        if "type" not in block and any(key in block for key in _ITEM_KEYS):
            return MetricItem
        keys = (kind for key, kind in _TYPES_BY_KEY.items() if key in block)
        kind = block.get("type", next(keys, None))
        types = _metric_types()
        if kind is None:
            raise _type_missing()
        if kind not in types:
            tags = ", ".join(f"'{each}'" for each in types)
            context = {"discriminator": "'type'", "tag": str(kind), "expected_tags": tags}
            raise PydanticKnownError("union_tag_invalid", context)
        return _metric_plugin(str(kind)).Block


AgentMetric: TypeAlias = Annotated[MetricBlock | MetricItem, _BlockByType()]
"""One metric of a file; EvalSet metrics, with `metric_name`, are accepted too."""


def metric_name(block: AgentMetric) -> str:
    """The name in scores, losses and reports."""
    if isinstance(block, MetricItem):
        return block.metric_name
    return _metric_plugin(block.type).name(block)


def make_agent_metric(block: AgentMetric, making: "MetricMaking") -> "TurnMetric":
    """The metric of a block of a file, a case or a turn."""
    if isinstance(block, MetricItem):
        from burnish.metrics.eval_factory import make_metric

        return make_metric(block, making)
    return _metric_plugin(block.type).make(block, making)


class MetricList(ShapeList[AgentMetric]):
    """The `evaluations` of a case or a turn."""


def make_agent_metrics(
    blocks: Sequence[AgentMetric], cases: Sequence[Case], making: MetricMaking
) -> tuple[Metric, ...]:
    """One metric for each name that the agent, a case or a turn uses."""
    cache = _MetricCache(making)
    default = cache.metrics(blocks)
    places = {case.id: layers for case in cases if (layers := _layers(case, cache, default))}
    if cache.problems:
        raise ConfigError(cache.problems)
    if not places:
        return tuple(default.values())
    inner = [metrics for layers in places.values() for metrics in layers]
    return tuple(
        Layered(
            name=name,
            default=default.get(name),
            places={
                case: tuple(metrics.get(name) for metrics in layers)
                for case, layers in places.items()
            },
        )
        for name in dict.fromkeys(name for metrics in (default, *inner) for name in metrics)
    )


def has_own_metrics(case: Case) -> bool:
    """Whether the case or one of its turns lists metrics."""
    return any(place.extras.get("evaluations") for place in (case, *case.turns))


def _layers(
    case: Case, cache: "_MetricCache", default: Mapping[str, TurnMetric]
) -> list[Mapping[str, TurnMetric]]:
    """The metrics of each turn, by name; empty if the case uses those of the agent."""
    own = case.extras.get("evaluations")
    turns = [turn.extras.get("evaluations") for turn in case.turns]
    if own is None and not any(entries is not None for entries in turns):
        return []
    outer = default if own is None else cache.read(own, case.id)
    return [
        outer if entries is None else cache.read(entries, f"{case.id} turn {number}")
        for number, entries in enumerate(turns, start=1)
    ]


class _MetricCache:
    """Makes each distinct block once, and collects problems."""

    def __init__(self, making: MetricMaking) -> None:
        self._making = making
        self._metrics: dict[str, TurnMetric] = {}
        self.problems: list[Problem] = []

    def read(self, entries: Json, where: str) -> dict[str, TurnMetric]:
        try:
            blocks = validate_config(entries, MetricList, source=f"evaluations of {where}").root
        except ConfigError as error:
            self.problems += error.problems
            return {}
        return self.metrics(blocks)

    def metrics(self, blocks: Sequence[AgentMetric]) -> dict[str, TurnMetric]:
        """The enabled metrics of a list, by name."""
        enabled = [block for block in blocks if getattr(block, "enabled", True)]
        metrics: dict[str, TurnMetric] = {}
        try:
            check_names([metric_name(block) for block in enabled])
        except ConfigError as error:
            self.problems += error.problems
        for block in enabled:
            key = short_id([type(block).__name__, block.model_dump(mode="json")])
            try:
                if key not in self._metrics:
                    self._metrics[key] = make_agent_metric(block, self._making)
                metrics[metric_name(block)] = self._metrics[key]
            except ConfigError as error:
                self.problems += error.problems
        return metrics


def _typed(metric: object) -> object:
    """Metrics of an agent name their type, as HoloDeck's must; those of a case need not."""
    if isinstance(metric, Mapping) and not {"type", *_ITEM_KEYS} & metric.keys():
        raise _type_missing()
    return cast("object", metric)


def _type_missing() -> PydanticCustomError:
    example, *others = sorted(_metric_types(), key=lambda each: each != "standard")
    names = {"example": example, "others": ", ".join(others)}
    return PydanticCustomError("metric_type", "set the type: `type: {example}`, or {others}", names)


class EvaluationsBlock(BaseModel):
    """`evaluations` of an agent file."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    model: ModelBlock | None = None
    """The judge of metrics that do not name one."""
    metrics: list[Annotated[AgentMetric, BeforeValidator(_typed)]] = Field(min_length=1)
    optimizer: JsonValue = None


class _WithEvaluations(BaseModel):
    """The part of an agent file that is about metrics."""

    model_config = ConfigDict(defer_build=True)

    evaluations: EvaluationsBlock


@dataclass(frozen=True, kw_only=True)
class MetricsRead:
    """The metrics of a file and the default judge."""

    blocks: Sequence[AgentMetric]
    judge: ModelRef | None = None

    def only(self, names: Sequence[str]) -> "MetricsRead":
        """The metrics of these names; all if there are none."""
        by_name = {metric_name(block): block for block in self.blocks}
        problems = [
            Problem(where=name, message="no such metric", remedy=near(name, list(by_name)))
            for name in names
            if name not in by_name
        ]
        if problems:
            raise ConfigError(problems)
        chosen = [by_name[name] for name in names] if names else self.blocks
        return MetricsRead(blocks=chosen, judge=self.judge)

    @property
    def notes(self) -> list[str]:
        """Settings in the file that have no effect."""
        return ignored_keys([block for block in self.blocks if isinstance(block, MetricItem)])


def read_metric_file(path: Path) -> MetricsRead:
    """Read the metrics of a list, an agent file, `test_config.json` or `optimizer.json`."""
    tree = read_tree(path)
    data = tree.data
    if isinstance(data, list):
        blocks = validate_config(data, MetricList, source=path.name, tree=tree).root
        return MetricsRead(blocks=blocks)
    if isinstance(data, Mapping) and "evaluations" in data:
        block = validate_config(data, _WithEvaluations, source=path.name, tree=tree).evaluations
        judge = block.model.reference() if block.model else None
        return MetricsRead(blocks=block.metrics, judge=judge)
    if isinstance(data, Mapping) and isinstance(data.get("evaluate"), Mapping):
        config = validate_config(data["evaluate"], EvalConfig, source=f"{path.name} evaluate")
    else:
        config = validate_config(data, EvalConfig, source=path.name, tree=tree)
    return MetricsRead(blocks=config.metrics)


# -- The types of burnish itself -------------------------------------------------------------------


StandardName: TypeAlias = Literal[
    "groundedness",
    "relevance",
    "coherence",
    "fluency",
    "bleu",
    "chrf",
    "rouge",
    "meteor",
    "equality",
    "numeric",
    "distinct_phrases",
]
_Parameter: TypeAlias = Literal[
    "input", "actual_output", "expected_output", "context", "retrieval_context"
]


class StandardBlock(MetricBlock):
    """A metric that burnish knows by name."""

    type: str = "standard"
    metric: StandardName
    """The name of the metric."""
    threshold: Annotated[float, Field(ge=0, le=5)] | None = None
    """Scores from here on pass; above 1, on a judge's scale from 1 to 5."""
    scale: int | None = None
    """Accepted in HoloDeck files, without effect."""
    retry_on_failure: Annotated[int, Field(ge=1, le=3)] | None = None
    """Accepted in HoloDeck files, without effect: set retries under `models`."""
    timeout_ms: AtLeastOne | None = None
    """Accepted in HoloDeck files, without effect: set timeouts under `models`."""
    custom_prompt: str | None = None
    """Instructions for the judge that override its own prompt."""
    case_insensitive: bool = False
    """For equality: ignore upper and lower case."""
    strip_whitespace: bool = False
    """For equality: ignore whitespace at both ends and collapse it in between."""
    strip_punctuation: bool = False
    """For equality: ignore punctuation."""
    absolute_tolerance: NotNegative = 1e-6
    """For numeric: the largest allowed difference."""
    relative_tolerance: NotNegative = 0.0
    """For numeric: the largest allowed difference, as a share of the expected number."""
    accept_percent: bool = False
    """For numeric: read 25% as 0.25."""
    accept_thousands_separators: bool = False
    """For numeric: read 1,000 as 1000."""
    response_path: JsonPath | None = None
    """The path of the value in a JSON reply; default: the whole reply."""


class StandardPlugin(MetricPlugin):
    """Equality, numbers, word overlap and quality judges."""

    kind: ClassVar[str] = "standard"
    Block: ClassVar[type[MetricBlock]] = StandardBlock

    def name(self, block: StandardBlock) -> str:
        return block.metric

    def make(self, block: StandardBlock, making: MetricMaking) -> TurnMetric:
        match block.metric:
            case "equality":
                from burnish.metrics.computed import Equality

                keys = ("case_insensitive", "strip_whitespace", "strip_punctuation")
                return Equality(**_compared(block, keys))
            case "numeric":
                from burnish.metrics.computed import Numeric

                keys = ("absolute_tolerance", "relative_tolerance", "accept_percent",
                        "accept_thousands_separators")  # fmt: skip
                return Numeric(**_compared(block, keys))
            case "distinct_phrases":
                from burnish.metrics.computed import DistinctPhrases

                return DistinctPhrases(name=block.metric, threshold=block.threshold)
            case "bleu" | "chrf" | "meteor" | "rouge":
                from burnish.metrics.overlap import Bleu, Chrf, Meteor, RougeMetric

                kinds = {"bleu": Bleu, "chrf": Chrf, "meteor": Meteor, "rouge": RougeMetric}
                return kinds[block.metric](**_compared(block))
            case _:
                return _quality(block, making)


def _compared(block: StandardBlock, keys: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "name": block.metric,
        "threshold": block.threshold,
        "response_path": block.response_path or "",
        **{key: getattr(block, key) for key in keys},
    }


def _quality(block: StandardBlock, making: MetricMaking) -> TurnMetric:
    from burnish.metrics.geval import Coherence, Fluency, Groundedness, Relevance

    kinds: dict[str, type[QualityJudge]] = {
        "groundedness": Groundedness,
        "relevance": Relevance,
        "coherence": Coherence,
        "fluency": Fluency,
    }
    kind = kinds[block.metric]
    arguments = _judge(block.metric, kind, block, making)
    return kind(**arguments, threshold=block.threshold, custom_prompt=block.custom_prompt or "")


class GevalBlock(MetricBlock):
    """A judge with criteria of your own."""

    type: str = "geval"
    name: Annotated[str, Field(min_length=1)]
    """The name in scores and reports."""
    criteria: Annotated[str, Field(min_length=1)]
    """What the judge looks for, in words."""
    evaluation_steps: list[str] | None = None
    """The steps of the judge; by default a model writes them once."""
    evaluation_params: list[_Parameter] = Field(default_factory=lambda: ["actual_output"])
    """The parts of a turn that the judge sees."""
    strict_mode: bool = False
    """Score 1 for a perfect answer, else 0."""
    threshold: Share | None = None
    """Scores from here on pass."""


class GevalPlugin(MetricPlugin):
    """A judge with criteria in words."""

    kind: ClassVar[str] = "geval"
    Block: ClassVar[type[MetricBlock]] = GevalBlock

    def name(self, block: GevalBlock) -> str:
        return block.name

    def make(self, block: GevalBlock, making: MetricMaking) -> TurnMetric:
        from burnish.metrics.geval import GEval

        return GEval(
            **_judge(block.name, GEval, block, making),
            threshold=block.threshold,
            criteria=block.criteria,
            evaluation_steps=tuple(block.evaluation_steps or ()),
            evaluation_params=tuple(block.evaluation_params),
            strict_mode=block.strict_mode,
            steps_prompt=making.prompt(GEval.steps_role),
        )


class RagBlock(MetricBlock):
    """How well an answer and its retrieved context fit together."""

    type: str = "rag"
    metric_type: Literal[
        "faithfulness",
        "contextual_relevancy",
        "contextual_precision",
        "contextual_recall",
        "answer_relevancy",
    ]
    """The name of the metric."""
    threshold: Share = 0.5
    """Scores from here on pass."""
    include_reason: bool = True
    """Whether the reason quotes the judge."""


class RagPlugin(MetricPlugin):
    """Judges of answers from retrieved context."""

    kind: ClassVar[str] = "rag"
    Block: ClassVar[type[MetricBlock]] = RagBlock

    def name(self, block: RagBlock) -> str:
        return block.metric_type

    def make(self, block: RagBlock, making: MetricMaking) -> TurnMetric:
        from burnish.metrics.numbered_judges import (
            AnswerRelevancy,
            ContextualPrecision,
            ContextualRecall,
            ContextualRelevancy,
            Faithfulness,
        )

        kinds: dict[str, type[Faithfulness] | type[NumberedJudge]] = {
            "faithfulness": Faithfulness,
            "answer_relevancy": AnswerRelevancy,
            "contextual_relevancy": ContextualRelevancy,
            "contextual_precision": ContextualPrecision,
            "contextual_recall": ContextualRecall,
        }
        kind = kinds[block.metric_type]
        arguments = _judge(block.metric_type, kind, block, making)
        return kind(**arguments, threshold=block.threshold, include_reason=block.include_reason)


class CodeBlock(MetricBlock):
    """A function of your own."""

    type: str = "code"
    grader: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]
    """`module:function`, importable from the folder of the file."""
    threshold: Share | None = None
    """Scores from here on pass."""
    name: str | None = None
    """The name in scores and reports; default: the function's name."""


class CodePlugin(MetricPlugin):
    """A function of your own that scores."""

    kind: ClassVar[str] = "code"
    Block: ClassVar[type[MetricBlock]] = CodeBlock

    def name(self, block: CodeBlock) -> str:
        return block.name or block.grader.partition(":")[2]

    def make(self, block: CodeBlock, making: MetricMaking) -> TurnMetric:
        from burnish.metrics.graders import CodeGrader, load_grader

        grader = load_grader(block.grader, making.folder)
        return CodeGrader(name=block.name or grader.name, threshold=block.threshold, grader=grader)


def _judge(
    name: str,
    kind: "type[JudgedMetric[Any, Any]]",
    block: MetricBlock,
    making: MetricMaking,
) -> dict[str, Any]:
    prompt = making.prompt(kind.role)
    ref = block.model.reference() if block.model else None
    return {"name": name, "prompt": prompt, "panel": making.one_judge(name, prompt, ref)}
