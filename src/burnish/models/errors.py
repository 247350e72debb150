"""What can go wrong with a model, and what endpoints say about it.

- ModelUnavailable: the infrastructure. Retried; then the result is missing, never 0.
- ModelRejected: the request. The agent's own failure: it scores 0 with this text.
- ModelRefused: the user. A key, an extra, a model's name: the run stops and says what to do.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

from burnish.core.errors import BurnishError


class ModelUnavailable(ConnectionError):
    """Rate limit, server error, timeout, dropped or malformed response."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds the endpoint asked to wait."""


class ModelRejected(ValueError):
    """The endpoint will not answer this request: too long, filtered, invalid."""


class ModelRefused(BurnishError):
    """Nothing will be answered until the user changes something."""


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
    """The endpoint's own words, in one line; nothing where it sent a page."""
    message = _field(inside(body), "message")
    if not isinstance(message, str) or "<" in message[:20]:
        return ""
    return " ".join(message.split())[:_LONGEST]


def wait_of(headers: Mapping[str, str] | None, body: object) -> float | None:
    """Seconds to wait: parts of a second in the header, or Google's `retryDelay` in the body."""
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
    """The words of the first failure: the SDKs' own say only that there was one."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error) or type(error).__name__


def _field(value: object, name: str) -> object:
    if not isinstance(value, Mapping):
        return value if name == "message" else None
    return cast("Mapping[str, object]", value).get(name)
