"""Settings that several strategies share."""

from collections.abc import Collection
from dataclasses import fields, replace
from typing import Annotated

from pydantic import JsonValue

from burnish.journal.limits import Budget
from burnish.runs.spec import StrategySettings
from burnish.system.settings import Access, Door

_PATIENCE = 10
"""Trials in a row without an accept that end a search which nothing else would end."""
_GOALS = ("score_threshold", "pass_rate_threshold", "required_metrics", "metric_thresholds")


class PruningSettings(StrategySettings):
    """The settings of a strategy that prunes its winner."""

    # Off where nobody says: so were all runs from before there was such a pass. The dialects of
    # burnish switch it on when they describe a run.
    prune: Annotated[bool, Door(flag="*", http=Access.CLIENT)] = False
    """After the search, take out what is not missed: rules, demonstrations, numbers, hunks of
    files. Files of the kinds prompts, graph and task switch it on."""

    def fingerprinted(self, *, free: Collection[str] = ()) -> dict[str, JsonValue]:
        """The settings that decisions depend on: without those in `free`.

        A setting that is newer than a run and off is left out, so that the run can be resumed.
        """
        left_out = {*free} if self.prune else {*free, "prune"}
        return self.model_dump(exclude=left_out)


def budget_with_an_end(budget: Budget) -> tuple[Budget, tuple[str, ...]]:
    """The budget, with patience if nothing else would end the search, and a note about that.

    A model that writes never runs out of words, and a goal may never be reached.
    """
    limits = [getattr(budget, each.name) for each in fields(budget) if each.name not in _GOALS]
    if any(limit is not None for limit in limits):
        return budget, ()
    note = f"the search ends after {_PATIENCE} trials in a row without an accept"
    return replace(budget, patience=_PATIENCE), (f"no limit is set: {note}",)
