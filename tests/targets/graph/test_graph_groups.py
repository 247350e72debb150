"""Groups of nodes: graphs, chains, parallel and cycle agents as nodes of a graph."""

from pathlib import Path

import pytest

from burnish.core.cases import Case
from burnish.core.errors import ConfigError
from burnish.journal.once import DirectEffects
from burnish.models.chat import ChatRequest
from burnish.targets.graph import Graph, all_surfaces, graph, load_graph
from burnish.testing import check_target
from tests.targets.agent_world import Respond
from tests.targets.graph.graph_world import (
    changed,
    echo,
    heard,
    run,
    saying,
    speaker,
    target_of,
    told,
)

AGENT = "model: *m, instructions: {inline: You are"
RECAP = f"""\
kind: graph
name: recap
nodes:
  planner:
    model: &m {{provider: openai, name: m}}
    instructions: {{inline: You are planner.}}
  research:
    parallel:
      scores: {{{AGENT} scores.}}}}
      quotes: {{{AGENT} quotes.}}}}
  draft:
    cycle:
      writer: {{{AGENT} writer.}}}}
      critic: {{{AGENT} critic.}}}}
    max_iterations: 3
    until: {{contains: APPROVED}}
  desk:
    chain:
      style: {{{AGENT} style.}}}}
      check:
        nodes:
          facts: {{{AGENT} facts.}}}}
          names: {{{AGENT} names.}}}}
        edges: [facts -> names]
        output: names
edges: [planner -> research -> draft -> desk]
"""


def write_recap(folder: Path) -> Path:
    path = folder / "recap.yaml"
    path.write_text(RECAP, encoding="utf-8")
    return path


def approving(after: int) -> tuple[dict[str, int], Respond]:
    """Agents that say their name and turn; the critic approves of the draft in its turn."""
    counts: dict[str, int] = {}

    def respond(request: ChatRequest, draw: int) -> str:
        del draw
        name = speaker(request)
        counts[name] = counts.get(name, 0) + 1
        approved = name == "critic" and counts[name] >= after
        return "APPROVED" if approved else f"{name} {counts[name]}"

    return counts, respond


async def test_steps_go_through_groups_from_leaf_to_leaf(tmp_path: Path) -> None:
    _, respond = approving(2)
    outcome = await run(write_recap(tmp_path), respond=respond)
    assert told(outcome) == [
        ("planner:1", ()),
        ("research:1/scores:1", ("planner:1",)),
        ("research:1/quotes:1", ("planner:1",)),
        ("draft:1/writer:1", ("research:1/scores:1", "research:1/quotes:1")),
        ("draft:1/critic:1", ("draft:1/writer:1",)),
        ("draft:1/writer:2", ("draft:1/critic:1",)),
        ("draft:1/critic:2", ("draft:1/writer:2",)),
        ("desk:1/style:1", ("draft:1/critic:2",)),
        ("desk:1/check:1/facts:1", ("desk:1/style:1",)),
        ("desk:1/check:1/names:1", ("desk:1/check:1/facts:1",)),
    ]
    nodes = [step.node for step in outcome.trace.steps]
    assert nodes[1] == "recap/research/scores"
    assert nodes[-1] == "recap/desk/check/names"
    assert outcome.replies == ("names 1",)


async def test_parallel_members_read_the_same_and_are_joined(tmp_path: Path) -> None:
    _, respond = approving(1)
    target, backend = target_of(write_recap(tmp_path), respond)
    await run(target)
    read = {speaker(request): heard(request) for request in backend.asked}
    assert read["scores"] == read["quotes"] == "Why?\n\nplanner:\nplanner 1"
    assert read["writer"] == "Why?\n\nresearch:\nscores 1\n\nquotes 1"
    # Inside of a group the question is what the group was given.
    assert read["critic"] == f"{read['writer']}\n\nwriter:\nwriter 1"


@pytest.mark.parametrize(("after", "rounds"), [(1, 1), (2, 2), (9, 3)])
async def test_a_cycle_ends_by_its_condition_or_its_bound(
    tmp_path: Path, after: int, rounds: int
) -> None:
    counts, respond = approving(after)
    outcome = await run(write_recap(tmp_path), respond=respond)
    assert (counts["writer"], counts["critic"]) == (rounds, rounds)
    assert outcome.failure is None


async def test_the_bound_of_a_cycle_is_for_each_time_it_runs() -> None:
    inner = graph("inner").node("a", echo("a"))
    outer = graph("outer").group("inner", inner, order="cycle", max_iterations=2)
    made = graph("g").group("outer", outer, order="cycle", max_iterations=2)
    outcome = await run(made)
    assert [step.id for step in outcome.trace.steps] == [
        "outer:1/inner:1/a:1",
        "outer:1/inner:1/a:2",
        "outer:1/inner:2/a:1",
        "outer:1/inner:2/a:2",
    ]
    assert outcome.trace.steps[2].predecessors == ("outer:1/inner:1/a:2",)


async def test_a_cycle_may_end_at_any_member_and_by_a_function() -> None:
    inner = saying("a", "b")
    made = graph("g").group("loop", inner, order="cycle", until=lambda output: output == "a")
    assert (await run(made)).replies == ("a",)


async def test_a_failure_inside_ends_the_turn_with_its_steps() -> None:
    def broken(text: str) -> str:
        raise ValueError(f"no {text}")

    inner = graph("pair").node("good", echo("good")).node("bad", broken)
    made = graph("g").group("pair", inner, order="parallel").node("end", echo("end"))
    outcome = await run(made.edge("pair", "end"))
    assert outcome.failure is not None
    assert "no Why?" in outcome.failure.message
    assert [(step.id, bool(step.error)) for step in outcome.trace.steps] == [
        ("pair:1/good:1", False),
        ("pair:1/bad:1", True),
    ]


