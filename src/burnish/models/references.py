"""References to models: `openai:gpt-4o`, `local:smollm2`, an endpoint by its address; and keys."""

import difflib
import hashlib
import ipaddress
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from burnish.core.content import Json, short_id
from burnish.core.errors import ConfigError
from burnish.models.dotenv import DOTENV, WHERE, address_origin, origin_of
from burnish.models.errors import ModelRefused
from burnish.models.providers import Price, Provider, all_providers, find_provider
from burnish.system import expand_variables
from burnish.system.variables import variables_in

_OURS = ("timeout", "max_answer_mb")
"""Settings that the model is not sent."""


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """How a model is called. None leaves it to the model."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    timeout: float | None = 120.0
    """Seconds for one attempt; after that the endpoint has failed, not the agent."""
    max_answer_mb: float = 32.0
    """Megabytes that are read of one answer; with more, the endpoint has failed."""

    def sent(self) -> dict[str, Any]:
        """The settings that are set and sent to the model, not those about waiting and reading."""
        fields = {name: value for name, value in asdict(self).items() if name not in _OURS}
        return {name: value for name, value in fields.items() if value not in (None, ())}


@dataclass(frozen=True, kw_only=True)
class ModelRef:
    """One model, where it is, and how it is called. Secrets stay `${VAR}`."""

    provider: str
    name: str
    base_url: str = ""
    """The address of the endpoint; empty for that of the provider's variable, or its own."""
    api_key: str = ""
    """A `${VAR}`; empty for the provider's usual variable."""
    api_version: str = ""
    """Of Azure's dated API; empty for its v1 API, unless OPENAI_API_VERSION is set."""
    settings: ModelSettings = field(default_factory=ModelSettings)
    price: Price | None = None
    """What it costs at your own endpoint; overrides every other price."""

    @classmethod
    def parse(cls, text: str, **more: Any) -> "ModelRef":
        """Parse `provider:name`, or `provider/name` as other systems write it.

        The error suggests the nearest known provider.
        """
        if (parts := split_reference(text)) is not None:
            row, name = parts
            return cls(provider=row.name, name=name, **more)
        provider, _, name = text.partition(":")
        if find_provider(text.rstrip(":/ ")) is not None:
            raise ConfigError.of(
                text, "the model has no name", f"such as {provider.rstrip('/ ')}:…"
            )
        names = [row.name for row in all_providers()]
        if near := difflib.get_close_matches(provider, names, n=1):
            hint = f"did you mean '{near[0]}:{name or '…'}'?"
        else:
            hint = f"known: {', '.join(f'{each}:…' for each in names)}"
        raise ConfigError.of(text, "not a reference to a model", hint)

    @property
    def row(self) -> Provider:
        """The provider's row; an empty one for a provider that only a test double plays."""
        return find_provider(self.provider) or Provider(name=self.provider)

    @property
    def written_address(self) -> str:
        """Its address with `${VAR}`: as written, or as a variable of its provider has it."""
        name = "" if self._own_address() else address_variable(self.row)
        return f"${{{name}}}" if name else self.base_url

    @property
    def address_setting(self) -> str:
        """What says where it is called, for remedies: a variable, or its base_url."""
        return ", ".join(variables_in(self.written_address)) or "its base_url"

    @property
    def address(self) -> str:
        """Where it is called, with variables expanded; ConfigError if one is not set."""
        return self._own_address() or usual_address(self.row)

    def _own_address(self) -> str:
        """What `base_url` says now: a variable in it may be empty."""
        return expand_variables(self.base_url, os.environ).strip().rstrip("/")

    @property
    def location(self) -> str:
        """Its address as used, without login and query; empty for the provider's own."""
        try:
            address = shown_address(self.address)
        except ConfigError:
            return self.base_url
        return "" if address == self.row.address else address

    @property
    def endpoint(self) -> str:
        """Where calls go, for limits: the address, or the provider if there is none."""
        return self.base_url or self.provider

    @property
    def label(self) -> str:
        return f"{self.provider}:{self.name}"

    @cached_property
    def fingerprint(self) -> str:
        """A hash of model and settings, part of every journal key. It excludes the API key."""
        data: Json = [
            self.provider,
            self.name,
            self.location,
            self.api_version,
            {name: _plain(value) for name, value in self.settings.sent().items()},
        ]
        return short_id(data)


