"""Endpoints: where a model is, the client that calls it, what its failures mean, cloud logins."""

import os
import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import SplitResult, quote, urlsplit

from burnish.core.errors import ConfigError
from burnish.journal.outages import Cause
from burnish.models.dotenv import require_own_keys
from burnish.models.errors import (
    AnswerUnfinished,
    EndpointFailure,
    FailureKind,
    ModelError,
    ModelRefused,
    ModelRejected,
    ModelUnavailable,
    RequestFiltered,
    first_cause,
    root_of,
    unreached,
    words_of,
)
from burnish.models.http_calls import post_directly
from burnish.models.model_families import family_of, takes_newer_name
from burnish.models.providers import Provider, ProviderProtocol
from burnish.models.references import (
    ModelRef,
    every_usual_header,
    is_loopback,
    key_for,
    missing_key,
    usual_headers,
)
from burnish.system import Redactor
from burnish.system.extras import install_command, is_importable
from burnish.system.variables import has_login, secrets_in, variables_in

if TYPE_CHECKING:
    from httpx2 import AsyncBaseTransport, AsyncClient, Request
    from openai import AsyncOpenAI
    from pydantic_ai.models import Model
    from pydantic_ai.providers import Provider as LibraryProvider


_EXTRAS: Mapping[ProviderProtocol, tuple[str, str]] = {
    "openai": ("openai", "openai"),
    "azure": ("openai", "openai"),
    "anthropic": ("anthropic", "anthropic"),
    "google": ("google", "google.genai"),
    "vertex": ("google", "google.genai"),
    "bedrock": ("bedrock", "boto3"),
    "embedded": ("local", "xllamacpp"),
}
"""The extra of burnish with a protocol's library, and the module that it installs."""
NO_KEY = "no-key-needed"
AZURE_V1 = "/openai/v1"
"""The path of OpenAI's own protocol on Azure, which needs no version."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An address and its key."""

    address: str
    key: str = field(repr=False)
    api_version: str = ""
    """The version of Azure's dated API, whose addresses contain the deployment; else empty."""
    answer_bytes: int = 32 * 1024 * 1024
    """How much of an answer is read."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """The headers from variables that it is sent; libraries would send them everywhere."""

    @property
    def is_local(self) -> bool:
        return is_loopback(urlsplit(self.address).hostname or "")

    def url(self, end: str) -> str:
        """The address with a longer path."""
        parts = urlsplit(self.address)
        return parts._replace(path=f"{parts.path}/{end}").geturl()

    def url_for(self, model: str, end: str) -> str:
        """Where a model is called: Azure's dated addresses name the deployment and the version."""
        if not self.api_version:
            return self.url(end)
        url = self.url(f"openai/deployments/{quote(model, safe='')}/{end}")
        return f"{url}?api-version={quote(self.api_version)}"

    @property
    def own_key(self) -> str:
        """The key; empty if there is none."""
        return "" if self.key == NO_KEY else self.key

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be shown."""
        return self.own_key, *secrets_in(self.address)


def endpoint_of(ref: ModelRef) -> Endpoint:
    """The endpoint of a model; ModelRefused if its address or its key is missing."""
    parts, version = _parts(ref), ""
    if ref.row.protocol == "azure":
        parts, version = _azure(ref, parts)
    elif not parts.path:
        parts = parts._replace(path=ref.row.path)
    try:
        key = key_for(ref)
    except ConfigError as error:
        raise ModelRefused(error.message, remedy=error.remedy) from None
    if ref.row.protocol == "vertex":
        _require_project(ref, key)
    optional = ref.row.key_optional
    if key is None and optional != "always" and not (optional == "elsewhere" and ref.location):
        raise missing_key(ref)
    return Endpoint(
        address=parts.geturl(),
        key=key or NO_KEY,
        api_version=version,
        answer_bytes=int(ref.settings.max_answer_mb * 1024 * 1024),
        headers=tuple(usual_headers(ref).items()),
    )


def missing_extra(row: Provider, name: str = "", *, address: str = "", tools: bool = False) -> str:
    """The extra to install before a model can be called; empty if nothing is missing.

    Most models with OpenAI's protocol need none, unless they are offered `tools`.
    """
    extra, module = _EXTRAS[row.protocol]
    plain = not tools and family_of(row, name, address or row.address) is not None
    return "" if plain or is_importable(module) else extra


def require_library(ref: ModelRef) -> None:
    """Raise if the library that calls a model is not installed."""
    extra, module = _EXTRAS[ref.row.protocol]
    if not is_importable(module):
        message = f"this request to {ref.label} needs the package {module}, which is not installed"
        raise ModelRefused(message, remedy=install_command(extra))


def _parts(ref: ModelRef) -> SplitResult:
    """The address as written, as a variable of the provider has it, or the provider's own."""
    try:
        variables, written = variables_in(ref.written_address), ref.address
        require_own_keys(ref.base_url)
    except ConfigError as error:
        raise ModelRefused(f"the base_url of {ref.label}: {error.message}") from None
    if not written:
        raise _refused(ref, "has no base_url", ref.row.address_hint)
    source = f" (from {', '.join(variables)})" if variables else ""
    try:
        parts = urlsplit(written)
        sane = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sane, parts = False, SplitResult("", "", "", "", "")
    if has_login(written):
        remedy = "leave them out, and give the model an api_key: ${NAME}"
        raise _refused(ref, f"has a base_url{source} with a user and password in it", remedy)
    if not (sane and written.isprintable() and " " not in written):
        remedy = "write it as https://host/v1 or http://host:port/v1"
        raise _refused(ref, f"has a base_url{source} that is not an address", remedy)
    return parts


