"""What an endpoint's failure means: try again, this request is bad, or the user has to act."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from burnish.models.references import ModelRef
from burnish.models.troubles import ModelRefused, ModelRejected, ModelUnavailable
from burnish.models.wire.places import Place
from burnish.models.wire.words import root_of, wait_of, words_of
from burnish.system import Redactor

if TYPE_CHECKING:
    from pydantic_ai.exceptions import ModelHTTPError

Trouble: TypeAlias = ModelUnavailable | ModelRejected | ModelRefused

_AGAIN = {408, 409, 425, 429}
_THE_REQUEST = {400, 413, 422}
_NOT_FOR_THIS_MODEL = {"unknown_parameter", "unsupported_parameter", "unsupported_value"}


def failures() -> tuple[type[Exception], ...]:
    """What an SDK may raise when an endpoint fails.

    The plain ones come from answers that are JSON and yet no answer: a list, a null, no choices.
    """
    import httpx2
    from pydantic_ai.exceptions import AgentRunError, UserError

    plain = (AssertionError, AttributeError, LookupError, OSError, TypeError, ValueError)
    return (AgentRunError, UserError, httpx2.HTTPError, *plain)


@dataclass(frozen=True, kw_only=True)
class Blame:
    """Makes the errors of one model at one place; no key gets into their words."""

    ref: ModelRef
    place: Place

    def timed_out(self) -> ModelUnavailable:
        """No answer in time."""
        limit = self.ref.settings.timeout
        within = "in time" if limit is None else f"within {limit:g} s"
        return ModelUnavailable(self._told(f"did not answer {within}"))

    def unfinished(self) -> ModelUnavailable:
        """An answer whose end never came."""
        return ModelUnavailable(self._told("gave an answer without an end"))

    def filtered(self) -> ModelRejected:
        """The endpoint would not read the request."""
        return ModelRejected(self._told("turned the request away: its content filter"))

    def of(self, error: Exception) -> Trouble:
        """What a failure means."""
        import httpx2
        from pydantic_ai.exceptions import ModelConnectionError, ModelHTTPError, UserError

        unopened = (httpx2.ConnectError, httpx2.ConnectTimeout)
        if status := _redirect(error):
            remedy = "give the address it leads to as base_url"
            return self._refused(f"answered HTTP {status}: no key follows a redirect", remedy)
        if isinstance(error, ModelHTTPError):
            return self._of_status(error)
        if isinstance(error, UserError):
            return ModelRefused(self._told(f"cannot be asked this: {error.message}"))
        if isinstance(error, UnicodeEncodeError):
            return ModelRejected(self._told("cannot be sent text that is not Unicode"))
        if isinstance(error, (ModelConnectionError, OSError, httpx2.TransportError)):
            unreached = isinstance(error, unopened) or getattr(error, "phase", "") == "connect"
            what = "could not be reached" if unreached else "broke the connection"
            return ModelUnavailable(self._told(f"{what}: {root_of(error)}"))
        hint = "gave something that is no answer of a model; is the base_url right?"
        return ModelUnavailable(self._told(hint))

    def _of_status(self, error: "ModelHTTPError") -> Trouble:
        from pydantic_ai.exceptions import (
            ModelAuthenticationError,
            ModelNotFoundError,
            ModelQuotaExceededError,
            ModelRequestRejectedError,
        )

        status = error.status_code
        if isinstance(error, ModelAuthenticationError):
            return self._refused(f"refused the key (HTTP {status})", _about_the_key(self.ref))
        said = self._told(
            ": ".join(filter(None, [f"answered HTTP {status}", words_of(error.body)]))
        )
        if isinstance(error, ModelQuotaExceededError):
            return ModelRefused(said, remedy="the account is out of credit or over its quota")
        if status in _AGAIN or status >= 500:
            known = error.retry_after
            wait = wait_of(error.headers, error.body) if known is None else known
            return ModelUnavailable(said, retry_after=wait)
        if error.provider_error_code in _NOT_FOR_THIS_MODEL:
            return ModelRefused(said, remedy="change the model's settings, or take another model")
        # Such as input that a gateway's moderation turned away with a 403.
        about_it = status in _THE_REQUEST or isinstance(error, ModelRequestRejectedError)
        if about_it and not isinstance(error, ModelNotFoundError):
            return ModelRejected(said)
        return ModelRefused(said, remedy="check the model's name and its base_url")

    def _refused(self, what: str, remedy: str) -> ModelRefused:
        return ModelRefused(self._told(what), remedy=remedy)

    def _told(self, what: str) -> str:
        """One line: who, where, what."""
        line = " ".join(f"{self.ref.label} at {self.place.address} {what}".split())
        return Redactor.from_environment(extra=self.place.secrets).text(line)


def _about_the_key(ref: ModelRef) -> str:
    named = ref.api_key.strip("${}") or next(iter(ref.row.key_variables), "")
    return f"check the key in {named}" if named else "give the model an api_key: ${NAME}"


def _redirect(error: BaseException) -> int:
    """The status of a redirect; 0 where it is none."""
    response = getattr(error.__cause__, "response", None)
    status = getattr(response, "status_code", 0)
    return status if 300 <= status < 400 else 0
