"""Tracing: the steps an agent's code tells, and what came before what in tasks and threads."""

import asyncio
import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, assert_type

import pytest

import burnish
from burnish.core.cases import Case, Outcome, Step, Trace, Turn, Usage
from burnish.core.content import codec
from burnish.core.errors import BurnishError
from burnish.targets.callables import CallableTarget
from burnish.targets.user_code import CurrentPrompts, providing
from burnish.tracing.recorder import StepRecorder, recording
from tests.targets.calling_agents import outcome


def edges(recorder: StepRecorder) -> dict[str, list[str]]:
    """The predecessors of each step, in the order of the trace."""
    return {step.id: list(step.predecessors) for step in recorder.trace().steps}


def mark(node: str, **more: Any) -> None:
    with burnish.step(node, **more):
        pass


async def work(*nodes: str, wait: int = 0) -> None:
    for _ in range(wait):
        await asyncio.sleep(0)
    for node in nodes:
        async with burnish.step(node):
            await asyncio.sleep(0)


def test_one_after_the_other_and_each_visit_is_a_step() -> None:
    with recording() as recorder:
        mark("plan")
        mark("act")
        mark("plan")
    assert edges(recorder) == {"plan-1": [], "act-1": ["plan-1"], "plan-2": ["act-1"]}


def test_a_step_tells_what_it_got_and_gave() -> None:
    told_of = burnish.step("plan", inputs={"goal": "tea"}, surfaces=["plan.md"])
    with recording() as recorder, told_of as step:
        step.tool("kettle", {"litres": 1}, result="hot", id="k1")
        step.tool("cup", error="broken")
        step.used(requests=1, input_tokens=5, output_tokens=2)
        step.output = "drink"
    (told,) = recorder.trace().steps
    assert (told.node, told.input, told.output) == ("plan", {"goal": "tea"}, "drink")
    assert told.surfaces == ("plan.md",)
    assert [(use.name, use.result, use.error, use.id) for use in told.tools] == [
        ("kettle", "hot", "", "k1"),
        ("cup", None, "broken", ""),
    ]
    assert told.usage == Usage(requests=1, input_tokens=5, output_tokens=2)


async def test_tasks_fan_out_and_fan_in() -> None:
    with recording() as recorder:
        mark("plan")
        await asyncio.gather(work("left"), work("right", "rest"))
        mark("merge")
        async with asyncio.TaskGroup() as group:
            group.create_task(work("one"))
            group.create_task(work("two"))
        mark("end")
    assert edges(recorder) == {
        "plan-1": [],
        "left-1": ["plan-1"],
        "right-1": ["plan-1"],
        "rest-1": ["right-1"],
        "merge-1": ["left-1", "rest-1"],
        "one-1": ["merge-1"],
        "two-1": ["merge-1"],
        "end-1": ["one-1", "two-1"],
    }


async def test_tasks_begun_after_others_were_joined_follow_those() -> None:
    with recording() as recorder:
        await asyncio.gather(work("a"), work("b"))
        await asyncio.gather(work("c"), work("d"))
        await asyncio.wait_for(work("e"), 120)
    told = edges(recorder)
    assert told["c-1"] == told["d-1"] == ["a-1", "b-1"]
    assert told["e-1"] == ["c-1", "d-1"]


async def test_a_task_that_only_waited_for_another_does_not_follow_it() -> None:
    one_at_a_time = asyncio.Semaphore(1)

    async def queued(node: str) -> None:
        async with one_at_a_time:
            await work(node)

    with recording() as recorder:
        mark("plan")
        await asyncio.gather(*(queued(node) for node in "abc"))
        mark("end")
    told = edges(recorder)
    assert told["a-1"] == told["b-1"] == told["c-1"] == ["plan-1"]
    assert told["end-1"] == ["a-1", "b-1", "c-1"]


async def test_a_task_in_the_background_is_followed_once_it_has_ended() -> None:
    go_on = asyncio.Event()

    async def research_slowly() -> None:
        await work("search")
        await go_on.wait()
        await work("read")

    with recording() as recorder:
        mark("plan")
        research = asyncio.create_task(research_slowly())
        await work("outline", wait=5)
        mark("title")
        go_on.set()
        await research
        mark("write")
    told = edges(recorder)
    assert told["search-1"] == ["plan-1"]
    assert told["outline-1"] == ["plan-1"]
    assert told["title-1"] == ["outline-1"]
    assert sorted(told["write-1"]) == ["read-1", "title-1"]