def _azure(ref: ModelRef, parts: SplitResult) -> tuple[SplitResult, str]:
    """The address of Azure's dated API with its version; without one, that of its v1 API."""
    if "/openai/deployments" in parts.path:
        remedy = "write https://RESOURCE.openai.azure.com, and the deployment as the model's name"
        raise _refused(ref, "has a base_url that names more than its resource", remedy)
    serves_one_model = (parts.hostname or "").endswith(".models.ai.azure.com")
    if serves_one_model and not parts.path.endswith("/v1"):
        parts = parts._replace(path=f"{parts.path}/v1")
    if parts.path.endswith("/v1"):
        if ref.api_version:
            raise _refused(ref, "has an api_version that its address does not take", "remove it")
        return parts, ""
    resource = parts.path.removesuffix("/openai")
    if version := ref.api_version or os.environ.get("OPENAI_API_VERSION", "").strip():
        return parts._replace(path=resource), version
    return parts._replace(path=f"{resource}{AZURE_V1}"), ""


def _refused(ref: ModelRef, what: str, remedy: str) -> ModelRefused:
    return ModelRefused(f"the model {ref.label} {what}", remedy=remedy)


def http_client(endpoint: Endpoint, transport: "AsyncBaseTransport | None" = None) -> "AsyncClient":
    """An HTTP client for many concurrent calls.

    It follows no redirects, since a key is for one host, uses no proxy for this machine, and reads
    answers up to the endpoint's limit.
    """
    import httpx2

    from burnish.models.answer_limits import ENCODINGS, reads_at_most, require_possible_usage

    is_plain = endpoint.is_local and endpoint.address.startswith("http:")
    return httpx2.AsyncClient(
        limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=256),
        # Everything after connecting is under the call's own timeout.
        timeout=httpx2.Timeout(None, connect=15.0),
        transport=transport,
        headers={"Accept-Encoding": ENCODINGS},
        event_hooks={
            "request": [_withheld(endpoint)],
            "response": [reads_at_most(endpoint.answer_bytes), require_possible_usage],
        },
        trust_env=not endpoint.is_local,
        # Reading the certificates of the world takes longer than many a local call; this
        # context trusts nobody.
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else True,
    )


def _withheld(endpoint: Endpoint) -> "Callable[[Request], Awaitable[None]]":
    """A request hook: removes the headers from variables that are not for this endpoint."""
    others = set(every_usual_header().items()) - set(endpoint.headers)

    async def withhold(request: "Request") -> None:
        for name, value in others:
            if request.headers.get(name) == value:
                del request.headers[name]

    return withhold


def build_model(ref: ModelRef, endpoint: Endpoint, client: "AsyncClient") -> "Model[Any]":
    """The pydantic-ai model for a reference, over this HTTP client."""
    return _BUILDERS[ref.row.protocol](ref, endpoint, client)


def _openai(ref: ModelRef, endpoint: Endpoint, client: "AsyncClient") -> "Model[Any]":
    from pydantic_ai.profiles import merge_profile
    from pydantic_ai.profiles.openai import OpenAIModelProfile

    provider = _openai_provider(ref, endpoint, client)
    provider.client.max_retries = 0
    # With a version, Azure's SDK client makes an address of the model's name.
    if not endpoint.api_version:
        # The header that Azure takes a key in, also behind gateways.
        is_azure = ref.row.protocol == "azure" and endpoint.address.endswith(AZURE_V1)
        key_header = {"api-key": endpoint.key} if is_azure else None
        post_directly(provider.client, client, endpoint.url("chat/completions"), key_header)
    kind = resolve_name(ref.row.chat_model)
    model = kind(ref.name, provider=provider)
    reasons = model.profile.get("openai_supports_reasoning", False)
    if takes_newer_name(ref.row, own=endpoint.address == ref.row.address, reasons=reasons):
        return model
    old_name = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)
    return kind(ref.name, provider=provider, profile=merge_profile(model.profile, old_name))


