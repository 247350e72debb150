"""A model as every file names it: `provider:name`, or a block that says more.

model: openai:gpt-4o-mini

model:
  provider: openai
  name: our-model
  base_url: https://models.example.org/v1
  api_key: ${TEAM_KEY}
  temperature: 0.7
  prices: {input_per_million: 0.15, output_per_million: 0.6}
"""

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticKnownError

from burnish.core.content import AboveZero, AtLeastOne, NotNegative
from burnish.core.errors import ConfigError
from burnish.models.keys import require_reference
from burnish.models.providers import Price, Provider, all_providers, find_provider
from burnish.models.references import ModelRef, ModelSettings


def _provider(name: str) -> str:
    """The name that agent files are written with, by whichever name the provider is called."""
    if (row := find_provider(name)) is not None:
        return row.written
    *names, last = (f"'{row.written}'" for row in all_providers())
    raise PydanticKnownError("literal_error", {"expected": f"{', '.join(names)} or {last}"})


_ProviderName: TypeAlias = Annotated[str, AfterValidator(_provider)]
Temperature: TypeAlias = Annotated[float, Field(ge=0, le=2)]
TopP: TypeAlias = Annotated[float, Field(gt=0, le=1)]


class PriceBlock(BaseModel):
    """US dollars for a million tokens each way."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    input_per_million: NotNegative
    output_per_million: NotNegative

    def price(self) -> Price:
        """The price itself."""
        return Price(
            input_per_million=self.input_per_million, output_per_million=self.output_per_million
        )


class ModelBlock(BaseModel):
    """`provider` and `name`, with what the model needs to be reached and asked.

    `openai:gpt-4o` alone is short for both; `ref: openai:gpt-4o` is read too.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    provider: _ProviderName
    name: Annotated[str, Field(min_length=1)]
    temperature: Temperature | None = None
    max_tokens: AtLeastOne | None = None
    top_p: TopP | None = None
    base_url: str | None = None
    """The address of the endpoint, where it is not the provider's own; Azure needs one."""
    endpoint: str | None = None
    """The same by its HoloDeck name."""
    api_key: str | None = None
    """A `${VAR}`; without one the provider's usual variable is taken."""
    api_version: str | None = None
    """That of Azure's dated API; without one its v1 API is asked."""
    auth_provider: str | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    timeout: AboveZero | None = None
    """Seconds for one attempt."""
    prices: PriceBlock | None = None
    """What the model costs, for an endpoint of one's own; before every other price."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return spelled_out(value)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """An editor may offer `provider:name` too, and `ref` in the place of both."""
        schema = handler(core_schema)
        whole = handler.resolve_ref_schema(schema)
        whole["properties"]["ref"] = {"type": "string"}
        whole.pop("required", None)
        return {"anyOf": [{"type": "string"}, schema]}

    @model_validator(mode="after")
    def _reachable(self) -> "ModelBlock":
        if self.row.protocol == "azure" and not self.address:
            raise ValueError(
                f"{self.provider} needs a base_url: the address of your Azure resource"
            )
        if self.base_url and self.endpoint and not _same(self.base_url, self.endpoint):
            raise ValueError(
                "base_url and endpoint are two names of one thing, and say different things: "
                "keep one of them"
            )
        if self.auth_provider not in (None, "api_key"):
            raise ValueError(
                f"auth_provider '{self.auth_provider}' is not supported: burnish uses an API key "
                "(auth_provider: api_key)"
            )
        return self

    @property
    def row(self) -> Provider:
        """What is known of the provider."""
        return find_provider(self.provider) or Provider(name=self.provider)

    @property
    def address(self) -> str:
        """Where the model is, by whichever name; empty where the provider's own place is meant."""
        return self.base_url or self.endpoint or ""

    def reference(self, settings: ModelSettings | None = None) -> ModelRef:
        """The model as a reference; `settings` stand in for what the block leaves open."""
        weak = settings or ModelSettings()
        return ModelRef(
            provider=self.row.name,
            name=self.name,
            base_url=self.address,
            api_key=require_reference(self.api_key or "", f"the api_key of {self.name}"),
            api_version=self.api_version or "",
            settings=ModelSettings(
                temperature=weak.temperature if self.temperature is None else self.temperature,
                max_tokens=weak.max_tokens if self.max_tokens is None else self.max_tokens,
                top_p=weak.top_p if self.top_p is None else self.top_p,
                seed=weak.seed if self.seed is None else self.seed,
                stop=self.stop or weak.stop,
                timeout=weak.timeout if self.timeout is None else self.timeout,
            ),
            price=None if self.prices is None else self.prices.price(),
        )


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


def _split(label: str) -> dict[str, str]:
    try:
        return model_keys(label)
    except ConfigError as error:
        raise ValueError(str(error)) from None


def _same(one: str, other: str) -> bool:
    return one.strip().rstrip("/") == other.strip().rstrip("/")
