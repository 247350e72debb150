"""Many calls at once, calls that are given up, and what is left open afterwards."""

import asyncio
from collections.abc import Callable

import pytest

from burnish.models.errors import ModelUnavailable
from burnish.models.wire import WireBackend
from burnish.testing.servers import ScriptedServer, Slow
from tests.models.wire_world import HELLO, KINDS, Kind, set_keys

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    set_keys(monkeypatch)


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - the server is no double of ours to signal
            await asyncio.sleep(0.005)


async def test_64_calls_run_at_once_on_one_backend(kind: Kind) -> None:
    backend = WireBackend()
    answers = [*[Slow(3600)] * 64, "ok"]
    async with ScriptedServer(protocol=kind.protocol, answers=answers) as server:
        ref = kind.ref(server, timeout=3600.0)
        held = [asyncio.create_task(backend.complete(ref, HELLO, draw=draw)) for draw in range(64)]
        await until(lambda: len(server.requests) == server.connections == 64)
        for call in held:
            call.cancel()
        await asyncio.gather(*held, return_exceptions=True)
        await until(lambda: server.abandoned == 64)
        replies = await asyncio.gather(
            *(backend.complete(ref, HELLO, draw=draw) for draw in range(64))
        )
        await backend.close()
        await until(lambda: server.connections == 0)
    assert [reply.text for reply in replies] == ["ok"] * 64
    assert len(server.requests) == 128


async def test_a_cancelled_call_leaves_nothing_open(kind: Kind) -> None:
    backend = WireBackend()
    async with ScriptedServer(protocol=kind.protocol, answers=[Slow(3600), "later"]) as server:
        ref = kind.ref(server)
        call = asyncio.create_task(backend.complete(ref, HELLO, draw=0))
        await until(lambda: len(server.requests) == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: server.abandoned == 1 and server.connections == 0)
        assert (await backend.complete(ref, HELLO, draw=0)).text == "later"
        await backend.close()


async def test_a_call_that_is_out_of_time_leaves_nothing_open(kind: Kind) -> None:
    backend = WireBackend()
    answers = ["first", Slow(3600), "later"]
    async with ScriptedServer(protocol=kind.protocol, answers=answers) as server:
        # The first call pays for what is loaded late: the second is late by its answer alone.
        assert (await backend.complete(kind.ref(server), HELLO, draw=0)).text == "first"
        with pytest.raises(ModelUnavailable):
            await backend.complete(kind.ref(server, timeout=0.2), HELLO, draw=0)
        await until(lambda: server.abandoned == 1)
        assert (await backend.complete(kind.ref(server), HELLO, draw=0)).text == "later"
        await backend.close()
        await until(lambda: server.connections == 0)


async def test_a_backend_can_be_used_again_after_it_was_closed() -> None:
    backend = WireBackend()
    async with ScriptedServer() as server:
        for _ in range(2):
            await backend.complete(KINDS["openai"].ref(server), HELLO, draw=0)
            await backend.close()
            await until(lambda: server.connections == 0)
        assert len(server.requests) == 2
