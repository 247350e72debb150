"""Agents in another process: what is sent, what is read, and programs that are served so."""

import asyncio
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypedDict, cast

import httpx
import pytest
import uvicorn
from langgraph.graph import END, START, StateGraph
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import burnish
from burnish.compat.promptiter.agent_server import AgentApp
from burnish.compat.promptiter.remote import RemoteAgent, RemoteTarget
from burnish.core.cases import Case, Outcome, Usage
from burnish.core.content import Json
from burnish.core.errors import BaselineUnmeasured, BurnishError, ConfigError
from burnish.core.surfaces import DemosSurface, Origin
from burnish.journal.once import DirectEffects
from burnish.models.factory import Models
from burnish.projects import load_project
from burnish.runs.directory import RunRecord
from burnish.runs.driver import drive
from burnish.runs.run import Run
from burnish.runs.setup import start
from burnish.server.apps import engine_of
from burnish.server.service import listening_on
from burnish.targets.callables.target import AgentUnreachable
from burnish.testing import ScriptedBackend
from burnish.tracing.langgraph import traced_graph
from burnish.tracing.pydantic_ai import traced_agent

RECAP = "recap"
"""A snapshot as a server of the other framework writes it: sparse values, tools in one surface."""
SNAPSHOT: dict[str, Any] = {
    "StructureID": "recap-7",
    "EntryNodeID": RECAP,
    "Nodes": [{"NodeID": RECAP, "Kind": "agent", "Name": RECAP}],
    "Surfaces": [
        {
            "SurfaceID": f"{RECAP}#instruction",
            "NodeID": RECAP,
            "Type": "instruction",
            "Value": {"Text": "Report the match of {team}."},
        },
        {
            "SurfaceID": f"{RECAP}#few_shot",
            "NodeID": RECAP,
            "Type": "few_shot",
            "Value": {
                "FewShot": [
                    {
                        "Messages": [
                            {"Role": "user", "Content": "A-B 1:0"},
                            {"Role": "assistant", "Content": "A won."},
                        ]
                    }
                ]
            },
        },
        {
            "SurfaceID": f"{RECAP}#tool",
            "NodeID": RECAP,
            "Type": "tool",
            "Value": {"Tools": [{"ID": "table", "Description": "The table.", "InputSchema": {}}]},
        },
        {
            "SurfaceID": f"{RECAP}#model",
            "NodeID": RECAP,
            "Type": "model",
            "Value": {"Model": {"Name": "deepseek-v3.2"}},
        },
    ],
}


def remote() -> RemoteTarget:
    target = RemoteTarget(
        agent=RemoteAgent(url="http://127.0.0.1:1/apps/recap/runs"),
        snapshot=RemoteTarget.parsed({"structure": SNAPSHOT}),
    )
    return target.with_traces()


def answered(**more: Any) -> Outcome:
    trace = {
        "Status": "completed",
        "Output": {"Text": "A won."},
        "Steps": [
            {
                "StepID": "s1",
                "NodeID": RECAP,
                "PredecessorStepIDs": ["s0"],
                "AppliedSurfaceIDs": [f"{RECAP}#instruction", f"{RECAP}#tool", f"{RECAP}#model"],
                "Input": {"Text": "A-B"},
                "Output": {"Text": "A won."},
                "Usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
                "Tools": [{"ID": "1", "Name": "table", "Arguments": '{"of": "A"}', "Result": "1."}],
                "StartedAt": "2026-04-01T10:00:00.5Z",
                "EndedAt": "2026-04-01T10:00:02Z",
            }
        ],
    }
    answer: dict[str, Any] = {"status": "completed", "events": [], "executionTrace": trace, **more}
    return remote().agent.outcome_of(json.dumps(answer))


