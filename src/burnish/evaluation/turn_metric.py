"""The base of metrics that look at a case turn by turn, and the verdicts they give."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from burnish.core.cases import Case
from burnish.core.codec import codec
from burnish.core.content import Json, short_id
from burnish.core.effects import Effects
from burnish.core.money import NOTHING, Spend
from burnish.core.outcomes import Outcome
from burnish.core.scores import Score
from burnish.evaluation.exchanges import Exchange, exchanges

EPSILON = 1e-9
"""A score this close to its threshold reaches it."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a metric says of one turn."""

    value: float | None
    """In [0, 1]; None when it could not be had, which is not 0."""
    reason: str = ""
    """On failure: what to change, in words a prompt engineer can act on."""
    passed: bool | None = None
    """The metric's own opinion, where there is one beside the number."""
    details: Mapping[str, Json] = field(default_factory=dict[str, Json])

    @classmethod
    def of(cls, *, held: bool, reason: str = "", **details: Json) -> "Verdict":
        """1 or 0; the reason is kept only where it did not hold."""
        return cls(value=float(held), reason="" if held else reason, details=details)

    @classmethod
    def missing(cls, reason: str) -> "Verdict":
        """No score, and why."""
        return cls(value=None, reason=reason)


@dataclass(frozen=True, kw_only=True)
class TurnMetric(ABC):
    """Scores a case turn by turn: one score, or one a turn where there are several."""

    name: str
    threshold: float | None = None
    """From here on a score passes; without one the metric's own opinion counts, else above 0."""
    explicit: bool = False
    """Look only at turns that ask for this metric by name."""

    version: ClassVar[int] = 1
    """Raised when the same settings come to mean something else."""

    @property
    def fingerprint(self) -> str:
        """A hash of what it is and how it is set."""
        kind: type[Any] = type(self)
        return short_id([kind.__name__, self.version, codec(kind).encode(self)])

    def estimate(self, case: Case) -> Spend:
        """What scoring this case will cost; nothing for a metric that computes."""
        del case
        return NOTHING

    @abstractmethod
    async def verdict(self, exchange: Exchange, *, effects: Effects) -> Verdict | None:
        """What to say of one turn; None where the metric does not apply to it."""

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """A score for every turn that this metric has something to say about."""
        return await self.score_turns(exchanges(case, outcome), effects=effects)

    async def score_turns(
        self, turns: Sequence[Exchange], *, effects: Effects, several: bool | None = None
    ) -> list[Score]:
        """The same for some turns of a case; `several` says whether it has more than one."""
        seen = [exchange for exchange in turns if self.looks_at(exchange)]
        verdicts = await self.verdicts(seen, effects=effects)
        named = len(turns) > 1 if several is None else several
        return [
            self._score(verdict, exchange.index if named else None)
            for exchange, verdict in zip(seen, verdicts, strict=True)
            if verdict is not None
        ]

    async def verdicts(
        self, seen: Sequence[Exchange], *, effects: Effects
    ) -> Sequence[Verdict | None]:
        """What to say of each turn."""
        return [await self.verdict(exchange, effects=effects) for exchange in seen]

    def looks_at(self, exchange: Exchange) -> bool:
        """Whether the turn asks for this metric, or for none in particular."""
        named = exchange.turn.metrics
        return self.name in named or not (named or self.explicit)

    def passes(self, verdict: Verdict) -> bool | None:
        """The threshold decides, else the metric's own opinion, else any score above 0."""
        if verdict.value is None:
            return None
        if self.threshold is not None:
            return verdict.value >= self.threshold - EPSILON
        return verdict.value > 0 if verdict.passed is None else verdict.passed

    def _score(self, verdict: Verdict, turn: int | None) -> Score:
        return Score(
            metric=self.name,
            value=verdict.value,
            passed=self.passes(verdict),
            reason=verdict.reason,
            turn=turn,
            details=verdict.details,
        )


@dataclass(frozen=True, kw_only=True)
class ComputedMetric(TurnMetric):
    """A metric that asks nobody: its verdict is a function of the exchange."""

    @abstractmethod
    def compute(self, exchange: Exchange) -> Verdict | None:
        """What to say of one turn; None where the metric does not apply to it."""

    async def verdict(self, exchange: Exchange, *, effects: Effects) -> Verdict | None:
        """Compute it."""
        del effects
        return self.compute(exchange)
