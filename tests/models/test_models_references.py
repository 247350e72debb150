"""References to models."""

import pytest

from burnish.core.errors import ConfigError
from burnish.models.factory import ModelBlock
from burnish.models.references import ModelRef, ModelSettings


@pytest.mark.parametrize(
    ("text", "provider", "name"),
    [
        ("openai:gpt-4o", "openai", "gpt-4o"),
        ("anthropic:claude-sonnet-4-6", "anthropic", "claude-sonnet-4-6"),
        ("ollama:llama3.2:1b", "ollama", "llama3.2:1b"),
        ("local:smollm2", "local", "smollm2"),
        ("local:./models/my model.gguf", "local", "./models/my model.gguf"),
    ],
)
def test_a_reference_is_a_provider_and_a_name(text: str, provider: str, name: str) -> None:
    ref = ModelRef.parse(text)
    assert (ref.provider, ref.name, ref.label) == (provider, name, text)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("openai/gpt-5-mini", "openai:gpt-5-mini"),
        ("deepseek/deepseek-chat-v3.1", "deepseek:deepseek-chat-v3.1"),
        ("ollama/llama3:8b", "ollama:llama3:8b"),
        ("openrouter/meta-llama/llama-3:free", "openrouter:meta-llama/llama-3:free"),
        ("openrouter:openai/gpt-5", "openrouter:openai/gpt-5"),
        ("openai:openai/gpt-oss-20b", "openai:openai/gpt-oss-20b"),
        ("gemini/gemini-2.5-flash", "google:gemini-2.5-flash"),
        ("vertex_ai/gemini-2.5-flash", "vertex:gemini-2.5-flash"),
        ("together_ai/Qwen/Qwen3", "together:Qwen/Qwen3"),
        ("hosted_vllm/our-model", "vllm:our-model"),
        ("bedrock/anthropic.claude-v2:1", "bedrock:anthropic.claude-v2:1"),
    ],
)
def test_names_as_other_systems_write_them(text: str, label: str) -> None:
    assert ModelRef.parse(text).label == label
    block = ModelBlock.model_validate(text)
    assert block.reference().label == label


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("openai/", "the model has no name"),
        ("meta-llama/Llama-3-8B", "known: openai:…"),
        ("gpt-4o", "known: openai:…"),
        ("opnai:gpt-4o", "did you mean 'openai:gpt-4o'?"),
        ("openai:", "the model has no name"),
        ("openai", "the model has no name"),
        ("", "not a reference"),
    ],
)
def test_what_is_no_reference_is_said_with_the_nearest(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        ModelRef.parse(text)
    assert words in str(raised.value)


def test_the_fingerprint_is_of_what_decides_the_answer() -> None:
    ref = ModelRef.parse("openai:gpt-4o")
    warm = ModelRef.parse("openai:gpt-4o", settings=ModelSettings(temperature=0.5))
    patient = ModelRef.parse("openai:gpt-4o", settings=ModelSettings(timeout=1.0))
    elsewhere = ModelRef.parse("openai:gpt-4o", base_url="http://127.0.0.1:1/v1")
    keyed = ModelRef.parse("openai:gpt-4o", api_key="${MY_KEY}")
    assert ref.fingerprint == patient.fingerprint == keyed.fingerprint
    assert len({ref.fingerprint, warm.fingerprint, elsewhere.fingerprint}) == 3


def test_limits_are_by_endpoint() -> None:
    assert ModelRef.parse("openai:a").endpoint == ModelRef.parse("openai:b").endpoint
    there = ModelRef.parse("openai:a", base_url="http://127.0.0.1:1/v1")
    assert there.endpoint == "http://127.0.0.1:1/v1"
