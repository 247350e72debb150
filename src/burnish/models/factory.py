"""Models in files, `provider:name` or a block; the models of a project with their backends."""

import copy
import dataclasses
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any, Self, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    JsonValue,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticKnownError

from burnish.core.content import AboveZero, AtLeastOne, NotNegative, Places, Share
from burnish.core.errors import ConfigError, MissingExtra
from burnish.journal.limits import EndpointLimit, Limits
from burnish.journal.outages import RetryPolicy
from burnish.models.chat import RETRIES, Backend, ModelClient, Prices
from burnish.models.endpoints import missing_extra
from burnish.models.providers import Price, Provider, all_providers, find_provider
from burnish.models.references import (
    ModelRef,
    ModelSettings,
    key_reference,
    usual_address,
)
from burnish.system.extras import install_command
from burnish.system.settings import Settings
from burnish.system.variables import expand_variables, expanded_secrets, variables_in


def _provider(name: str) -> str:
    """The provider's name as agent files spell it, for any of its names."""
    if (row := find_provider(name)) is not None:
        return row.written
    *names, last = (f"'{row.written}'" for row in all_providers())
    raise PydanticKnownError("literal_error", {"expected": f"{', '.join(names)} or {last}"})


_ProviderName: TypeAlias = Annotated[str, AfterValidator(_provider)]
Temperature: TypeAlias = Annotated[float, Field(ge=0, le=2)]


_INSTEAD_OF = {
    "oauth_token": "it is a login of Claude Code, and Anthropic's API takes keys from programs: "
    "create one at console.anthropic.com, set ANTHROPIC_API_KEY and remove auth_provider; to "
    "measure Claude Code itself with its login, see docs/coding-agents.md",
    "bedrock": "write `provider: bedrock` and the model's name on Bedrock",
    "vertex": "Claude on Google Cloud cannot be called; write `provider: anthropic` with a key, or "
    "`provider: vertex` for Gemini",
    "foundry": "write `provider: azure` with the address of the resource as base_url",
    "custom": "give the address as base_url, and the key as api_key: ${NAME}",
}
"""What to write instead of HoloDeck's other ways to log in."""


class PriceBlock(BaseModel):
    """US dollars per million tokens, input and output."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    input_per_million: NotNegative
    output_per_million: NotNegative

    def price(self) -> Price:
        return Price(
            input_per_million=self.input_per_million, output_per_million=self.output_per_million
        )


class ModelBlock(BaseModel):
    """`provider` and `name` of a model, and how to reach and call it.

    `openai:gpt-4o` alone is short for both; `ref: openai:gpt-4o` works too.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    provider: _ProviderName
    name: Annotated[str, Field(min_length=1)]
    temperature: Temperature | None = None
    max_tokens: AtLeastOne | None = None
    top_p: Share | None = None
    base_url: str | None = None
    """The address of the endpoint, if it is not the provider's own; required for Azure."""
    endpoint: str | None = None
    """HoloDeck's name for `base_url`."""
    api_key: str | None = None
    """A `${VAR}`; by default the provider's usual variable."""
    api_version: str | None = None
    """The version of Azure's dated API; without one, the v1 API is used."""
    auth_provider: str | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    timeout: AboveZero | None = None
    """Seconds for one attempt."""
    max_answer_mb: AboveZero | None = None
    """Megabytes that are read of one answer, 32 by default; with more, the endpoint has failed."""
    prices: PriceBlock | None = None
    """What the model costs at your own endpoint; overrides every other price."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return spelled_out(value)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler(core_schema)
        whole = handler.resolve_ref_schema(schema)
        whole["properties"]["ref"] = {"type": "string"}
        whole.pop("required", None)
        return {"anyOf": [{"type": "string"}, schema]}

    @model_validator(mode="after")
    def _reachable(self) -> "ModelBlock":
        if self.row.protocol == "azure" and not (self.address or usual_address(self.row)):
            raise ValueError(
                f"{self.provider} needs a base_url: the address of your Azure resource"
            )
        addresses = (_as_used(each) for each in (self.base_url, self.endpoint) if each)
        if len(set(addresses)) > 1:
            raise ValueError(
                "base_url and endpoint are two names for one setting, but have different values: "
                "keep one of them"
            )
        if self.auth_provider not in (None, "api_key"):
            instead = _INSTEAD_OF.get(self.auth_provider, "use an API key (auth_provider: api_key)")
            raise ValueError(f"auth_provider '{self.auth_provider}' is not supported: {instead}")
        return self

    @property
    def row(self) -> Provider:
        return find_provider(self.provider) or Provider(name=self.provider)

    @property
    def address(self) -> str:
        """The address under either name; empty for the provider's own."""
        return self.base_url or self.endpoint or ""

    def reference(self, settings: ModelSettings | None = None) -> ModelRef:
        """The model as a reference; `settings` are defaults for what the block leaves open."""
        names = {each.name for each in dataclasses.fields(ModelSettings)}
        own = {name: value for name, value in self if name in names and value not in (None, ())}
        return ModelRef(
            provider=self.row.name,
            name=self.name,
            base_url=self.address,
            api_key=key_reference(self.api_key or "", f"the api_key of {self.name}"),
            api_version=self.api_version or "",
            settings=dataclasses.replace(settings or ModelSettings(), **own),
            price=None if self.prices is None else self.prices.price(),
        )