def _openai_provider(
    ref: ModelRef, endpoint: Endpoint, client: "AsyncClient"
) -> "LibraryProvider[AsyncOpenAI]":
    from pydantic_ai.providers.azure import AzureProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    row = ref.row
    if row.protocol == "azure":
        return AzureProvider(
            azure_endpoint=endpoint.address,
            api_version=endpoint.api_version or None,
            api_key=endpoint.key,
            http_client=client,
        )
    if row.sdk and (row.sdk_elsewhere or endpoint.address == row.address):
        sdk = resolve_name(row.sdk)
        return sdk(base_url=endpoint.address, api_key=endpoint.key, http_client=client)
    return OpenAICompatibleProvider(
        "openai-compatible", base_url=endpoint.address, api_key=endpoint.key, http_client=client
    )


def _anthropic(ref: ModelRef, endpoint: Endpoint, client: "AsyncClient") -> "Model[Any]":
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(
        base_url=endpoint.address, api_key=endpoint.key, http_client=client
    )
    provider.client.max_retries = 0
    return AnthropicModel(ref.name, provider=provider)


def _google(ref: ModelRef, endpoint: Endpoint, client: "AsyncClient") -> "Model[Any]":
    from google.genai.types import HttpRetryOptions
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    provider = GoogleProvider(
        base_url=endpoint.address,
        api_key=endpoint.key,
        http_client=client,
        retry_options=HttpRetryOptions(attempts=1),
    )
    return GoogleModel(ref.name, provider=provider)


def _vertex(ref: ModelRef, endpoint: Endpoint, client: "AsyncClient") -> "Model[Any]":
    return _vertex_model(ref, endpoint.address, endpoint.own_key, client)


def _bedrock(ref: ModelRef, endpoint: Endpoint, client: "AsyncClient") -> "Model[Any]":
    del client  # AWS's library has its own.
    return _bedrock_model(ref, endpoint.address, endpoint.own_key)


_BUILDERS: "Mapping[ProviderProtocol, Callable[[ModelRef, Endpoint, AsyncClient], Model[Any]]]" = {
    "openai": _openai,
    "azure": _openai,
    "anthropic": _anthropic,
    "google": _google,
    "vertex": _vertex,
    "bedrock": _bedrock,
}


_UNREACHED = {
    "refused": "nothing is listening there",
    "unknown host": "its name cannot be resolved",
}
_LATER: Mapping[int, Cause] = {429: "rate limited", 502: "busy", 503: "busy", 529: "busy"}
_LONGEST = 300
"""Characters of what an endpoint says of an error."""
_NOT_FOR_THIS_MODEL = {"unknown_parameter", "unsupported_parameter", "unsupported_value"}


def failures() -> tuple[type[Exception], ...]:
    """What may be raised when an endpoint fails.

    The builtin ones come from JSON that is not an answer: a list, a null, no choices, 100,000
    brackets.
    """
    import httpx2

    plain = (AssertionError, AttributeError, LookupError, OSError, TypeError, ValueError)
    ours = (AnswerUnfinished, EndpointFailure, RequestFiltered)
    return (
        *ours,
        *_library_errors(),
        httpx2.HTTPError,
        RecursionError,
        *plain,
        *_login_errors(),
    )


def _library_errors() -> tuple[type[Exception], ...]:
    """What pydantic-ai raises, if it is loaded."""
    if "pydantic_ai" not in sys.modules:
        return ()
    from pydantic_ai.exceptions import AgentRunError, UserError

    return AgentRunError, UserError


def status_failure(error: Exception) -> EndpointFailure | None:
    """An error's status and what it is about; None if it is about something else."""
    if isinstance(error, EndpointFailure) or "pydantic_ai" not in sys.modules:
        return error if isinstance(error, EndpointFailure) else None
    from pydantic_ai import exceptions

    if not isinstance(error, exceptions.ModelHTTPError):
        return None
    kinds: dict[type[Exception], FailureKind] = {
        exceptions.ModelAuthenticationError: "key",
        exceptions.ModelQuotaExceededError: "quota",
        exceptions.ModelNotFoundError: "model",
        exceptions.ModelRequestRejectedError: "request",
    }
    matches: list[FailureKind] = [kind for each, kind in kinds.items() if isinstance(error, each)]
    failure = EndpointFailure(
        error.status_code,
        error.body,
        headers=error.headers,
        kind=matches[0] if matches else "",
        code=error.provider_error_code or "",
    )
    if error.retry_after is not None:
        failure.retry_after = error.retry_after
    return failure


