"""The laws hold with workers: one journal, one bill, one order, whoever does the work."""

import asyncio
import pickle
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.cluster.dask_workers import _RunPlugin  # pyright: ignore[reportPrivateUsage]
from burnish.cluster.station import LinkMessage, Opener, Order, Station, seal
from burnish.core.cases import Outcome
from burnish.core.content import codec
from burnish.core.errors import ConfigError, WorkerTrouble
from burnish.core.evaluations import Evaluation
from burnish.core.money import Spend
from burnish.core.protocols import WorkUnit
from burnish.journal.limits import EndpointLimit, Limits
from burnish.runs.directory import RunRecord, look_into
from burnish.runs.driver import drive
from burnish.runs.events import Tick
from burnish.runs.setup import start
from burnish.testing.servers import HttpRequest, ModelReply, ScriptedServer
from tests.cluster.worlds import (
    WorkersHere,
    agent_project,
    function_project,
    loaded,
    measured,
    story,
    with_workers,
)

KEY = "sk-of-the-worker-1234567890"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("CLUSTER_KEY", KEY)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = {*sys.modules}
    yield
    for name in {*sys.modules} - before:
        if name.startswith("bot_"):
            del sys.modules[name]


class Endpoint:
    """A model that answers in capitals, and counts."""

    def __init__(self, each: Callable[[int], object] = lambda number: None) -> None:
        self.calls: list[str] = []
        self._each = each

    def __call__(self, request: HttpRequest) -> ModelReply:
        query = str(request.json["messages"][-1]["content"])
        self.calls.append(query)
        self._each(len(self.calls))
        return ModelReply(text=query.upper())


def passed(result: Evaluation) -> list[bool | None]:
    return [each.passed(["equality"]) for each in result.results]


async def test_workers_measure_the_same_as_the_process_of_the_run(tmp_path: Path) -> None:
    async with ScriptedServer(answers=Endpoint()) as server:
        path = agent_project(tmp_path, server.base_url, cases=6)
        alone = loaded(path)
        expected, ending = await measured(alone, alone.setup, tmp_path / "alone")
        prepared, transport = loaded(path), WorkersHere(tmp_path)
        setup = with_workers(prepared.setup, transport)
        result, remote = await measured(prepared, setup, tmp_path / "remote")
    assert story(result) == story(expected)
    assert passed(result) == [True] * 6
    # A process that asks the agent's model itself has asked first whether it answers.
    question = Spend(calls=1, tokens_in=7, tokens_out=3, unpriced=1)
    assert remote.spent + question == ending.spent
    assert remote.billed + question == ending.billed
    assert not any(KEY.encode() in letter for letter in transport.sent)


async def test_a_lost_worker_costs_its_calls_in_flight_and_nothing_is_paid_twice(
    tmp_path: Path,
) -> None:
    killed: list[asyncio.Task[None]] = []

    def kill_one(number: int) -> None:
        if number == 4:
            killed.append(asyncio.ensure_future(transport.kill("worker 0")))

    endpoint = Endpoint(kill_one)
    async with ScriptedServer(answers=endpoint) as server:
        path = agent_project(tmp_path, server.base_url, cases=8)
        prepared, transport = loaded(path), WorkersHere(tmp_path)
        result, ending = await measured(
            prepared, with_workers(prepared.setup, transport), tmp_path / "run"
        )
        await asyncio.gather(*killed)
        paid = len(endpoint.calls)
        again = loaded(path)
        one = with_workers(again.setup, WorkersHere(tmp_path, count=1))
        replayed, after = await measured(again, one, tmp_path / "run", again=True)
    assert passed(result) == [True] * 8
    assert ending.spent.calls == 8
    assert ending.billed.calls >= paid >= 8  # what was in flight may not have reached the model
    assert story(replayed) == story(result)
    assert len(endpoint.calls) == paid
    assert (after.spent, after.billed) == (ending.spent, ending.billed)


async def test_a_worker_that_was_out_of_sight_is_used_again(tmp_path: Path) -> None:
    endpoint = Endpoint(lambda number: transport.lose_sight("worker 0") if number == 1 else None)
    async with ScriptedServer(answers=endpoint) as server:
        path = agent_project(tmp_path, server.base_url, cases=4)
        prepared, transport = loaded(path), WorkersHere(tmp_path, count=1)
        result, ending = await measured(
            prepared, with_workers(prepared.setup, transport), tmp_path / "run"
        )
    assert passed(result) == [True] * 4
    assert transport.opened == ["worker 0"] * 2
    assert ending.spent.calls == 4
    assert ending.billed.calls >= len(endpoint.calls)


