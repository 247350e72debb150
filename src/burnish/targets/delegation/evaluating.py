"""Evaluation of a whole delegation: each metric's score and threshold, and zones on the total."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from burnish.core.content import Json
from burnish.targets.delegation.desk import Desk
from burnish.targets.delegation.words import Defect

Action: TypeAlias = Literal["accept", "pass", "retry", "fail", "cannot_tell"]


@dataclass(frozen=True, kw_only=True)
class Zones:
    """What the total score means."""

    accept: float = 0.85
    retry: float = 0.65
    """Below it a completion is sent back."""
    fail: float = 0.40
    """Below it the run has failed."""


@dataclass(frozen=True, kw_only=True)
class Final:
    """What metrics look at."""

    task: str
    result: str
    confidence: float | None
    files: Mapping[str, bytes]
    declared: tuple[str, ...]
    defects: tuple[Defect, ...]
    """Those that the last critiques found."""
    remaining: float
    """The share of the budget that is left."""
    draw: int
    """Which attempt to complete this is."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one metric said; no score and an error where it could not."""

    name: str
    kind: str
    score: float | None
    weight: float
    threshold: float
    evidence: str = ""
    error: str = ""

    def to_json(self) -> Json:
        """As evaluations list it."""
        return dict(vars(self))


class DelegationMetric(Protocol):
    """Scores a finished delegation from 0 to 1."""

    @property
    def name(self) -> str:
        """What the evaluation calls it."""
        ...

    @property
    def kind(self) -> str:
        """Which kind of metric it is."""
        ...

    @property
    def weight(self) -> float:
        """Its part in the total."""
        ...

    @property
    def threshold(self) -> float | None:
        """What it should reach; None takes what the total should reach."""
        ...

    @property
    def asks(self) -> bool:
        """Whether it asks a model, which a used-up budget forbids."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of its settings."""
        ...

    async def score(self, final: Final, desk: Desk) -> tuple[float, str]:
        """A score, and what it rests on in words. Raises CannotScore."""
        ...


class CannotScore(Exception):
    """There is no score, and this is why."""


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """What all metrics said."""

    measured: tuple[Measured, ...]
    zones: Zones = field(default_factory=Zones)

    @property
    def total(self) -> float | None:
        """The weighted mean of the scores that there are."""
        found = [(each.score, each.weight) for each in self.measured if each.score is not None]
        weight = math.fsum(each for _, each in found)
        if not weight:
            return None
        return math.fsum(score * each for score, each in found) / weight

    @property
    def missing(self) -> tuple[str, ...]:
        """The metrics without a score."""
        return tuple(each.name for each in self.measured if each.score is None)

    @property
    def action(self) -> Action:
        """What follows from the total. With a metric missing nobody can tell."""
        total = self.total
        if total is None or self.missing:
            return "cannot_tell"
        if total < self.zones.fail:
            return "fail"
        if total < self.zones.retry:
            return "retry"
        return "accept" if total >= self.zones.accept else "pass"

    @property
    def per_metric(self) -> dict[str, float]:
        """The scores that there are."""
        return {each.name: each.score for each in self.measured if each.score is not None}

    def to_json(self) -> dict[str, Json]:
        """As run_completion.json has it."""
        total = self.total
        return {
            "total_score": None if total is None else round(total, 6),
            "per_metric": dict[str, Json](self.per_metric),
            "thresholds": {each.name: each.threshold for each in self.measured},
            "zones": dict(vars(self.zones)),
            "action": self.action,
            "missing": list(self.missing),
            "metrics": [each.to_json() for each in self.measured],
        }


async def measure(
    metrics: Sequence[DelegationMetric], final: Final, desk: Desk, zones: Zones
) -> Evaluated:
    """Ask every metric, one after the other."""
    found = [await _measured(metric, final, desk, zones) for metric in metrics]
    return Evaluated(measured=tuple(found), zones=zones)


async def _measured(metric: DelegationMetric, final: Final, desk: Desk, zones: Zones) -> Measured:
    score, evidence, error = None, "", ""
    try:
        _require_room(metric, desk)
        value, evidence = await metric.score(final, desk)
        score = usable(value)
    except CannotScore as trouble:
        error = str(trouble)
    return Measured(
        name=metric.name,
        kind=metric.kind,
        score=score,
        weight=metric.weight,
        threshold=zones.accept if metric.threshold is None else metric.threshold,
        evidence=evidence,
        error=error,
    )


def _require_room(metric: DelegationMetric, desk: Desk) -> None:
    if metric.asks and (reason := desk.tally.no_more_calls()):
        raise CannotScore(f"the budget is used up: {reason}")


def usable(value: float) -> float:
    """The score, if it is one: NaN and what is not from 0 to 1 is refused, never bent."""
    if not math.isfinite(value) or not 0 <= value <= 1:
        raise CannotScore(f"{value} is no score from 0 to 1")
    return float(value)
