"""The names that users of other systems know: those of AgentOptimizer and AgentEvaluator."""

from burnish.compat.agent_evaluator import AgentEvaluator, EvaluateResult
from burnish.compat.agent_optimizer import AgentOptimizer
from burnish.compat.callbacks import Callback, CallbackResult, Callbacks, Moment
from burnish.compat.optimizer_base import BaseOptimizer
from burnish.compat.optimizer_registry import OPTIMIZER_REGISTRY
from burnish.compat.optimizer_stopping import LabeledStopper
from burnish.strategies.reflective.result import OptimizeResult, RoundRecord
from burnish.targets.prompts import TargetPrompt

_LabeledStopper = LabeledStopper

__all__ = [
    "OPTIMIZER_REGISTRY",
    "AgentEvaluator",
    "AgentOptimizer",
    "BaseOptimizer",
    "Callback",
    "CallbackResult",
    "Callbacks",
    "EvaluateResult",
    "LabeledStopper",
    "Moment",
    "OptimizeResult",
    "RoundRecord",
    "TargetPrompt",
    "_LabeledStopper",
]