async def test_a_slow_worker_holds_up_its_own_cases_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others_are_done = asyncio.Event()
    ticks: list[Tick] = []
    ended: list[int] = []

    held_up: list[tuple[str, str]] = []

    class OneIsSlow(WorkersHere):
        async def post(self, address: str, messages: list[LinkMessage]) -> None:
            for message in messages:
                if address == "worker 0" and message.method in ("run", "grade"):
                    about = message.value[1]
                    held_up.append((message.method, getattr(about, "case", about).id))
            await super().post(address, messages)

        async def poll(self, address: str) -> list[LinkMessage]:
            if address == "worker 0":
                await others_are_done.wait()
            return await super().poll(address)

    # Four cases at once: two on each worker, and all that follow on the one that gets on.
    def each(number: int) -> None:
        if number == 8:
            ended.append(len(ticks))
            others_are_done.set()

    grade: Any = Station._grade  # pyright: ignore[reportPrivateUsage]

    async def graded_late(self: Station, *args: Any) -> Any:
        """A case is scored while the next ones run, so that its worker has more to do."""
        seen = len(endpoint.calls)
        while len(endpoint.calls) < seen + 3 and not others_are_done.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0)
        return await grade(self, *args)

    monkeypatch.setattr(Station, "_grade", graded_late)
    endpoint = Endpoint(each)
    async with ScriptedServer(answers=endpoint) as server:
        path = agent_project(tmp_path, server.base_url, cases=10)
        prepared = loaded(path)
        setup = with_workers(prepared.setup, OneIsSlow(tmp_path))
        result, ending = await measured(prepared, setup, tmp_path / "run", ticks=ticks)
    run, graded = ([case for did, case in held_up if did == name] for name in ("run", "grade"))
    assert len(run) == 2
    assert sorted(graded) == sorted(run), "it scores what others ran"
    assert ended[0] > 0, "progress is not live"
    assert [tick.done for tick in ticks] == [*range(1, 11)]
    assert [each.outcome.output for each in result.results] == [f"ASK {n}" for n in range(10)]
    assert {*endpoint.calls[-2:]} < {f"ask {n}" for n in range(4)}
    assert (ending.spent.calls, ending.billed.calls) == (10, 10)


async def test_the_limit_of_an_endpoint_holds_over_all_workers(tmp_path: Path) -> None:
    most = 0

    class Watched(Limits):
        held = 0

        def place(self, endpoint: str):
            nonlocal most
            most = max(most, max(self._held()))
            return super().place(endpoint)

        def _held(self) -> list[int]:
            return [2 - places._value for places in self._places.values()] or [0]  # pyright: ignore[reportPrivateUsage]

    limits = Watched(default=EndpointLimit(concurrency=2))
    async with ScriptedServer(answers=Endpoint()) as server:
        path = agent_project(tmp_path, server.base_url, cases=8)
        prepared = loaded(path)
        setup = with_workers(prepared.setup, WorkersHere(tmp_path, count=3), limits=limits)
        result, _ = await measured(prepared, setup, tmp_path / "run")
    assert passed(result) == [True] * 8
    assert most == 2


async def test_a_case_that_no_worker_survives_is_missing(tmp_path: Path) -> None:
    endpoint = Endpoint()
    async with ScriptedServer(answers=endpoint) as server:
        path = agent_project(tmp_path, server.base_url, cases=1)
        prepared, transport = loaded(path), WorkersHere(tmp_path, count=4)

        def kill_it(number: int) -> None:
            asyncio.ensure_future(transport.kill(f"worker {number - 1}"))  # noqa: RUF006

        endpoint._each = kill_it  # pyright: ignore[reportPrivateUsage]
        setup = replace(prepared.setup, concurrency=1)
        result, ending = await measured(prepared, with_workers(setup, transport), tmp_path / "run")
    (missing,) = result.results
    assert missing.outcome.missing
    assert missing.outcome.failure is not None
    assert "3 workers ended" in missing.outcome.failure.message
    assert (ending.spent.calls, ending.billed.calls) == (0, 3)


