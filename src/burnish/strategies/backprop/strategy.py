"""The strategy `backprop`: built from a description, checked, searched."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from burnish.core.cases import Dataset, Split
from burnish.core.content import short_id
from burnish.core.errors import ConfigError, Problem
from burnish.core.protocols import Metric, Role, Target
from burnish.core.structures import Structured
from burnish.models.references import ModelRef
from burnish.runs.events import SearchEnded
from burnish.runs.plugins import Building, RoleNeed, StrategyParts, TargetParts
from burnish.runs.run import Run
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
    aggregator,
    backwarder,
    patcher,
)
from burnish.strategies.backprop.search import Search, Watcher
from burnish.strategies.backprop.settings import BackpropSettings
from burnish.system.config_errors import near
from burnish.system.yaml import TreePath


def _require_known(run: Run, settings: BackpropSettings) -> None:
    """Refuse splits without cases, and names of cases and metrics that do not exist."""
    train = [case.id for case in run.dataset.train]
    holdout = [case.id for case in run.dataset.holdout]
    metrics = [metric.name for metric in run.setup.metrics]
    problems = [
        Problem(where=name, message="back-propagation needs cases here")
        for name, cases in (("train", train), ("holdout", holdout))
        if not cases
    ]
    hinted, guards = settings.loss_hints, settings.guards
    problems += _unknown("loss hint", "train case", (hint.case for hint in hinted), train)
    problems += _unknown("loss hint", "metric", (hint.metric for hint in hinted), metrics)
    problems += _unknown("loss target", "metric", settings.loss_targets, metrics)
    problems += _unknown("protected", "holdout case", guards.protected, holdout)
    problems += _unknown("floor", "metric", guards.floors, metrics)
    if problems:
        raise ConfigError(problems)


def _listed(names: Sequence[str]) -> str:
    """What there is, for whoever named something else."""
    return f"there are: {', '.join(names) or 'none'}"


def _unknown(
    where: str, what: str, names: Iterable[str], there: Collection[str]
) -> Iterator[Problem]:
    for name in dict.fromkeys(names):
        if name not in there:
            yield Problem(
                where=where, message=f"there is no {what} '{name}'", remedy=_listed([*there])
            )


# -- The strategy `backprop` ----------------------------------------------------------------------


_VERSION = 1
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
        return short_id([_VERSION, settings])

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        """Backwarder, aggregator, patcher."""
        return [self.backwarder, self.aggregator, self.patcher]

    def targets(self, target: Target) -> list[str]:
        """The surfaces that may be patched."""
        targets = self.settings.targets
        return [s.id for s in target.surfaces if s.id in targets or not targets]

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """There must be surfaces, those that are named among them, and the nodes that are named."""
        names = [surface.id for surface in target.surfaces]
        problems = [
            Problem(where=name, message="there is no such surface", remedy=_listed(names))
            for name in self.settings.targets
            if name not in names
        ]
        if not names:
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
                remedy=_listed(nodes),
            )
            for metric, node in self.settings.loss_targets.items()
            if node not in nodes
        ]

    async def search(self, run: Run) -> None:
        """Measure the baseline, then make rounds until there is a reason to stop."""
        _require_known(run, self.settings)
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


# -- Back-propagation from a description ----------------------------------------------------------


_PROPOSER = "proposer"
"""Who fills the roles that nobody is named for."""
_PANEL = "Graphs of agents"
_INSTEAD = (_PROPOSER, "reflector", "critic")
ROLES = (
    RoleNeed(
        name=_PROPOSER,
        help="Who walks back, merges and patches: provider:name.",
        instead=_INSTEAD[1:],
        panel=_PANEL,
    ),
    RoleNeed(name=BACKWARDER, help="Who walks losses back.", instead=_INSTEAD, panel=_PANEL),
    RoleNeed(name=AGGREGATOR, help="Who merges what was said.", instead=_INSTEAD, panel=_PANEL),
    RoleNeed(name=PATCHER, help="Who writes patches.", instead=_INSTEAD, panel=_PANEL),
)


def build(building: Building, parts: TargetParts) -> StrategyParts | None:
    """The search over a target; None, with what is wrong kept, where it cannot be."""
    settings = whole_names(building.spec.strategy.settings, parts)
    _check(building, parts, settings)
    clients = {
        name: None if ref is None else building.asked(name, ref)
        for name, ref in role_models(building, parts).items()
    }
    walking, merging, patching = (clients[name] for name in (BACKWARDER, AGGREGATOR, PATCHER))
    if walking is None or merging is None or patching is None:
        return None
    return StrategyParts(
        strategy=Backprop(
            backwarder=backwarder(*walking),
            aggregator=aggregator(*merging),
            patcher=patcher(*patching),
            settings=settings,
        ),
        client=patching[0],
    )


def role_models(building: Building, parts: TargetParts) -> dict[str, ModelRef | None]:
    """Who fills each role: whoever is named for it, else the proposer, else the target's own."""
    named = {need.name: building.named(need) for need in ROLES[1:]}
    if all(ref is not None for ref in named.values()):
        return named
    shared = building.writer(ROLES[0], parts)
    return {name: ref or shared for name, ref in named.items()}


def whole_names(settings: BackpropSettings, parts: TargetParts) -> BackpropSettings:
    """The settings with whole ids of surfaces and nodes; only what may be tuned is patched."""
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


def _check(building: Building, parts: TargetParts, settings: BackpropSettings) -> None:
    """Whether everything that the settings name is there."""
    for problem in unknown_names(settings, parts.target, parts.metrics, parts.dataset):
        path = ("strategy", "settings", *problem.at)
        building.problems.add(path, problem.message, problem.remedy)


@dataclass(frozen=True, kw_only=True)
class _UnknownName:
    """A name in the settings that stands for nothing."""

    at: TreePath
    """Where in the settings."""
    message: str
    remedy: str


def unknown_names(
    settings: BackpropSettings, target: Target, metrics: Sequence[Metric], dataset: Dataset
) -> Iterator[_UnknownName]:
    """Every name in the settings that stands for nothing: surfaces, nodes, metrics, cases."""
    surfaces = [surface.id for surface in target.surfaces]
    for place, name in enumerate(settings.targets):
        yield from _unknown_names(("targets", place), name, surfaces, "surface")
    scores = [metric.name for metric in metrics]
    for metric, node in settings.loss_targets.items():
        if isinstance(target, Structured):
            nodes = [each.id for each in target.structure.nodes]
            yield from _unknown_names(("loss_targets", metric), node, nodes, "node")
    for name in settings.guards.floors:
        yield from _unknown_names(("guards", "floors", name), name, scores, "metric")
    for name in settings.loss_targets:
        yield from _unknown_names(("loss_targets", name), name, scores, "metric")
    train, holdout = ([case.id for case in cases] for cases in (dataset.train, dataset.holdout))
    for place, hint in enumerate(settings.loss_hints):
        at = ("loss_hints", place)
        yield from _unknown_names((*at, "metric"), hint.metric, scores, "metric")
        yield from _unknown_names((*at, "case"), hint.case, train, "case of train")
    for place, name in enumerate(settings.guards.protected):
        yield from _unknown_names(("guards", "protected", place), name, holdout, "case of holdout")


def _unknown_names(
    at: TreePath, name: str, names: Sequence[str], what: str
) -> Iterator[_UnknownName]:
    if name not in names:
        yield _UnknownName(at=at, message=f"there is no {what} '{name}'", remedy=near(name, names))
