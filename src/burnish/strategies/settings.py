"""Settings that several strategies share."""

from collections.abc import Collection
from typing import Annotated

from pydantic import JsonValue

from burnish.runs.spec import StrategySettings
from burnish.system.settings import Access, Door


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