async def test_workers_wait_while_nobody_answers_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        "import itertools\n"
        "from burnish.targets.callables.target import AgentUnreachable\n"
        "calls = itertools.count()\n"
        "def answer(query):\n"
        "    if next(calls) < 4:\n"
        "        raise AgentUnreachable('come back later', status=503)\n"
        "    return query.upper()\n"
    )
    monkeypatch.setattr("burnish.journal.outages._TELL_AFTER", 0.0)
    path = function_project(tmp_path, source, cases=3, module="away_bot")
    prepared = loaded(path)
    setup = with_workers(prepared.setup, WorkersHere(tmp_path, count=1))
    result, _ = await measured(prepared, setup, tmp_path / "run")
    assert passed(result) == [True] * 3
    events = RunRecord.read(tmp_path / "run").events
    told = [str(event.data["message"]) for event in events if event.kind == "warning"]
    assert any(line.startswith("come back later (trying again") for line in told)
    assert any(line.startswith("the agent answers again") for line in told)


async def test_progress_and_traces_arrive_while_other_cases_run(tmp_path: Path) -> None:
    source = (
        "import asyncio\n"
        "from burnish.tracing import step\n"
        "GO = asyncio.Event()\n"
        "async def answer(query):\n"
        "    with step('shouting', inputs=query):\n"
        "        if query == 'ask 1':\n"
        "            await GO.wait()\n"
        "        return query.upper()\n"
    )
    path = function_project(tmp_path, source, cases=3, module="bot_with_steps")
    ticks: list[Tick] = []
    prepared, transport, folder = loaded(path), WorkersHere(tmp_path), tmp_path / "run"
    setup = with_workers(prepared.setup, transport)
    work = asyncio.create_task(measured(prepared, setup, folder, ticks=ticks))
    while not (ticks and ticks[-1].done == 2):  # noqa: ASYNC110 - until two cases have ended
        await asyncio.sleep(0)
    with look_into(folder) as journal:
        states = [effect.state for effect in journal.effects() if effect.kind == "run"]
        ended = [codec(Outcome).decode(row.value) for row in journal.values([0], kinds={"run"})]
    steps = [step for outcome in ended for step in outcome.trace.steps]
    assert states == ["done", "in flight", "done"]
    assert [(step.node, step.input) for step in steps] == [
        ("shouting", "ask 0"),
        ("shouting", "ask 2"),
    ]
    bot: Any = sys.modules["bot_with_steps"]
    bot.GO.set()
    result, _ = await work
    assert passed(result) == [True] * 3


async def test_a_stop_ends_the_work_of_workers(tmp_path: Path) -> None:
    source = (
        "import asyncio\n"
        "BEGUN, ASKED, ENDED = asyncio.Event(), [], []\n"
        "async def answer(query):\n"
        "    ASKED.append(query)\n"
        "    BEGUN.set()\n"
        "    try:\n"
        "        await asyncio.Event().wait()\n"
        "    finally:\n"
        "        ENDED.append(query)\n"
    )
    path = function_project(tmp_path, source, cases=3, module="bot_that_waits")
    prepared = loaded(path)
    run = start(with_workers(prepared.setup, WorkersHere(tmp_path)), folder=tmp_path / "run")
    work = asyncio.create_task(drive(run))
    bot: Any = sys.modules["bot_that_waits"]
    await bot.BEGUN.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await run.close()
    assert sorted(bot.ENDED) == sorted(bot.ASKED)


BLOCKING = """\
import time

async def answer(query):
    while query != "ask 1":  # the loop of the worker never turns
        try:
            time.sleep(0.01)
        except Exception:
            pass
    return query.upper()
"""


@asynccontextmanager
async def blocked_worker(folder: Path, limit: float, module: str) -> AsyncGenerator[_RunPlugin]:
    """A worker as Dask has it, with two cases, of which the first blocks its loop."""
    setup = loaded(function_project(folder, BLOCKING, cases=2, module=module)).setup
    plugin = _RunPlugin(Order(run="a-test", spec=setup.project.spec), folder / "worker")

    async def release() -> None: ...

    await plugin.open(release)
    try:
        for number, case in enumerate(setup.dataset.train):
            target = setup.target.description
            unit = WorkUnit(target=target, candidate=setup.target.baseline, case=case, draw=0)
            call = LinkMessage(kind="call", number=number, method="run", value=(0, unit, limit))
            plugin.receive([call])
        yield plugin
    finally:
        await plugin.teardown(None)


