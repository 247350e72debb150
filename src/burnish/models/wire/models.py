"""pydantic-ai's models for each provider: one HTTP client a place, no retries of their own."""

import ssl
from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from burnish.models.providers import Protocol
from burnish.models.references import ModelRef
from burnish.models.wire.places import AZURE_V1, Place

if TYPE_CHECKING:
    from httpx2 import AsyncBaseTransport, AsyncClient
    from openai import AsyncOpenAI
    from pydantic_ai.models import Model
    from pydantic_ai.providers import Provider

CONNECTING = 15.0
"""Seconds for opening a connection; everything else is under the call's own timeout."""


def http_client(place: Place, transport: "AsyncBaseTransport | None" = None) -> "AsyncClient":
    """An HTTP client with room for many calls at once. Redirects are not followed: a key is
    for one host. This machine is not reached through a proxy."""
    import httpx2

    return httpx2.AsyncClient(
        limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=256),
        timeout=httpx2.Timeout(None, connect=CONNECTING),
        transport=transport,
        trust_env=not place.is_local,
        # Reading the certificates of the world takes longer than many a local call; this
        # context trusts nobody.
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if place.is_plain_local else True,
    )


def build_model(ref: ModelRef, place: Place, client: "AsyncClient") -> "Model[Any]":
    """The model that a reference names, over this HTTP client."""
    return _BUILDERS[ref.row.protocol](ref, place, client)


def _openai(ref: ModelRef, place: Place, client: "AsyncClient") -> "Model[Any]":
    from burnish.models.wire.openai import post_directly

    provider = _openai_provider(ref, place, client)
    provider.client.max_retries = 0
    if not place.api_version:  # With one, Azure's SDK client makes an address of the model's name.
        post_directly(provider.client, client, place, _azure_key(ref, place))
    kind = resolve_name(ref.row.chat_model)
    model = kind(ref.name, provider=provider)
    if _knows_old_name_only(ref, place, reasons=_reasons(model)):
        return kind(ref.name, provider=provider, profile=_old_name(model))
    return model


def _openai_provider(ref: ModelRef, place: Place, client: "AsyncClient") -> "Provider[AsyncOpenAI]":
    from pydantic_ai.providers.azure import AzureProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    row = ref.row
    if row.protocol == "azure":
        return AzureProvider(
            azure_endpoint=place.address,
            api_version=place.api_version or None,
            api_key=place.key,
            http_client=client,
        )
    if row.sdk and (row.sdk_elsewhere or place.address == row.address):
        sdk = resolve_name(row.sdk)
        return sdk(base_url=place.address, api_key=place.key, http_client=client)
    return OpenAICompatibleProvider(
        "openai-compatible", base_url=place.address, api_key=place.key, http_client=client
    )


def _azure_key(ref: ModelRef, place: Place) -> Mapping[str, str] | None:
    """The header that Azure takes a key in, also where gateways stand before it."""
    if ref.row.protocol != "azure" or not place.address.endswith(AZURE_V1):
        return None
    return {"api-key": place.key}


def _reasons(model: "Model[Any]") -> bool:
    return bool(model.profile.get("openai_supports_reasoning", False))


def _knows_old_name_only(ref: ModelRef, place: Place, *, reasons: bool) -> bool:
    """Whether the endpoint may not know `max_completion_tokens`, and ignore it in silence.

    Many compatible servers do; OpenAI's own reasoning models, behind whatever address, take
    nothing else.
    """
    row = ref.row
    if row.legacy_max_tokens == "elsewhere":
        return place.address != row.address and not reasons
    return row.legacy_max_tokens == "always"


def _old_name(model: "Model[Any]") -> Any:
    from pydantic_ai.profiles import merge_profile
    from pydantic_ai.profiles.openai import OpenAIModelProfile

    override = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)
    return merge_profile(model.profile, override)


def _anthropic(ref: ModelRef, place: Place, client: "AsyncClient") -> "Model[Any]":
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(base_url=place.address, api_key=place.key, http_client=client)
    provider.client.max_retries = 0
    return AnthropicModel(ref.name, provider=provider)


def _google(ref: ModelRef, place: Place, client: "AsyncClient") -> "Model[Any]":
    from google.genai.types import HttpRetryOptions
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    provider = GoogleProvider(
        base_url=place.address,
        api_key=place.key,
        http_client=client,
        retry_options=HttpRetryOptions(attempts=1),
    )
    return GoogleModel(ref.name, provider=provider)


_BUILDERS: "Mapping[Protocol, Callable[[ModelRef, Place, AsyncClient], Model[Any]]]" = {
    "openai": _openai,
    "azure": _openai,
    "anthropic": _anthropic,
    "google": _google,
}
