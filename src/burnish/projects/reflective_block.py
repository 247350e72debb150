"""The settings of reflective search as project and agent files say them."""

from dataclasses import fields, replace
from typing import Annotated

from pydantic import Field

from burnish.effects.budget import Budget
from burnish.strategies.reflective.settings import (
    MINIBATCH,
    FieldSelection,
    FrontierType,
    ParentSelection,
    ReflectiveSettings,
)
from burnish.system.settings import AtLeastOne, NoneOrMore, Settings

PATIENCE = 10
"""Trials in a row without an accept that end a search which nothing else would end."""
_GOALS = ("score_threshold", "pass_rate_threshold", "required_metrics", "metric_thresholds")


class ReflectiveBlock(Settings):
    """The settings of reflective search."""

    parent_selection: ParentSelection = "trail"
    field_selection: FieldSelection = "round_robin"
    frontier: FrontierType = "instance"
    minibatch: AtLeastOne = MINIBATCH
    history_top_k: Annotated[int, Field(ge=0, le=5)] = 2
    perfect_score: float = 1.0
    skip_perfect: bool = True
    merge: bool = False
    max_merges: NoneOrMore = 5
    merge_overlap: AtLeastOne = 5
    reuse: bool = True
    racing: bool = True
    proposals_per_round: AtLeastOne = 1

    def settings(self, *, repeats: int, fields: tuple[str, ...] = ()) -> ReflectiveSettings:
        """How the search goes about it."""
        return ReflectiveSettings(fields=fields, repeats=repeats, **self.model_dump())


def ending(budget: Budget) -> tuple[Budget, tuple[str, ...]]:
    """The budget, with patience where nothing would end the search, and what to say of that.

    A reflector never runs out of words, and a goal may never be reached.
    """
    limits = [getattr(budget, each.name) for each in fields(budget) if each.name not in _GOALS]
    if any(limit is not None for limit in limits):
        return budget, ()
    told = f"the search ends after {PATIENCE} trials in a row without an accept"
    return replace(budget, patience=PATIENCE), (f"no limit is set: {told}",)
