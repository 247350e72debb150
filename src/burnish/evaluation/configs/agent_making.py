"""From the metrics of an agent file to metrics."""

from collections.abc import Callable
from typing import Any

from burnish.evaluation.configs.agent_metrics import (
    AgentMetric,
    CodeBlock,
    GevalBlock,
    RagBlock,
    StandardBlock,
    metric_name,
)
from burnish.evaluation.configs.eval_making import make_metric
from burnish.evaluation.configs.eval_metrics import MetricItem
from burnish.evaluation.configs.making import MetricMaking
from burnish.evaluation.graders import CodeGrader
from burnish.evaluation.graders.loading import load_grader
from burnish.evaluation.judges import (
    AnswerRelevancy,
    Coherence,
    ContextualPrecision,
    ContextualRecall,
    ContextualRelevancy,
    Faithfulness,
    Fluency,
    GEval,
    Groundedness,
    JudgedMetric,
    Relevance,
)
from burnish.evaluation.judges.numbered_judge import NumberedJudge
from burnish.evaluation.judges.quality import QualityJudge
from burnish.evaluation.metrics.equality import Equality
from burnish.evaluation.metrics.numeric import Numeric
from burnish.evaluation.metrics.overlap import Bleu, Chrf, Meteor, RougeMetric
from burnish.evaluation.metrics.repetition import DistinctPhrases
from burnish.evaluation.turn_metric import TurnMetric

_QUALITY: dict[str, type[QualityJudge]] = {
    "groundedness": Groundedness,
    "relevance": Relevance,
    "coherence": Coherence,
    "fluency": Fluency,
}
_OVERLAP: dict[str, Callable[..., TurnMetric]] = {
    "bleu": Bleu,
    "chrf": Chrf,
    "meteor": Meteor,
    "rouge": RougeMetric,
}
_RAG: dict[str, type[Faithfulness] | type[NumberedJudge]] = {
    "faithfulness": Faithfulness,
    "answer_relevancy": AnswerRelevancy,
    "contextual_relevancy": ContextualRelevancy,
    "contextual_precision": ContextualPrecision,
    "contextual_recall": ContextualRecall,
}


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
            return make_metric(block, making)


def _standard(block: StandardBlock, making: MetricMaking) -> TurnMetric:
    common: dict[str, Any] = {"name": block.metric, "threshold": block.threshold}
    if block.metric == "equality":
        keys = ("case_insensitive", "strip_whitespace", "strip_punctuation")
    elif block.metric == "numeric":
        keys = ("absolute_tolerance", "relative_tolerance", "accept_percent",
                "accept_thousands_separators")  # fmt: skip
    elif block.metric == "distinct_phrases":
        return DistinctPhrases(**common)
    elif block.metric in _OVERLAP:
        return _OVERLAP[block.metric](**common, response_path=block.response_path or "")
    else:
        return _quality(block, making)
    kind = Equality if block.metric == "equality" else Numeric
    settings = {key: getattr(block, key) for key in keys}
    return kind(**common, **settings, response_path=block.response_path or "")


def _quality(block: StandardBlock, making: MetricMaking) -> TurnMetric:
    kind = _QUALITY[block.metric]
    told = _judge(kind, block, making)
    return kind(**told, threshold=block.threshold, custom_prompt=block.custom_prompt or "")


def _geval(block: GevalBlock, making: MetricMaking) -> TurnMetric:
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
    kind = _RAG[block.metric_type]
    told = _judge(kind, block, making)
    return kind(**told, threshold=block.threshold, include_reason=block.include_reason)


def _code(block: CodeBlock, making: MetricMaking) -> TurnMetric:
    grader = load_grader(block.grader, making.folder)
    return CodeGrader(name=block.name or grader.name, threshold=block.threshold, grader=grader)


def _judge(
    kind: type[JudgedMetric[Any, Any]],
    block: StandardBlock | GevalBlock | RagBlock,
    making: MetricMaking,
) -> dict[str, Any]:
    name, prompt = metric_name(block), making.prompt(kind.role)
    ref = block.model.reference() if block.model else None
    return {"name": name, "prompt": prompt, "panel": making.one_judge(name, prompt, ref)}
