"""The own models of agents of pydantic-ai: their endpoint, their key, and what is refused."""

from collections.abc import Callable
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncAzureOpenAI, AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.azure import AzureProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.litellm import LiteLLMProvider
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.providers.openai import OpenAIProvider

from burnish.core.errors import ConfigError
from burnish.models.references import ModelRef, key_for
from burnish.targets.frameworks import adapter_for

USUAL = "sk-usual-0123456789abcdef"
OWN = "sk-own-0123456789abcdef"
OPENAI = "https://api.openai.com/v1"
AZURE = "https://ours.openai.azure.com"
PROXY = "https://proxy.example.org/llm"
GATEWAY = "https://models.example.org/v1"
VARIABLES = ("OPENAI_BASE_URL", "OPENAI_API_VERSION", "ANTHROPIC_BASE_URL", "OLLAMA_BASE_URL")


@pytest.fixture(autouse=True)
def _environment(  # pyright: ignore[reportUnusedFunction]
    own_variables: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", USUAL)


def _own(model: Model | str | Callable[[], Model] | None) -> ModelRef | None:
    made = model() if callable(model) else model
    adapter = adapter_for(Agent(made, defer_model_check=True))
    assert adapter is not None
    return adapter.model


def _openai(address: str | None = None, key: str | None = None) -> OpenAIChatModel:
    return OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url=address, api_key=key))


def _azure(**more: Any) -> Model:
    client = AsyncAzureOpenAI(api_version="2024-10-21", **more)
    # Whoever wraps Azure's client as one of OpenAI's does not make it OpenAI's.
    return OpenAIChatModel("gpt-4o", provider=OpenAIProvider(openai_client=client))


@pytest.mark.parametrize("model", ["openai:gpt-4o", _openai, lambda: _openai(OPENAI)])
def test_a_model_at_its_provider_with_the_usual_key_is_a_name(
    model: str | Callable[[], Model],
) -> None:
    assert _own(model) == ModelRef(provider="openai", name="gpt-4o")


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_model_at_an_address_of_its_own_keeps_address_and_key(wrapped: bool) -> None:
    model: Model = _openai(GATEWAY, OWN)
    ref = _own(WrapperModel(model) if wrapped else model)
    assert ref is not None
    assert (ref.label, ref.base_url, key_for(ref)) == ("openai:gpt-4o", GATEWAY, OWN)
    assert OWN not in repr(ref)


def test_the_usual_key_goes_along_to_an_address_that_the_agent_sends_it_to() -> None:
    ref = _own(_openai(GATEWAY))
    assert ref is not None
    assert (ref.base_url, ref.api_key) == (GATEWAY, "${OPENAI_API_KEY}")


def test_another_key_at_the_provider_is_kept() -> None:
    ref = _own(_openai(key=OWN))
    assert ref is not None
    assert (ref.base_url, key_for(ref)) == ("", OWN)


@pytest.mark.parametrize("model", ["openai:gpt-4o", _openai])
def test_an_address_that_the_agent_has_from_a_variable_is_kept(
    model: str | Callable[[], Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", GATEWAY)
    ref = _own(model)
    assert ref is not None
    assert (ref.base_url, key_for(ref)) == (GATEWAY, USUAL)


def test_a_variable_does_not_lead_away_from_the_address_that_the_agent_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", GATEWAY)
    ref = _own(_openai(OPENAI))
    assert ref is not None
    assert ref.base_url == OPENAI


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ({"azure_endpoint": AZURE}, "gpt-4o"),
        ({"azure_endpoint": AZURE, "azure_deployment": "ours"}, "ours"),
        ({"base_url": f"{AZURE}/openai/deployments/ours"}, "ours"),
    ],
)
def test_a_deployment_of_azure_keeps_its_resource_and_version(
    place: dict[str, str], name: str
) -> None:
    ref = _own(_azure(api_key=OWN, **place))
    assert ref is not None
    assert (ref.label, ref.base_url) == (f"azure:{name}", AZURE)
    assert (ref.api_version, key_for(ref)) == ("2024-10-21", OWN)


def test_azures_undated_api_needs_no_version() -> None:
    provider = AzureProvider(azure_endpoint=f"{AZURE}/openai/v1/", api_key=OWN)
    ref = _own(OpenAIChatModel("ours", provider=provider))
    assert ref is not None
    assert (ref.label, ref.base_url) == ("azure:ours", f"{AZURE}/openai/v1")
    assert (ref.api_version, key_for(ref)) == ("", OWN)


def test_models_of_anthropic_and_google_keep_address_and_key() -> None:
    anthropic = AnthropicModel("m", provider=AnthropicProvider(base_url=PROXY, api_key=OWN))
    google = GoogleModel("m", provider=GoogleProvider(base_url=PROXY, api_key=OWN))
    for model, label in ((anthropic, "anthropic:m"), (google, "google:m")):
        ref = _own(model)
        assert ref is not None
        assert (ref.label, ref.base_url, key_for(ref)) == (label, PROXY, OWN)


def test_a_server_without_keys_gets_none() -> None:
    ref = _own(OpenAIChatModel("m", provider=OllamaProvider(base_url="http://gpu:11434/v1")))
    assert ref == ModelRef(provider="ollama", name="m", base_url="http://gpu:11434/v1")


async def _made_anew() -> str:
    return OWN


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (lambda: TestModel(), "cannot tell where the agent's test:test is"),
        (lambda: FallbackModel(_openai(), _openai(GATEWAY)), "cannot tell where"),
        (
            lambda: OpenAIChatModel("m", provider=LiteLLMProvider(api_base=GATEWAY, api_key=OWN)),
            "cannot tell where the agent's litellm:m is",
        ),
        (lambda: _openai("https://u:secret@models.example.org/v1"), "models.example.org has a"),
        (lambda: _openai(f"{GATEWAY}?key=secret"), "models.example.org has a user, a password or"),
        (lambda: _openai(key="${OTHER} and more"), "cannot read the key"),
        (
            lambda: _azure(azure_endpoint=AZURE, azure_ad_token=OWN),
            "cannot read the key of the agent's openai:gpt-4o",
        ),
        (
            lambda: OpenAIChatModel(
                "m", provider=OpenAIProvider(openai_client=AsyncOpenAI(api_key=_made_anew))
            ),
            "cannot read the key of the agent's openai:m",
        ),
        (
            lambda: AnthropicModel(
                "m",
                provider=AnthropicProvider(anthropic_client=AsyncAnthropic(auth_token=OWN)),
            ),
            "cannot read the key of the agent's anthropic:m",
        ),
    ],
)
def test_a_model_that_cannot_be_told_is_refused(model: Callable[[], Model], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        _own(model)
    assert "secret" not in str(refused.value)
    assert OWN not in str(refused.value)


def test_an_agent_without_a_model_has_none() -> None:
    assert _own(None) is None


def test_a_variable_in_an_address_of_the_agent_is_not_expanded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Google's library takes a variable as it stands, and a `.env` may have set it."""
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:9/${OPENAI_API_KEY}")
    with pytest.raises(ConfigError, match="no address that burnish can read"):
        _own(GoogleModel("gemini-2.5-flash", provider=GoogleProvider(api_key=OWN)))