async def test_a_task_is_begun_from_where_its_maker_was_then() -> None:
    with recording() as recorder:
        mark("plan")
        task = asyncio.create_task(work("late"))
        mark("meanwhile")
        await task
        mark("end")
    told = edges(recorder)
    assert told["late-1"] == ["plan-1"]
    assert sorted(told["end-1"]) == ["late-1", "meanwhile-1"]


async def test_inner_steps_come_before_the_step_they_are_in() -> None:
    with recording() as recorder:
        mark("before")
        with burnish.step("crew"):
            mark("lead")
            await asyncio.gather(work("left"), work("right"))
        mark("after")
    assert edges(recorder) == {
        "before-1": [],
        "crew/lead-1": ["before-1"],
        "crew/left-1": ["crew/lead-1"],
        "crew/right-1": ["crew/lead-1"],
        "crew-1": ["crew/left-1", "crew/right-1"],
        "after-1": ["crew-1"],
    }


def test_what_comes_before_can_be_said() -> None:
    with recording() as recorder:
        with burnish.step("a") as first:
            pass
        mark("b")
        with burnish.step("c", after=[first]):
            mark("inner")
        mark("d")
        mark("fresh", after=[])
    assert edges(recorder) == {
        "a-1": [],
        "b-1": ["a-1"],
        "c/inner-1": ["a-1"],
        "c-1": ["c/inner-1"],
        "d-1": ["b-1", "c-1"],
        "fresh-1": [],
    }


def test_a_pool_of_threads_when_the_function_is_carried() -> None:
    both = threading.Barrier(2)

    def visit(node: str) -> str:
        with burnish.step(node):
            both.wait(120)
        return node

    with recording() as recorder, ThreadPoolExecutor(2) as pool:
        mark("plan")
        assert list(pool.map(burnish.carry(visit), ["a", "b"])) == ["a", "b"]
        list(pool.map(burnish.carry(visit), ["c", "d"]))
        mark("merge")
        pool.submit(mark, "unseen").result()
    told = edges(recorder)
    assert told["a-1"] == told["b-1"] == ["plan-1"]
    assert sorted(told["c-1"]) == sorted(told["d-1"]) == ["a-1", "b-1"]
    assert sorted(told["merge-1"]) == ["c-1", "d-1"]
    assert "unseen-1" not in told


async def test_to_thread_and_loops_in_threads() -> None:
    def whole() -> None:
        asyncio.run(work("first"))
        asyncio.run(work("second"))

    with recording() as recorder:
        mark("plan")
        await asyncio.to_thread(whole)
        await work("end")
    told = edges(recorder)
    assert told["first-1"] == ["plan-1"]
    assert told["second-1"] == ["first-1"]
    assert told["end-1"] == ["second-1"]


def test_many_threads_lose_nothing() -> None:
    def visit(number: int) -> None:
        for _ in range(20):
            mark("node", inputs=number)

    with recording() as recorder, ThreadPoolExecutor(8) as pool:
        list(pool.map(burnish.carry(visit), range(8)))
        mark("end")
    steps = recorder.trace().steps
    seen: set[str] = set()
    for each in steps:
        assert seen.issuperset(each.predecessors)
        seen.add(each.id)
    assert len(seen) == 161
    assert len(steps[-1].predecessors) == 8


def test_a_traced_function_is_a_step() -> None:
    @burnish.traced
    def double(number: int, *, times: int = 2) -> int:
        return number * times

    class Planner:
        @burnish.traced("planner", surfaces=["plan"])
        async def plan(self, goal: str) -> str:
            raise ValueError(f"no way to {goal}")

    assert_type(double(1), int)
    with recording() as recorder:
        assert double(2, times=3) == 6
        with pytest.raises(ValueError, match="no way to win"):
            asyncio.run(Planner().plan("win"))
    first, second = recorder.trace().steps
    assert (first.node, first.input, first.output) == ("double", {"number": 2, "times": 3}, 6)
    assert (second.node, second.input, second.surfaces) == ("planner", {"goal": "win"}, ("plan",))
    assert second.error == "ValueError: no way to win"


