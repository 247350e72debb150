"""The tool calls of a turn against those of a model trajectory."""

from dataclasses import dataclass

from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.matching.tool_calls import compare_no_tools
from burnish.evaluation.matching.tool_rules import STRICT, TrajectoryRule
from burnish.evaluation.matching.trajectories import compare_trajectories
from burnish.evaluation.turn_metric import ComputedMetric, Verdict


@dataclass(frozen=True, kw_only=True)
class ToolTrajectory(ComputedMetric):
    """1 where the calls of a turn are those expected, as the rule compares them.

    Where the list of a turn is there and empty, no call may be made, whatever the rule. A case
    that lists calls in one turn speaks of them in all: a turn without a list is compared with
    none. A case without any list says nothing about calls.
    """

    name: str = "tool_trajectory_avg_score"
    rule: TrajectoryRule = STRICT

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Compare the calls."""
        expected, turns = exchange.turn.expected_calls, exchange.case.turns
        written = exchange.index < len(turns)
        if expected == ():
            match = compare_no_tools(exchange.tools)
        elif written and any(turn.expected_calls for turn in turns):
            match = compare_trajectories(expected or (), exchange.tools, self.rule)
        else:
            return None
        return Verdict.of(held=match.held, reason=match.reason)
