"""The words of each protocol that a scripted server speaks: paths, bodies, errors."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from burnish.testing.server_answers import Reply, Status

ProtocolName: TypeAlias = Literal["openai", "anthropic", "google", "ollama"]
Document: TypeAlias = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How one protocol words what a script says."""

    prefix: str
    """What a client's base address ends with."""
    question: str
    """The end of the path on which a model is asked."""
    reply: Callable[[Reply, str], Document]
    error: Callable[[Status], Document]
    events: Callable[[Document], list[Document]] | None = None
    """The same reply as a stream of events, where clients may ask for one."""


def _openai_reply(reply: Reply, model: str) -> Document:
    message = {"role": "assistant", "content": reply.text, "refusal": None}
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish}],
        "usage": {
            "prompt_tokens": reply.input_tokens,
            "completion_tokens": reply.output_tokens,
            "total_tokens": reply.input_tokens + reply.output_tokens,
        },
    }


def _openai_error(status: Status) -> Document:
    kind = "invalid_request_error" if status.code < 500 else "server_error"
    error = {"message": status.message, "type": kind, "param": None, "code": status.error_code}
    return {"error": {**error, **status.more}}


_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


def _anthropic_reply(reply: Reply, model: str) -> Document:
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


def _anthropic_events(message: Document) -> list[Document]:
    start = {**message, "content": [], "stop_reason": None}
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


def _anthropic_error(status: Status) -> Document:
    usual = "invalid_request_error" if status.code < 500 else "api_error"
    kind = status.error_code or _ANTHROPIC_ERRORS.get(status.code, usual)
    return {"type": "error", "error": {"type": kind, "message": status.message, **status.more}}


_GOOGLE_FINISHES = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}


def _google_reply(reply: Reply, model: str) -> Document:
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


def _google_error(status: Status) -> Document:
    name = status.error_code or _GOOGLE_STATUSES.get(status.code, "UNKNOWN")
    error = {"code": status.code, "message": status.message, "status": name}
    return {"error": {**error, **status.more}}


_CHAT = "/chat/completions"
PROTOCOLS: Mapping[ProtocolName, Protocol] = {
    "openai": Protocol(prefix="/v1", question=_CHAT, reply=_openai_reply, error=_openai_error),
    "ollama": Protocol(prefix="/v1", question=_CHAT, reply=_openai_reply, error=_openai_error),
    "anthropic": Protocol(
        prefix="",
        question="/v1/messages",
        reply=_anthropic_reply,
        error=_anthropic_error,
        events=_anthropic_events,
    ),
    "google": Protocol(
        prefix="", question=":generateContent", reply=_google_reply, error=_google_error
    ),
}


def listed_models(names: tuple[str, ...]) -> Document:
    """What Ollama says on `/api/tags`."""
    return {"models": [{"name": name, "model": name, "size": 1} for name in names]}


def as_events(documents: list[Document]) -> bytes:
    """Documents as server-sent events."""
    lines = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in documents]
    return "".join(lines).encode()
