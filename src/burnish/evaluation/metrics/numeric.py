"""The same number, within tolerances."""

from dataclasses import dataclass

from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.matching.numbers import NumberRule, compare_numbers
from burnish.evaluation.metrics.answers import answer_text
from burnish.evaluation.turn_metric import ComputedMetric, Verdict


@dataclass(frozen=True, kw_only=True)
class Numeric(ComputedMetric):
    """1 where the answer is the expected number; what is no number scores 0."""

    name: str = "numeric"
    absolute_tolerance: float = 1e-6
    """This far off is still right; either tolerance is enough."""
    relative_tolerance: float = 0.0
    """The same, as a share of the expected number."""
    accept_percent: bool = False
    """`12%` is 0.12."""
    accept_thousands_separators: bool = False
    response_path: str = ""
    """Where in a JSON answer to look; empty for the whole reply."""

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Compare; only where something is expected."""
        if exchange.expected is None:
            return None
        answer = answer_text(exchange, self.response_path)
        if answer.problem:
            return Verdict.of(held=False, reason=answer.problem)
        match = compare_numbers(exchange.expected, answer.text, self._rule())
        return Verdict.of(held=match.held, reason=match.reason)

    def _rule(self) -> NumberRule:
        return NumberRule(
            absolute_tolerance=self.absolute_tolerance,
            relative_tolerance=self.relative_tolerance,
            accept_percent=self.accept_percent,
            accept_thousands_separators=self.accept_thousands_separators,
        )