def test_a_generator_cannot_be_traced() -> None:
    with pytest.raises(BurnishError, match=r"burnish\.step"):

        @burnish.traced
        def numbers() -> Any:  # pyright: ignore[reportUnusedFunction]
            yield 1


def test_only_plain_functions_are_carried() -> None:
    with pytest.raises(BurnishError, match="is async"):
        burnish.carry(work)


def test_where_nobody_records_nothing_is_kept() -> None:
    with burnish.step("plan", inputs=1) as step:
        step.tool("kettle")
        assert step.done("x") == "x"
    assert step.record is None
    assert burnish.carry(len)([1]) == 1


class Odd:
    def __str__(self) -> str:
        raise RuntimeError


def test_whatever_the_values_are_the_journal_can_keep_them() -> None:
    loop: list[Any] = []
    loop.append(loop)
    values = [math.nan, "half \ud800", b"\xff", {1: {2}}, object, Odd(), loop]
    with recording() as recorder:
        for value in values:
            with burnish.step("node", inputs=value) as step:
                step.tool("t", {"\ud800": value}, result=value)
                step.output = [value]
    kept = Outcome(trace=recorder.trace())
    kind = codec(Outcome)
    assert kind.decode(kind.encode(kept)) == kept
    assert kept.trace.steps[0].input == "nan"
    assert kept.trace.steps[1].tools[0].arguments == {"?": "half ?"}


def test_a_prompt_read_in_a_step_is_a_surface_of_it(tmp_path: Any) -> None:
    texts = {"plan": "Plan.", "style": "Short."}
    given = CurrentPrompts(texts=texts, make_folder=lambda: tmp_path)
    with recording() as recorder, providing(given):
        with burnish.step("planner"):
            burnish.prompt("plan")
            with burnish.step("writer"):
                burnish.prompt("style")
            burnish.prompt("other", default="not the candidate's")
        mark("search")
    told = {step.node: step.surfaces for step in recorder.trace().steps}
    assert told == {"planner/writer": ("style",), "planner": ("plan",), "search": ()}


async def two_nodes(query: str) -> str:
    with burnish.step("plan", inputs=query) as step:
        step.used(requests=1, input_tokens=3)
        step.output = query.upper()
    mark("write")
    return "done"


def two_nodes_in_a_thread(query: str) -> str:
    return asyncio.run(two_nodes(query))


@pytest.mark.parametrize("agent", [two_nodes, two_nodes_in_a_thread])
async def test_an_agent_that_is_called_is_recorded(agent: Callable[..., Any]) -> None:
    case = Case(turns=(Turn(input="one"), Turn(input="two")))
    got = await outcome(CallableTarget(agent=agent), case)
    told = [(step.id, step.turn, step.predecessors) for step in got.trace.steps]
    assert told == [
        ("turn 1: plan-1", 0, ()),
        ("turn 1: write-1", 0, ("turn 1: plan-1",)),
        ("turn 2: plan-1", 1, ("turn 1: write-1",)),
        ("turn 2: write-1", 1, ("turn 2: plan-1",)),
    ]
    assert got.trace.steps[2].output == "TWO"
    assert got.usage == Usage(requests=2, input_tokens=6)


async def test_cases_at_once_do_not_mix() -> None:
    async def agent(query: str) -> str:
        await asyncio.gather(work(query), work(query))
        return query

    found = await asyncio.gather(
        *(outcome(CallableTarget(agent=agent), f"q{number}") for number in range(5))
    )
    for number, got in enumerate(found):
        assert [step.node for step in got.trace.steps] == [f"q{number}"] * 2


async def test_an_agent_that_tells_its_own_trace_keeps_it() -> None:
    async def agent(query: str) -> Outcome:
        mark("unused")
        return Outcome(replies=("x",), trace=Trace(steps=(Step(id="s", node="own"),)))

    got = await outcome(CallableTarget(agent=agent), "hello")
    assert [step.node for step in got.trace.steps] == ["own"]


async def test_a_step_that_never_ended_says_so() -> None:
    async def agent(query: str) -> str:
        burnish.step("open").__enter__()
        return query

    (step,) = (await outcome(CallableTarget(agent=agent), "hello")).trace.steps
    assert "had not ended" in step.error