async def test_an_async_agent_that_blocks_its_loop_on_a_worker_is_cut(tmp_path: Path) -> None:
    found: dict[int, Any] = {}
    async with blocked_worker(tmp_path, 0.5, "bot_that_blocks") as plugin:
        while len(found) < 2:
            found |= {each.number: each.value for each in await plugin.messages()}
    blocked, fine = (codec(Outcome).decode(found[number].value) for number in (0, 1))
    assert blocked.failure is not None
    assert (blocked.failure.error, blocked.missing) == ("TimeLimit", False)
    assert (fine.failure, fine.output) == (None, "ASK 1")


async def test_a_worker_ends_work_that_blocks_its_loop(tmp_path: Path) -> None:
    async with blocked_worker(tmp_path, 3600.0, "bot_that_stays") as plugin:
        pass
    await asyncio.to_thread(plugin._thread.join)  # pyright: ignore[reportPrivateUsage]


async def test_other_files_on_a_worker_are_refused(tmp_path: Path) -> None:
    path = function_project(
        tmp_path, "def answer(query): return query.upper()\n", cases=2, module="bot_that_differs"
    )
    prepared = loaded(path)
    setup = with_workers(prepared.setup, WorkersHere(tmp_path))
    run = start(setup, folder=tmp_path / "run")
    (tmp_path / "bot_that_differs.py").write_text("def answer(query): return query\n")
    try:
        with pytest.raises(WorkerTrouble, match="not the same there"):
            await drive(run)
    finally:
        await run.close()
    assert run.billed.calls == 0
    with look_into(tmp_path / "run") as journal:
        assert journal.billed.calls == 0


async def test_another_address_of_a_model_on_a_worker_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY", "http://127.0.0.1:9/v1")
    path = agent_project(tmp_path, '"${GATEWAY}"', cases=1)
    run = start(with_workers(loaded(path).setup, WorkersHere(tmp_path)), folder=tmp_path / "run")
    monkeypatch.setenv("GATEWAY", "http://127.0.0.1:9/v2")
    try:
        with pytest.raises(WorkerTrouble, match="addresses differ"):
            await drive(run)
    finally:
        await run.close()


async def test_a_stop_while_no_worker_is_there_bills_nothing(tmp_path: Path) -> None:
    path = function_project(tmp_path, "def answer(q): return q\n", cases=3, module="bot_unasked")
    setup = with_workers(loaded(path).setup, WorkersHere(tmp_path, count=0))
    run = start(setup, folder=tmp_path / "run")
    work = asyncio.create_task(drive(run))
    while run.billed.calls < 3:  # noqa: ASYNC110 - until every case is noted, and waits
        await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await run.close()
    with look_into(tmp_path / "run") as journal:
        assert (journal.billed.calls, run.billed.calls) == (0, 0)


def test_what_cannot_be_sent_is_refused_before_the_start(tmp_path: Path) -> None:
    path = function_project(tmp_path, "def answer(q): return q\n", cases=1, module="bot_of_files")
    (tmp_path / "prompt.md").write_text("Be loud.", encoding="utf-8")
    path.write_text(
        "kind: prompts\ntarget: {python: bot_of_files:answer}\nprompts: {system: prompt.md}\n"
        "isolation: source\ntrain: cases.jsonl\nmetrics: [{type: standard, metric: equality}]\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError, match="one at a time"):
        loaded(path, executor="processes")


@pytest.mark.parametrize(
    "flags", [{"executor": "dask"}, {"executor": "dask", "address": "tcp://h:1", "workers": 2}]
)
def test_dask_needs_a_scheduler_or_a_number_of_workers(
    tmp_path: Path, flags: dict[str, object]
) -> None:
    path = function_project(tmp_path, "def answer(q): return q\n", cases=1, module="bot_nowhere")
    with pytest.raises(ConfigError, match="either a scheduler or a number"):
        loaded(path, **flags)


def test_a_sealed_key_is_read_by_its_worker_only() -> None:
    opener = Opener()
    sealed = seal({"WORKER_KEY": KEY}, opener.public_key)
    assert KEY.encode() not in pickle.dumps(sealed)
    assert opener.open(sealed) == {"WORKER_KEY": KEY}
    with pytest.raises(ValueError, match="ecryption failed"):
        Opener().open(sealed)
