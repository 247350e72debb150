"""Endpoints: where a model is, the client that talks to it, and what its failures mean."""

import importlib.util
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import SplitResult, urlsplit

from burnish.core.errors import ConfigError
from burnish.models.errors import (
    ModelError,
    ModelRefused,
    ModelRejected,
    ModelUnavailable,
    inside,
    root_of,
    wait_of,
    words_of,
)
from burnish.models.keys import key_for, missing_key
from burnish.models.providers import ProviderProtocol
from burnish.models.references import ModelRef, is_loopback
from burnish.system import Redactor, expand_variables

if TYPE_CHECKING:
    from httpx2 import AsyncBaseTransport, AsyncClient, Response
    from openai import APIStatusError, AsyncOpenAI
    from openai.types.chat import ChatCompletion
    from pydantic_ai.exceptions import ModelHTTPError
    from pydantic_ai.models import Model
    from pydantic_ai.providers import Provider

_EXTRAS: Mapping[ProviderProtocol, tuple[str, str]] = {
    "openai": ("openai", "openai"),
    "azure": ("openai", "openai"),
    "anthropic": ("anthropic", "anthropic"),
    "google": ("google", "google.genai"),
}
"""The extra of burnish that a protocol needs, and the module that it installs."""
NO_KEY = "no-key-needed"
_AZURE_V1 = "/openai/v1"
"""Where a resource of Azure speaks OpenAI's own protocol, which takes no version."""
_SERVERLESS = ".models.ai.azure.com"
"""Hosts of Azure that serve one model each, under `/v1`."""
_VERSION = "OPENAI_API_VERSION"


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An address and the key for it."""

    address: str
    key: str = field(repr=False)
    api_version: str = ""
    """That of Azure's dated API, whose addresses name the deployment; empty everywhere else."""

    @property
    def is_local(self) -> bool:
        """On this machine."""
        return is_loopback(urlsplit(self.address).hostname or "")

    @property
    def is_plain_local(self) -> bool:
        """On this machine, and without TLS."""
        return self.is_local and self.address.startswith("http:")

    def url(self, end: str) -> str:
        """The address with more of a path."""
        parts = urlsplit(self.address)
        return parts._replace(path=f"{parts.path}/{end}").geturl()

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be shown."""
        return () if self.key == NO_KEY else (self.key,)


def endpoint_of(ref: ModelRef) -> Endpoint:
    """Where the model is, or ModelRefused with what is missing."""
    _require_extra(ref)
    parts, version = _parts(ref), ""
    if ref.row.protocol == "azure":
        parts, version = _azure(ref, parts)
    elif not parts.path:
        parts = parts._replace(path=ref.row.path)
    try:
        key = key_for(ref)
    except ConfigError as error:
        raise ModelRefused(error.message, remedy=error.remedy) from None
    if key is None and not _does_without(ref):
        raise missing_key(ref)
    return Endpoint(address=parts.geturl(), key=key or NO_KEY, api_version=version)


def _does_without(ref: ModelRef) -> bool:
    optional = ref.row.key_optional
    return optional == "always" or (optional == "elsewhere" and bool(ref.base_url))


def _require_extra(ref: ModelRef) -> None:
    extra, module = _EXTRAS[ref.row.protocol]
    for needed in ("pydantic_ai", module):
        if not _importable(needed):
            message = f"{ref.label} needs the package {needed}, which is not installed"
            raise ModelRefused(message, remedy=f"pip install 'burnish[{extra}]'")


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _parts(ref: ModelRef) -> SplitResult:
    """The address, as it is written or as the provider's is known.

    The SDKs' own variables are not looked at: what a reference says is what a journal key says.
    """
    try:
        written = expand_variables(ref.base_url, os.environ) or ref.row.address
    except ConfigError as error:
        raise ModelRefused(f"the base_url of {ref.label}: {error.message}") from None
    if not written:
        raise _refused(ref, "has no base_url", ref.row.address_hint)
    written = written.strip().rstrip("/")
    try:
        parts = urlsplit(written)
        sane = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sane, parts = False, SplitResult("", "", "", "", "")
    if not (sane and written.isprintable() and " " not in written):
        remedy = "write it as https://host/v1 or http://host:port/v1"
        raise _refused(ref, "has a base_url that is not an address", remedy)
    return parts


def _azure(ref: ModelRef, parts: SplitResult) -> tuple[SplitResult, str]:
    """The address of Azure's dated API with its version; without one, that of its v1 API."""
    if "/openai/deployments" in parts.path:
        remedy = "write https://RESOURCE.openai.azure.com, and the deployment as the model's name"
        raise _refused(ref, "has a base_url that names more than its resource", remedy)
    if (parts.hostname or "").endswith(_SERVERLESS) and not parts.path.endswith("/v1"):
        parts = parts._replace(path=f"{parts.path}/v1")
    if parts.path.endswith("/v1"):
        if ref.api_version:
            raise _refused(ref, "has an api_version that its address does not take", "remove it")
        return parts, ""
    resource = parts.path.removesuffix("/openai")
    if version := ref.api_version or os.environ.get(_VERSION, "").strip():
        return parts._replace(path=resource), version
    return parts._replace(path=f"{resource}{_AZURE_V1}"), ""


