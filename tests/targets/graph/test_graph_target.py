"""A graph as a target: its surfaces and structure, candidates that reach requests, exports."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from burnish.core.cases import Case
from burnish.core.content import Json
from burnish.core.errors import ConfigError
from burnish.core.protocols import Call, Receipt, Scope, calls_function
from burnish.core.surfaces import (
    Candidate,
    ChoiceSurface,
    Demonstration,
    NodeKind,
    NumberSurface,
    Origin,
    Structured,
    TextSurface,
    Value,
)
from burnish.journal.once import DirectEffects, Rehearsal
from burnish.targets.graph import (
    Graph,
    GraphTarget,
    NodeInput,
    all_surfaces,
    graph,
    load_graph,
    surfaces_of,
)
from burnish.testing import check_target
from tests.targets.agent_world import scripted, uses, write_agent
from tests.targets.agent_world import target as agent_target
from tests.targets.graph.graph_world import (
    changed,
    heard,
    revising_once,
    run,
    speaker,
    target_of,
    write_support,
)

T = TypeVar("T")

CHOICES = {"support/compose#model": ["openai:big", "anthropic:other"]}
RANGES = {
    "support/compose#model.temperature": (0.0, 1.0),
    "support/compose#model.max_tokens": (1, 2000),
}
DEMO = Demonstration(input="Hi?", output="Ho.")
NEW: dict[str, Value] = {
    "support#global_instruction": "Be brief.",
    "support/planner#instruction": "You are planner. Plan well.",
    "support/planner#few_shot": (DEMO,),
    "support/planner#tool.look": "Look it up in the book",
    "support/compose#instruction": "You are compose. Write well.",
    "support/compose#skill.citing": "Cite books.",
    "support/compose#model": "openai:big",
    "support/compose#model.temperature": 0.9,
    "support/reviewer#instruction": "You are reviewer. Read well.",
}


def full(path: Path) -> GraphTarget:
    read = load_graph(path)
    surfaces = surfaces_of(read, choices=CHOICES, ranges=RANGES)
    return target_of(read, revising_once(), surfaces)[0]


async def test_the_contract(tmp_path: Path) -> None:
    target = full(write_support(tmp_path))
    await check_target(target, [Case.single("Why?"), Case.single("How?")])
    assert isinstance(target, Structured)
    assert target.estimate(Case.single("Why?")).calls == 5
    await target.close()


def test_every_text_and_demos_is_a_surface(tmp_path: Path) -> None:
    found = {surface.id: surface for surface in all_surfaces(load_graph(write_support(tmp_path)))}
    assert [name for name in found if "compose" in name or "planner" in name] == [
        "support/planner#instruction",
        "support/planner#few_shot",
        "support/planner#tool.look",
        "support/compose#instruction",
        "support/compose#few_shot",
        "support/compose#skill.citing",
    ]
    shared = found["support#global_instruction"]
    assert isinstance(shared, TextSurface)
    assert shared.max_chars == 2000


def test_surfaces_by_name_with_choices_and_ranges(tmp_path: Path) -> None:
    read = load_graph(write_support(tmp_path))
    found = surfaces_of(read, ["support/rewrite#instruction"], choices=CHOICES, ranges=RANGES)
    assert [surface.kind for surface in found] == ["text", "choice", "number", "number"]
    choice, number, whole = found[1:]
    assert isinstance(choice, ChoiceSurface)
    assert choice.choices == ("openai:m", "openai:big", "anthropic:other")
    assert isinstance(number, NumberSurface)
    assert isinstance(whole, NumberSurface)
    assert (number.integer, whole.integer) == (False, True)
    with pytest.raises(ConfigError) as caught:
        surfaces_of(
            read,
            ["support/rewrit#instruction", "planner#instruction", "support/compose#model"],
            ranges={"support/rewrite#model.temperature": (0.5, 1)},
        )
    told = str(caught.value)
    assert "did you mean 'support/rewrite#instruction'?" in told
    assert "did you mean 'support/planner#instruction'?" in told
    assert "a model needs choices" in told
    assert "0.3 is outside [0.5, 1]" in told


async def test_values_reach_the_requests_and_steps_name_their_surfaces(tmp_path: Path) -> None:
    read = load_graph(write_support(tmp_path))
    surfaces = surfaces_of(read, choices=CHOICES, ranges=RANGES)
    target, backend = target_of(read, revising_once(), surfaces)
    candidate = changed(target.baseline, NEW)
    assert not target.check(candidate)
    receipt = await target.run(candidate, Case.single("Why?"), draw=0, effects=DirectEffects())
    first = {speaker(r): r for r in reversed(backend.asked)}
    planner, compose = first["planner"], first["compose"]
    assert planner.messages[0].content == "Be brief.\n\nYou are planner. Plan well."
    assert [m.content for m in planner.messages[1:]] == ["Hi?", "Ho.", "Why?"]
    assert planner.tools[0].description == "Look it up in the book"
    assert compose.messages[0].content == (
        "Be brief.\n\nYou are compose. Write well.\n\n# Skill: citing\n\nCite books."
    )
    steps = {step.id: step.surfaces for step in receipt.value.trace.steps}
    assert steps["retrieve:1"] == ()
    assert steps["rewrite:1"] == (
        "support#global_instruction",
        "support/rewrite#instruction",
        "support/rewrite#few_shot",
    )


def test_the_structure_tells_nodes_edges_and_positions(tmp_path: Path) -> None:
    path = write_support(tmp_path)
    structure = full(path).structure
    assert structure.id == full(path).structure.id
    assert structure.entry == "support/planner"
    kinds = {node.id: node.kind for node in structure.nodes}
    assert kinds["support/retrieve"] is NodeKind.FUNCTION
    assert len(structure.edges) == 7
    look = structure.position("support/planner#tool.look")
    assert look is not None
    assert (look.value, look.surface, look.part) == ("Look it up", look.id, "look")
    assert isinstance(look.about, dict)
    assert isinstance(look.about["parameters"], dict)
    top = structure.position("support/rewrite#model.temperature")
    assert top is not None
    assert (top.value, top.surface) == (0.3, "")


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("graph.yaml", "You are rewrite.", "You rewrite."),
        ("graph.yaml", "Be kind.", "Be nice."),
        ("graph.yaml", "temperature: 0.5", "temperature: 0.6"),
        ("graph.yaml", "  - {from: rewrite, to: planner}\n", "  - rewrite -> compose\n"),
        ("agents/planner.yaml", "Look it up,", "Find it,"),
        ("agents/planner.yaml", "name: m}", "name: n}"),
        ("prompts/compose.md", "You are", "Be"),
        ("skills/citing/SKILL.md", "Cite", "Name"),
    ],
)
def test_the_structure_changes_with_any_value(
    tmp_path: Path, file: str, old: str, new: str
) -> None:
    path = write_support(tmp_path)
    before = target_of(path)[0]
    text = (tmp_path / file).read_text(encoding="utf-8")
    assert old in text
    (tmp_path / file).write_text(text.replace(old, new), encoding="utf-8")
    after = target_of(path)[0]
    assert after.structure.id != before.structure.id
    assert after.description.fingerprint != before.description.fingerprint


@pytest.mark.parametrize("home", [".", "runs/candidates/iter-01"])
async def test_an_export_loads_and_is_the_same_structure(tmp_path: Path, home: str) -> None:
    path = write_support(tmp_path)
    target = full(path)
    before = contents(tmp_path)
    files = target.export(changed(target.baseline, NEW), tmp_path / home)
    assert contents(tmp_path) == before
    assert set(files) == {
        *("graph.yaml", "agents/planner.yaml"),
        *("prompts/plan.md", "prompts/compose.md", "skills/citing/SKILL.md"),
    }
    for name, content in files.items():
        (tmp_path / home / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / home / name).write_bytes(content)
    again = reloaded(tmp_path / home / "graph.yaml")
    values = {name: again.structure.position(name) for name in NEW}
    assert {name: p.value for name, p in values.items() if p} == NEW
    text = files["graph.yaml"].decode()
    assert "# The support desk. This comment stays." in text
    assert "# writes" in text
    assert '"${DESK_KEY}"' in text
    assert files["prompts/plan.md"].startswith(b"---\nversion: 2\n---\n")
    assert (await run(again)).replies == ("finalize done",)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def reloaded(path: Path) -> GraphTarget:
    return target_of(path, revising_once())[0]


async def test_an_export_of_the_baseline_is_the_same_structure(tmp_path: Path) -> None:
    target = full(write_support(tmp_path))
    home = tmp_path / "runs" / "a"
    files = target.export(target.baseline, home)
    assert set(files) == {"graph.yaml"}
    home.mkdir(parents=True)
    (home / "graph.yaml").write_bytes(files["graph.yaml"])
    again = reloaded(home / "graph.yaml")
    assert again.structure.id == target_of(tmp_path / "graph.yaml")[0].structure.id


def test_two_nodes_of_one_file_part_ways_in_an_export(tmp_path: Path) -> None:
    path = write_support(tmp_path)
    path.write_text(
        "kind: graph\nname: g\nnodes:\n  one: {agent: agents/planner.yaml}\n"
        "  two: {agent: agents/planner.yaml}\nedges: [one -> two]\n",
        encoding="utf-8",
    )
    target = target_of(path, surfaces=all_surfaces(load_graph(path)))[0]
    new: dict[str, Value] = {"g/one#instruction": "First.", "g/two#instruction": "Second."}
    home = tmp_path / "out"
    for name, content in target.export(changed(target.baseline, new), home).items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(content)
    structure = target_of(home / "graph.yaml")[0].structure
    found = {name: structure.position(name) for name in new}
    assert {name: p.value for name, p in found.items() if p} == new


ALIASES = """\
kind: graph
name: g
nodes:
  one: &one
    model: {provider: openai, name: m, temperature: 0.5}
    instructions: {inline: You are one.}
    tools: &tools
      - {name: look, type: function, description: Look, file: desk.py, function: look}
  two:
    <<: *one
    instructions: {inline: You are two.}
  three: {model: {provider: openai, name: m}, instructions: {inline: Three.}, tools: *tools}
