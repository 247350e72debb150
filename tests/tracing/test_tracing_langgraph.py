"""LangGraph graphs: every execution of a node is a step, with what really led to it before it."""

import asyncio
import operator
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any, TypedDict, cast

import pytest
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, RetryPolicy, Send

import burnish
from burnish.core.errors import BurnishError
from burnish.strategies.backprop.packets import terminal_steps
from burnish.system.extras import install_command
from burnish.tracing.langgraph import traced_graph
from burnish.tracing.recorder import StepRecorder, recording

WAYS = ("invoke", "ainvoke")


class State(TypedDict, total=False):
    question: str
    log: Annotated[list[str], operator.add]


def node(name: str) -> Callable[[State], State]:
    def visit(state: State) -> State:
        return {"log": [name]}

    return visit


def drawing(*nodes: str) -> Any:
    graph = cast("Any", StateGraph(State))
    for name in nodes:
        graph.add_node(name, node(name))
    return graph


async def run(graph: Any, way: str, **state: Any) -> Any:
    if way == "ainvoke":
        return await graph.ainvoke(state)
    return await asyncio.to_thread(graph.invoke, state)


def edges(recorder: StepRecorder) -> dict[str, list[str]]:
    return {step.id: sorted(step.predecessors) for step in recorder.trace().steps}


@pytest.mark.parametrize("way", WAYS)
async def test_fan_out_and_fan_in_between_other_steps(way: str) -> None:
    graph = drawing("plan", "left", "right", "long", "merge")
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "left")
    graph.add_edge("plan", "right")
    graph.add_edge("right", "long")
    graph.add_edge(["left", "long"], "merge")
    with recording() as recorder:
        with burnish.step("before"):
            pass
        await run(traced_graph(graph.compile()), way, question="?")
        with burnish.step("after"):
            pass
    assert edges(recorder) == {
        "before-1": [],
        "plan-1": ["before-1"],
        "left-1": ["plan-1"],
        "right-1": ["plan-1"],
        "long-1": ["right-1"],
        "merge-1": ["left-1", "long-1"],
        "after-1": ["merge-1"],
    }
    merge = next(step for step in recorder.trace().steps if step.node == "merge")
    assert isinstance(merge.input, dict)
    assert merge.input["question"] == "?"
    assert merge.output == {"log": ["merge"]}


@pytest.mark.parametrize("way", WAYS)
async def test_only_the_way_that_was_taken_counts_round_after_round(way: str) -> None:
    def judged(state: State) -> str:
        return "again" if len(state.get("log", [])) < 5 else "good"

    def left_out(state: State) -> str:
        return "nowhere"

    graph = drawing("write", "check", "aside")
    graph.add_edge(START, "write")
    graph.add_edge("write", "check")
    graph.add_edge("write", "aside")
    graph.add_conditional_edges("check", judged, {"again": "write", "good": END})
    graph.add_conditional_edges("aside", left_out, {"somewhere": "write", "nowhere": END})
    with recording() as recorder:
        await run(traced_graph(graph.compile()), way, log=[])
    assert edges(recorder) == {
        "write-1": [],
        "check-1": ["write-1"],
        "aside-1": ["write-1"],
        "write-2": ["check-1"],
        "check-2": ["write-2"],
        "aside-2": ["write-2"],
    }


@pytest.mark.parametrize("way", WAYS)
async def test_what_is_sent_follows_its_sender_and_commands_lead(way: str) -> None:
    def spread(name: str) -> Callable[[State], list[Send]]:
        return lambda state: [Send("work", {"question": f"{name}{n}"}) for n in range(2)]

    def decide(state: State) -> Any:
        return Command(goto="end", update={"log": ["decided"]})

    graph = drawing("one", "two", "work", "end")
    graph.add_node("decide", decide, destinations=("end",))
    for name in ("one", "two"):
        graph.add_edge(START, name)
        graph.add_conditional_edges(name, spread(name), ["work"])
    graph.add_edge("work", "decide")
    with recording() as recorder:
        await run(traced_graph(graph.compile()), way, log=[])
    steps = recorder.trace().steps
    senders = {
        cast("dict[str, str]", step.input)["question"]: step.predecessors
        for step in steps
        if step.node == "work"
    }
    assert senders == {
        "one0": ("one-1",), "one1": ("one-1",), "two0": ("two-1",), "two1": ("two-1",),
    }  # fmt: skip
    told = edges(recorder)
    assert told["decide-1"] == ["work-1", "work-2", "work-3", "work-4"]
    assert told["end-1"] == ["decide-1"]


@pytest.mark.parametrize("way", WAYS)
async def test_subgraphs_and_steps_of_ones_own_are_inside_their_node(way: str) -> None:
    @burnish.traced("search")
    def search(question: str) -> str:
        return question.upper()

    def look(state: State) -> State:
        return {"log": [search(state.get("question", ""))]}

    inner = drawing("first", "second")
    inner.add_edge(START, "first")
    inner.add_edge("first", "second")
    graph = drawing("end")
    graph.add_node("crew", inner.compile())
    graph.add_node("look", look)
    graph.add_edge(START, "look")
    graph.add_edge("look", "crew")
    graph.add_edge("crew", "end")
    with recording() as recorder:
        await run(traced_graph(graph.compile()), way, question="tea", log=[])
    assert edges(recorder) == {
        "look/search-1": [],
        "look-1": ["look/search-1"],
        "crew/first-1": ["look-1"],
        "crew/second-1": ["crew/first-1"],
        "crew-1": ["crew/second-1"],
        "end-1": ["crew-1"],
    }