@dataclass(frozen=True, kw_only=True)
class EndpointErrors:
    """Creates the errors of one model at one endpoint, without keys in their messages."""

    ref: ModelRef
    endpoint: Endpoint

    def timed_out(self) -> ModelUnavailable:
        limit = self.ref.settings.timeout
        within = "in time" if limit is None else f"within {limit:g} s"
        return ModelUnavailable(self._line(f"did not answer {within}"))

    def unfinished(self) -> ModelUnavailable:
        return ModelUnavailable(self._line("returned an incomplete answer"))

    def filtered(self) -> ModelRejected:
        return ModelRejected(self._line("rejected the request: its content filter"))

    def of(self, error: Exception) -> ModelError:
        import httpx2

        if isinstance(error, AnswerUnfinished):
            return self.unfinished()
        if isinstance(error, RequestFiltered):
            return self.filtered()
        unopened = (httpx2.ConnectError, httpx2.ConnectTimeout)
        if status := _redirect(error):
            remedy = "give the address it leads to as base_url"
            return self._refused(
                f"answered HTTP {status}: burnish sends no key to a redirect", remedy
            )
        if (failure := status_failure(error)) is not None:
            return self._of_status(failure)
        if remedy := _login_remedy(error):
            return self._refused(f"cannot be called: {root_of(error)}", remedy)
        if message := _users_part(error):
            return ModelRefused(self._line(f"does not support this request: {message}"))
        if isinstance(error, UnicodeEncodeError):
            return ModelRejected(self._line("cannot be sent text that is not Unicode"))
        if isinstance(error, (OSError, httpx2.TransportError)) or _is_connection_error(error):
            unopen = isinstance(error, unopened) or getattr(error, "phase", "") == "connect"
            return self._without_connection(error) if unopen else self._broken_off(error)
        hint = f"returned something that is not a model's answer; check {self.ref.address_setting}"
        return ModelUnavailable(self._line(hint))

    def _broken_off(self, error: Exception) -> ModelUnavailable:
        from burnish.models.answer_limits import AnswerUnusable

        if isinstance(cause := first_cause(error), AnswerUnusable):
            return ModelUnavailable(self._line(f"returned an answer that is unusable: {cause}"))
        return ModelUnavailable(self._line(f"broke the connection: {root_of(error)}"))

    def _without_connection(self, error: Exception) -> ModelUnavailable:
        cause = unreached(error)
        line = self._line(f"could not be reached: {_UNREACHED.get(cause) or root_of(error)}")
        return ModelUnavailable(line, cause=cause)

    def _of_status(self, failure: EndpointFailure) -> ModelError:
        status = failure.status
        if failure.kind == "key":
            row, named = self.ref.row, self.ref.api_key.strip("${}")
            named = named or next(iter(row.key_variables), "")
            if not self.endpoint.own_key:
                remedy = f"set {named}, or give the model an api_key: ${{NAME}}"
                remedy = remedy if named else "give the model an api_key: ${NAME}"
                return self._refused(f"wants a key, and was sent none (HTTP {status})", remedy)
            remedy = f"check the key in {named}" if named else "check its api_key"
            return self._refused(f"refused the key (HTTP {status})", remedy)
        # Cut when it has no key any more: half of one is in no list.
        words = self._hidden(words_of(failure.body))[:_LONGEST]
        message = self._line(": ".join(filter(None, [f"answered HTTP {status}", words])))
        if failure.kind == "quota":
            return ModelRefused(message, remedy="the account is out of credit or over its quota")
        if status in (408, 409, 425, 429) or status >= 500:
            cause = _LATER.get(status, "away")
            return ModelUnavailable(message, retry_after=failure.retry_after, cause=cause)
        if failure.code in _NOT_FOR_THIS_MODEL:
            return ModelRefused(message, remedy="change the model's settings, or use another model")
        # Such as input that a gateway's moderation turned away with a 403.
        about_it = status in (400, 413, 422) or failure.kind == "request"
        if about_it and failure.kind != "model":
            return ModelRejected(message)
        remedy = f"check the model's name and {self.ref.address_setting}"
        return ModelRefused(message, remedy=remedy)

    def _refused(self, what: str, remedy: str) -> ModelRefused:
        return ModelRefused(self._line(what), remedy=remedy)

    def _line(self, what: str) -> str:
        line = " ".join(f"{self.ref.label} at {self.endpoint.address} {what}".split())
        return self._hidden(line)

    def _hidden(self, text: str) -> str:
        return Redactor.from_environment(extra=self.endpoint.secrets).text(text)


