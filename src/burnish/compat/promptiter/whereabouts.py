"""Which set, case and step a question of the strategy is about, in PromptIter's ids."""

from collections.abc import Mapping
from dataclasses import dataclass

from burnish.compat.promptiter.eval_stack import Home
from burnish.core.surfaces import Value
from burnish.strategies.backprop.packets import SurfaceGradient
from burnish.strategies.backprop.rounds import Round

NOWHERE = Home(eval_set="", case="")


@dataclass(kw_only=True)
class Whereabouts:
    """The round under way, and what can be found in it."""

    homes: Mapping[str, Home]
    round: Round | None = None

    def enter(self, found: Round) -> None:
        """Take in a round, or what more is known of it."""
        self.round = found

    def home(self, case: str) -> Home:
        """The set of a case, and what the case is called there."""
        return self.homes.get(case, NOWHERE)

    def gradients(self, surface: str) -> list[SurfaceGradient]:
        """What was said of a surface, in the order in which the aggregator is asked."""
        found = self.round.gradients if self.round is not None else ()
        return sorted((g for g in found if g.surface == surface), key=lambda g: g.order)

    def value(self, surface: str) -> Value | None:
        """The value that a surface has in this round."""
        return None if self.round is None else self.round.parent.values.get(surface)
