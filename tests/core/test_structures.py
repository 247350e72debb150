"""Structures: one id for one structure, names that cannot be mistaken, and what does not fit."""

from dataclasses import replace

import pytest

from burnish.core.errors import ConfigError
from burnish.core.surfaces import (
    Demonstration,
    Edge,
    Node,
    NodeKind,
    Position,
    Structure,
    SurfaceType,
    node_path,
    position_id,
)

NODES = [Node(id="g/a"), Node(id="g/b", kind=NodeKind.FUNCTION)]
EDGES = [Edge(source="g/a", to="g/b"), Edge(source="g/b", to="g/a")]
TEXT = Position(
    id="g/a#instruction", node="g/a", type=SurfaceType.INSTRUCTION, value="x", surface="s"
)
DEMOS = Position(
    id="g/a#few_shot",
    node="g/a",
    type=SurfaceType.FEW_SHOT,
    value=(Demonstration(input="q", output="a"),),
)


def test_the_id_does_not_depend_on_the_order_in_which_it_is_told() -> None:
    one = Structure.of("g/a", NODES, EDGES, [TEXT, DEMOS])
    other = Structure.of("g/a", NODES[::-1], [*EDGES[::-1], EDGES[0]], [DEMOS, TEXT])
    assert one == other
    assert one.id == other.id
    assert one.id.startswith("struct_")


@pytest.mark.parametrize(
    "changed",
    [
        Structure.of("g/b", NODES, EDGES, [TEXT]),
        Structure.of("g/a", NODES, EDGES[:1], [TEXT]),
        Structure.of("g/a", [NODES[0], Node(id="g/b")], EDGES, [TEXT]),
        Structure.of("g/a", NODES, EDGES, [replace(TEXT, value="y")]),
        Structure.of("g/a", NODES, EDGES, [replace(TEXT, about={"type": "object"})]),
        Structure.of("g/a", NODES, EDGES, [TEXT, DEMOS]),
    ],
)
def test_any_change_changes_the_id(changed: Structure) -> None:
    assert changed.id != Structure.of("g/a", NODES, EDGES, [TEXT]).id


def test_positions_are_found_by_id_and_by_the_surface_that_edits_them() -> None:
    made = Structure.of("g/a", NODES, EDGES, [TEXT, DEMOS])
    assert made.position("g/a#instruction") == made.of_surface("s") == TEXT
    assert made.of_surface("") is None
    assert made.position("g/b#instruction") is None


def test_everything_that_does_not_fit_is_said_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Structure.of(
            "nowhere",
            [*NODES, NODES[0]],
            [Edge(source="g/a", to="gone")],
            [TEXT, TEXT, replace(DEMOS, node="lost")],
        )
    said = str(caught.value)
    assert "two nodes are called 'g/a'" in said
    assert "two positions are called 'g/a#instruction'" in said
    assert "the entry 'nowhere' is not a node" in said
    assert "an edge names the node 'gone'" in said
    assert "a position names the node 'lost'" in said


def test_no_name_can_pretend_to_be_two() -> None:
    assert node_path("g", "a/b") == "g/a~1b"
    assert node_path("g", "a", "b") == "g/a/b"
    assert node_path("g", "a~1b") == "g/a~01b"
    assert node_path("g", "") == "g/_"
    assert position_id("g/a", SurfaceType.TOOL, "look_up") == "g/a#tool.look_up"
    assert position_id("g/a", SurfaceType.INSTRUCTION) == "g/a#instruction"
