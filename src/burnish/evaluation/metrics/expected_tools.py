"""The tools that should be used in a turn, in whatever order."""

from dataclasses import dataclass

from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.matching.match import all_of
from burnish.evaluation.matching.tool_calls import compare_expected_tools, compare_no_tools
from burnish.evaluation.turn_metric import ComputedMetric, Verdict


@dataclass(frozen=True, kw_only=True)
class ExpectedTools(ComputedMetric):
    """The share of the expected tools that were used as expected; passes where all were.

    Where the list is there and empty, no tool may be used at all.
    """

    name: str = "expected_tools"

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Look for a call for each expectation; only where the turn has a list of them."""
        expected = exchange.turn.expected_tools
        if expected is None:
            return None
        if not expected:
            match = compare_no_tools(exchange.tools)
            return Verdict.of(held=match.held, reason=match.reason)
        matches = compare_expected_tools(expected, exchange.tools)
        met = sum(match.held for match in matches)
        whole = all_of(matches)
        return Verdict(value=met / len(expected), passed=whole.held, reason=whole.reason)
