"""The metrics of burnish's own types, each a plug-in: standard, geval, rag and code.

The module of a metric loads when a file names the metric.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from burnish.core.content import AtLeastOne, NotNegative, Share
from burnish.metrics.document_matching import JsonPath
from burnish.metrics.files import MetricBlock, MetricPlugin
from burnish.metrics.judges import MetricMaking
from burnish.metrics.turns import TurnMetric

if TYPE_CHECKING:
    from burnish.metrics.geval import QualityJudge
    from burnish.metrics.judged import JudgedMetric
    from burnish.metrics.numbered_judges import NumberedJudge

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
