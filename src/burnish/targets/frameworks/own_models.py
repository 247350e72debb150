"""The model of an agent itself, as one that burnish calls: with its own endpoint and its own key.

What cannot be told is refused: a prompt must not go to an endpoint that the agent does not use.
"""

import os
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from burnish.core.errors import ConfigError, Problem
from burnish.models.providers import Provider, find_provider
from burnish.models.references import ModelRef, address_variable, key_for, key_reference
from burnish.system.variables import variables_in

_PLACEHOLDERS = ("api-key-not-set", "dummy", "ollama")
"""Keys that libraries send themselves to servers that need none."""
_LOGINS = (
    "_api_key_provider",
    "workload_identity",
    "_azure_ad_token",
    "_azure_ad_token_provider",
)
"""What a client of OpenAI's library has if its key is made anew now and then."""


def model_of_client(provider: str, name: str, client: Any) -> ModelRef:
    """The model that a client of OpenAI's, Anthropic's or Google's library calls.

    `provider` is its name in the agent's framework. Raises ConfigError if address or key cannot
    be told.
    """
    library = type(client).__module__.partition(".")[0]
    kind = type(client).__name__.removeprefix("Async")
    protocol = row.protocol if (row := find_provider(provider)) is not None else ""
    match library, kind, protocol:
        case "openai", "AzureOpenAI", "openai" | "azure":
            address, key = str(client.base_url), _key_of(client)
            version = client._api_version
        case ("openai", "OpenAI", "openai" | "azure") | ("anthropic", "Anthropic", "anthropic"):
            address, key, version = str(client.base_url), _key_of(client), ""
        case "google", "Client", "google" if not client.vertexai:
            inner = client._api_client
            address, key, version = str(inner._http_options.base_url), inner.api_key, ""
        case _:
            raise unknown_model(f"burnish cannot tell where the agent's {provider}:{name} is")
    if not key:
        raise unknown_model(f"burnish cannot read the key of the agent's {provider}:{name}")
    if version:
        return azure_model(name, address=address, key=key, api_version=version)
    return own_model(provider, name, address=address, key=key)


def _key_of(client: Any) -> str:
    """The key that a client sends; empty if a function or a login makes it anew."""
    is_made = any(getattr(client, name, None) is not None for name in _LOGINS)
    return "" if is_made else client.api_key or ""


def azure_model(name: str, *, address: str, key: str, api_version: str) -> ModelRef:
    """A deployment behind Azure's dated API; the address may name it instead of the agent."""
    resource, _, deployment = address.rstrip("/").partition("/openai/deployments/")
    return own_model(
        "azure",
        deployment or name,
        address=resource.removesuffix("/openai"),
        key=key,
        api_version="" if resource.endswith("/v1") else api_version,
    )


def own_model(
    provider: str, name: str, *, address: str, key: str, api_version: str = ""
) -> ModelRef:
    """The model of this name at this address, called with this key, or without one.

    An address that is the provider's own is left out, and so is a key that burnish finds without
    help. The reference has the name of a variable instead of any other key.
    """
    row = find_provider(provider)
    if row is None:
        raise unknown_model(f"burnish does not know the provider of the agent's {provider}:{name}")
    ref = ModelRef(
        provider=row.name, name=name, base_url=_base_url(row, address), api_version=api_version
    )
    return replace(ref, api_key=_api_key(ref, key))


def unknown_model(message: str) -> ConfigError:
    """The error for a model of an agent that burnish cannot call."""
    return ConfigError([Problem(message=message)])


def _base_url(row: Provider, address: str) -> str:
    """The address for a reference; empty if it is the provider's own."""
    written = address.strip().rstrip("/")
    try:
        parts = urlsplit(written)
        secret = parts.query or parts.fragment or "@" in parts.netloc
        host = parts.hostname
    except ValueError:
        secret, host = "", None
    if not host or variables_in(written):
        # A `${VAR}` in it would be expanded: its library sends it as it stands.
        raise unknown_model("the agent's own model has no address that burnish can read")
    if secret:
        raise unknown_model(
            f"the address of the agent's own model at {host} has a user, a password or a query in"
            " it, which burnish does not take over"
        )
    # Libraries may add the end of the provider's path themselves.
    is_usual = f"{row.address}/".startswith(f"{written}/")
    return "" if is_usual and not address_variable(row) else written


def _api_key(ref: ModelRef, key: str) -> str:
    """A reference to the variable with the key; empty if burnish finds the key without it."""
    written, usual = key.strip(), key_for(ref)
    if usual == written or (usual is None and written in _PLACEHOLDERS):
        return ""
    names = (name for name in ref.row.key_variables if os.environ.get(name, "").strip() == written)
    if written and (variable := next(names, None)) is not None:
        return f"${{{variable}}}"
    if "$" in written or " " in written or not written.isprintable():
        raise unknown_model(f"burnish cannot read the key of the agent's {ref.label}")
    return key_reference(written, ref.label)
