"""The metric `delegation_loss`: 1 minus the loss of a delegation, with what was wrong in words."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from burnish.core.cases import Case
from burnish.core.content import short_id
from burnish.core.effects import Effects
from burnish.core.money import NOTHING, Spend
from burnish.core.outcomes import Outcome
from burnish.core.scores import Score
from burnish.targets.delegation.loss import WEIGHTS
from burnish.targets.delegation.outcomes import DelegationFacts

NAME = "delegation_loss"
_VERSION = 1
_SPOILING = ("defect [critical]", "defect [warning]", "gate ", "metric ")


@dataclass(frozen=True, kw_only=True)
class DelegationLoss:
    """Scores a delegation by the five signals of its loss; a case may weigh them in its own way.

    It passes when it was completed and nobody had anything worse than a remark.
    """

    name: str = NAME

    @property
    def fingerprint(self) -> str:
        """A hash of how it weighs; weights of a case are in the case."""
        return short_id([NAME, _VERSION, dict(WEIGHTS)])

    def estimate(self, case: Case) -> Spend:
        """It only computes."""
        del case
        return NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """1 − loss, and why it is no better."""
        del effects
        if not outcome.measures.keys() >= WEIGHTS.keys():
            return [Score.of_nothing(self.name, "there are no signals of a delegation")]
        facts = DelegationFacts.of(outcome)
        parts = weighed(outcome.measures, weights_of(case))
        loss = min(1.0, math.fsum(parts.values()))
        shares = ", ".join(f"{name} {value:.3f}" for name, value in parts.items())
        head = f"loss {loss:.3f} ({shares}); {facts.status}: {facts.reason}"
        spoiled = any(line.startswith(_SPOILING) for line in facts.told)
        return [
            Score(
                metric=self.name,
                value=1 - loss,
                passed=facts.status == "complete" and not spoiled,
                reason="\n".join([head, *facts.told]),
                details={name: round(value, 6) for name, value in parts.items()},
            )
        ]


def weighed(signals: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    """The parts of the loss: each signal, which is from 0 to 1, times its weight."""
    return {name: weight * signals[name] for name, weight in weights.items()}


def weights_of(case: Case) -> dict[str, float]:
    """How a case weighs the signals; as always where it does not say."""
    own = case.turns[0].settings.get("weights")
    said = own if isinstance(own, dict) else {}
    return {**WEIGHTS, **{n: float(w) for n, w in said.items() if isinstance(w, int | float)}}
