"""Calls of chat endpoints: posted without the work that OpenAI's SDK does for each, and counted.

An endpoint bills an answer whether or not it can be read. The HTTP client notes here what arrives
during a call; if the call fails, that is what it cost.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from burnish.core.cases import Usage
from burnish.core.content import MOST
from burnish.models.errors import inside

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response
    from openai import APIStatusError, AsyncOpenAI
    from openai.types.chat import ChatCompletion


def post_directly(
    client: "AsyncOpenAI",
    http: "AsyncClient",
    address: str,
    key_header: Mapping[str, str] | None = None,
) -> None:
    """Make the client post chat requests unchanged, with its usual key header or this one.

    For each request the SDK searches the whole conversation for fields to rename, of which chat
    requests have none, and rebuilds headers and answer: twice the work of the HTTP itself.
    """
    from httpx2 import URL
    from openai import NotGiven, Omit
    from openai.resources.chat.completions import AsyncCompletions

    url = URL(address)
    usual = {**client.default_headers, **client.auth_headers}
    absent = (NotGiven, Omit)  # How the SDK marks what is not to be sent.
    headers = {name: each for name, each in usual.items() if isinstance(each, str)}
    if key_header is not None:
        headers.pop("Authorization", None)
        headers |= key_header

    class Direct(AsyncCompletions):
        async def create(  # pyright: ignore[reportIncompatibleMethodOverride]
            self,
            *,
            extra_headers: Mapping[str, str] | None = None,
            extra_body: Mapping[str, Any] | None = None,
            timeout: object = None,  # noqa: ASYNC109 - the SDK's; the time is kept outside.
            **fields: Any,
        ) -> "ChatCompletion":
            del timeout
            sent = {name: each for name, each in fields.items() if not isinstance(each, absent)}
            response = await http.post(
                url,
                json={**sent, **(extra_body or {})},
                headers={**headers, **(extra_headers or {})},
            )
            if not response.is_success:
                raise _failure(response)
            return _completion(response.json())

    client.chat.__dict__["completions"] = Direct(client)


def _completion(document: Any) -> "ChatCompletion":
    """The answer in the SDK's type, even if the endpoint left out some fields."""
    from openai.types.chat import ChatCompletion
    from pydantic import ValidationError

    try:
        return ChatCompletion.model_validate(document)
    except ValidationError:
        return ChatCompletion.construct(**document)


def _failure(response: "Response") -> "APIStatusError":
    from openai import APIStatusError

    try:
        document = cast("object", response.json())
    except (ValueError, RecursionError):
        document = response.text
    body = inside(document)
    return APIStatusError(f"HTTP {response.status_code}", response=response, body=body)


_CHARS_PER_TOKEN = 4
"""The usual rule of thumb, where an endpoint says nothing."""
_INPUT = ("prompt_tokens", "input_tokens", "promptTokenCount")
_OUTPUT = ("completion_tokens", "output_tokens", "candidatesTokenCount")


@dataclass
class Received:
    """What has arrived during one attempt."""

    begun: bool = False
    """Whether a successful response has begun: refusals and errors are not billed."""
    bytes_read: int = 0
    stated: Usage | None = None
    """The tokens according to the endpoint."""

    def usage(self, request_chars: int) -> Usage | None:
        """The tokens of an answer that cannot be used; None if there was none."""
        if not self.begun:
            return None
        return self.stated or Usage(
            requests=1,
            input_tokens=_estimated_tokens(request_chars),
            output_tokens=_estimated_tokens(self.bytes_read),
        )


_RECEIVED: ContextVar[Received | None] = ContextVar("burnish_received", default=None)


@contextmanager
def receiving() -> Generator[Received, None, None]:
    """A context that notes what arrives in it."""
    received = Received()
    token = _RECEIVED.set(received)
    try:
        yield received
    finally:
        _RECEIVED.reset(token)


def note_response(status: int) -> None:
    """A response has begun."""
    received = _RECEIVED.get()
    if received is not None:
        received.begun = 200 <= status < 300


def note_bytes(count: int) -> None:
    """Some more of the response was read."""
    received = _RECEIVED.get()
    if received is not None:
        received.bytes_read += count


def note_usage(fields: Mapping[str, object]) -> None:
    """The response states its usage; parts of a stream state a part of it."""
    received, stated = _RECEIVED.get(), _usage(fields)
    if received is not None and stated is not None:
        before = received.stated or Usage(requests=1)
        received.stated = replace(
            before,
            input_tokens=max(before.input_tokens, stated.input_tokens),
            output_tokens=max(before.output_tokens, stated.output_tokens),
        )


def _estimated_tokens(size: int) -> int:
    """The tokens of so many characters, roughly."""
    return -(-size // _CHARS_PER_TOKEN)


def _usage(fields: Mapping[str, object]) -> Usage | None:
    for name in ("usage", "usageMetadata"):
        block = fields.get(name)
        if isinstance(block, Mapping):
            counts = cast("Mapping[str, object]", block)
            tokens_in, tokens_out = _count(counts, _INPUT), _count(counts, _OUTPUT)
            if tokens_in or tokens_out:
                return Usage(requests=1, input_tokens=tokens_in, output_tokens=tokens_out)
    return None


def _count(counts: Mapping[str, object], names: tuple[str, ...]) -> int:
    numbers = (counts.get(name) for name in names)
    return next((int(n) for n in numbers if isinstance(n, int | float) and 0 < n <= MOST), 0)