def _refused(ref: ModelRef, what: str, remedy: str) -> ModelRefused:
    return ModelRefused(f"the model {ref.label} {what}", remedy=remedy)


# -- pydantic-ai's model for an endpoint -------------------------------------------------------

_CONNECTING = 15.0
"""Seconds for opening a connection; everything else is under the call's own timeout."""


def http_client(endpoint: Endpoint, transport: "AsyncBaseTransport | None" = None) -> "AsyncClient":
    """An HTTP client with room for many calls at once. Redirects are not followed: a key is
    for one host. This machine is not reached through a proxy."""
    import httpx2

    return httpx2.AsyncClient(
        limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=256),
        timeout=httpx2.Timeout(None, connect=_CONNECTING),
        transport=transport,
        trust_env=not endpoint.is_local,
        # Reading the certificates of the world takes longer than many a local call; this
        # context trusts nobody.
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if endpoint.is_plain_local else True,
    )


def build_model(ref: ModelRef, endpoint: Endpoint, client: "AsyncClient") -> "Model[Any]":
    """The model that a reference names, over this HTTP client."""
    return _BUILDERS[ref.row.protocol](ref, endpoint, client)


def _openai(ref: ModelRef, endpoint: Endpoint, client: "AsyncClient") -> "Model[Any]":
    from pydantic_ai.profiles import merge_profile
    from pydantic_ai.profiles.openai import OpenAIModelProfile

    provider = _openai_provider(ref, endpoint, client)
    provider.client.max_retries = 0
    # With a version, Azure's SDK client makes an address of the model's name.
    if not endpoint.api_version:
        _post_directly(provider.client, client, endpoint, _azure_key(ref, endpoint))
    kind = resolve_name(ref.row.chat_model)
    model = kind(ref.name, provider=provider)
    if not _knows_old_name_only(ref, endpoint, model):
        return model
    old_name = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)
    return kind(ref.name, provider=provider, profile=merge_profile(model.profile, old_name))


def _openai_provider(
    ref: ModelRef, endpoint: Endpoint, client: "AsyncClient"
) -> "Provider[AsyncOpenAI]":
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


def _azure_key(ref: ModelRef, endpoint: Endpoint) -> Mapping[str, str] | None:
    """The header that Azure takes a key in, also where gateways stand before it."""
    if ref.row.protocol != "azure" or not endpoint.address.endswith(_AZURE_V1):
        return None
    return {"api-key": endpoint.key}


def _knows_old_name_only(ref: ModelRef, endpoint: Endpoint, model: "Model[Any]") -> bool:
    """Whether the endpoint may not know `max_completion_tokens`, and ignore it in silence.

    Many compatible servers do; OpenAI's own reasoning models, behind whatever address, take
    nothing else.
    """
    row = ref.row
    if row.legacy_max_tokens == "elsewhere":
        reasons = model.profile.get("openai_supports_reasoning", False)
        return endpoint.address != row.address and not reasons
    return row.legacy_max_tokens == "always"


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


_BUILDERS: "Mapping[ProviderProtocol, Callable[[ModelRef, Endpoint, AsyncClient], Model[Any]]]" = {
    "openai": _openai,
    "azure": _openai,
    "anthropic": _anthropic,
    "google": _google,
}


