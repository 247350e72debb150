"""Python agents: how they are called, what they may give, and that conversations never mix."""

import asyncio
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from burnish.core.cases import (
    Case,
    Failure,
    FailureKind,
    Message,
    Outcome,
    Step,
    ToolCall,
    Trace,
    Turn,
    Usage,
)
from burnish.core.errors import ConfigError, RoleFailed
from burnish.metrics.turns import NextRemark, TalkSoFar
from burnish.targets.callables import CallableTarget
from burnish.targets.user_code import in_thread
from burnish.testing import ScriptedRole, check_target
from tests.targets.calling_agents import SCENARIO, TWO_TURNS, outcome, receipt, user

History = list[dict[str, str]]


@pytest.fixture(autouse=True)
def _clean_imports() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("agent_of_"):
            del sys.modules[name]


async def shout(query: str) -> str:
    return query.upper()


async def recall(query: str, history: History) -> str:
    return f"{query} | {[each['content'] for each in history]}"


def gives(value: object) -> Callable[[str], object]:
    """An agent that always gives the same."""

    def agent(query: str) -> object:
        return value

    return agent


def sleeps(query: str) -> None:
    time.sleep(30)


class Counter:
    """An agent with a memory of its own."""

    closed: int = 0

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def send(self, message: str) -> str:
        self.heard.append(message)
        await asyncio.sleep(0.001)
        return " + ".join(self.heard)

    def close(self) -> None:
        Counter.closed += 1


class Echo:
    def __call__(self, message: str) -> str:
        return message


def make_echo() -> Echo:
    return Echo()


async def make_counter() -> Counter:
    return Counter()


@pytest.mark.parametrize(
    ("agent", "remembers"),
    [
        (shout, False),
        (Echo(), False),
        (str.upper, False),
        (partial(shout), False),
        (recall, True),
        (Counter, True),
        (make_echo, True),
        (make_counter, True),
    ],
)
async def test_every_kind_of_agent_keeps_the_contract(
    agent: Callable[..., Any], remembers: bool
) -> None:
    target = CallableTarget(agent=agent)
    await check_target(target, [Case.single("日本語 🙂"), TWO_TURNS])
    assert target.remembers is remembers


async def test_a_conversation_is_told_or_remembered() -> None:
    told = await outcome(CallableTarget(agent=recall), TWO_TURNS)
    assert told.replies[0] == "My name is Ana. | []"
    assert told.replies[1] == f"Who am I? | ['My name is Ana.', {told.replies[0]!r}]"
    kept = await outcome(CallableTarget(agent=Counter), TWO_TURNS)
    assert kept.replies == ("My name is Ana.", "My name is Ana. + Who am I?")


async def test_what_was_said_before_the_case_is_history() -> None:
    case = Case(turns=(Turn(input="And now?"),), history=(Message(role="user", content="Before."),))
    assert (await outcome(CallableTarget(agent=recall), case)).output == "And now? | ['Before.']"


async def test_a_session_is_one_conversations_own() -> None:
    async def which(query: str, *, session: str) -> str:
        return session

    target = CallableTarget(agent=which)
    one, other = await outcome(target, TWO_TURNS), await outcome(target, TWO_TURNS)
    assert one.replies[0] == one.replies[1] != other.replies[0]


async def test_two_conversations_at_once_never_mix() -> None:
    target = CallableTarget(agent=Counter)
    cases = [Case(turns=(Turn(input=f"{n}a"), Turn(input=f"{n}b"))) for n in range(50)]
    found = await asyncio.gather(*(outcome(target, case) for case in cases))
    assert [each.output for each in found] == [f"{n}a + {n}b" for n in range(50)]


async def test_an_agent_of_one_conversation_is_closed_after_it() -> None:
    before = Counter.closed
    await outcome(CallableTarget(agent=Counter), "hello")
    assert Counter.closed == before + 1


class Total(BaseModel):
    total: float


@dataclass
class Sum:
    of: list[int]


@pytest.mark.parametrize(
    ("given", "reply", "data"),
    [
        ("plain", "plain", None),
        ("", "", None),
        ({"total": 3}, '{"total": 3}', {"total": 3}),
        (Total(total=1.5), '{"total": 1.5}', {"total": 1.5}),
        (Sum(of=[1, 2]), '{"of": [1, 2]}', {"of": [1, 2]}),
        (["é"], '["é"]', ["é"]),
        (7, "7", 7),
        (True, "true", True),
    ],
)
async def test_what_an_agent_may_give(given: object, reply: str, data: object) -> None:
    found = await outcome(CallableTarget(agent=gives(given)), "q")
    assert (found.output, found.data, found.failure) == (reply, data, None)


@pytest.mark.parametrize(("given", "words"), [(None, "None"), (object(), "object")])
async def test_what_is_neither_text_nor_json_is_the_agents_failure(
    given: object, words: str
) -> None:
    found = await outcome(CallableTarget(agent=gives(given)), "q")
    assert found.failed
    assert found.failure is not None
    assert words in found.failure.message