async def test_members_that_ask_the_same_are_samples_of_their_own() -> None:
    def pair() -> Graph:
        made = graph("pair")
        for name in ("a", "b"):
            made.agent(name, model="openai:m", instructions="You are one.")
        return made

    made = graph("g").node("start", echo("start")).edge("start", ["p", "q"])
    made.group("p", pair(), order="parallel").group("q", pair(), order="parallel")
    draws: list[int] = []

    def respond(request: ChatRequest, draw: int) -> str:
        del request
        draws.append(draw)
        return "ok"

    await run(made, respond=respond)
    assert len(set(draws)) == 4


def test_the_structure_has_every_level(tmp_path: Path) -> None:
    read = load_graph(write_recap(tmp_path))
    structure = target_of(read, surfaces=all_surfaces(read))[0].structure
    ids = {node.id for node in structure.nodes}
    assert {"recap", "recap/desk", "recap/desk/check", "recap/desk/check/names"} <= ids
    edges = {(edge.source, edge.to) for edge in structure.edges}
    assert {
        ("recap/planner", "recap/research"),
        ("recap/research", "recap/research/scores"),
        ("recap/research", "recap/research/quotes"),
        ("recap/research/quotes", "recap/draft"),
        ("recap/draft/critic", "recap/draft/writer"),
        ("recap/draft/critic", "recap/desk"),
        ("recap/desk/style", "recap/desk/check"),
        ("recap/desk/check", "recap/desk/check/facts"),
    } <= edges
    assert structure.position("recap/desk/check/names#instruction") is not None


async def test_candidates_reach_the_leaves_and_are_exported(tmp_path: Path) -> None:
    read = load_graph(write_recap(tmp_path))
    _, respond = approving(1)
    target, backend = target_of(read, respond, all_surfaces(read))
    names = "recap/desk/check/names#instruction"
    quotes = "recap/research/quotes#instruction"
    candidate = changed(target.baseline, {names: "You are names. Check.", quotes: "Say."})
    assert not target.check(candidate)
    receipt = await target.run(candidate, Case.single("Why?"), draw=0, effects=DirectEffects())
    assert names in receipt.value.trace.steps[-1].surfaces
    assert backend.asked[-1].messages[0].content == "You are names. Check."
    home = tmp_path / "out"
    home.mkdir()
    files = target.export(candidate, home)
    (home / "recap.yaml").write_bytes(files["recap.yaml"])
    again = {
        path: node.agent.instructions.text
        for path, node in load_graph(home / "recap.yaml").agents.items()
    }
    assert again["desk/check/names"] == "You are names. Check."
    assert again["research/quotes"] == "Say."
    assert again["draft/writer"] == "You are writer."


async def test_the_contract_and_the_fingerprint(tmp_path: Path) -> None:
    path = write_recap(tmp_path)
    read = load_graph(path)
    target, _ = target_of(read, surfaces=all_surfaces(read))
    await check_target(target, [Case.single("Why?"), Case.single("How?")])
    for old, new in (
        ("APPROVED", "FINE"),
        ("max_iterations: 3", "max_iterations: 2"),
        ("chain:", "parallel:"),
    ):
        path.write_text(RECAP.replace(old, new), encoding="utf-8")
        assert target_of(path)[0].description != target.description, old


HEAD = "kind: graph\nname: g\nnodes:\n"


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ("  t: {chain: {}}\n", "chain has no members"),
        (
            "  t: {chain: {a: {python: 'json:dumps'}}, until: x}\n",
            "until belongs to a node with cycle",
        ),
        (
            "  t: {cycle: {a: {python: 'json:dumps'}}, edges: [a -> a]}\n",
            "edges belongs to a node with nodes",
        ),
        ("  t: {chain: {a: {python: 'json:dumps', max_visits: 2}}}\n", "no max_visits of its own"),
        ("  t: {chain: {a: {python: 'json:dumps'}}, python: 'json:dumps'}\n", "give either agent"),
        ("  t: {cycle: {a: {python: 'json:dumps'}}, max_iterations: 0}\n", "max_iterations"),
        (
            "  t: {nodes: {a: {python: 'json:dumps'}}, edges: [a -> b]}\n",
            "nodes.t: edge a -> b: there is no node 'b'",
        ),
        ("  t: {chain: {a: {agent: gone.yaml}}}\n", "graph.yaml nodes.t.chain.a"),
        (
            "  t: {chain: {a: {python: 'json:dumps', input: '{b}'}}}\n",
            "nodes.t: nodes.a.input: the template has a place for 'b'",
        ),
    ],
)
def test_what_is_wrong_with_a_group(tmp_path: Path, nodes: str, words: str) -> None:
    (tmp_path / "graph.yaml").write_text(HEAD + nodes, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_graph(tmp_path / "graph.yaml")
    assert words in str(caught.value)
    assert len(caught.value.problems) == 1


async def test_a_rehearsal_goes_through_groups() -> None:
    made = graph("g").group(
        "loop", saying("a", "b"), order="cycle", until=lambda output: output == "b"
    )
    made.node("end", echo("end")).edge("loop", "end", when=lambda output: output == "b")
    target, _ = target_of(made)
    case = Case.single("Why?")
    past = (await target.run(target.baseline, case, draw=0, effects=DirectEffects())).value
    assert [step.id for step in past.trace.steps] == ["loop:1/a:1", "loop:1/b:1", "end:1"]
    again = await target.rehearse(target.baseline, case, draw=0, effects=DirectEffects(), past=past)
    assert again.trace.steps == past.trace.steps