def test_a_snapshot_is_read_as_surfaces() -> None:
    target = remote()
    kinds = {surface.id: surface.kind for surface in target.surfaces}
    assert kinds == {
        f"{RECAP}#few_shot": "demos",
        f"{RECAP}#instruction": "text",
        f"{RECAP}#tool.table": "text",
    }
    assert target.baseline.values[f"{RECAP}#tool.table"] == "The table."
    assert isinstance(target.surfaces[0], DemosSurface)
    assert target.structure.entry == RECAP


def test_a_profile_is_sent_as_the_protocol_has_it() -> None:
    target = remote()
    changed = {f"{RECAP}#instruction": "Report {team} in one line."}
    candidate = target.baseline.child(changed, origin=Origin(kind="proposal"))
    exported = json.loads(target.export(candidate, Path())["profile.json"])
    assert exported["StructureID"] == "recap-7"
    assert [each["SurfaceID"] for each in exported["Overrides"]] == [f"{RECAP}#instruction"]
    assert target.sent_profile(target.baseline) is None
    assert target.sent_profile(candidate) == {
        "structureID": "recap-7",
        "overrides": [
            {
                "surfaceID": f"{RECAP}#instruction",
                "nodeID": RECAP,
                "type": "instruction",
                "value": {"Text": "Report {team} in one line."},
            }
        ],
    }


def test_a_trace_is_read_with_its_tools_and_tokens() -> None:
    outcome = answered()
    (step,) = outcome.trace.steps
    assert outcome.output == "A won."
    assert step.predecessors == (), "a step that is not in the trace is nobody's predecessor"
    assert step.surfaces == (f"{RECAP}#instruction", f"{RECAP}#tool.table")
    assert (step.tools[0].name, step.tools[0].arguments) == ("table", {"of": "A"})
    assert outcome.usage == Usage(requests=1, input_tokens=7, output_tokens=2)
    assert step.seconds == 1.5


def test_a_failed_run_is_the_agents_failure_and_keeps_its_trace() -> None:
    outcome = answered(status="failed", errorMessage="no table")
    assert outcome.failed
    assert len(outcome.trace.steps) == 1


def test_a_run_that_was_cut_off_is_missing() -> None:
    with pytest.raises(AgentUnreachable, match="deadline"):
        answered(status="incomplete", errorMessage="context deadline exceeded")


def test_an_answer_of_something_else_is_a_failure() -> None:
    assert remote().agent.outcome_of("<html>").failed
    assert remote().agent.outcome_of('{"status": 3}').failed


@contextmanager
def served(app: Any) -> Generator[str, None, None]:
    """A program behind a socket, in a thread of its own."""
    with listening_on("127.0.0.1", 0) as sock:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{sock.getsockname()[1]}/trpc-agent/v1/apps/desk"
        finally:
            server.should_exit = True
            thread.join()


PLAN, WRITE = "Name the place.", "Answer."


async def desk(message: str) -> str:
    """A program of two agents that do what they are told."""
    with burnish.step("planner", inputs=message) as step:
        step.output = f"{burnish.prompt('planner', default=PLAN)} {message}"
    with burnish.step("writer", inputs=step.output) as step:
        polite = "please" in burnish.prompt("writer", default=WRITE)
        return step.done("Yes, please." if polite else "Yes.")


def desk_app() -> AgentApp:
    prompts = {"planner": PLAN, "writer": WRITE}
    return AgentApp("desk", desk, prompts=prompts, edges=[("planner", "writer")])


def write_file(folder: Path, url: str) -> Path:
    for name, question in (("train", "Open?"), ("holdout", "Tea?")):
        row = {"input": question, "expected": "Yes, please."}
        (folder / f"{name}.jsonl").write_text(json.dumps(row))
    data = {
        "kind": "remote",
        "name": "desk",
        "target": {"url": url, "usd_per_call": 0},
        "train": "train.jsonl",
        "holdout": "holdout.jsonl",
        "metrics": [{"type": "standard", "metric": "equality"}],
        "confirm": False,
        "optimizer": {"proposer": "openai:m", "max_rounds": 1},
    }
    path = folder / "remote.yaml"
    path.write_text(json.dumps(data))
    return path


