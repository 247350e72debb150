"""Models as files name them: a reference alone, or with its address, key and settings."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from burnish.effects.limits import EndpointLimit
from burnish.effects.limits import Limits as EndpointLimits
from burnish.effects.retries import RetryPolicy
from burnish.models.calling import RETRIES
from burnish.models.factory import DEFAULT_LIMITS, Models
from burnish.models.keys import require_reference
from burnish.models.prices import Price, Prices
from burnish.models.references import ModelRef, ModelSettings
from burnish.system.settings import AboveZero, AtLeastOne, Settings

PerMillion = Annotated[float, Field(ge=0)]


class ModelBlock(Settings):
    """One model. `openai:gpt-4o` alone is short for `{ref: openai:gpt-4o}`."""

    ref: str
    """`provider:name`."""
    base_url: str = ""
    """The address of an OpenAI-compatible endpoint, of Ollama or of Azure."""
    api_key: str = ""
    """A `${VAR}`; empty takes the provider's usual variable."""
    api_version: str = ""
    """That of Azure's dated API; without one its v1 API is asked."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: AtLeastOne | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    timeout: AboveZero = 120.0
    """Seconds for one attempt."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"ref": value} if isinstance(value, str) else value

    def reference(self) -> ModelRef:
        """The model as a reference."""
        return ModelRef.parse(
            self.ref,
            base_url=self.base_url,
            api_key=require_reference(self.api_key, f"the api_key of {self.ref}"),
            api_version=self.api_version,
            settings=ModelSettings(
                **self.model_dump(exclude={"ref", "base_url", "api_key", "api_version"})
            ),
        )


class PriceBlock(Settings):
    """US dollars for a million tokens each way."""

    input_per_million: PerMillion
    output_per_million: PerMillion


class LimitBlock(Settings):
    """What one endpoint stands."""

    concurrency: AtLeastOne = 16
    per_minute: AtLeastOne | None = None


class ModelsBlock(Settings):
    """How models are called, whichever they are."""

    prices: dict[str, PriceBlock] = Field(default_factory=dict[str, PriceBlock])
    """By reference, such as `openai:gpt-4o`; stronger than the built-in table."""
    limits: dict[str, LimitBlock] = Field(default_factory=dict[str, LimitBlock])
    """By provider or base_url."""
    attempts: AtLeastOne = RETRIES.attempts
    """How often a call is tried before its result is missing."""

    def models(self) -> Models:
        """The models of the project."""
        prices = {name: Price(**block.model_dump()) for name, block in self.prices.items()}
        return Models(
            prices=Prices(overrides=prices),
            limits=EndpointLimits(DEFAULT_LIMITS | _limits(self.limits)),
            retries=RetryPolicy(
                attempts=self.attempts,
                first_wait=RETRIES.first_wait,
                longest_wait=RETRIES.longest_wait,
            ),
        )


def _limits(blocks: Mapping[str, LimitBlock]) -> dict[str, EndpointLimit]:
    return {name: EndpointLimit(**block.model_dump()) for name, block in blocks.items()}
