"""The surfaces of a graph as its file wants them, and what the file may call them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from burnish.core.surfaces import ChoiceSurface, NumberSurface, Surface, TextSurface
from burnish.projects.backprop_checks import near
from burnish.projects.gathering import Gathering
from burnish.projects.graph.graph_file import GraphOptimizerBlock
from burnish.targets.graph import Graph, all_surfaces, surfaces_of
from burnish.targets.graph.positions import node_id, positions_of_graph

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class GraphSurfaces:
    """What may be edited, and which of it is to be."""

    surfaces: tuple[Surface, ...]
    targets: tuple[str, ...]
    """All of them where the file names none."""

    def texts(self) -> tuple[str, ...]:
        """The texts among the targets."""
        return self._of(TextSurface)

    def numbers(self) -> tuple[str, ...]:
        """The numbers and choices among them."""
        return self._of(NumberSurface, ChoiceSurface)

    def others(self) -> tuple[str, ...]:
        """What is neither: demonstrations."""
        known = {*self.texts(), *self.numbers()}
        return tuple(name for name in self.targets if name not in known)

    def _of(self, *kinds: type[Surface]) -> tuple[str, ...]:
        found = {each.id for each in self.surfaces if isinstance(each, kinds)}
        return tuple(name for name in self.targets if name in found)


def spelled_out(block: GraphOptimizerBlock, graph: Graph) -> GraphOptimizerBlock:
    """The block with whole ids: the graph's name before `planner#instruction` may be left out."""
    known = [position.id for position in positions_of_graph(graph)]
    nodes = [node_id(graph, name) for name in graph.nodes]

    def whole(name: str, among: Sequence[str]) -> str:
        longer = node_id(graph, name) if "#" not in name else f"{graph.name}/{name}"
        return longer if name not in among and longer in among else name

    def by_surface(values: Mapping[str, T]) -> dict[str, T]:
        return {whole(name, known): value for name, value in values.items()}

    said = {
        "targets": tuple(whole(name, known) for name in block.targets),
        "choices": by_surface(block.choices),
        "ranges": by_surface(block.ranges),
        "loss_targets": {m: whole(node, nodes) for m, node in block.loss_targets.items()},
    }
    return block.model_copy(update=said)


def surfaces_for(
    block: GraphOptimizerBlock, graph: Graph, wrong: Gathering
) -> GraphSurfaces | None:
    """The surfaces; None, with what is wrong kept, where the file speaks of some that are not."""
    known = [position.id for position in positions_of_graph(graph)]
    before = len(wrong.problems)
    for key in ("targets", "choices", "ranges"):
        named: Sequence[str] | Mapping[str, object] = getattr(block, key)
        for place, name in enumerate(named):
            if name not in known:
                at = ("optimizer", key, place if key == "targets" else name)
                wrong.add(at, f"there is no surface '{name}'", near(name, known))
    if len(wrong.problems) > before:
        return None
    usual = [surface.id for surface in all_surfaces(graph)]
    names = list(dict.fromkeys([*usual, *block.targets]))
    found = wrong.of(
        ("optimizer",),
        lambda: surfaces_of(graph, names, choices=block.choices, ranges=block.ranges),
        None,
    )
    if found is None:
        return None
    there = tuple(surface.id for surface in found)
    return GraphSurfaces(surfaces=tuple(found), targets=block.targets or there)
