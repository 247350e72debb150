"""What can go wrong with a model, and what endpoints say about it.

- ModelUnavailable: the infrastructure. Retried; then the result is missing, never 0.
- ModelRejected: the request. The agent's own failure: it scores 0 with this message.
- ModelRefused: the user. A key, an extra, a model's name: the run stops and says what to do.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from socket import gaierror
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from burnish.core.errors import BurnishError
from burnish.journal.outages import Cause, Setback

if TYPE_CHECKING:
    from burnish.core.cases import Usage  # with pydantic, which the command line loads late


class ModelUnavailable(ConnectionError):
    """Rate limit, server error, timeout, dropped or malformed response."""

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        usage: "Usage | None" = None,
        cause: Cause = "away",
    ) -> None:
        super().__init__(message)
        self.cause: Cause = cause
        self.retry_after = retry_after
        """Seconds the endpoint asked to wait."""
        self.usage = usage
        """What an answer that cannot be used cost; None if there was no answer."""

    @property
    def setback(self) -> Setback:
        """How another attempt may succeed."""
        cause = self.cause if self.usage is None else "unusable"
        return Setback(cause=cause, requested=self.retry_after)


class ModelRejected(ValueError):
    """The endpoint will not answer this request: too long, filtered, invalid."""


class ModelRefused(BurnishError):
    """No request will succeed until the user changes something."""


ModelError: TypeAlias = ModelUnavailable | ModelRejected | ModelRefused


FailureKind: TypeAlias = Literal["", "key", "quota", "model", "request"]
"""What a status is about, as far as it is known."""


class EndpointFailure(Exception):
    """An answer with an error's status; users see what `EndpointErrors` makes of it."""

    def __init__(
        self,
        status: int,
        body: object,
        *,
        headers: Mapping[str, str] | None = None,
        kind: FailureKind = "",
        code: str = "",
    ) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.body = body
        self.kind = kind
        self.code = code
        """The endpoint's own name of the error."""
        self.retry_after = wait_of(headers, body)


class AnswerUnfinished(Exception):
    """An answer that does not say how it ended; users never see this."""


class RequestFiltered(Exception):
    """A content filter left nothing to answer; users never see this."""


_OUT_OF_CREDIT = (
    "insufficient_quota",
    "billing_hard_limit_reached",
    "credit_balance_exhausted",
    "organization_spend_limit_exceeded",
    "project_spend_limit_exceeded",
    "organization_usage_limit_exceeded",
)
_BY_CODE: Mapping[str, FailureKind] = {
    **dict.fromkeys(_OUT_OF_CREDIT, "quota"),
    "context_length_exceeded": "request",
    "model_not_found": "model",
    "invalid_api_key": "key",
}
_BY_STATUS: Mapping[int, FailureKind] = {
    400: "request",
    401: "key",
    402: "quota",
    403: "key",
    404: "model",
    422: "request",
}
_NO_SUCH_MODEL = re.compile(
    r"(not a valid|invalid|unknown|no such) model( id| name)?\b|\bmodel\b.{0,80}does not exist",
    re.IGNORECASE,
)
"""What routers answer with a 400 where others answer 404."""
_OVERLOADED = re.compile("overloaded|over capacity", re.IGNORECASE)


def failure_kind(status: int, body: object) -> tuple[FailureKind, str]:
    """What an error in OpenAI's protocol is about, and its code."""
    code, group = _field(body, "code"), _field(body, "type")
    named = "" if code is None else str(code)
    if status == 403 and _is_moderated(body):
        return "request", named
    if group in _OUT_OF_CREDIT:
        return "quota", named
    if status == 400 and _NO_SUCH_MODEL.search(words_of(body)):
        return "model", named
    is_about_it = named in _OUT_OF_CREDIT or named == "context_length_exceeded"
    if not is_about_it and _OVERLOADED.search(f"{named} {group}"):
        return "", named
    return _BY_CODE.get(named) or _BY_STATUS.get(status, ""), named


def _is_moderated(body: object) -> bool:
    """OpenRouter's answer to input that a moderation turned away."""
    metadata = _field(body, "metadata")
    return any(_field(metadata, name) is not None for name in ("flagged_input", "reasons"))


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
    return " ".join(message.split())


def wait_of(headers: Mapping[str, str] | None, body: object) -> float | None:
    """Seconds to wait: in a header, as a number or a date, or Google's `retryDelay` in the body."""
    texts = headers or {}
    if _SECONDS.fullmatch(milliseconds := texts.get("retry-after-ms", "")):
        return float(milliseconds) / 1000
    header = texts.get("retry-after", "")
    if _SECONDS.fullmatch(header):
        return float(header)
    if header:
        from email.utils import parsedate_to_datetime  # slow

        with suppress(ValueError, TypeError, OverflowError):
            date = parsedate_to_datetime(header)
            date = date if date.tzinfo else date.replace(tzinfo=UTC)
            return max(0.0, (date - datetime.now(UTC)).total_seconds())
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


def unreached(error: BaseException) -> Cause:
    """Why an HTTP client got no connection, from the errors behind its own."""
    for cause in _causes(error):
        if isinstance(cause, gaierror):
            return "unknown host"
        if isinstance(cause, ConnectionRefusedError):
            return "refused"
    return "away"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and those behind it; a host with several addresses has a group of them."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for each in cast("BaseExceptionGroup[BaseException]", error).exceptions:
                yield from _causes(each)
        error = error.__cause__ or error.__context__


def _field(value: object, name: str) -> object:
    if not isinstance(value, Mapping):
        return value if name == "message" else None
    return cast("Mapping[str, object]", value).get(name)
