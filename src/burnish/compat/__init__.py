"""The names that users of other systems know: `AgentEvaluator` of seed 001."""

from burnish.compat.agent_evaluator import AgentEvaluator, EvaluateResult
from burnish.compat.callbacks import Callback, CallbackResult, Callbacks, Moment

__all__ = [
    "AgentEvaluator",
    "Callback",
    "CallbackResult",
    "Callbacks",
    "EvaluateResult",
    "Moment",
]