async def test_an_outcome_of_its_own_keeps_its_tools_and_costs() -> None:
    def agent(query: str) -> Outcome:
        tool = ToolCall(name="add", arguments={"a": 1}, result=2)
        steps = (
            Step(id="plan", node="planner"),
            Step(id="do", node="worker", predecessors=("plan",), tools=(tool,)),
        )
        usage = Usage(requests=1, input_tokens=5, output_tokens=2)
        return Outcome(replies=("2",), trace=Trace(steps=steps), usage=usage, nano_usd=7)

    found = await receipt(CallableTarget(agent=agent), TWO_TURNS)
    steps = found.value.trace.steps
    assert [(s.id, s.turn, s.predecessors) for s in steps] == [
        ("turn 1: plan", 0, ()),
        ("turn 1: do", 0, ("turn 1: plan",)),
        ("turn 2: plan", 1, ("turn 1: do",)),
        ("turn 2: do", 1, ("turn 2: plan",)),
    ]
    assert steps[3].tools[0].name == "add"
    assert (found.spend.calls, found.spend.tokens_in, found.spend.nano_usd) == (2, 10, 14)
    assert found.spend.unpriced == 0


async def test_an_outcome_that_says_it_failed_ends_the_conversation() -> None:
    calls: list[str] = []

    def agent(query: str) -> Outcome:
        calls.append(query)
        return Outcome(failure=Failure(kind=FailureKind.INFRASTRUCTURE, message="no quota"))

    found = await outcome(CallableTarget(agent=agent), TWO_TURNS)
    assert found.missing
    assert calls == ["My name is Ana."]


async def test_the_trace_has_a_step_a_turn() -> None:
    found = await outcome(CallableTarget(agent=shout), TWO_TURNS)
    assert [(s.node, s.turn, s.input, s.output, s.predecessors) for s in found.trace.steps] == [
        ("agent", 0, "My name is Ana.", "MY NAME IS ANA.", ()),
        ("agent", 1, "Who am I?", "WHO AM I?", ("turn 1",)),
    ]
    assert found.seconds >= sum(s.seconds for s in found.trace.steps) > 0


async def test_a_price_that_nobody_told_is_unknown_not_nothing() -> None:
    found = await receipt(CallableTarget(agent=shout), TWO_TURNS)
    assert (found.spend.unpriced, found.value.nano_usd) == (2, None)
    priced = CallableTarget(agent=shout, usd_per_call=0.002)
    found = await receipt(priced, TWO_TURNS)
    assert (found.spend.usd, priced.estimate(TWO_TURNS).usd) == (0.004, 0.004)


async def test_a_function_that_waits_does_not_keep_others_waiting() -> None:
    meet = threading.Barrier(40)

    def agent(query: str) -> str:
        meet.wait(timeout=120)
        return query

    target = CallableTarget(agent=agent)
    found = await asyncio.gather(*(outcome(target, f"{n}") for n in range(40)))
    assert [each.output for each in found] == [f"{n}" for n in range(40)]


async def test_a_function_that_never_returns_can_be_left() -> None:
    async with asyncio.timeout(120):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await outcome(CallableTarget(agent=sleeps), "q")


@pytest.mark.parametrize("error", [ValueError("no"), ConnectionError("away"), StopIteration("x")])
async def test_what_an_agent_raises_is_for_the_run_to_judge(error: Exception) -> None:
    def agent(query: str) -> str:
        raise error

    expected = RuntimeError if isinstance(error, StopIteration) else type(error)
    with pytest.raises(expected, match=str(error)):
        await outcome(CallableTarget(agent=agent), "q")


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_an_agent_that_ends_the_program_does_not(asynchronous: bool) -> None:
    async def later(query: str) -> str:
        sys.exit(3)

    def now(query: str) -> str:
        sys.exit(3)

    found = await outcome(CallableTarget(agent=later if asynchronous else now), "q")
    assert found.failure is not None
    assert found.failure.message == "the agent ended the program: sys.exit(3)"


def two(query: str, temperature: float) -> str:
    return query


class Needy:
    def __init__(self, key: str) -> None: ...


@pytest.mark.parametrize(
    ("agent", "words"),
    [(two, "parameter temperature"), (Needy, "parameter key"), (5, "int cannot be called")],
)
def test_an_agent_that_cannot_be_called_is_said_at_once(agent: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        CallableTarget(agent=agent)


async def test_something_made_that_hears_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="takes no message"):
        await outcome(CallableTarget(agent=lambda: lambda: "deaf"), "q")


# -- scenarios -------------------------------------------------------------------------------


async def test_a_scenario_is_had_with_a_played_user() -> None:
    target = CallableTarget(agent=recall, user=user("To Oslo.", "On Friday."), usd_per_call=0)
    found = await receipt(target, SCENARIO)
    assert found.value.asked == ("I need a flight.", "To Oslo.", "On Friday.")
    assert found.value.replies[2].startswith("On Friday. | ['I need a flight.'")
    assert found.spend.calls == 3


