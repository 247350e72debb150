"""Metrics that ask models: one judge or several, one sample or several, verdicts with reasons.

Names load when they are first used: a file names a few metrics, and only those are loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from burnish.evaluation.judges.faithfulness import Faithfulness
    from burnish.evaluation.judges.final_response import FinalResponseJudge
    from burnish.evaluation.judges.geval import GEval
    from burnish.evaluation.judges.hallucinations import Hallucinations
    from burnish.evaluation.judges.judged import JudgedMetric
    from burnish.evaluation.judges.pairwise import PairwiseVerifier
    from burnish.evaluation.judges.panel import Judge, Panel, PanelRule
    from burnish.evaluation.judges.quality import Coherence, Fluency, Groundedness, Relevance
    from burnish.evaluation.judges.rag import (
        AnswerRelevancy,
        ContextualPrecision,
        ContextualRecall,
        ContextualRelevancy,
    )
    from burnish.evaluation.judges.rubric_judge import RubricJudge
    from burnish.evaluation.judges.rubrics import (
        RubricCritic,
        RubricKnowledgeRecall,
        RubricReferenceCritic,
        RubricResponse,
    )
    from burnish.evaluation.judges.template import TemplateJudge
    from burnish.evaluation.judges.template_bindings import Binding, Scope, Source
    from burnish.evaluation.judges.template_scorers import (
        BooleanScore,
        CategoricalScore,
        RubricScores,
        SingleScore,
    )

_HOMES = {
    "faithfulness": ("Faithfulness",),
    "final_response": ("FinalResponseJudge",),
    "geval": ("GEval",),
    "hallucinations": ("Hallucinations",),
    "judged": ("JudgedMetric",),
    "pairwise": ("PairwiseVerifier",),
    "panel": (
        "Judge",
        "Panel",
        "PanelRule",
    ),
    "quality": (
        "Coherence",
        "Fluency",
        "Groundedness",
        "Relevance",
    ),
    "rag": (
        "AnswerRelevancy",
        "ContextualPrecision",
        "ContextualRecall",
        "ContextualRelevancy",
    ),
    "rubric_judge": ("RubricJudge",),
    "rubrics": (
        "RubricCritic",
        "RubricKnowledgeRecall",
        "RubricReferenceCritic",
        "RubricResponse",
    ),
    "template": ("TemplateJudge",),
    "template_bindings": (
        "Binding",
        "Scope",
        "Source",
    ),
    "template_scorers": (
        "BooleanScore",
        "CategoricalScore",
        "RubricScores",
        "SingleScore",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AnswerRelevancy",
    "Binding",
    "BooleanScore",
    "CategoricalScore",
    "Coherence",
    "ContextualPrecision",
    "ContextualRecall",
    "ContextualRelevancy",
    "Faithfulness",
    "FinalResponseJudge",
    "Fluency",
    "GEval",
    "Groundedness",
    "Hallucinations",
    "Judge",
    "JudgedMetric",
    "PairwiseVerifier",
    "Panel",
    "PanelRule",
    "Relevance",
    "RubricCritic",
    "RubricJudge",
    "RubricKnowledgeRecall",
    "RubricReferenceCritic",
    "RubricResponse",
    "RubricScores",
    "Scope",
    "SingleScore",
    "Source",
    "TemplateJudge",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'burnish.evaluation.judges' has no attribute '{name}'")
    return getattr(import_module(f"burnish.evaluation.judges.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