def _post_directly(
    client: "AsyncOpenAI",
    http: "AsyncClient",
    endpoint: Endpoint,
    key_header: Mapping[str, str] | None = None,
) -> None:
    """Make the client post chat requests as they are, with its usual header for the key or this.

    For each request the SDK walks through the whole conversation for fields to rename, of which
    chat requests have none, builds its headers anew and its answer field by field: together
    more than twice the work of the HTTP itself.
    """
    from httpx2 import URL
    from openai import NotGiven, Omit
    from openai.resources.chat.completions import AsyncCompletions

    url = URL(endpoint.url("chat/completions"))
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
    """The answer in the SDK's type; what endpoints leave out is left out of it."""
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
    except ValueError:
        document = response.text
    body = inside(document)
    return APIStatusError(f"HTTP {response.status_code}", response=response, body=body)


# -- what failures mean ------------------------------------------------------------------------

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
class EndpointErrors:
    """Makes the errors of one model at one place; no key gets into their words."""

    ref: ModelRef
    endpoint: Endpoint

    def timed_out(self) -> ModelUnavailable:
        """No answer in time."""
        limit = self.ref.settings.timeout
        within = "in time" if limit is None else f"within {limit:g} s"
        return ModelUnavailable(self._line(f"did not answer {within}"))

    def unfinished(self) -> ModelUnavailable:
        """An answer whose end never came."""
        return ModelUnavailable(self._line("gave an answer without an end"))

    def filtered(self) -> ModelRejected:
        """The endpoint would not read the request."""
        return ModelRejected(self._line("turned the request away: its content filter"))

    def of(self, error: Exception) -> ModelError:
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
            return ModelRefused(self._line(f"cannot be asked this: {error.message}"))
        if isinstance(error, UnicodeEncodeError):
            return ModelRejected(self._line("cannot be sent text that is not Unicode"))
        if isinstance(error, (ModelConnectionError, OSError, httpx2.TransportError)):
            unreached = isinstance(error, unopened) or getattr(error, "phase", "") == "connect"
            what = "could not be reached" if unreached else "broke the connection"
            return ModelUnavailable(self._line(f"{what}: {root_of(error)}"))
        hint = "gave something that is no answer of a model; is the base_url right?"
        return ModelUnavailable(self._line(hint))

    def _of_status(self, error: "ModelHTTPError") -> ModelError:
        from pydantic_ai.exceptions import (
            ModelAuthenticationError,
            ModelNotFoundError,
            ModelQuotaExceededError,
            ModelRequestRejectedError,
        )

        status = error.status_code
        if isinstance(error, ModelAuthenticationError):
            return self._refused(f"refused the key (HTTP {status})", _about_the_key(self.ref))
        message = self._line(
            ": ".join(filter(None, [f"answered HTTP {status}", words_of(error.body)]))
        )
        if isinstance(error, ModelQuotaExceededError):
            return ModelRefused(message, remedy="the account is out of credit or over its quota")
        if status in _AGAIN or status >= 500:
            wait = error.retry_after
            wait = wait_of(error.headers, error.body) if wait is None else wait
            return ModelUnavailable(message, retry_after=wait)
        if error.provider_error_code in _NOT_FOR_THIS_MODEL:
            return ModelRefused(
                message, remedy="change the model's settings, or take another model"
            )
        # Such as input that a gateway's moderation turned away with a 403.
        about_it = status in _THE_REQUEST or isinstance(error, ModelRequestRejectedError)
        if about_it and not isinstance(error, ModelNotFoundError):
            return ModelRejected(message)
        return ModelRefused(message, remedy="check the model's name and its base_url")

    def _refused(self, what: str, remedy: str) -> ModelRefused:
        return ModelRefused(self._line(what), remedy=remedy)

    def _line(self, what: str) -> str:
        """One line: who, where, what."""
        line = " ".join(f"{self.ref.label} at {self.endpoint.address} {what}".split())
        return Redactor.from_environment(extra=self.endpoint.secrets).text(line)


def _about_the_key(ref: ModelRef) -> str:
    named = ref.api_key.strip("${}") or next(iter(ref.row.key_variables), "")
    return f"check the key in {named}" if named else "give the model an api_key: ${NAME}"


def _redirect(error: BaseException) -> int:
    """The status of a redirect; 0 where it is none."""
    response = getattr(error.__cause__, "response", None)
    status = getattr(response, "status_code", 0)
    return status if 300 <= status < 400 else 0