async def test_a_scenario_needs_somebody_to_play() -> None:
    with pytest.raises(ConfigError, match="user_simulator"):
        await outcome(CallableTarget(agent=shout), SCENARIO)


async def test_a_user_who_cannot_be_played_is_missing_not_wrong() -> None:
    def away(request: TalkSoFar, draw: int) -> NextRemark:
        raise RoleFailed("nobody answered", missing=True)

    role = ScriptedRole(
        name="user_simulator", respond=away, answer_type=NextRemark, request_type=TalkSoFar
    )
    found = await receipt(CallableTarget(agent=shout, user=role), SCENARIO)
    assert found.value.missing
    assert found.spend.calls == 1


async def test_an_agent_that_fails_in_a_scenario_keeps_what_was_said() -> None:
    def agent(query: str) -> object:
        return "Where to?" if query == "I need a flight." else None

    found = await outcome(CallableTarget(agent=agent, user=user("To Oslo.", "Oslo!")), SCENARIO)
    assert found.failed
    assert (found.asked, found.replies) == (("I need a flight.", "To Oslo."), ("Where to?",))


def test_a_scenario_may_cost_all_its_turns() -> None:
    target = CallableTarget(agent=shout, user=user())
    assert target.estimate(SCENARIO).calls == 8
    assert target.description.fingerprint != CallableTarget(agent=shout).description.fingerprint


# -- by name ---------------------------------------------------------------------------------


async def test_an_agent_is_found_in_the_folder_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "agent_of_words.py").write_text("WORD = 'hi'\n", encoding="utf-8")
    (tmp_path / "agent_of_mine.py").write_text(
        "from agent_of_words import WORD\nasync def call_agent(query):\n    return WORD + query\n",
        encoding="utf-8",
    )
    target = CallableTarget.load("agent_of_mine:call_agent", tmp_path)
    assert (await outcome(target, "!")).output == "hi!"
    assert target.description.config["call"] == "agent_of_mine:call_agent"


def test_a_changed_file_or_version_is_another_agent(tmp_path: Path) -> None:
    def fingerprint(source: str, version: str = "") -> str:
        sys.modules.pop("agent_of_mine", None)
        (tmp_path / "agent_of_mine.py").write_text(source, encoding="utf-8")
        target = CallableTarget.load("agent_of_mine:call_agent", tmp_path, version=version)
        return target.description.fingerprint

    one = "def call_agent(query):\n    return query\n"
    prints = [fingerprint(one), fingerprint(f"{one}# now\n"), fingerprint(one, version="2")]
    assert len(set(prints)) == 3
    assert fingerprint(one) == prints[0]


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("agent_of_mine", "not of the form"),
        ("agent_of_mine:gone", "has no function 'gone'"),
        ("agent_of_nobody:call_agent", "ModuleNotFoundError"),
        ("agent_of_mine:broken", "no value is known for its parameter b"),
    ],
)
def test_an_agent_that_cannot_be_had_is_said_at_load(
    tmp_path: Path, reference: str, words: str
) -> None:
    (tmp_path / "agent_of_mine.py").write_text("def broken(a, b): ...\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        CallableTarget.load(reference, tmp_path)


class TestThreads:
    """Functions that block run in threads, which are used again."""

    async def test_calls_one_after_the_other_share_a_thread(self) -> None:
        first, second = [await in_thread(threading.current_thread) for _ in range(2)]
        assert first is second
        assert first.daemon

    async def test_a_call_that_hangs_has_its_thread_for_itself(self) -> None:
        free, begun = threading.Event(), threading.Event()
        hanging: list[threading.Thread] = []

        def hang() -> None:
            hanging.append(threading.current_thread())
            begun.set()
            free.wait()

        abandoned = asyncio.create_task(in_thread(hang))
        await asyncio.to_thread(begun.wait)
        abandoned.cancel()
        assert await in_thread(threading.current_thread) not in hanging
        free.set()

    async def test_no_call_sees_the_context_of_another(self) -> None:
        name: ContextVar[str] = ContextVar("name", default="nobody")
        assert await in_thread(lambda: name.set("somebody")) is not None
        assert await in_thread(name.get) == "nobody"

    async def test_a_thread_holds_nothing_of_its_last_call(self) -> None:
        counter = Counter()
        reference = weakref.ref(counter)
        await in_thread(partial(id, counter))
        del counter
        await in_thread(lambda: None)
        assert reference() is None

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
    async def test_a_forked_process_has_threads_of_its_own(self) -> None:
        await in_thread(lambda: None)
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                asyncio.events._set_running_loop(None)  # pyright: ignore[reportPrivateUsage]
                asyncio.run(asyncio.wait_for(in_thread(lambda: None), 60))
                os._exit(0)
            os._exit(1)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
