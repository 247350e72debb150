"""Code graders: `module:callable`, a user's own function as a metric."""

from burnish.evaluation.graders.context import GraderContext, GraderResult, ToolInvocation
from burnish.evaluation.graders.metric import CodeGrader

__all__ = ["CodeGrader", "GraderContext", "GraderResult", "ToolInvocation"]