def split_reference(text: str) -> tuple[Provider, str] | None:
    """The provider and the name in `provider:name` or `provider/name`; None if it is neither.

    What comes after the provider is the name, whatever it contains: `ollama/llama3:8b`.
    """
    for sign in ":/":
        provider, present, name = text.strip().partition(sign)
        row = find_provider(provider.strip()) if present and name.strip() else None
        if row is not None:
            return row, name.strip()
    return None


def _plain(value: Any) -> Json:
    return list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def address_variable(row: Provider, environ: Mapping[str, str] | None = None) -> str:
    """The variable that a provider's address is in now; empty if there is none."""
    env = os.environ if environ is None else environ
    return next((name for name in row.address_variables if env.get(name, "").strip()), "")


_BARE_HOST = "OLLAMA_HOST"
"""May be a host alone, and the address of every interface: a server reads it too."""


def usual_address(row: Provider, environ: Mapping[str, str] | None = None) -> str:
    """The address of a provider's models without a `base_url`: its variable's, or its own."""
    env = os.environ if environ is None else environ
    name = address_variable(row, env)
    if not name:
        return row.address
    address = env[name].strip().rstrip("/")
    if name == _BARE_HOST:
        if "://" not in address:
            address = f"http://{address}" if ":" in address else f"http://{address}:11434"
        address = address.replace("://0.0.0.0", "://127.0.0.1")
    # Some libraries add the path of the protocol to what is in the variable.
    return address if address.endswith(row.path) else f"{address}{row.path}"


def shown_address(address: str) -> str:
    """An address without login and query, which may be secrets."""
    try:
        parts = urlsplit(address.strip())
    except ValueError:
        return "not an address"
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
    return bare.geturl().rstrip("/")


def is_here(ref: ModelRef) -> bool:
    """Whether the model runs on this machine."""
    row = ref.row
    if row.is_local and (row.protocol == "embedded" or not ref.location):
        return True
    return is_loopback(_host_of(ref))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_providers_own(ref: ModelRef) -> bool:
    """Whether it is the provider's own endpoint: others have their own prices and keys."""
    host = _host_of(ref)
    own = ref.row.hosts
    return not ref.location or any(host == name or host.endswith(f".{name}") for name in own)


def _host_of(ref: ModelRef) -> str:
    """The host of the model's address; empty if it has none."""
    address = ref.location
    try:
        return urlsplit(address if "://" in address else f"//{address}").hostname or ""
    except ValueError:
        return ""


# -- Keys ------------------------------------------------------------------------------------------


_ROUTER = "openrouter"
"""Its names of models look like references to other providers."""
_REFERENCE = re.compile(r"\$\{([A-Za-z_]\w*)\}", re.ASCII)


def key_for(ref: ModelRef, environ: Mapping[str, str] | None = None) -> str | None:
    """The key of a model, or None if there is none."""
    env = os.environ if environ is None else environ
    name = key_variable(ref, env)
    return env[name].strip() if name else None


def key_variable(ref: ModelRef, environ: Mapping[str, str] | None = None) -> str:
    """The name of the variable that has the key of a model; empty if there is none.

    The provider's usual key is only sent to the provider's own hosts, to this machine, and to the
    address in the provider's own variable: another endpoint gets a key only if the configuration
    names one. An address from a `.env` gets none that is not from the same file. The same holds
    for headers from variables.
    """
    env = os.environ if environ is None else environ
    if ref.api_key:
        name = key_reference(ref.api_key, f"the api_key of {ref.label}")[2:-1]
        if not env.get(name, "").strip():
            raise missing_key(ref)
        _require_own_key(ref, name)
        return name
    return next(_usual_variables(ref, ref.row.key_variables, env), "")


