"""Graph files: what is refused, and with which words; graphs that are told in Python."""

from pathlib import Path

import pytest

import burnish
from burnish.core.errors import ConfigError
from burnish.targets.graph import graph, load_graph
from burnish.targets.graph.files import flow_of
from tests.targets.graph.graph_world import echo, run, saying, write_support

HEAD = "kind: graph\nname: g\n"


def problems(folder: Path, text: str) -> list[str]:
    (folder / "graph.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_graph(folder / "graph.yaml")
    return [str(problem) for problem in caught.value.problems]


def test_unknown_keys_are_refused_with_the_nearest(tmp_path: Path) -> None:
    path = write_support(tmp_path)
    text = path.read_text(encoding="utf-8")
    text = text.replace("output:", "outputs:").replace("skills:", "skill:")
    found = problems(tmp_path, text.replace("when: {contains:", "when: {containing:"))
    assert any("unknown key 'outputs'" in each and "'output'" in each for each in found)
    assert any("unknown key 'skill'" in each and "'skills'" in each for each in found)
    assert any("graph.yaml:26 edges[4].when" in each for each in found)


def test_what_is_wrong_with_nodes_is_said_together(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        f"{HEAD}nodes:\n  a: {{agent: gone.yaml}}\n  b: {{python: 'nowhere:f'}}\n"
        "  question: {python: 'json:dumps'}\n  c:\n    model: {provider: openai, name: m}\n"
        "    instructions: {file: gone.md}\nedges:\n  - a to b\n"
        "  - {from: a, to: b, when: {matches: '('}}\n",
    )
    told = "\n".join(found)
    for part in ("nodes.a", "nodes.b", "nodes.question", "nodes.c", "edges[0]", "edges[1]"):
        assert f"graph.yaml {part}" in told, part


def test_a_graph_must_hang_together(tmp_path: Path) -> None:
    node = "{python: 'json:dumps'}"
    found = problems(
        tmp_path,
        f"{HEAD}entry: plan\noutput: last\nnodes:\n  planner: {node}\n"
        "  end: {python: 'json:dumps', input: '{question} {planer}'}\nedges: [planner -> edn]\n",
    )
    assert found == [
        "graph.yaml entry: there is no node 'plan' — did you mean 'planner'?",
        "graph.yaml output: there is no node 'last' — there are: planner, end",
        "graph.yaml edge planner -> edn: there is no node 'edn' — did you mean 'end'?",
        "graph.yaml nodes.end.input: the template has a place for 'planer', which is not a node — "
        "did you mean 'planner'?",
    ]
    alone = problems(tmp_path, f"{HEAD}nodes:\n  a: {node}\n  b: {node}\n")
    assert "nodes.b: it cannot be reached from the entry 'a'" in alone[0]


async def test_names_may_have_the_letters_of_any_language(tmp_path: Path) -> None:
    (tmp_path / "naming.py").write_text("def shout(text):\n    return text.upper()\n")
    node = "{python: 'naming:shout'"
    (tmp_path / "graph.yaml").write_text(
        f"{HEAD}nodes:\n  prüfer: {node}}}\n  план-2: {node}, input: 'so {{prüfer}}'}}\n"
        "edges: [prüfer -> план-2]\n",
        encoding="utf-8",
    )
    assert (await run(tmp_path / "graph.yaml")).replies == ("SO WHY?",)
    for name in ("plan/ner", "plan ner", "2nd", "question"):
        found = problems(tmp_path, f"{HEAD}nodes:\n  '{name}': {node}}}\n")
        assert "starts with a letter or _; `question` is reserved" in found[0]


def test_a_variable_that_many_nodes_use_is_missed_once(tmp_path: Path) -> None:
    node = "{model: {provider: openai, name: '${NOT_SET_HERE}'}, instructions: {inline: Go.}}"
    found = problems(tmp_path, f"{HEAD}nodes:\n  a: {node}\n  b: {node}\n")
    assert [each.partition(" — ")[0] for each in found] == [
        "graph.yaml.nodes.a.model.name: the environment variable NOT_SET_HERE is not set"
    ]


@pytest.mark.parametrize(
    ("node", "told"),
    [
        (
            "{agent: a.yaml, python: 'm:f'}",
            "give either agent, or python, or model and instructions",
        ),
        ("{model: {provider: openai, name: m}}", "needs model and instructions"),
        ("{python: 'm:f', skills: [s.md]}", "a function has no skills"),
    ],
)
def test_a_node_is_one_thing(tmp_path: Path, node: str, told: str) -> None:
    assert told in problems(tmp_path, f"{HEAD}nodes:\n  a: {node}\n")[0]


async def test_a_file_may_name_a_graph_in_python(tmp_path: Path) -> None:
    (tmp_path / "desk_graph.py").write_text(
        "import burnish\n\n"
        "made = burnish.graph('desk').node('a', lambda text: text.upper())\n\n"
        "def make():\n    return made\n\n"
        "def wrong():\n    return 3\n",
        encoding="utf-8",
    )
    path = tmp_path / "graph.yaml"
    for name in ("made", "make"):
        path.write_text(f"kind: graph\ngraph: {{python: 'desk_graph:{name}'}}\n", encoding="utf-8")
        assert (await run(path)).replies == ("WHY?",)
    found = problems(tmp_path, "kind: graph\ngraph: {python: 'desk_graph:wrong'}\n")
    assert "returned int, not a burnish.Graph" in found[0]
    both = problems(tmp_path, "kind: graph\nname: g\nentry: a\ngraph: {python: 'x:y'}\n")
    assert "a graph in Python defines these itself: entry" in both[0]


def test_python_refuses_what_is_no_node() -> None:
    assert isinstance(burnish.graph("g"), burnish.Graph)
    with pytest.raises(ConfigError, match="the node already exists"):
        saying("a").node("a", echo("a"))
    with pytest.raises(ConfigError, match="takes no argument"):
        graph("g").node("a", lambda: "x")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="give either `file`, or `model`"):
        graph("g").agent("a", instructions="Hi")
    with pytest.raises(ConfigError, match="give either `file`, or `model`"):
        graph("g").agent("a", file="a.yaml", tools=[len])
    with pytest.raises(ConfigError, match="did you mean"):
        graph("g").agent("a", model="opnai:m", instructions="Hi")
    with pytest.raises(ConfigError, match="the graph has no nodes"):
        flow_of(graph("g"))


def test_ways_back_are_found_from_the_entry() -> None:
    made = saying("b", "a", "c", entry="a").edge("a", "b").edge("b", "c").edge("c", ["a", "b"])
    flow = flow_of(made)
    assert flow.order == ("a", "b", "c")
    assert flow.back == {("c", "a"), ("c", "b")}
    assert flow.behind["c"] == {"a", "b"}