@pytest.mark.parametrize("way", WAYS)
async def test_a_node_that_waits_for_the_rest_and_a_command_to_the_graph_around(way: str) -> None:
    def jump(state: State) -> Any:
        return Command(goto="short", graph=Command.PARENT)

    inner = drawing("one")
    inner.add_node("jump", jump)
    inner.add_edge(START, "one")
    inner.add_edge("one", "jump")
    graph = drawing("short", "long", "longer")
    graph.add_node("crew", inner.compile(), destinations=("short",))
    graph.add_node("last", node("last"), defer=True)
    graph.add_edge(START, "crew")
    graph.add_edge("crew", "long")
    graph.add_edge("long", "longer")
    graph.add_edge("longer", "last")
    graph.add_edge("short", "last")
    with recording() as recorder:
        await run(traced_graph(graph.compile()), way, log=[])
    told = edges(recorder)
    assert told["crew-1"] == ["crew/jump-1"]
    assert told["short-1"] == told["long-1"] == ["crew-1"]
    assert told["last-1"] == ["longer-1", "short-1"]


@pytest.mark.parametrize("way", WAYS)
async def test_errors_and_further_tries_are_steps(way: str) -> None:
    tries = iter((ValueError("first"), None, RuntimeError("broken")))

    def shaky(state: State) -> State:
        if (error := next(tries)) is not None:
            raise error
        return {"log": ["shaky"]}

    again = RetryPolicy(initial_interval=0.0, jitter=False, max_attempts=2, retry_on=ValueError)
    graph = drawing("plan")
    graph.add_node("shaky", shaky, retry_policy=again)
    graph.add_node("break", shaky)
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "shaky")
    graph.add_edge("shaky", "break")
    with recording() as recorder, pytest.raises(RuntimeError, match="broken"):
        await run(traced_graph(graph.compile()), way, log=[])
    told = [(step.id, step.predecessors, step.error) for step in recorder.trace().steps]
    assert told == [
        ("plan-1", (), ""),
        ("shaky-1", ("plan-1",), "ValueError: first"),
        ("shaky-2", ("plan-1", "shaky-1"), ""),
        ("break-1", ("shaky-2",), "RuntimeError: broken"),
    ]


@pytest.mark.parametrize("way", WAYS)
async def test_a_try_that_failed_is_followed_by_its_own_retry(way: str) -> None:
    failed: set[str] = set()

    def shaky(state: State) -> State:
        name = str(state.get("question"))
        if name not in failed:
            failed.add(name)
            raise ValueError(name)
        return {"log": [name]}

    again = RetryPolicy(initial_interval=0.0, jitter=False, max_attempts=2, retry_on=ValueError)
    graph = drawing("plan")
    graph.add_node("shaky", shaky, retry_policy=again)
    graph.add_edge(START, "plan")
    sends = [Send("shaky", {"question": name}) for name in ("a", "b")]

    def fan_out(state: State) -> list[Send]:
        return sends

    graph.add_conditional_edges("plan", fan_out, ["shaky"])
    with recording() as recorder:
        await run(traced_graph(graph.compile()), way, log=[])
    trace = recorder.trace()
    steps = {step.id: step for step in trace.steps}
    for step in trace.steps:
        tries = [steps[name] for name in step.predecessors if name != "plan-1"]
        if step.node == "shaky":
            assert [each.input for each in tries] == ([] if step.error else [step.input])
    assert all(not step.error for step in terminal_steps(trace))


async def test_models_and_tools_of_langchain_are_told_in_their_step() -> None:
    tokens = {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9}
    model = FakeMessagesListChatModel(
        responses=[AIMessage("hi", usage_metadata=cast("Any", tokens))]
    )

    @tool
    def look(thing: str) -> str:
        """Look at a thing."""
        if thing == "sun":
            raise ValueError("too bright")
        return f"a {thing}"

    async def talk(state: State) -> State:
        await model.ainvoke("hello")
        found = await cast("Any", look).ainvoke({"thing": "cup"})
        with pytest.raises(ValueError, match="bright"):
            await cast("Any", look).ainvoke({"thing": "sun"})
        return {"log": [found]}

    graph = drawing()
    graph.add_node("talk", talk)
    graph.add_edge(START, "talk")
    with recording() as recorder:
        await run(traced_graph(graph.compile()), "ainvoke", log=[])
    (step,) = recorder.trace().steps
    assert (step.usage.requests, step.usage.input_tokens, step.usage.output_tokens) == (1, 7, 2)
    assert [(use.name, use.arguments, use.result, use.error) for use in step.tools] == [
        ("look", {"thing": "cup"}, "a cup", ""),
        ("look", {"thing": "sun"}, None, "ValueError: too bright"),
    ]


async def test_a_traced_graph_in_a_traced_graph_is_told_once() -> None:
    inner = drawing("first")
    inner.add_edge(START, "first")
    graph = drawing("end")
    graph.add_node("crew", traced_graph(inner.compile()))
    graph.add_edge(START, "crew")
    graph.add_edge("crew", "end")
    with recording() as recorder:
        await run(traced_graph(graph.compile()), "ainvoke", log=[])
    assert edges(recorder) == {
        "crew/first-1": [], "crew-1": ["crew/first-1"], "end-1": ["crew-1"],
    }  # fmt: skip


def test_where_nobody_records_it_is_the_graph_it_was() -> None:
    graph = drawing("only")
    graph.add_edge(START, "only")
    compiled = cast("Any", traced_graph(graph.compile()))
    assert compiled.invoke({"log": []}) == {"log": ["only"]}
    with pytest.raises(BurnishError, match="not a compiled graph"):
        traced_graph(graph)


def test_without_langgraph_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['langgraph'] = None\n"
        "from burnish.core.errors import BurnishError\n"
        "try:\n    import burnish.tracing.langgraph\n"
        "except BurnishError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert install_command("langgraph") in done.stdout
