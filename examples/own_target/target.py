"""A target of its own: what may be edited, and how one case is run."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from searching import ARTICLES, search

from burnish import (
    Candidate,
    Case,
    ChoiceSurface,
    Description,
    Effects,
    NumberSurface,
    Origin,
    Outcome,
    Problem,
    Receipt,
    Spend,
)
from burnish.core.surfaces import Surface


@dataclass(frozen=True, kw_only=True)
class HelpSearch:
    """The search over help articles, with its four settings as surfaces."""

    seconds: float = 0.01
    """A pause in each call, since a real agent is not instant."""
    leaf: bool = True
    """One run is one paid call, so the run itself carries the cost."""

    @property
    def description(self) -> Description:
        """Everything the result depends on, apart from candidate and case."""
        return Description(kind="help search", config={"articles": {**ARTICLES}, "version": 1})

    @property
    def surfaces(self) -> Sequence[Surface]:
        """What may be edited, each with its bounds."""
        return (
            NumberSurface(id="title_weight", low=0.0, high=4.0, step=0.5),
            ChoiceSurface(id="skip_common", choices=(True, False)),
            ChoiceSurface(id="cut_endings", choices=(True, False)),
            ChoiceSurface(id="rare_first", choices=(True, False)),
        )

    @property
    def baseline(self) -> Candidate:
        """The settings it has now."""
        now = {"title_weight": 0.0, "skip_common": False, "cut_endings": False}
        return Candidate(values={**now, "rare_first": False}, origin=Origin(kind="baseline"))

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        """Nothing to say beyond the bounds, which are checked before."""
        del candidate
        return ()

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        """Search. An exception here is the agent's own failure: it scores 0."""
        del draw, effects
        await asyncio.sleep(self.seconds)
        values = candidate.values
        weight = values["title_weight"]
        assert isinstance(weight, int | float)
        found = search(
            case.input,
            title_weight=weight,
            skip_common=bool(values["skip_common"]),
            cut_endings=bool(values["cut_endings"]),
            rare_first=bool(values["rare_first"]),
        )
        outcome = Outcome(replies=(found[0],), data=[*found])
        return Receipt(value=outcome, spend=self.estimate(case))

    def estimate(self, case: Case) -> Spend:
        """One call, free of charge."""
        del case
        return Spend(calls=1)

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """The settings as a file to copy; it refers to nothing, so where it lies is no matter."""
        del home
        text = json.dumps(dict(candidate.values), indent=2, sort_keys=True)
        return {"settings.json": f"{text}\n".encode()}
