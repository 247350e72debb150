"""A strategy over prompts or graphs, and what goes with it."""

from dataclasses import dataclass

from burnish.effects.budget import Budget
from burnish.models.calling import ModelClient
from burnish.runs.strategy import Strategy


@dataclass(frozen=True, kw_only=True)
class Searching:
    """A strategy, and what goes with it."""

    strategy: Strategy
    budget: Budget
    repeats: int
    client: ModelClient
    """Whoever writes prompts."""
    notes: tuple[str, ...] = ()
