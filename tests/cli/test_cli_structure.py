"""`burnish structure`: what an agent is made of, for people and for programs."""

from pathlib import Path

from tests.cli.console import Burnish, refused, tree
from tests.projects.graph.graph_world import file, optimizer, write_world


def test_a_graph_as_a_tree(burnish: Burnish, tmp_path: Path) -> None:
    again = {"from": "writer", "to": "planner", "when": {"contains": "AGAIN"}}
    write_world(
        tmp_path,
        file(edges=["planner -> writer", again]),
        optimizer(targets=["planner#instruction"]),
    )
    before = tree(tmp_path)
    said = burnish("structure", "graph.yaml")
    assert said.code == 0
    assert "3 nodes, 2 edges, 1 of 10 positions may be changed" in said.lines[0]
    assert "shop/planner  agent, where it begins" in said.lines
    assert "    → shop/planner  when it contains 'AGAIN'" in said.lines
    words = {line.split()[0:2][-1]: line for line in said.lines if "*" in line}
    assert list(words) == ["#instruction"]
    assert "33 characters: Plan the answer to the question." in words["#instruction"]
    assert tree(tmp_path) == before


def test_a_graph_as_json_in_promptiters_own_terms(burnish: Burnish, tmp_path: Path) -> None:
    write_world(tmp_path)
    found = burnish("structure", "graph.yaml", "--json").json
    assert list(found) == ["structure"]
    structure = found["structure"]
    assert list(structure) == ["StructureID", "EntryNodeID", "Nodes", "Edges", "Surfaces"]
    assert structure["EntryNodeID"] == "shop/planner"
    assert structure["Edges"] == [{"FromNodeID": "shop/planner", "ToNodeID": "shop/writer"}]
    texts = {each["SurfaceID"]: each["Value"]["Text"] for each in structure["Surfaces"]}
    assert texts["shop/writer#instruction"] == "Write what the plan says."


def test_an_agent_is_a_graph_of_one(burnish: Burnish, tmp_path: Path) -> None:
    write_world(tmp_path)
    said = burnish("structure", "agents/planner.yaml")
    assert "1 node, 0 edges, 0 of 5 positions may be changed" in said.lines[0]
    assert "planner  agent, where it begins" in said.lines


def test_other_files_have_none(burnish: Burnish, tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text("kind: toy\n", encoding="utf-8")
    refused(burnish("structure", "toy.yaml"), "only graph files and agent files")
