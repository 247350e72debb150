"""Scripted model endpoints on loopback: real sockets that answer, and misbehave on demand."""

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, cast

from burnish.models.chat import PREFLIGHT

_LONGEST_BODY = 16 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class HttpRequest:
    """An HTTP request."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    """By lower-case name."""
    json: Any
    """The body; None if it is empty or not JSON."""


class NotHttp(Exception):
    """The server cannot read the request."""


async def read_request(reader: asyncio.StreamReader) -> HttpRequest | None:
    """The next request of a connection; None if the client has disconnected."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError as error:
        raise NotHttp from error
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    match first.split(" "):
        case [method, target, version] if version.startswith("HTTP/1."):
            path, _, query = target.partition("?")
        case _:
            raise NotHttp
    length = headers.get("content-length", "0")
    if not length.isdigit() or int(length) > _LONGEST_BODY or "transfer-encoding" in headers:
        raise NotHttp
    body = await reader.readexactly(int(length))
    return HttpRequest(method=method, path=path, query=query, headers=headers, json=_document(body))


def _document(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def head(
    status: int, length: int, *, kind: str = "application/json", more: dict[str, str] | None = None
) -> bytes:
    """The status line and headers of a response."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Scripted"
    fields = {"Content-Type": kind, "Content-Length": str(length), **(more or {})}
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in fields.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


@dataclass(frozen=True, kw_only=True)
class ModelReply:
    """A model's reply with more than a text."""

    text: str = "ok"
    finish: str = "stop"
    """`stop`, `length` or `content_filter`, translated to the protocol."""
    input_tokens: int = 7
    output_tokens: int = 3
    model: str = ""
    """The requested model if empty."""
    uses: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """Tool calls: names and arguments. Only for the OpenAI protocol."""


@dataclass(frozen=True)
class Status:
    """An HTTP error in the format of the protocol."""

    code: int
    retry_after: float | str | None = None
    """Seconds, or an HTTP date; None sends no Retry-After."""
    message: str = "scripted trouble"
    error_code: str = ""
    """The protocol's name of the error, such as `insufficient_quota`."""
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further fields of the error."""


@dataclass(frozen=True)
class Slow:
    """A delayed answer."""

    seconds: float
    text: str = "ok"


@dataclass(frozen=True)
class CutOff:
    """An answer that was cut off at the token limit."""

    text: str = "half an ans"


@dataclass(frozen=True)
class Malformed:
    """A successful response with a wrong body."""

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
    """Reset the connection instead of closing it."""


@dataclass(frozen=True)
class Drip:
    """An answer that arrives byte by byte and never ends."""

    seconds: float = 0.02
    """Between two bytes."""


Answer: TypeAlias = (
    str | ModelReply | Status | Slow | CutOff | Malformed | Truncated | Dropped | Drip
)

_Document: TypeAlias = dict[str, Any]


def _openai_reply(reply: ModelReply, model: str) -> _Document:
    message: _Document = {"role": "assistant", "content": reply.text, "refusal": None}
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


def _use(name: str, arguments: Mapping[str, Any]) -> _Document:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call_{name}", "type": "function", "function": function}


def _openai_error(status: Status) -> _Document:
    kind = "invalid_request_error" if status.code < 500 else "server_error"
    error = {"message": status.message, "type": kind, "param": None, "code": status.error_code}
    return {"error": {**error, **status.more}}


_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


def _anthropic_reply(reply: ModelReply, model: str) -> _Document:
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


def _anthropic_events(message: _Document) -> list[_Document]:
    start: _Document = {**message, "content": [], "stop_reason": None}
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


def _anthropic_error(status: Status) -> _Document:
    usual = "invalid_request_error" if status.code < 500 else "api_error"
    kind = status.error_code or _ANTHROPIC_ERRORS.get(status.code, usual)
    return {"type": "error", "error": {"type": kind, "message": status.message, **status.more}}


_GOOGLE_FINISHES = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}


def _google_reply(reply: ModelReply, model: str) -> _Document:
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


def _google_error(status: Status) -> _Document:
    name = status.error_code or _GOOGLE_STATUSES.get(status.code, "UNKNOWN")
    error = {"code": status.code, "message": status.message, "status": name}
    return {"error": {**error, **status.more}}


def _bedrock_reply(reply: ModelReply, model: str) -> _Document:
    del model  # It is only in the path.
    return {
        "output": {"message": {"role": "assistant", "content": [{"text": reply.text}]}},
        "stopReason": _STOP_REASONS.get(reply.finish, reply.finish),
        "usage": {
            "inputTokens": reply.input_tokens,
            "outputTokens": reply.output_tokens,
            "totalTokens": reply.input_tokens + reply.output_tokens,
        },
        "metrics": {"latencyMs": 1},
    }


ProtocolName: TypeAlias = Literal["openai", "anthropic", "google", "ollama", "bedrock"]


@dataclass(frozen=True, kw_only=True)
class _Protocol:
    """Writes scripted answers in one protocol."""

    prefix: str
    """The path of a client's base URL."""
    question: str
    """The end of the path for model requests."""
    reply: Callable[[ModelReply, str], _Document]
    error: Callable[[Status], _Document]
    events: Callable[[_Document], list[_Document]] | None = None
    """The reply as a stream of events, if the protocol supports it."""

    def response(self, request: HttpRequest, answer: Answer) -> bytes:
        """The bytes of the response."""
        if isinstance(answer, Malformed):
            return head(200, len(answer.body), kind=answer.content_type) + answer.body
        if isinstance(answer, Status):
            wait = answer.retry_after
            more = {} if wait is None else {"Retry-After": f"{wait}"}
            body = json.dumps(self.error(answer)).encode()
            return head(answer.code, len(body), more=more) + body
        if isinstance(answer, Dropped | Drip):
            return b""
        whole = self._success(request, _as_reply(answer))
        return whole[:-9] if isinstance(answer, Truncated) else whole

    def _success(self, request: HttpRequest, reply: ModelReply) -> bytes:
        fields = _fields(request)
        # Google has the model in the path.
        asked_for = fields.get("model") or request.path.rpartition("/")[2].partition(":")[0]
        document = self.reply(reply, reply.model or str(asked_for))
        kind, body = "application/json", json.dumps(document)
        if self.events is not None and fields.get("stream"):
            kind, events = "text/event-stream", self.events(document)
            body = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
        return head(200, len(body.encode()), kind=kind) + body.encode()


_OPENAI = _Protocol(
    prefix="/v1", question="/chat/completions", reply=_openai_reply, error=_openai_error
)
_PROTOCOLS: Mapping[ProtocolName, _Protocol] = {
    "openai": _OPENAI,
    "ollama": _OPENAI,
    "anthropic": _Protocol(
        prefix="",
        question="/v1/messages",
        reply=_anthropic_reply,
        error=_anthropic_error,
        events=_anthropic_events,
    ),
    "google": _Protocol(
        prefix="", question=":generateContent", reply=_google_reply, error=_google_error
    ),
    "bedrock": _Protocol(
        prefix="",
        question="/converse",
        reply=_bedrock_reply,
        error=lambda status: {"message": status.message},
    ),
}


def _as_reply(answer: str | ModelReply | Slow | CutOff | Truncated) -> ModelReply:
    if isinstance(answer, ModelReply):
        return answer
    if isinstance(answer, CutOff):
        return ModelReply(text=answer.text, finish="length")
    return ModelReply(text=answer if isinstance(answer, str) else answer.text)


def _fields(request: HttpRequest) -> dict[str, Any]:
    return cast("dict[str, Any]", request.json) if isinstance(request.json, dict) else {}


_MOST_CONNECTIONS = 1024
_REFUSAL = Status(400, message="This response_format type is unavailable now")


def port_of(folder: Path) -> int:
    """The port of a folder's stand-in: a run is only resumed where its models are."""
    digest = hashlib.sha256(str(folder.resolve()).encode()).digest()
    return 20_000 + int.from_bytes(digest[:2], "big") % 12_000  # below those that systems give out


class ScriptedServer:
    """An endpoint that gives scripted answers in order and repeats the last one.

    `answers` may be a function of the request. `refuses` names the types of `response_format` that
    it rejects with `refusal`, as many real endpoints do. `preflight` answers the question whether
    it can be reached, with which each run begins. `port` is taken if it is free.
    """

    def __init__(
        self,
        *,
        protocol: ProtocolName = "openai",
        answers: Sequence[Answer] | Callable[[HttpRequest], Answer] = ("ok",),
        models: Sequence[str] = ("scripted",),
        refuses: Collection[str] = (),
        refusal: Status = _REFUSAL,
        preflight: Answer = "ok",
        port: int = 0,
    ) -> None:
        self._port = port
        self.requests: deque[HttpRequest] = deque(maxlen=10_000)
        """The requests so far, the newest last, without those in `preflights`."""
        self.preflights: deque[HttpRequest] = deque(maxlen=10_000)
        """The questions whether it can be reached."""
        self.abandoned = 0
        """How many clients disconnected during a slow answer."""
        self._protocol = _PROTOCOLS[protocol]
        self._models = tuple(models)
        self._refuses = frozenset(refuses)
        self._refusal = refusal
        self.preflight: Answer = preflight
        self._script = answers if callable(answers) else _in_order(answers)
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        assert self._server is not None, "the server is not running: use it with `async with`"
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    @property
    def base_url(self) -> str:
        """The base URL for clients of its protocol."""
        return f"{self.address}{self._protocol.prefix}"

    @property
    def connections(self) -> int:
        return len(self._open)

    async def __aenter__(self) -> Self:
        try:
            self._server = await self._listen(self._port)
        except OSError:  # somebody else has it
            self._server = await self._listen(0)
        return self

    async def _listen(self, port: int) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", port, backlog=512)

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
            if len(self._open) <= _MOST_CONNECTIONS:
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
            is_preflight = PREFLIGHT in json.dumps(request.json)
            (self.preflights if is_preflight else self.requests).append(request)
            answer = self.preflight if is_preflight else self._answer(request)
            if isinstance(answer, Slow):
                if await _client_left(reader, answer.seconds):
                    self.abandoned += 1
                    return
                answer = answer.text
            if isinstance(answer, Dropped):
                if answer.reset:
                    writer.transport.abort()
                return
            if isinstance(answer, Drip):
                await _drip(reader, writer, answer.seconds)
                return
            writer.write(self._protocol.response(request, answer))
            await writer.drain()
            if isinstance(answer, Truncated):
                return

    def _answer(self, request: HttpRequest) -> Answer:
        if request.path == "/api/tags":
            models = [{"name": name, "model": name, "size": 1} for name in self._models]
            return Malformed(json.dumps({"models": models}).encode())
        if not request.path.endswith(self._protocol.question):
            return Status(404, message=f"nothing here: {request.path}")
        wanted_format: _Document = _fields(request).get("response_format") or {}
        if str(wanted_format.get("type", "")) in self._refuses:
            return self._refusal
        return self._script(request)


def _in_order(answers: Sequence[Answer]) -> Callable[[HttpRequest], Answer]:
    left = deque(answers)
    if not left:
        raise ValueError("a scripted server needs at least one answer")
    return lambda _: left.popleft() if len(left) > 1 else left[0]


async def _drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wait: float) -> None:
    writer.write(head(200, 40_000))
    while not await _client_left(reader, wait):
        writer.write(b" ")
        await writer.drain()


async def _client_left(reader: asyncio.StreamReader, seconds: float) -> bool:
    try:
        await asyncio.wait_for(reader.read(1), seconds)
    except TimeoutError:
        return False
    return True
