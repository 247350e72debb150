"""What a scripted server may answer: a text, or one of the ways in which real endpoints fail."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, kw_only=True)
class Reply:
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


Answer: TypeAlias = str | Reply | Status | Slow | CutOff | Malformed | Truncated | Dropped
