"""What was received of an endpoint's answer, so that one that cannot be used is counted too.

An endpoint bills an answer whether or not it can be read. The HTTP client notes here what arrives
during a call; if the call fails, that is what it cost.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import cast

from burnish.core.content import MOST
from burnish.core.outcomes import Usage

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
            input_tokens=estimated_tokens(request_chars),
            output_tokens=estimated_tokens(self.bytes_read),
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


def estimated_tokens(size: int) -> int:
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
