"""Metrics that ask models: one judge or several, one sample or several, verdicts with reasons."""

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
