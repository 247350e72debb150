"""Scripted model endpoints on loopback: real sockets that answer, and misbehave on demand."""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeAlias, cast

from burnish.testing.http_exchange import HttpRequest, NotHttp, head, read_request


@dataclass(frozen=True, kw_only=True)
class ModelReply:
    """A whole answer, where a plain text does not say enough."""

    text: str = "ok"
    finish: str = "stop"
    """`stop`, `length` or `content_filter`; the protocol has its own words for them."""
    input_tokens: int = 7
    output_tokens: int = 3
    model: str = ""
    """Empty repeats the model that was asked for."""
    uses: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """Tools that it wants to use, by name, with their arguments; the OpenAI protocol only."""


@dataclass(frozen=True)
class Status:
    """An error status, as the protocol words it."""

    code: int
    retry_after: float | str | None = None
    """Seconds, or an HTTP date; None sends no Retry-After."""
    message: str = "scripted trouble"
    error_code: str = ""
    """The protocol's own name of the error, such as `insufficient_quota`."""
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What else the error says."""


@dataclass(frozen=True)
class Slow:
    """An answer that takes its time."""

    seconds: float
    text: str = "ok"


@dataclass(frozen=True)
class CutOff:
    """An answer that ended because there was no room for more of it."""

    text: str = "half an ans"


@dataclass(frozen=True)
class Malformed:
    """A success whose body is not what was promised."""

    body: bytes = b"<html><body>It works!</body></html>"
    content_type: str = "application/json"


@dataclass(frozen=True)
class Truncated:
    """The connection closes in the middle of the body."""

    text: str = "ok"


@dataclass(frozen=True)
class Dropped:
    """The connection closes without an answer."""

    reset: bool = False
    """Resets it instead of closing it in order."""


Answer: TypeAlias = str | ModelReply | Status | Slow | CutOff | Malformed | Truncated | Dropped


# -- Bodies ---------------------------------------------------------------------------------------


Document: TypeAlias = dict[str, Any]


def openai_reply(reply: ModelReply, model: str) -> Document:
    """A chat completion."""
    message: Document = {"role": "assistant", "content": reply.text, "refusal": None}
    finish = reply.finish
    if reply.uses:
        message |= {"content": None, "tool_calls": [_use(*use) for use in reply.uses]}
        finish = "tool_calls"
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": reply.input_tokens,
            "completion_tokens": reply.output_tokens,
            "total_tokens": reply.input_tokens + reply.output_tokens,
        },
    }


def _use(name: str, arguments: Mapping[str, Any]) -> Document:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call_{name}", "type": "function", "function": function}


def openai_error(status: Status) -> Document:
    """An error of the OpenAI protocol."""
    kind = "invalid_request_error" if status.code < 500 else "server_error"
    error = {"message": status.message, "type": kind, "param": None, "code": status.error_code}
    return {"error": {**error, **status.more}}


_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


def anthropic_reply(reply: ModelReply, model: str) -> Document:
    """A message."""
    return {
        "id": "msg_scripted",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": reply.text}],
        "stop_reason": _STOP_REASONS.get(reply.finish, reply.finish),
        "stop_sequence": None,
        "usage": {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens},
    }


def anthropic_events(message: Document) -> list[Document]:
    """The same message as a stream."""
    start: Document = {**message, "content": [], "stop_reason": None}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    text = message["content"][0]["text"]
    return [
        {"type": "message_start", "message": start},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": text},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": message["usage"]},
        {"type": "message_stop"},
    ]


_ANTHROPIC_ERRORS = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def anthropic_error(status: Status) -> Document:
    """An error of the Anthropic protocol."""
    usual = "invalid_request_error" if status.code < 500 else "api_error"
    kind = status.error_code or _ANTHROPIC_ERRORS.get(status.code, usual)
    return {"type": "error", "error": {"type": kind, "message": status.message, **status.more}}


_GOOGLE_FINISHES = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}


def google_reply(reply: ModelReply, model: str) -> Document:
    """A generated content."""
    candidate = {
        "content": {"role": "model", "parts": [{"text": reply.text}]},
        "finishReason": _GOOGLE_FINISHES.get(reply.finish, reply.finish),
        "index": 0,
    }
    used = {
        "promptTokenCount": reply.input_tokens,
        "candidatesTokenCount": reply.output_tokens,
        "totalTokenCount": reply.input_tokens + reply.output_tokens,
    }
    return {"candidates": [candidate], "usageMetadata": used, "modelVersion": model}


_GOOGLE_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


def google_error(status: Status) -> Document:
    """An error of Google's APIs."""
    name = status.error_code or _GOOGLE_STATUSES.get(status.code, "UNKNOWN")
    error = {"code": status.code, "message": status.message, "status": name}
    return {"error": {**error, **status.more}}


# -- The protocols that a scripted server speaks --------------------------------------------------