def _as_used(address: str) -> str:
    """An address with the variables that are set: a missing one is for who calls the model."""
    missing = dict.fromkeys(variables_in(address), "")
    return expand_variables(address, {**missing, **os.environ}).strip().rstrip("/")


def spelled_out(value: Any) -> Any:
    """`provider:name`, alone or as `ref`, as the two keys that it is short for."""
    if isinstance(value, str):
        return _split(value)
    if isinstance(value, Mapping) and "ref" in value:
        block = dict(cast("Mapping[str, Any]", value))
        ref = block.pop("ref")
        if isinstance(ref, str) and not {"provider", "name"} & set(block):
            return {**_split(ref), **block}
    return cast("object", value)


def model_keys(label: str) -> dict[str, str]:
    """`openai:gpt-4o` as the keys of a block."""
    ref = ModelRef.parse(label)
    return {"provider": ref.row.written, "name": ref.name}


_OF_PROVIDER = ("base_url", "endpoint", "api_key", "api_version")


def with_model(block: JsonValue, label: str) -> dict[str, JsonValue]:
    """The block of a model with another one in it: its settings stay.

    Address and key stay with the provider, and prices with the model.
    """
    spelled = spelled_out(block)
    before = cast("dict[str, JsonValue]", spelled if isinstance(spelled, dict) else {})
    new = model_keys(label)
    gone = set[str]()
    if new["provider"] != before.get("provider"):
        gone |= {*_OF_PROVIDER}
    if gone or new["name"] != before.get("name"):
        gone.add("prices")
    return {**{key: value for key, value in before.items() if key not in gone}, **new}


def _split(label: str) -> dict[str, str]:
    try:
        return model_keys(label)
    except ConfigError as error:
        raise ValueError(str(error)) from None


# -- The models of a project -----------------------------------------------------------------------


_DEFAULT_LIMITS = {"local": EndpointLimit(concurrency=1)}
"""The embedded model answers one request at a time; waiting does not count as its time."""


AGENT = "agent"
JUDGE = "judge"
EMBEDDINGS = "embeddings"
"""The role of a model that makes vectors of texts, and answers no question."""


@dataclass(frozen=True, kw_only=True)
class ModelUse:
    """A model, and the roles for which it is asked."""

    client: ModelClient
    roles: tuple[str, ...]
    tools: bool = False
    """Whether it is offered tools."""

    @property
    def model(self) -> ModelRef:
        """The model at its endpoint, without the settings that differ between roles."""
        return replace(self.client.ref, settings=ModelSettings(), price=None)

    def also(self, other: "ModelUse") -> "ModelUse":
        """This model, asked for the roles of another use of it besides its own."""
        every = dict.fromkeys((*self.roles, *other.roles))
        roles = tuple(sorted(every, key=lambda role: role != AGENT))
        return replace(self, roles=roles, tools=self.tools or other.tools)

    def __str__(self) -> str:
        who = f"{', '.join(self.roles)}: " if self.roles else ""
        return f"{who}{self.client.ref.label}{' with tools' if self.tools else ''}"

    @property
    def missing_extra(self) -> str:
        """The extra to install before it can be asked; empty if nothing is missing."""
        ref = self.client.ref
        return missing_extra(ref.row, ref.name, address=ref.address, tools=self.tools)

    @property
    def is_embedded(self) -> bool:
        """Whether it runs inside this process."""
        return self.client.ref.row.protocol == "embedded"


def every_model(uses: Iterable[Iterable[ModelUse]]) -> list[ModelUse]:
    """Each model once, with all of its roles; that of the agent first."""
    models: dict[ModelRef, ModelUse] = {}
    for use in chain.from_iterable(uses):
        models[use.model] = models.get(use.model, use).also(use)
    return sorted(models.values(), key=lambda use: AGENT not in use.roles)


