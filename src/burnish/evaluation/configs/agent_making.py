"""From the metrics of an agent file to metrics. A metric's module loads when a file names it."""

from typing import TYPE_CHECKING, Any

from burnish.evaluation.configs.agent_metrics import (
    AgentMetric,
    CodeBlock,
    GevalBlock,
    RagBlock,
    StandardBlock,
    metric_name,
)
from burnish.evaluation.configs.eval_metrics import MetricItem
from burnish.evaluation.configs.making import MetricMaking
from burnish.evaluation.turn_metric import TurnMetric

if TYPE_CHECKING:
    from collections.abc import Callable

    from burnish.evaluation.judges import JudgedMetric
    from burnish.evaluation.judges.numbered_judge import NumberedJudge
    from burnish.evaluation.judges.quality import QualityJudge


def make_agent_metric(block: AgentMetric, making: MetricMaking) -> TurnMetric:
    """One metric of an agent file, a case or a turn."""
    match block:
        case StandardBlock():
            return _standard(block, making)
        case GevalBlock():
            return _geval(block, making)
        case RagBlock():
            return _rag(block, making)
        case CodeBlock():
            return _code(block, making)
        case MetricItem():
            from burnish.evaluation.configs.eval_making import make_metric

            return make_metric(block, making)


def _standard(block: StandardBlock, making: MetricMaking) -> TurnMetric:
    match block.metric:
        case "equality":
            from burnish.evaluation.metrics.equality import Equality

            keys = ("case_insensitive", "strip_whitespace", "strip_punctuation")
            return Equality(**_compared(block, keys))
        case "numeric":
            from burnish.evaluation.metrics.numeric import Numeric

            keys = ("absolute_tolerance", "relative_tolerance", "accept_percent",
                    "accept_thousands_separators")  # fmt: skip
            return Numeric(**_compared(block, keys))
        case "distinct_phrases":
            from burnish.evaluation.metrics.repetition import DistinctPhrases

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
    from burnish.evaluation.metrics.overlap import Bleu, Chrf, Meteor, RougeMetric

    kinds: dict[str, Callable[..., TurnMetric]] = {
        "bleu": Bleu,
        "chrf": Chrf,
        "meteor": Meteor,
        "rouge": RougeMetric,
    }
    return kinds[block.metric](**_compared(block))


def _quality(block: StandardBlock, making: MetricMaking) -> TurnMetric:
    from burnish.evaluation.judges import Coherence, Fluency, Groundedness, Relevance

    kinds: dict[str, type[QualityJudge]] = {
        "groundedness": Groundedness,
        "relevance": Relevance,
        "coherence": Coherence,
        "fluency": Fluency,
    }
    kind = kinds[block.metric]
    told = _judge(kind, block, making)
    return kind(**told, threshold=block.threshold, custom_prompt=block.custom_prompt or "")


def _geval(block: GevalBlock, making: MetricMaking) -> TurnMetric:
    from burnish.evaluation.judges import GEval

    return GEval(
        **_judge(GEval, block, making),
        threshold=block.threshold,
        criteria=block.criteria,
        evaluation_steps=tuple(block.evaluation_steps or ()),
        evaluation_params=tuple(block.evaluation_params),
        strict_mode=block.strict_mode,
        steps_prompt=making.prompt(GEval.steps_role),
    )


def _rag(block: RagBlock, making: MetricMaking) -> TurnMetric:
    from burnish.evaluation.judges import (
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
    told = _judge(kind, block, making)
    return kind(**told, threshold=block.threshold, include_reason=block.include_reason)


def _code(block: CodeBlock, making: MetricMaking) -> TurnMetric:
    from burnish.evaluation.graders import CodeGrader
    from burnish.evaluation.graders.loading import load_grader

    grader = load_grader(block.grader, making.folder)
    return CodeGrader(name=block.name or grader.name, threshold=block.threshold, grader=grader)


def _judge(
    kind: "type[JudgedMetric[Any, Any]]",
    block: StandardBlock | GevalBlock | RagBlock,
    making: MetricMaking,
) -> dict[str, Any]:
    name, prompt = metric_name(block), making.prompt(kind.role)
    ref = block.model.reference() if block.model else None
    return {"name": name, "prompt": prompt, "panel": making.one_judge(name, prompt, ref)}
