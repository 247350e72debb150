"""Law 4 at the border to foreign code: whose fault an exception is."""

from collections.abc import Collection

from burnish.core.outcomes import Failure, FailureKind

_NOT_THE_AGENTS_FAULT = {
    "APIConnectionError",
    "APITimeoutError",
    "ClientConnectionError",
    "ConnectionError",
    "TransportError",
}
"""Names of error types, ours and of the usual HTTP libraries, that mean nobody answered."""

_BUSY = {429, 503}


def is_infrastructure(error: BaseException, listed: Collection[str] = ()) -> bool:
    """Whether the infrastructure failed: connection errors, 429, 503, or a type that is listed."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & (_NOT_THE_AGENTS_FAULT | set(listed)) or status_of(error) in _BUSY:
        return True
    inside = getattr(error, "reason", None)  # where urllib keeps the error of the connection
    return isinstance(inside, OSError) and inside is not error and is_infrastructure(inside, listed)


def status_of(error: BaseException) -> int | None:
    """The HTTP status an error carries, wherever its library keeps it."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "code"):
            found = getattr(holder, name, None)
            if isinstance(found, int):
                return found
    return None


def failure_of(error: BaseException, *, listed: Collection[str] = (), attempts: int = 1) -> Failure:
    """The failure an exception stands for."""
    infrastructure = is_infrastructure(error, listed)
    return Failure(
        kind=FailureKind.INFRASTRUCTURE if infrastructure else FailureKind.AGENT,
        message=f"{type(error).__name__}: {error}",
        error=type(error).__name__,
        attempts=attempts,
    )
