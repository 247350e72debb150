"""How long an answer is: within bounds or not, and within the bounds one would like."""

from dataclasses import dataclass

from burnish.core.errors import ConfigError, Problem
from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.matching.lengths import (
    LengthRule,
    Unit,
    check_length,
    length_of,
    off_length,
)
from burnish.evaluation.turn_metric import ComputedMetric, Verdict


@dataclass(frozen=True, kw_only=True)
class Length(ComputedMetric):
    """1 where the reply is within bounds, both ends included; space around it does not count."""

    name: str = "length"
    min: int | None = None
    max: int | None = None
    unit: Unit = "characters"

    def __post_init__(self) -> None:
        _refuse_empty(self.name, self.min, self.max)

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Measure the reply."""
        rule = LengthRule(min=self.min, max=self.max, unit=self.unit)
        match = check_length(exchange.reply, rule)
        length = length_of(exchange.reply, self.unit)
        return Verdict.of(held=match.held, reason=match.reason, length=length)


@dataclass(frozen=True, kw_only=True)
class LengthCompliance(ComputedMetric):
    """1 within the preferred bounds, one half within those one can live with, else 0."""

    name: str = "final_response_length_compliance"
    min: int | None = None
    max: int | None = None
    preferred_min: int | None = None
    """None takes `min`; so does `preferred_max` with `max`."""
    preferred_max: int | None = None

    def __post_init__(self) -> None:
        _refuse_empty(self.name, self.min, self.max)
        preferred, accepted = self._preferred, self._accepted
        _refuse_empty(f"{self.name}, preferred", preferred.min, preferred.max)
        ends = [end for end in (preferred.min, preferred.max) if end is not None]
        if not all(accepted.allows(end) for end in ends):
            message = f"{self.name}: preferred are {preferred}, but accepted are {accepted}"
            raise ConfigError([Problem(message=message, remedy="prefer what is accepted")])

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Measure the reply, in characters."""
        length = length_of(exchange.reply)
        if self._preferred.allows(length):
            return Verdict(value=1.0, details={"length": length})
        value = 0.5 if self._accepted.allows(length) else 0.0
        told = off_length(length, self._preferred)
        if self._preferred != self._accepted:
            told += f" ({self._accepted} would be accepted, for half the score)"
        return Verdict(value=value, reason=told, details={"length": length})

    @property
    def _accepted(self) -> LengthRule:
        return LengthRule(min=self.min, max=self.max)

    @property
    def _preferred(self) -> LengthRule:
        low = self.min if self.preferred_min is None else self.preferred_min
        high = self.max if self.preferred_max is None else self.preferred_max
        return LengthRule(min=low, max=high)


def _refuse_empty(name: str, low: int | None, high: int | None) -> None:
    if low is not None and high is not None and low > high:
        message = f"{name}: no length is at least {low} and at most {high}"
        raise ConfigError([Problem(message=message, remedy="swap the two, or drop one")])
