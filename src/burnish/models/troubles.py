"""What can go wrong with a model, by who has to do something about it.

- ModelUnavailable: the infrastructure. Retried; then the result is missing, never 0.
- ModelRejected: the request. The agent's own failure: it scores 0 with this text.
- ModelRefused: the user. A key, an extra, a model's name: the run stops and says what to do.
"""

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
