"""The two roles of a textual phase, as the loaders of suites and of prompts make them."""

from dataclasses import dataclass

from burnish.models.roles import ModelRole
from burnish.runs.parts import reached
from burnish.strategies.coordinate.wording import CritiqueRequest, Edit, EditRequest, Gradient

__all__ = ["Writers", "reached"]


@dataclass(frozen=True, kw_only=True)
class Writers:
    """The two roles of a textual phase."""

    critic: ModelRole[CritiqueRequest, Gradient]
    applier: ModelRole[EditRequest, Edit]