def _usual_variables(ref: ModelRef, names: Iterable[str], env: Mapping[str, str]) -> Iterator[str]:
    """Those of these variables of its provider that are set, and may be sent to a model."""
    if is_providers_own(ref) or is_here(ref) or ref.written_address != ref.base_url:
        path = _foreign_origin(ref)
        for name in names:
            if env.get(name, "").strip() and (path is None or origin_of(name) == path):
                yield name


_HEADERS = {"OPENAI_ORG_ID": "openai-organization", "OPENAI_PROJECT_ID": "openai-project"}
"""By variable, the one header that it is; other variables have lines of headers."""


def usual_headers(ref: ModelRef) -> dict[str, str]:
    """The headers of its provider's variables that a model is sent, like the usual key."""
    return _headers_in(_usual_variables(ref, ref.row.header_variables, os.environ))


def every_usual_header() -> dict[str, str]:
    """The headers that the libraries of all providers find in variables."""
    return _headers_in(name for row in all_providers() for name in row.header_variables)


def _headers_in(variables: Iterable[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for variable in variables:
        value = os.environ.get(variable, "")
        if variable in _HEADERS:
            headers[_HEADERS[variable]] = value
            continue
        for name, colon, content in (line.partition(":") for line in value.split("\n")):
            if colon:
                headers[name.strip().lower()] = content.strip()
    return headers


def _foreign_origin(ref: ModelRef) -> Path | None:
    """The `.env` that decides where a model is; None if it is at its provider's own host."""
    return None if _host_of(ref) in ref.row.hosts else address_origin(ref.written_address)


def _require_own_key(ref: ModelRef, name: str) -> None:
    """Refuse to send a key of the user's environment to an address that a `.env` decides."""
    path = _foreign_origin(ref)
    if path is not None and origin_of(name) != path and not name.startswith(_LITERAL):
        message = f"the address of {ref.label} is from {path}, but its key {name} is not"
        remedy = f"write both in that {DOTENV}, or set both in your environment"
        raise ModelRefused(message, remedy=remedy)


def key_source(ref: ModelRef) -> str:
    """Where `key_for` takes the key of a model from, for people; empty if there is none."""
    name = key_variable(ref)
    return "the configuration" if name.startswith(_LITERAL) else name


def missing_key(ref: ModelRef) -> ModelRefused:
    """The error for a model that needs a key and has none."""
    named = variables_in(ref.api_key) or ref.row.key_variables
    if not named:
        remedy = f"give the model an api_key: ${{NAME}}, and set NAME {WHERE}"
    else:
        remedy = f"set {' or '.join(named)} {WHERE}"
    if ref.provider != _ROUTER and os.environ.get(f"{_ROUTER.upper()}_API_KEY", "").strip():
        remedy += f"; to reach it through OpenRouter, write {_ROUTER}:{ref.provider}/{ref.name}"
    return ModelRefused(f"there is no key for {ref.label}", remedy=remedy)


_LITERAL = "BURNISH_API_KEY_"
"""The beginning of the variables for keys in plain text."""
INSTEAD = f"put it in {DOTENV} and write ${{NAME}}"
"""What to do about a key that is written in plain text."""


def key_reference(text: str, where: str) -> str:
    """A key in a configuration, as the name of a variable.

    A key in plain text becomes a variable of this process, so that it is removed from everything
    that is written, and nothing else has to know about such keys.
    """
    written = text.strip()
    if not written or _REFERENCE.fullmatch(written):
        return written
    if "$" in written or not written.isprintable() or " " in written:
        raise ConfigError.of(where, "neither a key nor the name of a variable", INSTEAD)
    name = f"{_LITERAL}{hashlib.sha256(written.encode()).hexdigest()[:12].upper()}"
    os.environ[name] = written
    return f"${{{name}}}"
