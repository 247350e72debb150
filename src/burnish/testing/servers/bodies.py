"""Replies and errors as the OpenAI, Anthropic and Google protocols word them."""

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from burnish.testing.servers.answers import Reply, Status

Document: TypeAlias = dict[str, Any]


def openai_reply(reply: Reply, model: str) -> Document:
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
    told = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call_{name}", "type": "function", "function": told}


def openai_error(status: Status) -> Document:
    """An error of the OpenAI protocol."""
    kind = "invalid_request_error" if status.code < 500 else "server_error"
    error = {"message": status.message, "type": kind, "param": None, "code": status.error_code}
    return {"error": {**error, **status.more}}


_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


def anthropic_reply(reply: Reply, model: str) -> Document:
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


def google_reply(reply: Reply, model: str) -> Document:
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
