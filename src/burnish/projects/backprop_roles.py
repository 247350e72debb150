"""Who walks losses back, merges what was said and writes patches: models, seen to be in reach."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from burnish.models.factory import Models
from burnish.models.prompts import in_force
from burnish.models.references import ModelRef
from burnish.models.roles import ModelRole
from burnish.projects.backprop_block import ROLES
from burnish.runs.parts import reached
from burnish.strategies.backprop.settings import BackpropSettings
from burnish.strategies.backprop.strategy import Backprop
from burnish.strategies.backprop.wording import (
    AGGREGATOR,
    BACKWARDER,
    PATCHER,
    BackwardAnswer,
    BackwardRequest,
    MergeAnswer,
    MergeRequest,
    PatchAnswer,
    PatchRequest,
    aggregator,
    backwarder,
    patcher,
)


@dataclass(frozen=True, kw_only=True)
class Proposers:
    """The three roles of back-propagation."""

    backwarder: ModelRole[BackwardRequest, BackwardAnswer]
    aggregator: ModelRole[MergeRequest, MergeAnswer]
    patcher: ModelRole[PatchRequest, PatchAnswer]

    def strategy(self, settings: BackpropSettings) -> Backprop:
        """The search that they propose for."""
        return Backprop(
            backwarder=self.backwarder,
            aggregator=self.aggregator,
            patcher=self.patcher,
            settings=settings,
        )


def proposers_of(
    named: Mapping[str, ModelRef], shared: ModelRef | None, models: Models, folder: Path
) -> Proposers:
    """The roles, seen to be within reach: each with its own model, or with the shared one."""
    prompts = {name: in_force(name, folder) for name in ROLES}
    refs = {**(dict.fromkeys(ROLES, shared) if shared else {}), **named}
    clients = {name: reached(models, refs[name], prompts[name]) for name in ROLES}
    return Proposers(
        backwarder=backwarder(clients[BACKWARDER], prompts[BACKWARDER]),
        aggregator=aggregator(clients[AGGREGATOR], prompts[AGGREGATOR]),
        patcher=patcher(clients[PATCHER], prompts[PATCHER]),
    )
