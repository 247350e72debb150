"""The names that programs import from `trpc_agent_sdk.evaluation`, over burnish's own."""

from burnish.compat.eval_sets import AgentEvaluator, EvalExecuter, EvaluateResult
from burnish.compat.eval_sets import SetResult as EvalSetAggregateResult
from burnish.compat.eval_types import (
    ConversationScenario,
    EvalCase,
    EvalCaseResult,
    EvalMetric,
    EvalMetricResult,
    EvalMetricResultDetails,
    EvalMetricResultPerInvocation,
    EvalSet,
    EvalStatus,
    IntermediateData,
    Invocation,
    LocalEvalSetsManager,
    NotFoundError,
    PassNC,
    PerInvocationResult,
    SessionInput,
    load_eval_set_from_file,
    pass_at_k,
    pass_hat_k,
)
from burnish.compat.eval_types import EvalModel as EvalBaseModel
from burnish.compat.eval_types import MetricEvaluation as EvaluationResult
from burnish.compat.evaluators import (
    CRITERION_REGISTRY,
    EVALUATOR_REGISTRY,
    LLM_EVALUATOR_REGISTRY,
    LLM_METRIC_NAMES,
    CriterionRegistry,
    CriterionType,
    EvaluatorRegistry,
    LLMEvaluatorRegistry,
)
from burnish.compat.evaluators import EvaluatorBase as Evaluator
from burnish.compat.optimizer.base import BaseOptimizer
from burnish.compat.optimizer.entry import OPTIMIZER_REGISTRY, AgentOptimizer
from burnish.metrics.eval_metrics import (
    EvalConfig,
    FinalResponseCriterion,
    TextCriterion,
    ToolTrajectoryCriterion,
)
from burnish.metrics.eval_metrics import JsonCriterion as JSONCriterion
from burnish.metrics.judges import LlmJudgeCriterion as LLMJudgeCriterion
from burnish.targets.prompts import TargetPrompt

__all__ = [
    "CRITERION_REGISTRY",
    "EVALUATOR_REGISTRY",
    "LLM_EVALUATOR_REGISTRY",
    "LLM_METRIC_NAMES",
    "OPTIMIZER_REGISTRY",
    "AgentEvaluator",
    "AgentOptimizer",
    "BaseOptimizer",
    "ConversationScenario",
    "CriterionRegistry",
    "CriterionType",
    "EvalBaseModel",
    "EvalCase",
    "EvalCaseResult",
    "EvalConfig",
    "EvalExecuter",
    "EvalMetric",
    "EvalMetricResult",
    "EvalMetricResultDetails",
    "EvalMetricResultPerInvocation",
    "EvalSet",
    "EvalSetAggregateResult",
    "EvalStatus",
    "EvaluateResult",
    "EvaluationResult",
    "Evaluator",
    "EvaluatorRegistry",
    "FinalResponseCriterion",
    "IntermediateData",
    "Invocation",
    "JSONCriterion",
    "LLMEvaluatorRegistry",
    "LLMJudgeCriterion",
    "LocalEvalSetsManager",
    "NotFoundError",
    "PassNC",
    "PerInvocationResult",
    "SessionInput",
    "TargetPrompt",
    "TextCriterion",
    "ToolTrajectoryCriterion",
    "load_eval_set_from_file",
    "pass_at_k",
    "pass_hat_k",
]
