"""The table of providers: all that burnish knows of one is its row.

A package adds a provider with a row of its own, or several, and an entry point:

    [project.entry-points."burnish.providers"]
    acme = "acme_burnish:PROVIDER"

Models are then written `acme:name` in files and flags, and priced, checked and listed like others.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Literal, TypeAlias, cast

from burnish.core.errors import ConfigError, Problem
from burnish.core.outcomes import Usage

_GROUP = "burnish.providers"
ProviderProtocol: TypeAlias = Literal["openai", "azure", "anthropic", "google", "embedded"]
"""How a provider's endpoints are spoken to; `embedded` runs inside this process."""
_Where: TypeAlias = Literal["never", "elsewhere", "always"]
"""`elsewhere` is at an address that is not the provider's own."""

_MILLION = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Price:
    """US dollars for a million tokens each way."""

    input_per_million: float
    output_per_million: float

    def __post_init__(self) -> None:
        for name, usd in vars(self).items():
            if not (math.isfinite(usd) and usd >= 0):
                raise ConfigError([Problem(where=name, message="expected US dollars, 0 or more")])

    def of(self, usage: Usage) -> Decimal:
        """US dollars, exactly: a float is taken for the digits it is written with."""
        written = map(str, (self.input_per_million, self.output_per_million))
        return cost(usage, *map(Decimal, written))


def cost(usage: Usage, input_price: Decimal, output_price: Decimal) -> Decimal:
    """What tokens cost at these prices for a million."""
    return (usage.input_tokens * input_price + usage.output_tokens * output_price) / _MILLION


@dataclass(frozen=True, kw_only=True)
class HealthRequest:
    """A request that costs nothing and shows whether a provider answers."""

    path: str
    key_header: str = ""
    """The header that takes the key; empty where none is needed."""
    key_prefix: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    drop: str = ""
    """The end of the provider's address that the path does not follow."""
    listing: str = "data"
    """The key of the answer under which models are listed."""


@dataclass(frozen=True, kw_only=True)
class Provider:
    """One row: whoever serves models under one name."""

    name: str
    """What references begin with: `name:model`."""
    file_name: str = ""
    """What agent files that burnish writes call it, where that is not its name."""
    aliases: tuple[str, ...] = ()
    """Other names that files may use."""
    protocol: ProviderProtocol = "openai"
    address: str = ""
    """Where its models are without a `base_url`; empty where every model needs one."""
    path: str = ""
    """What follows an address that is written without a path."""
    hosts: tuple[str, ...] = ()
    """Its own hosts, subdomains included: its usual key and its listed prices are for these."""
    key_variables: tuple[str, ...] = ()
    """The variables that hold its key, the usual one first."""
    key_optional: _Where = "never"
    """Where its models may be called without a key."""
    address_hint: str = "give the address of the endpoint"
    """What to do where a model needs a `base_url` and has none."""
    is_local: bool = False
    """On this machine unless a `base_url` says otherwise; there its models cost nothing."""
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])
    """By the name of the model, at its own address."""
    price_list: str = ""
    """Its name in genai-prices, for the models that `prices` does not have."""
    probe: HealthRequest | None = None
    unprobed: str = "not asked: burnish knows no request for it that costs nothing"
    """What `doctor --online` says where there is no probe."""
    start_hint: str = ""
    """How to start a local one that does not answer."""
    has_embeddings: bool = False
    """Whether it offers embeddings as OpenAI's protocol has them."""
    legacy_max_tokens: _Where = "always"
    """Where its endpoints may know `max_tokens` only, and ignore its newer name in silence."""
    chat_model: str = "pydantic_ai.models.openai:OpenAIChatModel"
    """For the OpenAI protocol: the class that words its requests."""
    sdk: str = ""
    """For the OpenAI protocol: pydantic-ai's provider class, where it has one."""
    sdk_elsewhere: bool = True
    """Whether that class serves other addresses too; otherwise a generic one takes its place."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every name by which files may call it, its own first."""
        return (self.name, *filter(None, (self.file_name,)), *self.aliases)

    @property
    def written(self) -> str:
        """The name that agent files are written with."""
        return self.file_name or self.name


