"""The loss of a delegation: five signals, weighed; the same number that refine and training lower.

A signal that is missing counts as its neutral value, as in the system whose files these are; a
number that is no number is refused.
"""

import math
from dataclasses import dataclass

from burnish.core.content import Json

WEIGHTS = {
    "eval": 0.40,
    "critique": 0.30,
    "gate_reject": 0.15,
    "budget_burn": 0.05,
    "terminal": 0.10,
}
NEUTRAL = 0.5
_PENALTIES = {"complete": 0.0, "partial": 0.5, "failed": 1.0, "aborted": 1.0}


@dataclass(frozen=True, kw_only=True)
class Loss:
    """The parts, each from 0 to its weight, and their sum."""

    eval: float
    critique: float
    gate_reject: float
    budget_burn: float
    terminal: float

    @property
    def total(self) -> float:
        """From 0, which is perfect, to 1."""
        parts = (self.eval, self.critique, self.gate_reject, self.budget_burn, self.terminal)
        return math.fsum(parts)

    def to_json(self) -> dict[str, Json]:
        """By part, with the total."""
        parts: dict[str, Json] = {name: round(getattr(self, name), 6) for name in WEIGHTS}
        return {**parts, "total": round(self.total, 6)}


def delegation_loss(
    *,
    eval_score: float | None,
    critique_score: float | None,
    rejections: int,
    max_rejections: int,
    budget_remaining: float | None,
    status: str,
) -> Loss:
    """The loss of these signals; None is a signal that is missing. NaN is refused."""
    left = 1.0 if budget_remaining is None else _share("budget_remaining", budget_remaining)
    raw = {
        "eval": 1 - _or_neutral("eval_score", eval_score),
        "critique": 1 - _or_neutral("critique_score", critique_score),
        "gate_reject": min(1.0, rejections / max(1, max_rejections)),
        "budget_burn": 1 - left,
        "terminal": _PENALTIES.get(status, NEUTRAL),
    }
    return Loss(**{name: WEIGHTS[name] * value for name, value in raw.items()})


def _or_neutral(name: str, value: float | None) -> float:
    return NEUTRAL if value is None else _share(name, value)


def _share(name: str, value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{name} is {value}, which is no score")
    return min(1.0, max(0.0, value))
