"""Who proposes next: a bandit over gain per call, and who stops because it does not pay."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

_WINDOW = 12
"""The latest tries of a proposer that count: what paid long ago may not pay any more."""


@dataclass(frozen=True, kw_only=True)
class ProposerTry:
    """One try of a proposer."""

    calls: int
    """Runs of cases and requests to roles."""
    gain: float | None = None
    """What an accepted candidate gained on holdout; None if it was not accepted."""


@dataclass(kw_only=True)
class Arm:
    """A proposer as the bandit sees it."""

    name: str
    tries: list[ProposerTry] = field(default_factory=list[ProposerTry])
    patience: int
    """Tries in a row without an accept after which it stops."""
    unpaid: int = 0
    """Tries in a row without an accept, since it began or began again."""
    exhausted: bool = False
    """Whether it has nothing to propose from this incumbent."""

    @property
    def stopped(self) -> bool:
        """Whether it has not paid for too long."""
        return self.unpaid >= self.patience

    @property
    def recent(self) -> list[ProposerTry]:
        return self.tries[-_WINDOW:]

    @property
    def gains(self) -> list[float]:
        """What its recent accepted candidates gained."""
        return [each.gain for each in self.recent if each.gain is not None]


class Bandit:
    """Thompson sampling over the gain per call.

    How often a proposer is accepted is drawn from what its recent tries allow (a Beta
    distribution), and multiplied by its mean gain over its mean cost. A proposer that has few
    tries is lent the mean of all as one more try.
    """

    def __init__(self, names: Sequence[str], *, patience: int) -> None:
        self.arms = {name: Arm(name=name, patience=patience) for name in names}

    def order(self, rng: random.Random) -> list[str]:
        """Who is to be asked, the most promising first; empty if nobody has anything to propose.

        Who has not had a try yet comes first. Where everybody has stopped, all begin again with
        twice the patience, so that the whole budget is used.
        """
        arms = [arm for arm in self.arms.values() if not arm.exhausted]
        if all(arm.stopped for arm in arms):
            for arm in arms:
                arm.unpaid, arm.patience = 0, 2 * arm.patience
        arms = [arm for arm in arms if not arm.stopped]
        values = {arm.name: self._draw(arm, rng) for arm in arms}
        return sorted(values, key=lambda name: (bool(self.arms[name].tries), -values[name]))

    def count(self, name: str, new: ProposerTry) -> bool:
        """Count a try; whether the proposer stops with it."""
        arm = self.arms[name]
        arm.tries.append(new)
        arm.unpaid = arm.unpaid + 1 if new.gain is None else 0
        return arm.stopped

    def exhaust(self, name: str) -> None:
        """Leave a proposer out until the incumbent changes."""
        self.arms[name].exhausted = True

    def renew(self) -> None:
        """The incumbent has changed, so everybody may have something to propose again."""
        for arm in self.arms.values():
            arm.exhausted = False

    def _draw(self, arm: Arm, rng: random.Random) -> float:
        tries, gains = arm.recent, arm.gains
        everyone = [each for other in self.arms.values() for each in other.recent]
        paid = [gain for other in self.arms.values() for gain in other.gains]
        usual_gain = sum(paid) / len(paid) if paid else 1.0
        usual_calls = sum(each.calls for each in everyone) / len(everyone) if everyone else 1.0
        accepted = rng.betavariate(1 + len(gains), 1 + len(tries) - len(gains))
        gain = (sum(gains) + usual_gain) / (len(gains) + 1)
        calls = (sum(each.calls for each in tries) + usual_calls) / (len(tries) + 1)
        return accepted * gain / max(1.0, calls)
