"""Scores: what a metric says of an outcome."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from burnish.core.content import Json


@dataclass(frozen=True, kw_only=True)
class Score:
    """A value in [0, 1] or missing, pass or fail, and the reason in words."""

    metric: str
    value: float | None
    passed: bool | None = None
    """None when the metric gives no verdict, or is missing."""
    reason: str = ""
    turn: int | None = None
    """The turn it is about, in a case of several."""
    details: Mapping[str, Json] = field(default_factory=dict[str, Json])

    def __post_init__(self) -> None:
        if self.value is None and self.passed is not None:
            raise ValueError(f"{self.metric}: a missing score can neither pass nor fail")
        if self.value is not None and not 0 <= self.value <= 1:
            raise ValueError(f"{self.metric}: a score must be in [0, 1], found {self.value}")

    @property
    def missing(self) -> bool:
        """There is no score, which is not a score of 0."""
        return self.value is None

    @classmethod
    def of_nothing(cls, metric: str, reason: str) -> "Score":
        """A missing score, and why."""
        return cls(metric=metric, value=None, reason=reason)

    @classmethod
    def of_failure(cls, metric: str, reason: str) -> "Score":
        """The score of an agent's own failure: 0, with its error as the reason."""
        return cls(metric=metric, value=0.0, passed=False, reason=reason)
