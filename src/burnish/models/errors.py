"""What can go wrong with a model, and what endpoints say about it.

- ModelUnavailable: the infrastructure. Retried; then the result is missing, never 0.
- ModelRejected: the request. The agent's own failure: it scores 0 with this message.
- ModelRefused: the user. A key, an extra, a model's name: the run stops and says what to do.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from burnish.core.errors import BurnishError

if TYPE_CHECKING:
    from burnish.core.cases import Usage  # with pydantic, which the command line loads late


class ModelUnavailable(ConnectionError):
    """Rate limit, server error, timeout, dropped or malformed response."""

    def __init__(
        self, message: str, *, retry_after: float | None = None, usage: "Usage | None" = None
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds the endpoint asked to wait."""
        self.usage = usage
        """What an answer that cannot be used cost; None if there was no answer."""


class ModelRejected(ValueError):
    """The endpoint will not answer this request: too long, filtered, invalid."""


class ModelRefused(BurnishError):
    """No request will succeed until the user changes something."""


ModelError: TypeAlias = ModelUnavailable | ModelRejected | ModelRefused


_LONGEST = 300

_SECONDS = re.compile(r"\d+(?:\.\d+)?")
_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")


def inside(body: object) -> object:
    """The error itself, which most protocols wrap in `error`."""
    if not isinstance(body, Mapping):
        return body
    fields = cast("Mapping[str, object]", body)
    return fields.get("error", fields)


def words_of(body: object) -> str:
    """The endpoint's message in one line; empty if it sent a page."""
    message = _field(inside(body), "message")
    if not isinstance(message, str) or "<" in message[:20]:
        return ""
    return " ".join(message.split())[:_LONGEST]


def wait_of(headers: Mapping[str, str] | None, body: object) -> float | None:
    """Seconds to wait: fractions in the header, or Google's `retryDelay` in the body."""
    header = (headers or {}).get("retry-after", "")
    if _SECONDS.fullmatch(header):
        return float(header)
    details = _field(inside(body), "details")
    if not isinstance(details, Sequence):
        return None
    delays = [_field(each, "retryDelay") for each in cast("Sequence[object]", details)]
    matches = [_DELAY.fullmatch(each) for each in delays if isinstance(each, str)]
    return next((float(each[1]) for each in matches if each), None)


def root_of(error: BaseException) -> str:
    """The message of the first failure: the SDKs' own only say that there was one."""
    error = first_cause(error)
    return str(error) or type(error).__name__


def first_cause(error: BaseException) -> BaseException:
    """The failure that the others were raised for."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _field(value: object, name: str) -> object:
    if not isinstance(value, Mapping):
        return value if name == "message" else None
    return cast("Mapping[str, object]", value).get(name)