edges: [one -> two -> three]
"""


def test_nodes_that_share_a_block_part_ways_in_an_export(tmp_path: Path) -> None:
    path = write_support(tmp_path)
    path.write_text(ALIASES, encoding="utf-8")
    target = target_of(path, surfaces=all_surfaces(load_graph(path)))[0]
    new: dict[str, Value] = {f"g/{n}#tool.look": f"Look as {n}" for n in ("one", "two", "three")}
    home = tmp_path / "out"
    home.mkdir()
    files = target.export(changed(target.baseline, new), home)
    (home / "graph.yaml").write_bytes(files["graph.yaml"])
    structure = target_of(home / "graph.yaml")[0].structure
    found = {name: structure.position(name) for name in new}
    assert {name: p.value for name, p in found.items() if p} == new


def test_another_provider_leaves_the_key_of_the_old_one_behind(tmp_path: Path) -> None:
    target = full(write_support(tmp_path))
    other = changed(target.baseline, {"support/compose#model": "anthropic:other"})
    assert not target.check(other)
    text = target.export(other, tmp_path)["graph.yaml"].decode()
    assert "provider: anthropic, name: other" in text
    assert "DESK_KEY" not in text


@pytest.mark.parametrize("spelling", ["base_url", "endpoint"])
def test_another_provider_leaves_the_address_of_the_old_one_behind(
    tmp_path: Path, spelling: str
) -> None:
    path = write_support(tmp_path)
    text = path.read_text(encoding="utf-8")
    address = f'{spelling}: "http://127.0.0.1:9/v1", api_key: "${{DESK_KEY}}"'
    path.write_text(text.replace('api_key: "${DESK_KEY}"', address), encoding="utf-8")
    target = full(path)
    other = changed(target.baseline, {"support/compose#model": "anthropic:other"})
    assert not target.check(other)
    new = target.export(other, tmp_path)["graph.yaml"].decode()
    assert "127.0.0.1" not in new
    assert ({"base_url", "endpoint"} - {spelling}).pop() not in new


def small() -> Graph:
    def length(word: str) -> int:
        """How long a word is."""
        return len(word)

    made = graph("g").agent("a", model="openai:m", instructions="You are a.", tools=[length])
    return made.node("b", lambda text: f"<{text}>").edge("a", "b")


async def test_a_graph_in_python_has_tools_and_exports_its_values() -> None:
    made = small()
    surfaces = surfaces_of(made, ["g/a#tool.length", "g/a#few_shot"])
    models, backend = scripted(
        lambda r, _: heard(r) if r.messages[-1].role == "tool" else uses("length", word="tea")
    )
    target = GraphTarget(made, models, surfaces=surfaces)
    outcome = await run(target)
    assert outcome.replies == ("<Why?\n\na:\n3>",)
    assert [call.result for call in outcome.trace.steps[0].tools] == [3]
    assert outcome.trace.steps[0].usage == outcome.usage
    assert outcome.usage.requests == 2
    assert backend.asked[0].tools[0].description == "How long a word is."
    new: dict[str, Value] = {"g/a#tool.length": "Count letters", "g/a#few_shot": (DEMO,)}
    text = target.export(changed(target.baseline, new), Path())["surfaces.yaml"].decode()
    assert "g/a#tool.length: Count letters" in text
    assert "input: Hi?" in text


def test_values_that_fit_nowhere_are_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'g/a#instruction'"):
        target_of(small(), surfaces=[TextSurface(id="g/a#instructions")])
    target = target_of(small(), surfaces=all_surfaces(small()))[0]
    strange = Candidate(values={"g/c#instruction": "x"}, origin=Origin(kind="test"))
    assert "no such position" in target.check(strange)[0].message


async def test_a_rehearsal_calls_no_function_of_the_user() -> None:
    calls: list[str] = []

    def note(given: NodeInput) -> str:
        calls.append(given.text)
        return "noted"

    def holds(output: str) -> bool:
        calls.append(output)
        return True

    made = graph("g").agent("a", model="openai:m", instructions="You are a.").node("b", note)
    made.node("c", lambda text: "c").edge("a", "b").edge("b", "c", when=holds)
    target = target_of(made, surfaces=all_surfaces(made))[0]
    kept = Kept()
    case = Case.single("Why?")
    past = (await target.run(target.baseline, case, draw=0, effects=kept)).value
    assert len(calls) == 2
    looked = Rehearsal(kept.values.get)
    again = await target.rehearse(target.baseline, case, draw=0, effects=looked, past=past)
    assert again.trace.steps == past.trace.steps
    assert len(calls) == 2


class Kept(DirectEffects):
    """Effects that keep what they gave, as a journal does."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, Json] = {}

    async def once(self, call: Call[T], perform: Callable[[Scope], Awaitable[Receipt[T]]]) -> T:
        found = await super().once(call, perform)
        self.values[call.key] = call.codec.encode(found)
        return found


def test_a_graph_says_whether_it_calls_functions(tmp_path: Path) -> None:
    only_agents = graph("g").agent("a", model="openai:m", instructions="You are a.")
    assert calls_function(target_of(small())[0])
    assert not calls_function(target_of(only_agents)[0])
    assert not calls_function(agent_target(write_agent(tmp_path))[0])


def test_an_agent_is_a_graph_of_one_node(tmp_path: Path) -> None:
    surfaces = [
        TextSurface(id="instructions.file"),
        NumberSurface(id="model.temperature", low=0, high=1),
        TextSurface(id="tools[name=subtract].description"),
    ]
    structure = agent_target(write_agent(tmp_path), surfaces=surfaces)[0].structure
    assert [node.id for node in structure.nodes] == ["analyst"]
    assert {p.id: p.surface for p in structure.positions} == {
        "analyst#few_shot": "",
        "analyst#instruction": "instructions.file",
        "analyst#model": "",
        "analyst#model.max_tokens": "",
        "analyst#model.temperature": "model.temperature",
        "analyst#tool.archive": "",
        "analyst#tool.subtract": "tools[name=subtract].description",
    }
