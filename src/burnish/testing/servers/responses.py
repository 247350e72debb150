"""From a scripted answer to the bytes of a response."""

import json
from typing import Any, cast

from burnish.testing.servers.answers import Answer, CutOff, Dropped, Malformed, Reply, Slow, Status
from burnish.testing.servers.http import Asked, head
from burnish.testing.servers.protocols import Document, Protocol

_CUT = 9
"""How many bytes a truncated answer lacks."""


def response_to(asked: Asked, answer: Answer, words: Protocol) -> bytes:
    """What is written to the socket."""
    if isinstance(answer, Malformed):
        return head(200, len(answer.body), kind=answer.content_type) + answer.body
    if isinstance(answer, Status):
        return _failure(answer, words)
    if isinstance(answer, Dropped):
        return b""
    if isinstance(answer, str | Reply | Slow | CutOff):
        return _success(asked, answer, words)
    return _success(asked, answer.text, words)[:-_CUT]


def response_format(asked: Asked) -> str:
    """The type of `response_format` that a request names; empty where it names none."""
    named = _fields(asked).get("response_format")
    return str(cast("dict[str, Any]", named).get("type", "")) if isinstance(named, dict) else ""


def _failure(status: Status, words: Protocol) -> bytes:
    wait = status.retry_after
    more = {} if wait is None else {"Retry-After": f"{wait}"}
    body = json.dumps(words.error(status)).encode()
    return head(status.code, len(body), more=more) + body


def _success(asked: Asked, answer: str | Reply | Slow | CutOff, words: Protocol) -> bytes:
    reply = _as_reply(answer)
    document = words.reply(reply, reply.model or _model_of(asked))
    if words.events is not None and _fields(asked).get("stream"):
        body = _as_events(words.events(document))
        return head(200, len(body), kind="text/event-stream") + body
    body = json.dumps(document).encode()
    return head(200, len(body)) + body


def _as_reply(answer: str | Reply | Slow | CutOff) -> Reply:
    if isinstance(answer, Reply):
        return answer
    if isinstance(answer, CutOff):
        return Reply(text=answer.text, finish="length")
    return Reply(text=answer if isinstance(answer, str) else answer.text)


def _fields(asked: Asked) -> dict[str, Any]:
    return cast("dict[str, Any]", asked.json) if isinstance(asked.json, dict) else {}


def _model_of(asked: Asked) -> str:
    """In the body or, with Google, in the path."""
    return str(_fields(asked).get("model") or asked.path.rpartition("/")[2].partition(":")[0])


def _as_events(documents: list[Document]) -> bytes:
    lines = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in documents]
    return "".join(lines).encode()
