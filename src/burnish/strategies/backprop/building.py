"""Back-propagation from a description: what it names is there, and its three roles are asked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from burnish.core.cases import Dataset
from burnish.core.protocols import Metric, Target
from burnish.core.structures import Structured
from burnish.models.references import ModelRef
from burnish.runs.parts import Building, RoleNeed, StrategyParts, TargetParts
from burnish.strategies.backprop.settings import BackpropSettings
from burnish.strategies.backprop.strategy import Backprop
from burnish.strategies.backprop.wording import (
    AGGREGATOR,
    BACKWARDER,
    PATCHER,
    aggregator,
    backwarder,
    patcher,
)
from burnish.system.config_errors import near
from burnish.system.yaml import TreePath

PROPOSER = "proposer"
"""Who fills the roles that nobody is named for."""
_PANEL = "Graphs of agents"
_INSTEAD = (PROPOSER, "reflector", "critic")
ROLES = (
    RoleNeed(
        name=PROPOSER,
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
    asked = {
        name: None if ref is None else building.asked(name, ref)
        for name, ref in role_models(building, parts).items()
    }
    walking, merging, patching = (asked[name] for name in (BACKWARDER, AGGREGATOR, PATCHER))
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
class UnknownName:
    """A name in the settings that stands for nothing."""

    at: TreePath
    """Where in the settings."""
    message: str
    remedy: str


def unknown_names(
    settings: BackpropSettings, target: Target, metrics: Sequence[Metric], dataset: Dataset
) -> Iterator[UnknownName]:
    """Every name in the settings that stands for nothing: surfaces, nodes, metrics, cases."""
    surfaces = [surface.id for surface in target.surfaces]
    for place, name in enumerate(settings.targets):
        yield from _unknown(("targets", place), name, surfaces, "surface")
    scores = [metric.name for metric in metrics]
    for metric, node in settings.loss_targets.items():
        if isinstance(target, Structured):
            nodes = [each.id for each in target.structure.nodes]
            yield from _unknown(("loss_targets", metric), node, nodes, "node")
    for name in settings.guards.floors:
        yield from _unknown(("guards", "floors", name), name, scores, "metric")
    for name in settings.loss_targets:
        yield from _unknown(("loss_targets", name), name, scores, "metric")
    train, holdout = ([case.id for case in cases] for cases in (dataset.train, dataset.holdout))
    for place, hint in enumerate(settings.loss_hints):
        at = ("loss_hints", place)
        yield from _unknown((*at, "metric"), hint.metric, scores, "metric")
        yield from _unknown((*at, "case"), hint.case, train, "case of train")
    for place, name in enumerate(settings.guards.protected):
        yield from _unknown(("guards", "protected", place), name, holdout, "case of holdout")


def _unknown(at: TreePath, name: str, known: Sequence[str], what: str) -> Iterator[UnknownName]:
    if name not in known:
        yield UnknownName(at=at, message=f"there is no {what} '{name}'", remedy=near(name, known))
