"""The public names of AgentOptimizer and AgentEvaluator."""

from burnish.compat.agent_calls import Callback, CallbackResult, Callbacks, Moment
from burnish.compat.eval_sets import AgentEvaluator, EvaluateResult
from burnish.compat.optimizer.base import BaseOptimizer
from burnish.compat.optimizer.callbacks import LabeledStopper
from burnish.compat.optimizer.entry import OPTIMIZER_REGISTRY, AgentOptimizer
from burnish.strategies.reflective.results import OptimizeResult, RoundRecord
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
