"""References to models: `openai:gpt-4o`, `local:smollm2`, an endpoint by its address; and keys."""

import difflib
import hashlib
import ipaddress
import os
import re
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from burnish.core.content import Json, short_id
from burnish.core.errors import ConfigError, Problem
from burnish.models.errors import ModelRefused
from burnish.models.providers import Price, Provider, all_providers, find_provider
from burnish.system import expand_variables, read_text

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
    """The address of the endpoint; empty for the provider's own."""
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
            self.base_url,
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


def is_here(ref: ModelRef) -> bool:
    """Whether the model runs on this machine."""
    row = ref.row
    if row.is_local and (row.protocol == "embedded" or not ref.base_url):
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
    return not ref.base_url or any(host == name or host.endswith(f".{name}") for name in own)


def _host_of(ref: ModelRef) -> str:
    """The host of the model's address; empty if it has none."""
    try:
        address = expand_variables(ref.base_url, os.environ)
        return urlsplit(address if "://" in address else f"//{address}").hostname or ""
    except (ConfigError, ValueError):
        return ""


# -- Keys ------------------------------------------------------------------------------------------


_DOTENV = ".env"
WHERE = f"in the environment or in {_DOTENV}"

_ROUTER = "openrouter"
"""Its names of models look like references to other providers."""
_REFERENCE = re.compile(r"\$\{([A-Za-z_]\w*)\}", re.ASCII)
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)\s*=(.*)", re.ASCII)
_SINGLE = re.compile(r"'([^']*)'\s*(?:#.*)?")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?')

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}


def load_dotenv(folder: Path, environ: MutableMapping[str, str]) -> list[str]:
    """Add the variables of `.env` that are not set in `environ`; return their names."""
    path = find_dotenv(folder)
    values = {} if path is None else read_dotenv(path)
    new = {name: value for name, value in values.items() if name not in environ}
    environ.update(new)
    return list(new)


def find_dotenv(folder: Path) -> Path | None:
    """The nearest `.env`, from `folder` up to the root of its repository."""
    folder = folder.resolve()
    for place in (folder, *folder.parents):
        if (place / _DOTENV).is_file():
            return place / _DOTENV
        if (place / ".git").exists():
            break
    return None


def read_dotenv(path: Path) -> dict[str, str]:
    """The variables of a `.env` file. Values are literal: a `$` is a `$`."""
    values: dict[str, str] = {}
    bad: list[Problem] = []
    lines = read_text(path).removeprefix("\ufeff").split("\n")
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        value = None if match is None or "\0" in line else _value(match[2])
        if match is None or value is None:
            # Without what the line says: it may well be a key.
            remedy = "write NAME=value, and close every quote on its line"
            where = f"{path}:{number}"
            bad.append(Problem(where=where, message="not a variable", remedy=remedy))
        else:
            values[match[1]] = value
    if bad:
        raise ConfigError(bad)
    return values


def key_for(ref: ModelRef, environ: Mapping[str, str] | None = None) -> str | None:
    """The key of a model, or None if there is none.

    The provider's usual key is only sent to the provider's own hosts and to this machine: another
    endpoint gets a key only if the configuration names one.
    """
    env = os.environ if environ is None else environ
    if ref.api_key:
        reference = key_reference(ref.api_key, f"the api_key of {ref.label}")
        value = env.get(reference[2:-1], "").strip()
        if not value:
            raise missing_key(ref)
        return value
    if not (is_providers_own(ref) or is_here(ref)):
        return None
    values = (env.get(name, "").strip() for name in ref.row.key_variables)
    return next(filter(None, values), None)


def key_source(ref: ModelRef, environ: Mapping[str, str] | None = None) -> str:
    """Where `key_for` takes the key of a model from, for people; empty if there is none."""
    env = os.environ if environ is None else environ
    if ref.api_key:
        name = key_reference(ref.api_key, f"the api_key of {ref.label}")[2:-1]
        return "the configuration" if name.startswith(_LITERAL) else name
    if not (is_providers_own(ref) or is_here(ref)):
        return ""
    return next((name for name in ref.row.key_variables if env.get(name, "").strip()), "")


def missing_key(ref: ModelRef) -> ModelRefused:
    """The error for a model that needs a key and has none."""
    named = referred(ref.api_key) or ref.row.key_variables
    if not named:
        remedy = f"give the model an api_key: ${{NAME}}, and set NAME {WHERE}"
    else:
        remedy = f"set {' or '.join(named)} {WHERE}"
    if ref.provider != _ROUTER and os.environ.get(f"{_ROUTER.upper()}_API_KEY", "").strip():
        remedy += f"; to reach it through OpenRouter, write {_ROUTER}:{ref.provider}/{ref.name}"
    return ModelRefused(f"there is no key for {ref.label}", remedy=remedy)


_LITERAL = "BURNISH_API_KEY_"
"""How variables begin that hold keys written in plain text."""
INSTEAD = f"put it in {_DOTENV} and write ${{NAME}}"
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


def referred(text: str) -> list[str]:
    """The names of the variables that a text refers to."""
    return _REFERENCE.findall(text)


def _value(written: str) -> str | None:
    """The value with or without quotes; None if a quote is not closed."""
    text = written.strip()
    if text.startswith("'"):
        single = _SINGLE.fullmatch(text)
        return single[1] if single else None
    if text.startswith('"'):
        double = _DOUBLE.fullmatch(text)
        return double and re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), double[1])
    return re.sub(r"\s#.*", "", written, count=1).strip()
