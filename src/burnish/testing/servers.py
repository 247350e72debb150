"""Scripted model endpoints on loopback: real sockets that answer, and misbehave on demand.

async with ScriptedServer(protocol="openai", answers=["hello", Status(429)]) as server:
    ref = ModelRef.parse("openai:any", base_url=server.base_url)
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Self

from burnish.testing.server_answers import (
    Answer,
    CutOff,
    Dropped,
    Malformed,
    Reply,
    Slow,
    Status,
    Truncated,
)
from burnish.testing.server_http import Asked, NotHttp, head, read_request
from burnish.testing.server_protocols import PROTOCOLS, ProtocolName, as_events, listed_models

__all__ = [
    "Answer",
    "Asked",
    "CutOff",
    "Dropped",
    "Malformed",
    "Reply",
    "ScriptedServer",
    "Slow",
    "Status",
    "Truncated",
]

MOST_REQUESTS_KEPT = 10_000
MOST_CONNECTIONS = 1024


class ScriptedServer:
    """An endpoint that gives the answers it was told to, in order; the last one for ever.

    A function in their place gets each request and says what to answer.
    """

    def __init__(
        self,
        *,
        protocol: ProtocolName = "openai",
        answers: Sequence[Answer] | Callable[[Asked], Answer] = ("ok",),
        models: Sequence[str] = ("scripted",),
    ) -> None:
        self.requests: deque[Asked] = deque(maxlen=MOST_REQUESTS_KEPT)
        """What was asked, the newest last."""
        self.abandoned = 0
        """How many clients went away while a slow answer was on its way."""
        self._words = PROTOCOLS[protocol]
        self._models = tuple(models)
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
            response = self._response(asked, answer)
            writer.write(response[: len(response) - 9] if _is_cut(answer) else response)
            await writer.drain()
            if _is_cut(answer):
                return

    def _answer(self, asked: Asked) -> Answer:
        if asked.path == "/api/tags":
            return Malformed(json.dumps(listed_models(self._models)).encode())
        if not asked.path.endswith(self._words.question):
            return Status(404, message=f"nothing here: {asked.path}")
        return self._script(asked)

    def _response(self, asked: Asked, answer: Answer) -> bytes:
        if isinstance(answer, Malformed):
            return head(200, len(answer.body), kind=answer.content_type) + answer.body
        if isinstance(answer, Status):
            wait = answer.retry_after
            more = {} if wait is None else {"Retry-After": f"{wait}"}
            body = json.dumps(self._words.error(answer)).encode()
            return head(answer.code, len(body), more=more) + body
        document = self._words.reply(_as_reply(answer), _model_of(asked, answer))
        if self._words.events is not None and asked.json and asked.json.get("stream"):
            body = as_events(self._words.events(document))
            return head(200, len(body), kind="text/event-stream") + body
        body = json.dumps(document).encode()
        return head(200, len(body)) + body


def _in_order(answers: Sequence[Answer]) -> Callable[[Asked], Answer]:
    left = deque(answers)
    if not left:
        raise ValueError("a scripted server needs at least one answer")
    return lambda _: left.popleft() if len(left) > 1 else left[0]


def _is_cut(answer: Answer) -> bool:
    return isinstance(answer, Truncated)


def _as_reply(answer: Answer) -> Reply:
    if isinstance(answer, Reply):
        return answer
    if isinstance(answer, CutOff):
        return Reply(text=answer.text, finish="length")
    return Reply(text=answer.text if isinstance(answer, Truncated) else str(answer))


def _model_of(asked: Asked, answer: Answer) -> str:
    if isinstance(answer, Reply) and answer.model:
        return answer.model
    named = asked.json.get("model") if isinstance(asked.json, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return str(named or asked.path.rpartition("/")[2].partition(":")[0])  # pyright: ignore[reportUnknownArgumentType]


async def _client_left(reader: asyncio.StreamReader, seconds: float) -> bool:
    try:
        await asyncio.wait_for(reader.read(1), seconds)
    except TimeoutError:
        return False
    return True
