"""A model as agent files name it: a provider, a name, and how it is asked."""

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from burnish.models.keys import require_reference
from burnish.models.references import ModelRef, ModelSettings

Provider: TypeAlias = Literal["openai", "azure_openai", "anthropic", "ollama", "google", "local"]

_PROVIDERS = {"azure_openai": "azure"}


class ProviderBlock(BaseModel):
    """`provider` and `name`, with what the model needs to be reached and asked."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    provider: Provider
    name: Annotated[str, Field(min_length=1)]
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    base_url: str | None = None
    """The address of an OpenAI-compatible endpoint, of Ollama or of Azure, which needs one."""
    endpoint: str | None = None
    """The same by its HoloDeck name."""
    api_key: str | None = None
    """A `${VAR}`; without one the provider's usual variable is taken."""
    api_version: str | None = None
    auth_provider: str | None = None

    @model_validator(mode="after")
    def _reachable(self) -> "ProviderBlock":
        if self.provider == "azure_openai" and not self.address:
            raise ValueError("azure_openai needs a base_url: the address of your Azure resource")
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
    def address(self) -> str:
        """Where the model is, by whichever name; empty where the provider's own place is meant."""
        return self.base_url or self.endpoint or ""

    def reference(self, settings: ModelSettings | None = None) -> ModelRef:
        """The model as a reference; `settings` stand in for what the block leaves open."""
        weak = settings or ModelSettings()
        return ModelRef(
            provider=_PROVIDERS.get(self.provider, self.provider),
            name=self.name,
            base_url=self.address,
            api_key=require_reference(self.api_key or "", f"the api_key of {self.name}"),
            api_version=self.api_version or "",
            settings=ModelSettings(
                temperature=weak.temperature if self.temperature is None else self.temperature,
                max_tokens=weak.max_tokens if self.max_tokens is None else self.max_tokens,
                top_p=weak.top_p if self.top_p is None else self.top_p,
                timeout=weak.timeout,
            ),
        )


def _same(one: str, other: str) -> bool:
    return one.strip().rstrip("/") == other.strip().rstrip("/")
