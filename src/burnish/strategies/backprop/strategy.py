"""The strategy `backprop`: its settings checked, its roles, its search."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from burnish.core.cases import Dataset, Split
from burnish.core.content import short_id
from burnish.core.errors import ConfigError, Problem
from burnish.core.gates import OfferRule
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Metric, Role, Target
from burnish.core.surfaces import DemosSurface, Structured
from burnish.models.references import ModelRef
from burnish.runs.events import ByLuck, SearchEnded
from burnish.runs.plugins import Building, RoleNeed, TargetParts
from burnish.runs.roles import GIVE_UP_AFTER
from burnish.runs.run import Run
from burnish.runs.setup import Proposed, ProposerEvidence, Tried
from burnish.strategies.backprop.backward import Learner
from burnish.strategies.backprop.packets import BackpropSettings, Round, shown_value
from burnish.strategies.backprop.prompts import (
    AGGREGATOR,
    BACKWARDER,
    PATCHER,
    BackwardAnswer,
    BackwardRequest,
    MergeAnswer,
    MergeRequest,
    PatchAnswer,
    PatchRequest,
)
from burnish.strategies.backprop.rounds import Patched, Patcher, RejectedPatches
from burnish.strategies.backprop.search import DRAWS, Search, Watcher
from burnish.strategies.partial_evaluations import Stopped
from burnish.system.config import dotted, near
from burnish.system.yaml import TreePath

_VERSION = 3
_FREE = (
    "max_rounds",
    "max_rounds_without_acceptance",
    "target_score",
    "backward_parallelism",
    "aggregation_parallelism",
    "patch_parallelism",
)
"""How far and how wide the search goes: a resume may change these settings."""


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
        return short_id([_VERSION, self.settings.model_dump(exclude={*_FREE})])

    @property
    def offer_rule(self) -> OfferRule:
        settings = self.settings
        if settings.gate == "min_gain":
            return OfferRule(tolerance=max(0.0, -settings.min_score_gain), accept_sigma=0.0)
        return OfferRule(accept_sigma=settings.accept_sigma, splits=settings.deciding)

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        return [self.backwarder, self.aggregator, self.patcher]

    def targets(self, target: Target) -> list[str]:
        targets = self.settings.targets
        return [s.id for s in target.surfaces if s.id in targets or not targets]

    def steerable(self, target: Target) -> Mapping[str, Sequence[str]]:
        """What people may send to a run."""
        targets = self.targets(target)
        kinds = {surface.id: surface for surface in target.surfaces}
        own = [name for name in targets if not isinstance(kinds[name], DemosSurface)]
        return {"try": own, "tell": (), "pin": targets}

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """The target must have surfaces, and the surfaces and nodes that are named."""
        problems = [each.problem for each in _unknown_parts(self.settings, target)]
        if not target.surfaces:
            problems.append(Problem(message="there is no surface to patch"))
        return problems

    async def search(self, run: Run) -> None:
        data = run.dataset
        problems = [
            Problem(where=name, message="back-propagation needs cases here")
            for name, cases in (("train", data.train), ("holdout", data.holdout))
            if not cases
        ]
        unknown = unknown_names(self.settings, run.target, run.setup.metrics, data)
        problems += [each.problem for each in unknown]
        if problems:
            raise ConfigError(problems)
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
        run.tell(ByLuck(words=self.settings.by_luck(data)), "by_luck")
        while not ended and run.stopped is None and run.stop_reason(search.need) is None:
            ended = await search.next()
        if ended:
            event = SearchEnded(cycle=search.number, reason=ended)
            run.tell(event, f"round:{search.number}:{ended}")


class BackpropProposer:
    """Patches what the walk back blames, for a search that combines proposers."""

    def __init__(self, run: Run, *, strategy: Backprop) -> None:
        structure = run.target.structure if isinstance(run.target, Structured) else None
        self._run = run
        self._rejected = RejectedPatches(secrets=run.secrets)
        self._learner = Learner(
            run,
            strategy.settings,
            strategy.backwarder,
            strategy.aggregator,
            targets=strategy.targets(run.target),
            structure=structure,
        )
        self._patcher = Patcher(
            run,
            strategy.patcher,
            self._rejected,
            structure=structure,
            parallel=strategy.settings.patch_parallelism,
        )
        self._failures = 0
        """Rounds in a row without a usable answer."""
        self._last = Patched()

    @property
    def need(self) -> Spend:
        """Nothing yet: what the walk costs is known once there are losses."""
        return NOTHING

    async def propose(self, evidence: ProposerEvidence) -> Proposed:
        """The incumbent with the patches for the failures of a minibatch."""
        self._last = Patched()
        if self._failures >= GIVE_UP_AFTER:
            return Proposed(nothing_left="patcher_failed")
        current = Round(number=evidence.round, parent=evidence.parent, train=evidence.before)
        current = self._learner.with_losses(current)
        if not current.losses:
            return Proposed(problems=(Problem(message="no run failed in a way to walk back"),))
        if self._run.stop_reason(self._learner.need(current)) is not None:
            raise Stopped
        draw = DRAWS * evidence.round
        current = await self._learner.walked(current, draw=draw)
        current = await self._learner.merged(current, draw=draw)
        merged = current.merged or {}
        free = {name: merged[name] for name in self._run.steering.free(merged)}
        (self._last,) = await self._patcher.patched(free, evidence.parent, sets=1, draw=draw)
        return self._proposed(current)

    def _proposed(self, current: Round) -> Proposed:
        patched = self._last
        proposals = (*current.proposals, *patched.proposals)
        failed = bool(proposals) and all(each.answer is None for each in proposals)
        self._failures = self._failures + 1 if failed else 0
        nothing = Problem(message="there is no patch to try")
        return Proposed(
            candidate=patched.on(current.parent) if patched.patches else None,
            touched=tuple(patch.surface for patch in patched.patches),
            proposals=proposals,
            problems=() if patched.patches else (nothing,),
            source={"reasons": {patch.surface: patch.reason for patch in patched.patches}},
        )

    def learn(self, tried: Tried) -> None:
        """Remember a patch that was no improvement by itself, for later requests."""
        if tried.accepted or len(self._last.patches) != 1:
            return
        (patch,) = self._last.patches
        why = tried.decision.reason if tried.decision else "; ".join(map(str, tried.problems))
        self._rejected.add(patch.surface, shown_value(patch.value), why)


_PANEL = "Graphs of agents"
_INSTEAD = ("proposer", "reflector", "critic")
ROLES = (
    RoleNeed(
        name="proposer",
        help="The model that walks losses back, merges and patches: provider:name.",
        instead=_INSTEAD[1:],
        panel=_PANEL,
    ),
    RoleNeed(
        name=BACKWARDER, help="The model that walks losses back.", instead=_INSTEAD, panel=_PANEL
    ),
    RoleNeed(
        name=AGGREGATOR, help="The model that merges gradients.", instead=_INSTEAD, panel=_PANEL
    ),
    RoleNeed(name=PATCHER, help="The model that writes patches.", instead=_INSTEAD, panel=_PANEL),
)


def role_models(building: Building, parts: TargetParts) -> dict[str, ModelRef | None]:
    """The model of each role: its own, else the proposer's, else the target's."""
    named = {need.name: building.named(need) for need in ROLES[1:]}
    if all(ref is not None for ref in named.values()):
        return named
    shared = building.writer(ROLES[0], parts)
    return {name: ref or shared for name, ref in named.items()}


def whole_names(settings: BackpropSettings, parts: TargetParts) -> BackpropSettings:
    """The settings with whole ids of surfaces and nodes, limited to what may be tuned."""
    names, targets = parts.short_names, settings.targets
    if not targets and parts.left_out:
        targets = tuple(s.id for s in parts.target.surfaces if s.id not in parts.left_out)
    goals = settings.loss_targets.items()
    return settings.model_copy(
        update={
            "targets": tuple(names.get(name, name) for name in targets),
            "loss_targets": {metric: names.get(node, node) for metric, node in goals},
        }
    )


@dataclass(frozen=True, kw_only=True)
class _UnknownName:
    """A name in the settings of something that does not exist."""

    at: TreePath
    message: str
    remedy: str

    @classmethod
    def check(
        cls, at: TreePath, name: str, known: Sequence[str], what: str
    ) -> "list[_UnknownName]":
        """Nothing if the name is known."""
        message = f"there is no {what} '{name}'"
        return [] if name in known else [cls(at=at, message=message, remedy=near(name, known))]

    @property
    def problem(self) -> Problem:
        """The same for an error."""
        return Problem(where=dotted(self.at), message=self.message, remedy=self.remedy)


def unknown_names(
    settings: BackpropSettings, target: Target, metrics: Sequence[Metric], dataset: Dataset
) -> Iterator[_UnknownName]:
    """Surfaces, nodes, metrics and cases that the settings name and that do not exist."""
    yield from _unknown_parts(settings, target)
    check, scores = _UnknownName.check, [metric.name for metric in metrics]
    for name in settings.guards.floors:
        yield from check(("guards", "floors", name), name, scores, "metric")
    for name in settings.loss_targets:
        yield from check(("loss_targets", name), name, scores, "metric")
    train, holdout = ([case.id for case in cases] for cases in (dataset.train, dataset.holdout))
    for place, hint in enumerate(settings.loss_hints):
        at = ("loss_hints", place)
        yield from check((*at, "metric"), hint.metric, scores, "metric")
        yield from check((*at, "case"), hint.case, train, "case of train")
    for place, name in enumerate(settings.guards.protected):
        yield from check(("guards", "protected", place), name, holdout, "case of holdout")


def _unknown_parts(settings: BackpropSettings, target: Target) -> Iterator[_UnknownName]:
    surfaces = [surface.id for surface in target.surfaces]
    for place, name in enumerate(settings.targets):
        yield from _UnknownName.check(("targets", place), name, surfaces, "surface")
    if isinstance(target, Structured):
        nodes = [each.id for each in target.structure.nodes]
        for metric, node in settings.loss_targets.items():
            yield from _UnknownName.check(("loss_targets", metric), node, nodes, "node")
