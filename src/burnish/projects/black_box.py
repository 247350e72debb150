"""Metrics that need to see inside an agent, which an agent that is called does not show."""

from collections.abc import Sequence

from burnish.core.errors import Problem
from burnish.evaluation.configs.eval_metrics import MetricItem
from burnish.evaluation.metric_plugins import AgentMetric

NEEDS_A_TRAJECTORY = ("tool_trajectory_avg_score", "llm_rubric_knowledge_recall")


def trajectory_problems(blocks: Sequence[AgentMetric]) -> list[Problem]:
    """The metrics that would look for tools nobody can know of."""
    return [
        Problem(
            where=block.metric_name,
            message=f"{block.kind} needs the tools an agent used, and here only replies are seen",
            remedy="measure replies: final_response_avg_score, llm_final_response, "
            "llm_rubric_response",
        )
        for block in blocks
        if isinstance(block, MetricItem) and block.kind in NEEDS_A_TRAJECTORY
    ]
