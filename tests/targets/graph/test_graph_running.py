"""Turns through a graph: fan-out and fan-in, cycles, conditions, failures, conversations."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from burnish.core.cases import Attachment, Case, FailureKind, Scenario, Turn
from burnish.core.content import Json
from burnish.journal.once import DirectEffects
from burnish.metrics.turns import NextRemark, TalkSoFar
from burnish.models.chat import ChatRequest
from burnish.models.errors import ModelRefused, ModelUnavailable
from burnish.targets.graph import Graph, GraphTarget, NodeInput, graph, load_graph
from burnish.testing.doubles import ScriptedRole
from tests.targets.agent_world import scripted
from tests.targets.graph.graph_world import (
    echo,
    heard,
    revising_once,
    run,
    saying,
    speaker,
    target_of,
    told,
    write_support,
)


async def test_the_working_example_revises_once_and_ends(tmp_path: Path) -> None:
    outcome = await run(write_support(tmp_path), respond=revising_once())
    assert outcome.replies == ("finalize done",)
    assert told(outcome) == [
        ("planner:1", ()),
        ("retrieve:1", ("planner:1",)),
        ("compose:1", ("planner:1",)),
        ("reviewer:1", ("retrieve:1", "compose:1")),
        ("rewrite:1", ("reviewer:1",)),
        ("planner:2", ("rewrite:1",)),
        ("retrieve:2", ("planner:2",)),
        ("compose:2", ("planner:2",)),
        ("reviewer:2", ("retrieve:2", "compose:2")),
        ("finalize:1", ("reviewer:2",)),
    ]
    assert {step.node for step in outcome.trace.steps} >= {"support/planner", "support/retrieve"}
    assert outcome.usage.requests == 8
    assert outcome.usage.input_tokens == sum(s.usage.input_tokens for s in outcome.trace.steps)


async def test_what_nodes_are_told(tmp_path: Path) -> None:
    target, backend = target_of(write_support(tmp_path), revising_once())
    outcome = await run(target)
    steps = {step.id: step for step in outcome.trace.steps}
    assert steps["planner:1"].input == "Why?"
    assert steps["compose:1"].input == "Why?\n\nPlan: planner done"
    assert steps["retrieve:1"].output == {"fact": "tea is 3"}
    both = 'retrieve:\n{"fact": "tea is 3"}\n\ncompose:\ncompose done'
    assert steps["reviewer:1"].input == f"Why?\n\n{both}"
    assert steps["planner:2"].input == "Why?\n\nrewrite:\nrewrite done"
    system = {speaker(r): r.messages[0].content for r in backend.asked}
    assert system["reviewer"] == "Be kind.\n\nYou are reviewer."
    assert system["compose"] == "Be kind.\n\nYou are compose.\n\n# Skill: citing\n\nCite sources."


@pytest.mark.parametrize("slow", ["short", "b"])
async def test_a_join_waits_for_branches_of_any_length(slow: str) -> None:
    order: list[str] = []

    def at(name: str) -> Callable[[str], Awaitable[str]]:
        async def say(text: str) -> str:
            for _ in range(60 if name == slow else 1):
                await asyncio.sleep(0)
            order.append(name)
            return text

        return say

    made = graph("g")
    for name in ("start", "a", "b", "c", "short", "end"):
        made.node(name, at(name))
    made.edge("start", ["a", "short"]).edge("a", "b").edge("b", "c").edge("c", "end")
    outcome = await run(made.edge("short", "end"))
    assert told(outcome) == [
        ("start:1", ()),
        ("a:1", ("start:1",)),
        ("b:1", ("a:1",)),
        ("c:1", ("b:1",)),
        ("short:1", ("start:1",)),
        ("end:1", ("c:1", "short:1")),
    ]
    assert order[-1] == "end"
    assert (order.index("short") < order.index("c")) is (slow == "b")


async def test_branches_run_at_the_same_time() -> None:
    both = asyncio.Barrier(2)

    async def meet(text: str) -> str:
        async with asyncio.timeout(120):
            await both.wait()
        return text

    made = saying("start", "end").node("a", meet).node("b", meet)
    made.edge("start", ["a", "b"]).edge("a", "end").edge("b", "end")
    assert (await run(made)).replies == ("end",)


@pytest.mark.parametrize("slow", ["quick", "long"])
async def test_a_cycle_beside_a_long_branch_is_the_same_whoever_is_faster(slow: str) -> None:
    async def wait(text: str) -> str:
        for _ in range(30):
            await asyncio.sleep(0)
        return text

    made = saying("start", "end", max_visits=2)
    for name in ("quick", "long"):
        made.node(name, wait if name == slow else echo(name))
    made.edge("start", ["quick", "long"]).edge("quick", "start").edge("long", "end")
    assert [step for step, _ in told(await run(made))] == [
        *("start:1", "quick:1", "long:1", "end:1"),
        *("start:2", "quick:2", "long:2", "end:2"),
    ]


async def test_a_cycle_ends_when_its_visits_are_used_up() -> None:
    made = saying("ask", "check", "done").edge("ask", "check")
    made.edge("check", "ask", when="check").edge("check", "done")
    outcome = await run(made)
    assert [step for step, _ in told(outcome)] == [
        *("ask:1", "check:1", "ask:2", "check:2", "ask:3", "check:3", "done:1")
    ]
    assert outcome.replies == ("done",)
    again = await run(saying("a", max_visits=4).edge("a", "a"))
    assert [step for step, _ in told(again)] == ["a:1", "a:2", "a:3", "a:4"]


async def test_a_node_may_have_visits_of_its_own() -> None:
    made = saying("a").node("b", echo("b"), max_visits=1).edge("a", "b").edge("b", "a")
    assert [step for step, _ in told(await run(made))] == ["a:1", "b:1", "a:2"]


CONDITIONS = """\
kind: graph
name: g
nodes:
  start: {python: "says:start"}
  some: {python: "says:other"}
  same: {python: "says:other"}
  form: {python: "says:other"}
  code: {python: "says:other"}
  ever: {python: "says:other"}
  word: {python: "says:other"}
  rest: {python: "says:other"}