ProtocolName: TypeAlias = Literal["openai", "anthropic", "google", "ollama"]


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How one protocol words what a script says."""

    prefix: str
    """What a client's base address ends with."""
    question: str
    """The end of the path on which a model is asked."""
    reply: Callable[[ModelReply, str], Document]
    error: Callable[[Status], Document]
    events: Callable[[Document], list[Document]] | None = None
    """The same reply as a stream of events, where clients may ask for one."""


_CHAT = "/chat/completions"
PROTOCOLS: Mapping[ProtocolName, Protocol] = {
    "openai": Protocol(prefix="/v1", question=_CHAT, reply=openai_reply, error=openai_error),
    "ollama": Protocol(prefix="/v1", question=_CHAT, reply=openai_reply, error=openai_error),
    "anthropic": Protocol(
        prefix="",
        question="/v1/messages",
        reply=anthropic_reply,
        error=anthropic_error,
        events=anthropic_events,
    ),
    "google": Protocol(
        prefix="", question=":generateContent", reply=google_reply, error=google_error
    ),
}


def listed_models(names: tuple[str, ...]) -> Document:
    """What Ollama says on `/api/tags`."""
    return {"models": [{"name": name, "model": name, "size": 1} for name in names]}


# -- From a scripted answer to the bytes of a response --------------------------------------------


_CUT = 9
"""How many bytes a truncated answer lacks."""


def response_to(request: HttpRequest, answer: Answer, words: Protocol) -> bytes:
    """What is written to the socket."""
    if isinstance(answer, Malformed):
        return head(200, len(answer.body), kind=answer.content_type) + answer.body
    if isinstance(answer, Status):
        return _failure(answer, words)
    if isinstance(answer, Dropped):
        return b""
    if isinstance(answer, str | ModelReply | Slow | CutOff):
        return _success(request, answer, words)
    return _success(request, answer.text, words)[:-_CUT]


def response_format(request: HttpRequest) -> str:
    """The type of `response_format` that a request names; empty where it names none."""
    named = _fields(request).get("response_format")
    return str(cast("dict[str, Any]", named).get("type", "")) if isinstance(named, dict) else ""


def _failure(status: Status, words: Protocol) -> bytes:
    wait = status.retry_after
    more = {} if wait is None else {"Retry-After": f"{wait}"}
    body = json.dumps(words.error(status)).encode()
    return head(status.code, len(body), more=more) + body


def _success(
    request: HttpRequest, answer: str | ModelReply | Slow | CutOff, words: Protocol
) -> bytes:
    reply = _as_reply(answer)
    document = words.reply(reply, reply.model or _model_of(request))
    if words.events is not None and _fields(request).get("stream"):
        body = _as_events(words.events(document))
        return head(200, len(body), kind="text/event-stream") + body
    body = json.dumps(document).encode()
    return head(200, len(body)) + body


def _as_reply(answer: str | ModelReply | Slow | CutOff) -> ModelReply:
    if isinstance(answer, ModelReply):
        return answer
    if isinstance(answer, CutOff):
        return ModelReply(text=answer.text, finish="length")
    return ModelReply(text=answer if isinstance(answer, str) else answer.text)


def _fields(request: HttpRequest) -> dict[str, Any]:
    return cast("dict[str, Any]", request.json) if isinstance(request.json, dict) else {}


def _model_of(request: HttpRequest) -> str:
    """In the body or, with Google, in the path."""
    return str(_fields(request).get("model") or request.path.rpartition("/")[2].partition(":")[0])


def _as_events(documents: list[Document]) -> bytes:
    lines = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in documents]
    return "".join(lines).encode()


# -- Scripted model endpoints on loopback ---------------------------------------------------------


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
        answers: Sequence[Answer] | Callable[[HttpRequest], Answer] = ("ok",),
        models: Sequence[str] = ("scripted",),
        refuses: Collection[str] = (),
        refusal: Status = REFUSAL,
    ) -> None:
        self.requests: deque[HttpRequest] = deque(maxlen=MOST_REQUESTS_KEPT)
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
        while (request := await read_request(reader)) is not None:
            self.requests.append(request)
            answer = self._answer(request)
            if isinstance(answer, Slow):
                if await _client_left(reader, answer.seconds):
                    self.abandoned += 1
                    return
                answer = answer.text
            if isinstance(answer, Dropped):
                if answer.reset:
                    writer.transport.abort()
                return
            writer.write(response_to(request, answer, self._words))
            await writer.drain()
            if isinstance(answer, Truncated):
                return

    def _answer(self, request: HttpRequest) -> Answer:
        if request.path == "/api/tags":
            return Malformed(json.dumps(listed_models(self._models)).encode())
        if not request.path.endswith(self._words.question):
            return Status(404, message=f"nothing here: {request.path}")
        if response_format(request) in self._refuses:
            return self._refusal
        return self._script(request)


def _in_order(answers: Sequence[Answer]) -> Callable[[HttpRequest], Answer]:
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
