"""The engine on real targets: a graph of agents, and stages by models."""

import json
from pathlib import Path

import pytest

from burnish.compat.promptiter import Engine, EvaluationStack
from burnish.compat.promptiter.requests import read_request
from burnish.core.cases import Case
from burnish.core.surfaces import TextSurface
from burnish.models.chat import ChatRequest
from burnish.models.factory import Models
from burnish.targets.agent.files import load_agent
from burnish.targets.agent.target import AgentTarget
from burnish.targets.graph import GraphTarget, all_surfaces, graph, load_graph
from burnish.testing import ScriptedBackend
from tests.compat.promptiter.desk import (
    Aggregate,
    Backward,
    BackwardRequest,
    Bench,
    Optimize,
    Quality,
    request,
)

pytestmark = pytest.mark.slow

CASES = {
    "t": [Case.single("one?", "[cited]", name="a"), Case.single("two?", "[cited]", name="b")],
    "v": [Case.single("three?", "[cited]", name="a")],
}


def respond(chat: ChatRequest, draw: int) -> str:
    """Agents that do what they are told, and roles that find out what is missing."""
    del draw
    said = "\n".join(message.content for message in chat.messages)
    match chat.schema_name:
        case "backwarder":
            blamed = {"severity": "P1", "gradient": "cite", "surface": ""}
            return json.dumps({"gradients": [blamed], "upstream": []})
        case "aggregator":
            merged = {"severity": "P1", "gradient": "cite", "sources": [1]}
            return json.dumps({"gradients": [merged]})
        case "patcher":
            return json.dumps({"value": "You are the writer. Cite.", "reason": "no source"})
        case _:
            return "an answer [cited]" if "Cite." in said else "an answer"


def a_graph(models: Models) -> GraphTarget:
    made = graph("desk", entry="planner")
    made.agent("planner", model="openai:m", instructions="You are the planner.")
    made.agent("writer", model="openai:m", instructions="You are the writer.")
    made.edge("planner", "writer")
    return GraphTarget(made, models, surfaces=all_surfaces(made))


def an_agent_file(models: Models, folder: Path) -> AgentTarget:
    path = folder / "agent.yaml"
    text = "name: desk\nmodel: {provider: openai, name: m}\ninstructions: {inline: You write.}\n"
    path.write_text(text, encoding="utf-8")
    return AgentTarget(load_agent(path), models, surfaces=[TextSurface(id="instructions")])


@pytest.mark.parametrize("kind", ["graph", "agent file"])
async def test_real_targets_by_models_alone(tmp_path: Path, kind: str) -> None:
    models = Models(backends={"openai": ScriptedBackend(respond=respond)})
    target = a_graph(models) if kind == "graph" else an_agent_file(models, tmp_path)
    node = "desk/writer" if kind == "graph" else "desk"
    stack = EvaluationStack(
        app_name="app",
        output_dir=tmp_path / "out",
        sets=CASES,
        metrics=[Quality()],
        models=models,
    )
    engine = Engine(
        target, stack, backwarder="openai:b", aggregator="openai:b", optimizer="openai:b"
    )
    snapshot = await engine.describe()
    assert snapshot.surface(f"{node}#instruction") is not None
    asked = request(target_surface_ids=(f"{node}#instruction",), max_rounds=1)
    found = await engine.run(asked)
    await engine.close()
    assert (found.status, found.error_message) == ("succeeded", "")
    assert found.accepted_profile is not None
    (override,) = found.accepted_profile.overrides
    assert override.surface_id == f"{node}#instruction"
    assert override.value.text == "You are the writer. Cite."
    assert found.rounds[0].train is not None
    trace = found.rounds[0].train.eval_sets[0].cases[0].trace
    assert trace is not None
    assert trace.steps[-1].node_id == node
    assert f"{node}#instruction" in trace.steps[-1].applied_surface_ids


NESTED = """\
kind: graph
name: recap
nodes:
  team:
    chain:
      notes:
        parallel:
          scores: {model: &m {provider: openai, name: m}, instructions: {inline: Scores.}}
          quotes: {model: *m, instructions: {inline: Quotes.}}
      writer: {model: *m, instructions: {inline: Write.}}
  editor: {model: *m, instructions: {inline: Edit.}}
edges: [team -> editor]
"""
SCORES = "recap/team/notes/scores"


async def test_feedback_goes_back_through_nested_agents(tmp_path: Path) -> None:
    (tmp_path / "recap.yaml").write_text(NESTED, encoding="utf-8")

    def agents(chat: ChatRequest, draw: int) -> str:
        del draw
        rules, text = chat.messages[0].content, chat.messages[-1].content
        return "a score [cited]" if "Cite." in rules or "[cited]" in text else "a score"

    def upstream(seen: BackwardRequest) -> object:
        if f"{SCORES}#instruction" in seen.allowed_gradient_surface_ids:
            return {"Gradients": [{"SurfaceID": "", "Severity": "P1", "Gradient": "cite"}]}
        first = seen.predecessors[0].step_id
        packets = [{"Severity": "P1", "Gradient": "the source is missing"}]
        return {"Upstream": [{"PredecessorStepID": first, "Gradients": packets}]}

    models = Models(backends={"openai": ScriptedBackend(respond=agents)})
    read = load_graph(tmp_path / "recap.yaml")
    bench = Bench(
        folder=tmp_path,
        target=GraphTarget(read, models, surfaces=all_surfaces(read)),
        backward=Backward(says=upstream),
        aggregate=Aggregate(),
        optimize=Optimize(texts=("Scores. Cite.",)),
        sets=CASES,
    )
    body = {
        "TrainEvalSetIDs": ["t"],
        "ValidationEvalSetIDs": ["v"],
        "TargetSurfaceIDs": [f"{SCORES}#instruction"],
        "MaxRounds": 1,
    }
    engine = bench.engine
    found = await engine.run(read_request(body, strict=True)[0])  # pyright: ignore[reportArgumentType]
    await engine.close()
    assert (found.status, found.error_message) == ("succeeded", "")
    one = [each for each in bench.backward.asked if each.eval_case_id == "a"]
    assert [(each.node.node_id, each.incoming[0].from_step_id) for each in one] == [
        ("recap/editor", "editor:1"),
        ("recap/team/writer", "editor:1"),
        (SCORES, "team:1/writer:1"),
    ]
    assert found.rounds[0].acceptance is not None
    assert found.rounds[0].acceptance.accepted
    structure = (await bench.engine.describe()).to_json()
    assert isinstance(structure, dict)
    assert {"NodeID": SCORES, "Kind": "agent", "Name": "scores"} in structure["Nodes"]  # pyright: ignore[reportOperatorIssue]