edges:
  - {from: start, to: some, when: {contains: gre}}
  - {from: start, to: same, when: {equals: green}}
  - {from: start, to: form, when: {matches: "^gr.*n$"}}
  - {from: start, to: code, when: {python: "says:is_green"}}
  - {from: start, to: ever, when: {always: true}}
  - {from: start, to: word, when: green}
  - {from: start, to: rest}
"""
SAYS = """\
def start(text: str) -> str:
    return text

def other(text: str) -> str:
    return "x"

def is_green(output: str) -> bool:
    return output == "green"
"""


async def test_kinds_of_conditions(tmp_path: Path) -> None:
    (tmp_path / "says.py").write_text(SAYS, encoding="utf-8")
    path = tmp_path / "graph.yaml"
    path.write_text(CONDITIONS, encoding="utf-8")
    green = [step.split(":")[0] for step, _ in told(await run(path, "green"))]
    assert green == ["start", "some", "same", "form", "code", "ever", "word"]
    red = [step.split(":")[0] for step, _ in told(await run(path, "red"))]
    assert red == ["start", "ever"]
    path.write_text(
        CONDITIONS.replace("  - {from: start, to: ever, when: {always: true}}\n", "").replace(
            '  ever: {python: "says:other"}\n', ""
        ),
        encoding="utf-8",
    )
    assert [step for step, _ in told(await run(path, "red"))] == ["start:1", "rest:1"]


async def test_a_condition_of_a_function_sees_data() -> None:
    made = graph("g").node("a", lambda text: {"ok": True}).node("b", echo("b")).node("c", echo("c"))
    made.edge("a", "b", when=lambda output: output["ok"]).edge("a", "c")
    assert (await run(made)).replies == ("b",)


async def test_the_reply_is_that_of_the_ends_in_order_or_of_the_output() -> None:
    def made(output: str = "") -> Graph:
        return saying("a", "b", "c", output=output).edge("a", ["c", "b"])

    assert (await run(made())).replies == ("b\n\nc",)
    assert (await run(made("a"))).replies == ("a",)
    never = saying("a", "b", output="b").edge("a", "b", when="nothing like it")
    outcome = await run(never)
    assert outcome.failed
    assert outcome.failure is not None
    assert "'b', whose output is the reply, never ran" in outcome.failure.message


async def test_a_node_that_raises_is_the_agents_failure_with_its_steps() -> None:
    def broken(text: str) -> str:
        raise ValueError("no such drawer")

    made = saying("a", "side", "late").node("b", broken).node("after", echo("after"))
    made.edge("a", ["b", "side"]).edge("b", "after").edge("side", "late").edge("late", "after")
    outcome = await run(made)
    assert outcome.failed
    assert outcome.replies == ()
    assert [step for step, _ in told(outcome)] == ["a:1", "side:1", "late:1", "b:1"]
    assert outcome.trace.steps[-1].error == "ValueError: no such drawer"


async def test_who_is_away_is_missing_and_a_refused_key_stops_everything() -> None:
    made = graph("g").agent("a", model="openai:m", instructions="You are a.")

    def away(request: ChatRequest, draw: int) -> str:
        raise ModelUnavailable("nobody answered")

    outcome = await run(made, respond=away)
    assert outcome.missing
    assert outcome.trace.steps[0].error

    def refused(request: ChatRequest, draw: int) -> str:
        raise ModelRefused("the key was refused")

    with pytest.raises(ModelRefused):
        await run(made, respond=refused)


async def test_what_a_condition_raises_and_what_is_no_reply_are_failures() -> None:
    made = saying("a", "b").edge("a", "b", when=lambda output: output.nothing)
    outcome = await run(made)
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.AGENT
    assert "a condition after it failed: AttributeError" in outcome.trace.steps[0].error
    nothing = await run(graph("g").node("a", lambda text: None))
    assert nothing.failure is not None
    assert "None" in nothing.failure.message


async def test_turns_go_through_the_graph_one_after_the_other() -> None:
    def seen(given: NodeInput) -> str:
        return f"{len(given.history)} {given.outputs['a']}"

    made = graph("g").agent("a", model="openai:m", instructions="You are a.").node("b", seen)
    target, backend = target_of(made.edge("a", "b"), lambda r, _: heard(r).upper())
    case = Case(turns=(Turn(input="one"), Turn(input="two")))
    outcome = await run(target, case)
    assert outcome.replies == ("0 ONE", "2 TWO")
    assert told(outcome) == [
        ("a:1", ()),
        ("b:1", ("a:1",)),
        ("t2/a:1", ("b:1",)),
        ("t2/b:1", ("t2/a:1",)),
    ]
    assert [step.turn for step in outcome.trace.steps] == [0, 0, 1, 1]
    assert [m.content for m in backend.asked[1].messages[1:]] == ["one", "0 ONE", "two"]


async def test_a_scenario_is_played() -> None:
    def respond(talk: TalkSoFar, draw: int) -> NextRemark:
        done = "agent: HELLO" in talk.conversation and "MORE" in talk.conversation
        return NextRemark(thought="", done=done, remark="" if done else "more")

    user = ScriptedRole(
        name="user", respond=respond, answer_type=NextRemark, request_type=TalkSoFar
    )
    models, _ = scripted(lambda r, _: heard(r).upper())
    made = graph("g").agent("a", model="openai:m", instructions="You are a.")
    target = GraphTarget(made, models, user=user)
    case = Case(turns=(Turn(input="hello"),), scenario=Scenario(plan="talk"))
    outcome = (await target.run(target.baseline, case, draw=0, effects=DirectEffects())).value
    assert outcome.asked == ("hello", "more")
    assert outcome.replies == ("HELLO", "MORE")


async def test_two_nodes_that_ask_the_same_are_two_samples() -> None:
    made = saying("ask", "vote")
    for name in ("one", "two"):
        made.agent(name, model="openai:m", instructions="You are solver.")
        made.edge("ask", name).edge(name, "vote")
    draws: list[int] = []
    await run(made, respond=lambda _, draw: draws.append(draw) or "x")
    assert len(set(draws)) == 2


async def test_python_and_yaml_tell_the_same_trace(tmp_path: Path) -> None:
    path = write_support(tmp_path)
    read = load_graph(path)

    def retrieve(text: str) -> dict[str, str]:
        return {"fact": "tea is 3"}

    made = graph(
        "support", global_instructions="Be kind.", output="finalize", folder=tmp_path
    ).agent("planner", file="agents/planner.yaml")
    made.node("retrieve", retrieve)
    made.agent(
        "compose",
        model={"provider": "openai", "name": "m", "temperature": 0.5},
        instructions=Path("prompts/compose.md"),
        skills=["skills/citing/SKILL.md"],
        input="{question}\n\nPlan: {planner}",
    )
    for name in ("reviewer", "rewrite", "finalize"):
        made.agent(name, model="openai:m", instructions=f"You are {name}.")
    made.edge("planner", ["retrieve", "compose"]).edge("retrieve", "reviewer")
    made.edge("compose", "reviewer").edge("reviewer", "rewrite", when="REVISE")
    made.edge("reviewer", "finalize").edge("rewrite", "planner")
    first, second = (
        await run(read, respond=revising_once()),
        await run(made, respond=revising_once()),
    )
    assert first.trace == second.trace
    assert target_of(read)[0].structure.id == target_of(made)[0].structure.id


async def test_files_go_where_the_question_goes(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("tea is 3", encoding="utf-8")
    made = graph("g", folder=tmp_path)
    made.agent("a", model="openai:m", instructions="You are a.")
    made.agent("b", model="openai:m", instructions="You are b.", input="Shorten: {a}")
    target, backend = target_of(made.edge("a", "b"), lambda r, _: speaker(r))
    files = (Attachment(kind="text", path="note.txt"),)
    await run(target, Case(turns=(Turn(input="What?", attachments=files),)))
    assert "tea is 3" in heard(backend.asked[0])
    assert heard(backend.asked[1]) == "Shorten: a"


async def test_a_structured_answer_is_the_data_of_the_outcome() -> None:
    schema: dict[str, Json] = {"type": "object", "properties": {"n": {"type": "number"}}}
    made = graph("g").agent("a", model="openai:m", instructions="Count.", response_format=schema)
    outcome = await run(made, respond=lambda _, __: '{"n": 2}')
    assert (outcome.data, outcome.replies) == ({"n": 2}, ('{"n": 2}',))


async def test_a_turn_that_is_cancelled_leaves_nothing_running() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def forever(text: str) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return text

    task = asyncio.create_task(run(saying("a").node("b", forever).edge("a", "b")))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


def lagging(seed: int, lag: int) -> Graph:
    """A graph of any shape, whose nodes take as long as `lag` has it."""
    shape, pace = random.Random(seed), random.Random(lag)
    names = [f"n{number}" for number in range(shape.randint(2, 6))]
    made = graph("g", max_visits=2)
    for name in names:
        made.node(name, late(name, pace.randint(0, 12)))
    for number, name in enumerate(names[1:], start=1):
        made.edge(shape.choice(names[:number]), name)
    for _ in range(shape.randint(0, 5)):
        word = shape.choice([None, "n", "1", "never"])
        made.edge(shape.choice(names), shape.choice(names), when=word)
    return made


def late(name: str, ticks: int) -> Callable[[NodeInput], Awaitable[str]]:
    async def say(given: NodeInput) -> str:
        for _ in range(ticks):
            await asyncio.sleep(0)
        return f"{name} {len(given.outputs)}"

    return say


async def test_graphs_of_any_shape_end_alike_whoever_is_faster() -> None:
    for seed in range(40):
        first, second = [await run(lagging(seed, lag)) for lag in (1, 2)]
        assert first == second, f"the graph of seed {seed}"
        done: set[str] = set()
        for step in first.trace.steps:
            assert done.issuperset(step.predecessors)
            done.add(step.id)
