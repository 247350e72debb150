"""A number in its own unit as a score from 0 to 1, for searches that compare losses."""

from collections.abc import Sequence
from dataclasses import dataclass

from burnish.core.cases import Case
from burnish.core.content import short_id
from burnish.core.effects import Effects
from burnish.core.money import NOTHING, Spend
from burnish.core.outcomes import Outcome
from burnish.core.scores import Score

NAME = "scaled_score"


@dataclass(frozen=True, kw_only=True)
class ScaledScore:
    """How far a number lies on the way from the worst to the best."""

    measure: str
    worst: float
    best: float
    clamped: bool = False
    """Whether what lies beyond counts as the end; else it is no score."""
    name: str = NAME

    @property
    def fingerprint(self) -> str:
        """A hash of its settings."""
        return short_id([self.measure, self.worst, self.best, self.clamped])

    def estimate(self, case: Case) -> Spend:
        """It computes."""
        del case
        return NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """Where the number lies."""
        del case, effects
        number = outcome.measures.get(self.measure)
        if number is None:
            return [Score.of_nothing(self.name, f"the scorer gave no '{self.measure}'")]
        share = (number - self.worst) / (self.best - self.worst)
        if not 0 <= share <= 1 and not self.clamped:
            told = f"{self.measure} {number:g} is not between {self.worst:g} and {self.best:g}"
            return [Score.of_nothing(self.name, f"{told}: say objective.worst and best")]
        told = f"{self.measure} {number:g}"
        return [Score(metric=self.name, value=min(1.0, max(0.0, share)), reason=told)]