def _users_part(error: Exception) -> str:
    """What pydantic-ai says about a request that it does not support; else empty."""
    if "pydantic_ai" not in sys.modules:
        return ""
    from pydantic_ai.exceptions import UserError

    return error.message if isinstance(error, UserError) else ""


def _is_connection_error(error: Exception) -> bool:
    if "pydantic_ai" not in sys.modules:
        return False
    from pydantic_ai.exceptions import ModelConnectionError

    return isinstance(error, ModelConnectionError)


def _redirect(error: BaseException) -> int:
    """The status of a redirect; 0 if it is none."""
    response = getattr(error.__cause__, "response", None)
    status = getattr(response, "status_code", 0)
    if isinstance(error, EndpointFailure):
        status = error.status
    return status if 300 <= status < 400 else 0


# -- Google Cloud and AWS --------------------------------------------------------------------------


_VERTEX_LOGIN = (
    "set GOOGLE_CLOUD_PROJECT, and GOOGLE_CLOUD_LOCATION if it is not us-central1, and log in "
    "with `gcloud auth application-default login`; or give the model an api_key: ${NAME}"
)
_BEDROCK_LOGIN = (
    "set AWS_REGION, and log in with `aws configure` or set AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, or AWS_BEARER_TOKEN_BEDROCK"
)
_LOGINS = {
    "google.auth.exceptions": ("GoogleAuthError", _VERTEX_LOGIN),
    "botocore.exceptions": ("BotoCoreError", _BEDROCK_LOGIN),
}
"""By the module of a library: its errors without an answer, and what to do about them."""
_SERVICE = "bedrock-runtime"


def _vertex_model(ref: ModelRef, address: str, key: str, client: "AsyncClient") -> "Model[Any]":
    """Gemini on Google Cloud, with the login of the Google Cloud SDK, or with a key."""
    from google.genai.types import HttpRetryOptions
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google_cloud import GoogleCloudProvider

    location = os.environ.get("GOOGLE_CLOUD_LOCATION", "").strip()
    provider = GoogleCloudProvider(
        api_key=key or None,
        project=None if key else _project(),
        location=None if key else location or None,
        base_url=address if ref.location else None,
        http_client=client,
        retry_options=HttpRetryOptions(attempts=1),
    )
    return GoogleModel(ref.name, provider=provider)


def _require_project(ref: ModelRef, key: str | None) -> None:
    """Refuse a model on Google Cloud that has neither a key nor a project."""
    if not (key or _project()):
        message = f"the model {ref.label} needs a project of Google Cloud"
        raise ModelRefused(message, remedy=_VERTEX_LOGIN)


def _project() -> str:
    return os.environ.get("GOOGLE_CLOUD_PROJECT", "").strip()


def _bedrock_model(ref: ModelRef, address: str, key: str) -> "Model[Any]":
    """Models on AWS, with the login of the AWS command line, or with a key of Bedrock."""
    from pydantic_ai.models.bedrock import BedrockConverseModel
    from pydantic_ai.providers.bedrock import BedrockProvider

    places = map(os.environ.get, ("AWS_REGION", "AWS_DEFAULT_REGION"))
    options: dict[str, Any] = {
        "base_url": address if ref.location else None,
        "region_name": next(filter(None, places), None),
        "api_key": key or None,
        "aws_read_timeout": ref.settings.timeout or 600.0,
        "aws_connect_timeout": 15.0,
    }
    provider = BedrockProvider(**options)
    # Retries are counted by burnish, not hidden in the library, which registers its own like this.
    events = cast("Any", provider).client.meta.events
    events.unregister(f"needs-retry.{_SERVICE}", unique_id=f"retry-config-{_SERVICE}")
    return BedrockConverseModel(ref.name, provider=provider)


def _login_errors() -> tuple[type[Exception], ...]:
    """What those libraries raise, as far as they are loaded."""
    return tuple(
        getattr(sys.modules[module], name)
        for module, (name, _) in _LOGINS.items()
        if module in sys.modules
    )


def _login_remedy(error: Exception) -> str:
    """What to do about a failed login; empty if it is another error."""
    for module, (name, remedy) in _LOGINS.items():
        if module in sys.modules and isinstance(error, getattr(sys.modules[module], name)):
            return remedy
    return ""
