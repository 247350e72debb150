"""The strategy `backprop`: losses walked back through the trace, merged, patched.

    measure the baseline on holdout
    for each round:
        evaluate the incumbent on train; every failed metric is a loss where its run ended
        walk each run back: what is to blame here, and what to tell the steps before
        merge what was said of each surface, write one patch a surface
        does the patched candidate beat the incumbent on holdout?

This is PromptIter. What costs a packet there ends the run; here a role that fails costs what it
was asked about. A round without losses or without patches pays for no validation.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from burnish.core.cases import Split
from burnish.core.content import short_id
from burnish.core.errors import Problem
from burnish.core.protocols import Role, Target
from burnish.core.structures import Structured
from burnish.runs.events import SearchEnded
from burnish.runs.run import Run
from burnish.strategies.backprop.requirements import listed, require_known
from burnish.strategies.backprop.searching import Search
from burnish.strategies.backprop.settings import BackpropSettings
from burnish.strategies.backprop.watching import Stage, Watcher
from burnish.strategies.backprop.wording import (
    BackwardAnswer,
    BackwardRequest,
    MergeAnswer,
    MergeRequest,
    PatchAnswer,
    PatchRequest,
)

__all__ = ["Backprop", "Stage", "Watcher"]

VERSION = 1
_FREE = (
    "max_rounds",
    "max_rounds_without_acceptance",
    "target_score",
    "backward_parallelism",
    "aggregation_parallelism",
    "patch_parallelism",
)
"""Settings that say how far and how wide it goes: a resume may change them."""


@dataclass(frozen=True, kw_only=True)
class Backprop:
    """Back-propagation of losses over the steps of runs."""

    backwarder: Role[BackwardRequest, BackwardAnswer]
    aggregator: Role[MergeRequest, MergeAnswer]
    patcher: Role[PatchRequest, PatchAnswer]
    settings: BackpropSettings = field(default_factory=BackpropSettings)
    watch: Watcher | None = field(default=None, compare=False)
    name: str = "backprop"

    @property
    def fingerprint(self) -> str:
        """A hash of the settings that decide."""
        settings = {k: v for k, v in self.settings.model_dump().items() if k not in _FREE}
        return short_id([VERSION, settings])

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        """Backwarder, aggregator, patcher."""
        return [self.backwarder, self.aggregator, self.patcher]

    def targets(self, target: Target) -> list[str]:
        """The surfaces that may be patched."""
        wanted = self.settings.targets
        return [s.id for s in target.surfaces if s.id in wanted or not wanted]

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """There must be surfaces, those that are named among them, and the nodes that are named."""
        known = [surface.id for surface in target.surfaces]
        problems = [
            Problem(where=name, message="there is no such surface", remedy=listed(known))
            for name in self.settings.targets
            if name not in known
        ]
        if not known:
            problems.append(Problem(message="there is no surface to patch"))
        return [*problems, *self._unknown_nodes(target)]

    def _unknown_nodes(self, target: Target) -> list[Problem]:
        if not isinstance(target, Structured):
            return []
        nodes = sorted(node.id for node in target.structure.nodes)
        return [
            Problem(
                where=f"loss target of {metric}",
                message=f"there is no node '{node}'",
                remedy=listed(nodes),
            )
            for metric, node in self.settings.loss_targets.items()
            if node not in nodes
        ]

    async def search(self, run: Run) -> None:
        """Measure the baseline, then make rounds until there is a reason to stop."""
        require_known(run, self.settings)
        search = Search(
            run,
            self.settings,
            backwarder=self.backwarder,
            aggregator=self.aggregator,
            patcher=self.patcher,
            targets=self.targets(run.target),
            watch=self.watch,
        )
        if run.stop_reason(run.estimate(Split.HOLDOUT, repeats=self.settings.repeats)) is not None:
            return
        ended = await search.baseline()
        while not ended and run.stopped is None and run.stop_reason(search.need) is None:
            ended = await search.next()
        if ended:
            over = SearchEnded(cycle=search.number, reason=ended)
            run.tell(over, f"round:{search.number}:{ended}")