def missing_libraries(uses: Iterable[ModelUse]) -> MissingExtra | None:
    """What to install before these models can be asked, as an error; None if nothing is missing."""
    missing = [(use, extra) for use in uses if (extra := use.missing_extra)]
    if not missing:
        return None
    message = "; ".join(f"{use} needs the extra '{extra}'" for use, extra in missing)
    extras = sorted({extra for _, extra in missing})
    return MissingExtra(f"{message}, which is not installed", remedy=install_command(*extras))


class Models:
    """The models of one project. Backends are created on first use.

    `backends` by provider replaces the real ones, for scripted doubles.
    """

    def __init__(
        self,
        *,
        prices: Prices | None = None,
        limits: Limits | None = None,
        retries: RetryPolicy = RETRIES,
        backends: Mapping[str, Backend] | None = None,
    ) -> None:
        self.prices = prices or Prices()
        self.limits = limits or Limits(_DEFAULT_LIMITS)
        self._retries = retries
        self._doubles = dict(backends or {})
        self._made: dict[str, Backend] = {}
        self._keys: set[str] = set()
        self._uses: dict[ModelRef, ModelUse] = {}
        self._addresses: set[str] = set()

    def with_backend(self, provider: str, backend: Backend) -> Self:
        """These models, with another backend for one provider."""
        models = self.for_run()
        models._doubles = {**self._doubles, provider: backend}
        return models

    def for_run(self) -> Self:
        """These models for one run, whose `uses` are not those of other runs with them."""
        models = copy.copy(self)
        models._uses = dict(self._uses)
        return models

    def client(
        self,
        ref: ModelRef,
        settings: ModelSettings | None = None,
        *,
        role: str = "model",
        tools: bool = False,
    ) -> ModelClient:
        """A client for a model; `settings` are defaults for what the reference leaves open.

        `role` is what it is asked for, in plans and messages; `tools` says that it is offered some.
        """
        self._keys.update(variables_in(ref.api_key))
        self._addresses.add(ref.base_url)
        if settings is not None:
            merged = {**settings.sent(), **ref.settings.sent()}
            ref = replace(ref, settings=replace(ref.settings, **merged))
        client = ModelClient(
            ref=ref,
            backend=self._backend(ref.provider),
            prices=self.prices,
            limits=self.limits,
            retries=self._retries,
        )
        if ref.provider not in self._doubles:
            use = ModelUse(client=client, roles=(role,), tools=tools)
            self._uses[use.model] = self._uses.get(use.model, use).also(use)
        return client

    def uses(self) -> tuple[ModelUse, ...]:
        """The models that were made, without scripted doubles; each once, with its roles."""
        return tuple(self._uses.values())

    def secrets(self, environ: Mapping[str, str] | None = None) -> list[str]:
        """The values of the keys that the models name, whatever their variables are called, and
        what variables bring into their addresses."""
        env = os.environ if environ is None else environ
        keys = {env[name] for name in self._keys if env.get(name, "").strip()}
        return sorted({*keys, *expanded_secrets([*self._addresses], env)})

    async def close(self) -> None:
        for backend in self._made.values():
            await backend.close()
        self._made.clear()

    def _backend(self, provider: str) -> Backend:
        if provider in self._doubles:
            return self._doubles[provider]
        row = find_provider(provider)
        kind = "embedded" if row is not None and row.protocol == "embedded" else "wire"
        if kind not in self._made:
            if kind == "embedded":
                from burnish.models.embedded import EmbeddedBackend

                self._made[kind] = EmbeddedBackend()
            else:
                from burnish.models.wire import WireBackend

                self._made[kind] = WireBackend()
        return self._made[kind]


class LimitBlock(Settings):
    """The limits of one endpoint."""

    concurrency: Places = 16
    per_minute: AtLeastOne | None = None


class ModelsBlock(Settings):
    """How all models are called."""

    prices: dict[str, PriceBlock] = Field(default_factory=dict[str, PriceBlock])
    """By reference, such as `openai:gpt-4o`; overrides the built-in table."""
    limits: dict[str, LimitBlock] = Field(default_factory=dict[str, LimitBlock])
    """By provider or base_url."""
    attempts: AtLeastOne = RETRIES.attempts
    """How often a call is tried while others are answered, before its result is missing."""

    def models(self, limits: Limits | None = None) -> Models:
        """The models; `limits` replace those of the endpoints in this block."""
        prices = {name: block.price() for name, block in self.prices.items()}
        own = {name: EndpointLimit(**block.model_dump()) for name, block in self.limits.items()}
        return Models(
            prices=Prices(overrides=prices),
            limits=limits or Limits(_DEFAULT_LIMITS | own),
            retries=replace(RETRIES, attempts=self.attempts),
        )