def roles(chat: Any, draw: int) -> str:
    """Blames the writer, and patches it."""
    del draw
    if "value" in json.dumps(dict(chat.schema or {})):
        return json.dumps({"value": "Answer. Say please.", "reason": "too curt"})
    blamed = {"surface": "desk/writer#instruction", "severity": "P1", "gradient": "be polite"}
    return json.dumps({"gradients": [blamed], "upstream": []})


@pytest.mark.slow
async def test_a_served_program_is_improved_over_the_protocol(tmp_path: Path) -> None:
    with served(desk_app()) as url:
        models = Models(backends={"openai": ScriptedBackend(respond=roles)})
        project = load_project(write_file(tmp_path, url), {}, models=models)
        run = start(project.setup, folder=tmp_path / "run")
        try:
            ending = await drive(run)
        finally:
            await run.close()
    assert ending.best.values["desk/writer#instruction"] == "Answer. Say please."
    profile = json.loads((tmp_path / "run/candidates/best/profile.json").read_text())
    assert [each["SurfaceID"] for each in profile["Overrides"]] == ["desk/writer#instruction"]


def events_of(output: str, *, chunks: bool) -> list[dict[str, Any]]:
    """The events as PromptIter's servers for LangGraph and ADK write them, or in pieces."""
    common = {"requestID": "r", "invocationId": "i", "author": "recap", "done": False}
    said: list[dict[str, Any]] = [
        {
            **common,
            "object": "tool.response",
            "choices": [{"index": 0, "message": {"role": "tool", "content": "4", "tool_id": "c"}}],
        }
    ]
    if chunks:
        half = len(output) // 2
        said += [
            {**common, "object": "chat.completion.chunk", "is_partial": True, "choices": [choice]}
            for piece in (output[:half], output[half:])
            for choice in [{"index": 0, "delta": {"role": "assistant", "content": piece}}]
        ]
    else:
        message = {"role": "assistant", "content": output}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        said.append({**common, "object": "chat.completion", "done": True, "choices": [choice]})
    return [*said, {**common, "object": "runner.completion", "done": True, "choices": None}]


