"""Scripted model endpoints on loopback: real sockets that answer, and misbehave on demand.

async with ScriptedServer(protocol="openai", answers=["hello", Status(429)]) as server:
    ref = ModelRef.parse("openai:any", base_url=server.base_url)
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Self

from burnish.testing.servers.answers import (
    Answer,
    Dropped,
    Malformed,
    Slow,
    Status,
    Truncated,
)
from burnish.testing.servers.http import Asked, NotHttp, read_request
from burnish.testing.servers.protocols import PROTOCOLS, ProtocolName, listed_models
from burnish.testing.servers.responses import response_format, response_to

MOST_REQUESTS_KEPT = 10_000
MOST_CONNECTIONS = 1024


REFUSAL = Status(400, message="This response_format type is unavailable now")


class ScriptedServer:
    """An endpoint that gives the answers it was told to, in order; the last one for ever.

    A function in their place gets each request and says what to answer. `refuses` names the
    types of `response_format` that it turns away with `refusal`, as many real endpoints do.
    """

    def __init__(
        self,
        *,
        protocol: ProtocolName = "openai",
        answers: Sequence[Answer] | Callable[[Asked], Answer] = ("ok",),
        models: Sequence[str] = ("scripted",),
        refuses: Collection[str] = (),
        refusal: Status = REFUSAL,
    ) -> None:
        self.requests: deque[Asked] = deque(maxlen=MOST_REQUESTS_KEPT)
        """What was asked, the newest last."""
        self.abandoned = 0
        """How many clients went away while a slow answer was on its way."""
        self._words = PROTOCOLS[protocol]
        self._models = tuple(models)
        self._refuses = frozenset(refuses)
        self._refusal = refusal
        self._script = answers if callable(answers) else _in_order(answers)
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        """Where it listens."""
        assert self._server is not None, "the server is not running: use it with `async with`"
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    @property
    def base_url(self) -> str:
        """The address that clients of its protocol are given."""
        return f"{self.address}{self._words.prefix}"

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._open)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512)
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            if len(self._open) <= MOST_CONNECTIONS:
                await self._converse(reader, writer)
        except (ConnectionError, NotHttp, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # The client has gone, or the server is closing.
        finally:
            self._open.discard(task)
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (asked := await read_request(reader)) is not None:
            self.requests.append(asked)
            answer = self._answer(asked)
            if isinstance(answer, Slow):
                if await _client_left(reader, answer.seconds):
                    self.abandoned += 1
                    return
                answer = answer.text
            if isinstance(answer, Dropped):
                if answer.reset:
                    writer.transport.abort()
                return
            writer.write(response_to(asked, answer, self._words))
            await writer.drain()
            if isinstance(answer, Truncated):
                return

    def _answer(self, asked: Asked) -> Answer:
        if asked.path == "/api/tags":
            return Malformed(json.dumps(listed_models(self._models)).encode())
        if not asked.path.endswith(self._words.question):
            return Status(404, message=f"nothing here: {asked.path}")
        if response_format(asked) in self._refuses:
            return self._refusal
        return self._script(asked)


def _in_order(answers: Sequence[Answer]) -> Callable[[Asked], Answer]:
    left = deque(answers)
    if not left:
        raise ValueError("a scripted server needs at least one answer")
    return lambda _: left.popleft() if len(left) > 1 else left[0]


async def _client_left(reader: asyncio.StreamReader, seconds: float) -> bool:
    try:
        await asyncio.wait_for(reader.read(1), seconds)
    except TimeoutError:
        return False
    return True
