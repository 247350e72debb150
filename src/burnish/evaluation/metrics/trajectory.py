"""The tool calls of a turn against those of a model trajectory."""

from dataclasses import dataclass

from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.matching.tool_rules import STRICT, TrajectoryRule
from burnish.evaluation.matching.trajectories import compare_trajectories
from burnish.evaluation.turn_metric import ComputedMetric, Verdict


@dataclass(frozen=True, kw_only=True)
class ToolTrajectory(ComputedMetric):
    """1 where the calls of a turn are those expected, as the rule compares them.

    A case that speaks of calls in one turn speaks of them in all: where a turn lists none,
    none may be made. A case that lists none anywhere says nothing about calls.
    """

    name: str = "tool_trajectory_avg_score"
    rule: TrajectoryRule = STRICT

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Compare the calls."""
        written = exchange.index < len(exchange.case.turns)
        if not written or not any(turn.expected_calls for turn in exchange.case.turns):
            return None
        match = compare_trajectories(exchange.turn.expected_calls, exchange.tools, self.rule)
        return Verdict.of(held=match.held, reason=match.reason)
