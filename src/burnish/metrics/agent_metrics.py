"""The metrics of burnish's own types: standard, geval, rag and code, each a plug-in.

The module of a metric loads when a file names the metric.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from burnish.core.content import AtLeastOne, NotNegative, Share
from burnish.metrics.factory import MetricMaking
from burnish.metrics.files import MetricBlock, MetricPlugin
from burnish.metrics.turns import TurnMetric

if TYPE_CHECKING:
    from collections.abc import Callable

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
    """A metric burnish knows by name."""

    type: str = "standard"
    metric: StandardName
    """Which one."""
    threshold: Annotated[float, Field(ge=0, le=5)] | None = None
    """From here on a score passes; above 1 it is on a judge's scale from 1 to 5."""
    scale: int | None = None
    """Read for HoloDeck's files, and without effect."""
    retry_on_failure: Annotated[int, Field(ge=1, le=3)] | None = None
    """Read for HoloDeck's files, and without effect: `models` says how often to try."""
    timeout_ms: AtLeastOne | None = None
    """Read for HoloDeck's files, and without effect: `models` says how long to wait."""
    custom_prompt: str | None = None
    """What a judge is asked, in place of its own prompt."""
    case_insensitive: bool = False
    """For equality: take upper and lower case alike."""
    strip_whitespace: bool = False
    """For equality: leave out space at both ends."""
    strip_punctuation: bool = False
    """For equality: leave out punctuation."""
    absolute_tolerance: NotNegative = 1e-6
    """For numeric: how far a number may be off."""
    relative_tolerance: NotNegative = 0.0
    """For numeric: how far it may be off as a share of the expected one."""
    accept_percent: bool = False
    """For numeric: take 25% for 0.25."""
    accept_thousands_separators: bool = False
    """For numeric: take 1,000 for 1000."""
    response_path: str | None = None
    """Where in a reply of JSON the value stands; the whole reply, else."""


class StandardPlugin(MetricPlugin):
    """Equality, numbers, overlap of words, and judges of quality."""

    kind: ClassVar[str] = "standard"
    Block: ClassVar[type[MetricBlock]] = StandardBlock

    def name(self, block: StandardBlock) -> str:
        """The metric's own."""
        return block.metric

    def make(self, block: StandardBlock, making: MetricMaking) -> TurnMetric:
        """The metric of that name."""
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
                return _overlap(block)
            case _:
                return _quality(block, making)


def _compared(block: StandardBlock, keys: tuple[str, ...] = ()) -> dict[str, Any]:
    """What a metric is told that compares the reply with what was expected."""
    return {
        "name": block.metric,
        "threshold": block.threshold,
        "response_path": block.response_path or "",
        **{key: getattr(block, key) for key in keys},
    }


def _overlap(block: StandardBlock) -> TurnMetric:
    from burnish.metrics.overlap import Bleu, Chrf, Meteor, RougeMetric

    kinds: dict[str, Callable[..., TurnMetric]] = {
        "bleu": Bleu,
        "chrf": Chrf,
        "meteor": Meteor,
        "rouge": RougeMetric,
    }
    return kinds[block.metric](**_compared(block))


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
    """A judge with criteria of the user's own."""

    type: str = "geval"
    name: Annotated[str, Field(min_length=1)]
    """What scores and reports call it."""
    criteria: Annotated[str, Field(min_length=1)]
    """What the judge looks for, in words."""
    evaluation_steps: list[str] | None = None
    """How it goes about it; else a model writes the steps once."""
    evaluation_params: list[_Parameter] = Field(default_factory=lambda: ["actual_output"])
    """What of a turn the judge is shown."""
    strict_mode: bool = False
    """Score 0 or 1, and nothing between."""
    threshold: Share | None = None
    """From here on a score passes."""


class GevalPlugin(MetricPlugin):
    """A judge that scores by criteria in words."""

    kind: ClassVar[str] = "geval"
    Block: ClassVar[type[MetricBlock]] = GevalBlock

    def name(self, block: GevalBlock) -> str:
        """As the user calls it."""
        return block.name

    def make(self, block: GevalBlock, making: MetricMaking) -> TurnMetric:
        """The judge."""
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
    """How well an answer and its retrieved context go together."""

    type: str = "rag"
    metric_type: Literal[
        "faithfulness",
        "contextual_relevancy",
        "contextual_precision",
        "contextual_recall",
        "answer_relevancy",
    ]
    """Which one."""
    threshold: Share = 0.5
    """From here on a score passes."""
    include_reason: bool = True
    """Ask the judge for the reason too."""


class RagPlugin(MetricPlugin):
    """Judges of answers from retrieved context."""

    kind: ClassVar[str] = "rag"
    Block: ClassVar[type[MetricBlock]] = RagBlock

    def name(self, block: RagBlock) -> str:
        """The metric's own."""
        return block.metric_type

    def make(self, block: RagBlock, making: MetricMaking) -> TurnMetric:
        """The judge of that name."""
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
    """A function of the user's own."""

    type: str = "code"
    grader: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]
    """`module:function`, importable from the folder of the file."""
    threshold: Share | None = None
    """From here on a score passes."""
    name: str | None = None
    """What scores and reports call it; the function's name where it is not given."""


class CodePlugin(MetricPlugin):
    """A function of the user's own that scores."""

    kind: ClassVar[str] = "code"
    Block: ClassVar[type[MetricBlock]] = CodeBlock

    def name(self, block: CodeBlock) -> str:
        """As the user calls it, else the function's."""
        return block.name or block.grader.partition(":")[2]

    def make(self, block: CodeBlock, making: MetricMaking) -> TurnMetric:
        """The function, imported."""
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
