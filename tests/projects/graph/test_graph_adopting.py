"""Values of a graph put into the user's files: each where it stands, or none at all."""

from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import ConfigError
from burnish.core.surfaces import Change, Value
from burnish.projects import adopt
from burnish.projects.graph import GraphHomes
from tests.projects.graph.graph_world import PLAN, WRITE, file, write_world


def put(path: Path, **values: tuple[Value, Value]) -> dict[str, str]:
    """The files that change, by name, and what becomes of them; `__` stands for `#`."""
    changes = [
        Change(surface=f"shop/{name}".replace("__", "#"), before=before, after=after)
        for name, (before, after) in values.items()
    ]
    found = adopt.put(GraphHomes(path=path), changes)
    return {change.path.name: change.after.decode() for change in found}


def rich(data: dict[str, Any]) -> None:
    """Shared instructions and a skill, in files, and a writer whose text has a file as well."""
    data["global_instructions"] = {"file": "house.md"}
    data["nodes"]["writer"]["instructions"] = {"file": "writer.md"}
    data["nodes"]["writer"]["skills"] = ["skills/citing/SKILL.md"]


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    (tmp_path / "house.md").write_text("Be kind.\n", encoding="utf-8")
    (tmp_path / "writer.md").write_bytes(WRITE.encode() + b"\r\n")
    skill = tmp_path / "skills" / "citing"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: citing\n---\nCite.\n", encoding="utf-8")
    return write_world(tmp_path, rich)


def test_each_value_goes_where_it_stands(graph: Path) -> None:
    found = put(
        graph,
        planner__instruction=(f"{PLAN}\n", "Plan well.\n"),
        writer__instruction=(f"{WRITE}\r\n", "Write well.\n"),
        **{"writer__skill.citing": ("Cite.\n", "Cite each source.\n")},
    )
    assert found == {
        "planner.md": "Plan well.\n",
        "writer.md": "Write well.\r\n",
        "SKILL.md": "---\nname: citing\n---\nCite each source.\n",
    }


def test_what_all_agents_share_has_a_file_too(graph: Path) -> None:
    change = Change(surface="shop#global_instruction", before="Be kind.\n", after="Be brief.\n")
    (found,) = adopt.put(GraphHomes(path=graph), [change])
    assert (found.path.name, found.after) == ("house.md", b"Be brief.\n")


YAML = """\
kind: graph   # ours
name: 'shop'
nodes:
    writer:
        model: {provider: openai,   name: m, temperature: 0.5}

        instructions:
            inline: "Write."
"""


def test_only_the_line_that_must_change_does(tmp_path: Path) -> None:
    path = tmp_path / "graph.yaml"
    path.write_text(YAML, encoding="utf-8")
    found = put(path, writer__instruction=("Write.", "Write well."))
    assert found == {"graph.yaml": YAML.replace("Write.", "Write well.")}
    number = put(path, **{"writer__model.temperature": (0.5, 0.25)})
    old, new = (set(text.splitlines()) for text in (YAML, number["graph.yaml"]))
    assert [line.split()[-1] for line in new - old] == ["0.25}"]


def test_a_text_of_several_lines_is_written_as_such(tmp_path: Path) -> None:
    path = tmp_path / "graph.yaml"
    path.write_text(YAML, encoding="utf-8")
    found = put(path, writer__instruction=("Write.", "Write.\nWell.\n"))
    assert "inline: |\n                Write.\n                Well.\n" in found["graph.yaml"]
    assert "kind: graph   # ours\nname: 'shop'\n" in found["graph.yaml"]


def test_a_value_that_somebody_changed_meanwhile_is_refused(graph: Path) -> None:
    with pytest.raises(ConfigError, match="but was 'Something else' in the run"):
        put(graph, planner__instruction=("Something else", "Plan well.\n"))


def test_a_file_that_two_nodes_use_must_suit_both(tmp_path: Path) -> None:
    nodes = {name: {"agent": "agents/planner.yaml"} for name in ("planner", "writer")}
    path = write_world(tmp_path, file(nodes=nodes))
    before, after = f"{PLAN}\n", "Plan well.\n"
    with pytest.raises(ConfigError, match="planner, writer use this file"):
        put(path, planner__instruction=(before, after))
    both = put(path, planner__instruction=(before, after), writer__instruction=(before, after))
    assert both == {"planner.md": after}


def test_values_of_nested_agents_go_where_they_stand(tmp_path: Path) -> None:
    def nested(data: dict[str, Any]) -> None:
        writer = data["nodes"]["writer"]
        data["nodes"]["writer"] = {"cycle": {"draft": writer}, "max_iterations": 2}

    path = write_world(tmp_path, nested)
    found = put(
        path,
        **{
            "planner__instruction": (f"{PLAN}\n", "Plan well.\n"),
            "writer/draft__instruction": (WRITE, "Draft well."),
        },
    )
    assert found["planner.md"] == "Plan well.\n"
    assert "Draft well." in found[path.name]
    assert WRITE not in found[path.name]