@contextmanager
def other_server(events: list[dict[str, Any]]) -> Generator[str, None, None]:
    """A server of the other framework in Python: its answers have events, and no messages."""
    structure = {
        "StructureID": "s",
        "EntryNodeID": RECAP,
        "Nodes": [{"NodeID": RECAP, "Kind": "agent", "Name": RECAP}],
        "Surfaces": [
            {
                "SurfaceID": f"{RECAP}#instruction",
                "NodeID": RECAP,
                "Type": "instruction",
                "Value": {"Text": "Answer."},
            }
        ],
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.write({"structure": structure})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert body["input"]["content"]
            steps = [{"StepID": "s1", "NodeID": RECAP, "AgentName": RECAP, "Output": {"Text": ""}}]
            trace = {"RootAgentName": RECAP, "Status": "completed", "Steps": steps}
            self.write({"status": "completed", "events": events, "executionTrace": trace})

        def write(self, answer: dict[str, Any]) -> None:
            raw = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/trpc-agent/v1/apps/recap"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("chunks", [False, True])
async def test_an_agent_that_answers_with_events_alone_is_read(chunks: bool) -> None:
    with other_server(events_of("A won.", chunks=chunks)) as url:
        target = RemoteTarget.connect(RemoteAgent(url=url))
        case = Case.single("A-B?", "A won.", name="a")
        outcome = (await target.run(target.baseline, case, draw=0, effects=DirectEffects())).value
    assert outcome.output == "A won."


def test_the_last_message_of_events_counts_and_pieces_belong_to_their_speaker() -> None:
    def piece(author: str, text: str, **more: Any) -> dict[str, Any]:
        return {"author": author, "choices": [{"delta": {"content": text}}], **more}

    def said(author: str, text: str, role: str = "assistant") -> dict[str, Any]:
        return {"author": author, "choices": [{"message": {"role": role, "content": text}}]}

    def reply(*events: dict[str, Any]) -> str:
        return answered(executionTrace=None, events=[*events]).output

    assert reply(said("a", "one"), said("b", "two"), said("b", "tool", "tool")) == "two"
    assert reply(piece("a", "on"), piece("b", "tw"), piece("a", "e"), piece("b", "o")) == "two"
    assert reply(piece("a", "on"), piece("a", "e", done=True), said("a", "one.")) == "one."
    assert reply(piece("a", "half"), said("a", "half and whole")) == "half and whole"
    assert reply({"choices": None}, {"object": "runner.completion", "done": True}) == ""
    odd: Any = {"author": 3, "choices": [{"message": {"content": [{"type": "text"}]}}]}
    assert reply(said("a", "one"), odd, cast("Any", "an event")) == "one"
    assert reply(said("a", "<think>hm</think>\n\none")) == "one"


@pytest.mark.parametrize("reply", ["", "  ", "Yes, please."])
def test_a_run_over_an_agent_that_says_nothing_ends_before_a_proposal(
    tmp_path: Path, reply: str
) -> None:
    proposals: list[Any] = []

    def asked(chat: Any, draw: int) -> str:
        proposals.append(chat)
        return roles(chat, draw)

    with other_server(events_of(reply, chunks=False)) as url:
        models = Models(backends={"openai": ScriptedBackend(respond=asked)})
        project = load_project(write_file(tmp_path, url), {}, models=models)
        run = start(project.setup, folder=tmp_path / "run")
        if reply.strip():
            asyncio.run(driven(run))
            return
        with pytest.raises(BaselineUnmeasured) as error:
            asyncio.run(driven(run))
    assert not proposals
    assert f"{url}/runs" in error.value.message
    assert "executionTrace.Output, messages, events[].choices" in error.value.message
    assert RunRecord.read(tmp_path / "run").status == "failed"


async def driven(run: Run) -> None:
    try:
        await drive(run)
    finally:
        await run.close()


async def test_a_served_program_sends_events_too() -> None:
    with served(desk_app()) as url:
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
            request = {"input": {"content": "Open?"}, "runOptions": {"requestID": "r-7"}}
            answer = (await client.post("runs", json=request)).json()
    message, ended = answer["events"]
    assert {each["requestID"] for each in answer["events"]} == {"r-7"}
    assert message["choices"][0]["message"] == {"role": "assistant", "content": "Yes."}
    assert (ended["object"], ended["done"]) == ("runner.completion", True)
    del answer["messages"], answer["executionTrace"]["Output"]
    assert remote().agent.outcome_of(json.dumps(answer)).output == "Yes."


async def test_a_served_program_that_fails_says_so_in_its_events() -> None:
    def broken(message: str) -> str:
        raise ValueError(message)

    with served(AgentApp("desk", broken, prompts={})) as url:
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
            answer = (await client.post("runs", json={"input": {"content": "no"}})).json()
    error, ended = answer["events"]
    assert error["error"]["message"] == answer["errorMessage"] == "ValueError: no"
    assert ended["object"] == "runner.completion"


@pytest.mark.slow
async def test_steps_of_a_served_program_and_its_failure() -> None:
    with served(desk_app()) as url:
        target = RemoteTarget.connect(RemoteAgent(url=url))
        assert {(e.source, e.to) for e in target.structure.edges} == {
            ("desk/planner", "desk/writer")
        }
        case = Case.single("Open?", "Yes.", name="open")
        outcome = (await target.run(target.baseline, case, draw=0, effects=DirectEffects())).value
        assert [step.surfaces for step in outcome.trace.steps] == [
            ("desk/planner#instruction",),
            ("desk/writer#instruction",),
        ]
        unknown: Json = {
            "overrides": [{"surfaceID": "desk/boss#instruction", "value": {"Text": ""}}]
        }
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
            refused = await client.post("runs", json={"profile": unknown})
            absent = await client.get("nothing")
            wrong = await client.get("runs")
    assert (refused.status_code, absent.status_code, wrong.status_code) == (400, 404, 405)
    assert "desk/boss#instruction" in refused.json()["error"]
    with pytest.raises(ConfigError, match="gives no structure"):
        RemoteTarget.connect(RemoteAgent(url=url))


@pytest.mark.slow
async def test_a_program_with_pydantic_ai_is_served() -> None:
    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del messages
        return ModelResponse(parts=[TextPart(content=f"told: {info.instructions}")])

    helper = Agent(FunctionModel(reply))

    @helper.instructions
    def told() -> str:
        return burnish.prompt("helper", default="Be short.")

    traced = traced_agent(helper, node="helper")

    async def run(message: str) -> str:
        return (await traced.run(message)).output

    assert told
    with served(AgentApp("helper", run, prompts={"helper": "Be short."})) as url:
        target = RemoteTarget.connect(RemoteAgent(url=url))
        name = "helper#instruction"
        longer = target.baseline.child({name: "Be long."}, origin=Origin(kind="proposal"))
        case = Case.single("Why?", "", name="why")
        outcome = (await target.run(longer, case, draw=0, effects=DirectEffects())).value
    assert outcome.output == "told: Be long."
    assert [(step.node, step.surfaces) for step in outcome.trace.steps] == [("helper", (name,))]


class _Talk(TypedDict, total=False):
    message: str
    plan: str
    answer: str


def _langgraph_desk() -> Any:
    """A LangGraph of a planner and a writer, who read their prompts when they run."""

    def planner(state: _Talk) -> _Talk:
        return {"plan": f"{burnish.prompt('planner', default=PLAN)} {state.get('message')}"}

    def writer(state: _Talk) -> _Talk:
        polite = "please" in burnish.prompt("writer", default=WRITE)
        return {"answer": "Yes, please." if polite and state.get("plan") else "Yes."}

    drawn = cast("Any", StateGraph(_Talk))
    drawn.add_node("planner", planner)
    drawn.add_node("writer", writer)
    drawn.add_edge(START, "planner")
    drawn.add_edge("planner", "writer")
    drawn.add_edge("writer", END)
    return traced_graph(drawn.compile())


@pytest.mark.slow
async def test_a_langgraph_program_is_served_and_improved(tmp_path: Path) -> None:
    program = _langgraph_desk()

    async def run(message: str) -> str:
        return (await program.ainvoke({"message": message}))["answer"]

    app = AgentApp("desk", run, prompts={"planner": PLAN, "writer": WRITE})
    with served(app) as url:
        target = RemoteTarget.connect(RemoteAgent(url=url))
        case = Case.single("Open?", "Yes, please.", name="open")
        outcome = (await target.run(target.baseline, case, draw=0, effects=DirectEffects())).value
        planned, written = outcome.trace.steps
        assert (planned.node, written.node) == ("desk/planner", "desk/writer")
        assert written.predecessors == (planned.id,)
        assert written.surfaces == ("desk/writer#instruction",)
        models = Models(backends={"openai": ScriptedBackend(respond=roles)})
        project = load_project(write_file(tmp_path, url), {}, models=models)
        improved = start(project.setup, folder=tmp_path / "run")
        try:
            ending = await drive(improved)
        finally:
            await improved.close()
    assert ending.best.values["desk/writer#instruction"] == "Answer. Say please."


@pytest.mark.slow
async def test_promptiters_routes_serve_a_remote_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    with served(desk_app()) as url:
        engine = engine_of(write_file(tmp_path, url), "desk")
        found = await engine.describe()
        await engine.close()
    assert found.surface("desk/writer#instruction") is not None


def test_an_agent_that_is_away_is_told_with_the_line_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(BurnishError, match="gives no structure"):
        load_project(write_file(tmp_path, "http://127.0.0.1:9/apps/desk"), {})
