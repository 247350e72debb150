"""Back-propagation from a description: what it names is there, and its three roles are asked."""

from collections.abc import Mapping, Sequence
from typing import Any

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
from burnish.system.config_words import near

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
    check = _Check(building)
    check.known(
        [surface.id for surface in parts.target.surfaces],
        "surface",
        {("targets", n): name for n, name in enumerate(settings.targets)},
    )
    if isinstance(parts.target, Structured):
        nodes = [node.id for node in parts.target.structure.nodes]
        goals = {("loss_targets", metric): node for metric, node in settings.loss_targets.items()}
        check.known(nodes, "node", goals)
    metrics = [metric.name for metric in parts.metrics]
    floors = {("guards", "floors", name): name for name in settings.guards.floors}
    check.known(metrics, "metric", floors)
    check.known(metrics, "metric", {("loss_targets", name): name for name in settings.loss_targets})
    hints = enumerate(settings.loss_hints)
    train, holdout = (
        [case.id for case in cases] for cases in (parts.dataset.train, parts.dataset.holdout)
    )
    for place, hint in hints:
        check.known(metrics, "metric", {("loss_hints", place, "metric"): hint.metric})
        check.known(train, "case of train", {("loss_hints", place, "case"): hint.case})
    protected = enumerate(settings.guards.protected)
    cases = {("guards", "protected", place): name for place, name in protected}
    check.known(holdout, "case of holdout", cases)


class _Check:
    """Keeps a problem for every name that stands for nothing."""

    def __init__(self, building: Building) -> None:
        self._problems = building.problems

    def known(self, known: Sequence[str], what: str, names: Mapping[Any, str]) -> None:
        """Each of these names, by its place in the settings, is one of those."""
        for at, name in names.items():
            if name not in known:
                path = ("strategy", "settings", *at)
                self._problems.add(path, f"there is no {what} '{name}'", near(name, known))