BUILT_IN: tuple[Provider, ...] = (
    Provider(
        name="openai",
        address="https://api.openai.com/v1",
        hosts=("api.openai.com",),
        key_variables=("OPENAI_API_KEY",),
        key_optional="elsewhere",
        price_list="openai",
        probe=HealthRequest(path="/models", key_header="Authorization", key_prefix="Bearer "),
        has_embeddings=True,
        legacy_max_tokens="elsewhere",
        sdk="pydantic_ai.providers.openai:OpenAIProvider",
        sdk_elsewhere=False,
    ),
    Provider(
        name="azure",
        file_name="azure_openai",
        protocol="azure",
        hosts=(
            "openai.azure.com",
            "azure-api.net",
            "cognitiveservices.azure.com",
            "services.ai.azure.com",
        ),
        key_variables=("AZURE_OPENAI_API_KEY",),
        address_hint="give the address of your Azure resource",
        price_list="azure",
        unprobed="not asked: its address is part of each model's base_url",
        has_embeddings=True,
        legacy_max_tokens="never",
    ),
    Provider(
        name="anthropic",
        protocol="anthropic",
        address="https://api.anthropic.com",
        hosts=("api.anthropic.com",),
        key_variables=("ANTHROPIC_API_KEY",),
        price_list="anthropic",
        probe=HealthRequest(
            path="/v1/models?limit=1",
            key_header="x-api-key",
            headers={"anthropic-version": "2023-06-01"},
        ),
    ),
    Provider(
        name="google",
        aliases=("gemini",),
        protocol="google",
        address="https://generativelanguage.googleapis.com",
        hosts=("googleapis.com",),
        key_variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        price_list="google",
        probe=HealthRequest(path="/v1beta/models?pageSize=1", key_header="x-goog-api-key"),
    ),
    Provider(
        name="ollama",
        address="http://localhost:11434/v1",
        path="/v1",
        key_optional="always",
        is_local=True,
        probe=HealthRequest(path="/api/tags", drop="/v1", listing="models"),
        start_hint="for models of your own, start Ollama: ollama serve",
        has_embeddings=True,
        chat_model="pydantic_ai.models.ollama:OllamaModel",
        sdk="pydantic_ai.providers.ollama:OllamaProvider",
    ),
    Provider(name="local", protocol="embedded", key_optional="always", is_local=True),
)


def all_providers() -> tuple[Provider, ...]:
    """Every row: those of burnish first, then those of installed packages."""
    return (*BUILT_IN, *_plug_ins())


def find_provider(name: str) -> Provider | None:
    """The row of this name or alias."""
    if (row := _BY_NAME.get(name)) is not None:
        return row
    return next((row for row in _plug_ins() if name in row.names), None)


_BY_NAME = {name: row for row in BUILT_IN for name in row.names}


@cache
def _plug_ins() -> tuple[Provider, ...]:
    """The rows of installed packages. A name that is taken is refused: keys and prices go by it."""
    taken, rows = set(_BY_NAME), list[Provider]()
    for point in entry_points(group=_GROUP):
        for row in _rows(point):
            if row in BUILT_IN:
                continue
            if both := taken.intersection(row.names):
                name = min(both)
                message = f"the provider '{name}' is there already"
                raise ConfigError([_wrong(point, message)])
            taken.update(row.names)
            rows.append(row)
    return tuple(rows)


def _rows(point: EntryPoint) -> Iterator[Provider]:
    """What an entry point names: a row, or several."""
    try:
        value = cast("object", point.load())
    except Exception as error:
        raise ConfigError([_wrong(point, f"it cannot be loaded: {error}")]) from error
    rows = cast("tuple[object, ...]", value) if isinstance(value, tuple | list) else (value,)
    for row in rows:
        if not isinstance(row, Provider):
            raise ConfigError([_wrong(point, "it is not a Provider, nor a tuple of them")])
        yield row


def _wrong(point: EntryPoint, message: str) -> Problem:
    where = f"the entry point '{point.name}' of {_GROUP} ({point.value})"
    return Problem(where=where, message=message, remedy="mend or remove the package that brings it")
