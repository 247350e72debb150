"""Metrics of agent files: standard, geval, rag and code, as `evaluations.metrics` lists them."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from burnish.core.bounds import AtLeastOne, NotNegative
from burnish.evaluation.configs.eval_metrics import MetricItem
from burnish.evaluation.configs.shapes import Share
from burnish.models.model_block import ModelBlock

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
Parameter: TypeAlias = Literal[
    "input", "actual_output", "expected_output", "context", "retrieval_context"
]


class MetricBlock(BaseModel):
    """What every metric of an agent file may say."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    enabled: bool = True
    fail_on_error: bool = False
    """A score that cannot be had is missing either way; with this the run reports it as failed."""
    model: ModelBlock | None = None
    """Who judges, where this metric asks a judge."""


class StandardBlock(MetricBlock):
    """A metric burnish knows by name."""

    type: Literal["standard"] = "standard"
    metric: StandardName
    threshold: Annotated[float, Field(ge=0, le=5)] | None = None
    scale: int | None = None
    retry_on_failure: Annotated[int, Field(ge=1, le=3)] | None = None
    timeout_ms: AtLeastOne | None = None
    custom_prompt: str | None = None
    case_insensitive: bool = False
    strip_whitespace: bool = False
    strip_punctuation: bool = False
    absolute_tolerance: NotNegative = 1e-6
    relative_tolerance: NotNegative = 0.0
    accept_percent: bool = False
    accept_thousands_separators: bool = False
    response_path: str | None = None


class GevalBlock(MetricBlock):
    """A judge with criteria of the user's own."""

    type: Literal["geval"] = "geval"
    name: Annotated[str, Field(min_length=1)]
    criteria: Annotated[str, Field(min_length=1)]
    evaluation_steps: list[str] | None = None
    evaluation_params: list[Parameter] = Field(default_factory=lambda: ["actual_output"])
    strict_mode: bool = False
    threshold: Share | None = None


class RagBlock(MetricBlock):
    """How well an answer and its retrieved context go together."""

    type: Literal["rag"] = "rag"
    metric_type: Literal[
        "faithfulness",
        "contextual_relevancy",
        "contextual_precision",
        "contextual_recall",
        "answer_relevancy",
    ]
    threshold: Share = 0.5
    include_reason: bool = True


class CodeBlock(MetricBlock):
    """A function of the user's own."""

    type: Literal["code"] = "code"
    grader: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]
    threshold: Share | None = None
    name: str | None = None


def _kind(value: Any) -> str | None:
    """The type as it is written, or as the keys tell: cases and turns may leave it out."""
    if isinstance(value, MetricItem):
        return "item"
    if isinstance(value, MetricBlock):
        return str(getattr(value, "type", ""))
    if not isinstance(value, Mapping):
        return None
    if "type" in value:
        return str(value["type"])  # pyright: ignore[reportUnknownArgumentType]
    return next((kind for key, kind in _TELLING.items() if key in value), None)


_TELLING = {
    "metric": "standard",
    "criteria": "geval",
    "metric_type": "rag",
    "grader": "code",
    "metric_name": "item",
    "metricName": "item",
}

AgentMetric: TypeAlias = Annotated[
    Annotated[StandardBlock, Tag("standard")]
    | Annotated[GevalBlock, Tag("geval")]
    | Annotated[RagBlock, Tag("rag")]
    | Annotated[CodeBlock, Tag("code")]
    | Annotated[MetricItem, Tag("item")],
    Discriminator(
        _kind,
        custom_error_type="metric_type",
        custom_error_message="say what it is: `type: standard`, geval, rag or code",
    ),
]
"""One metric of an agent file. An EvalSet metric, with `metric_name`, will do as well."""


def metric_name(block: "AgentMetric") -> str:
    """What scores, losses and reports call it."""
    match block:
        case StandardBlock():
            return block.metric
        case GevalBlock():
            return block.name
        case RagBlock():
            return block.metric_type
        case CodeBlock():
            return block.name or block.grader.partition(":")[2]
        case MetricItem():
            return block.metric_name
