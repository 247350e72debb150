"""References to models: `openai:gpt-4o`, `local:smollm2`, any endpoint by its address."""

import difflib
import ipaddress
import os
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from burnish.core.content import Json, short_id
from burnish.core.errors import ConfigError, Problem
from burnish.models.providers import Price, Provider, all_providers, find_provider
from burnish.system import expand_variables


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """How a model is asked. None leaves it to the model."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    timeout: float | None = 120.0
    """Seconds for one attempt; past it the endpoint has failed, not the agent."""

    def sent(self) -> dict[str, Any]:
        """The settings that go to the model: those that are set, the timeout excepted."""
        fields = {name: value for name, value in asdict(self).items() if name != "timeout"}
        return {name: value for name, value in fields.items() if value not in (None, ())}


@dataclass(frozen=True, kw_only=True)
class ModelRef:
    """One model, where it is, and how it is asked. Secrets stay `${VAR}`."""

    provider: str
    name: str
    base_url: str = ""
    """The address of the endpoint; empty takes the provider's own."""
    api_key: str = ""
    """A `${VAR}`; empty takes the provider's usual variable."""
    api_version: str = ""
    """That of Azure's dated API; empty takes its v1 API, unless OPENAI_API_VERSION is set."""
    settings: ModelSettings = field(default_factory=ModelSettings)
    price: Price | None = None
    """What it costs where it is, for an endpoint of one's own; before every other price."""

    @classmethod
    def parse(cls, text: str, **more: Any) -> "ModelRef":
        """`provider:name`; what is wrong is said with the nearest known provider."""
        provider, colon, name = text.partition(":")
        row = find_provider(provider)
        if colon and name.strip() and row is not None:
            return cls(provider=row.name, name=name.strip(), **more)
        raise ConfigError([_unknown(text, provider, row)])

    @property
    def row(self) -> Provider:
        """What is known of the provider: little of one that only a double plays."""
        return find_provider(self.provider) or Provider(name=self.provider)

    @property
    def endpoint(self) -> str:
        """Where calls go, for limits: one place an address, one a provider without one."""
        return self.base_url or self.provider

    @property
    def label(self) -> str:
        """The reference as it is written."""
        return f"{self.provider}:{self.name}"

    @cached_property
    def fingerprint(self) -> str:
        """A hash of model and settings; part of every journal key. The key's name is not."""
        data: Json = [
            self.provider,
            self.name,
            self.base_url,
            self.api_version,
            {name: _plain(value) for name, value in self.settings.sent().items()},
        ]
        return short_id(data)


def _plain(value: Any) -> Json:
    return list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _unknown(text: str, provider: str, row: Provider | None) -> Problem:
    if row is not None:
        return Problem(where=text, message="the model has no name", remedy=f"such as {provider}:…")
    names = [row.name for row in all_providers()]
    near = difflib.get_close_matches(provider, names, n=1)
    references = ", ".join(f"{name}:…" for name in names)
    hint = (
        f"did you mean '{near[0]}:{text.partition(':')[2] or '…'}'?"
        if near
        else f"known: {references}"
    )
    return Problem(where=text, message="not a reference to a model", remedy=hint)


def is_here(ref: ModelRef) -> bool:
    """Whether the model runs on this machine."""
    row = ref.row
    if row.is_local and (row.protocol == "embedded" or not ref.base_url):
        return True
    return is_loopback(_host_of(ref))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_providers_own(ref: ModelRef) -> bool:
    """Another endpoint may speak the same protocol under the same names, at prices of its own."""
    host = _host_of(ref)
    own = ref.row.hosts
    return not ref.base_url or any(host == name or host.endswith(f".{name}") for name in own)


def _host_of(ref: ModelRef) -> str:
    """The host of the model's address; empty when it has none."""
    try:
        address = expand_variables(ref.base_url, os.environ)
        return urlsplit(address if "://" in address else f"//{address}").hostname or ""
    except (ConfigError, ValueError):
        return ""
