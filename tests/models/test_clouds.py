"""Models on Google Cloud and AWS, and the other providers' own ways."""

import importlib.util
import sys

import pytest

from burnish.models.errors import ModelRefused, ModelUnavailable
from burnish.models.factory import ModelBlock
from burnish.models.references import ModelRef, ModelSettings, missing_key
from burnish.models.wire import WireBackend
from burnish.system.extras import install_command
from burnish.testing.servers import ScriptedServer, Status
from tests.models.test_wire_formats import TOTAL
from tests.models.wire_world import HELLO, ask

pytestmark = pytest.mark.slow
HAS_BOTO = importlib.util.find_spec("boto3") is not None
needs_boto = pytest.mark.skipif(not HAS_BOTO, reason="needs boto3: pip install 'burnish[bedrock]'")


@pytest.fixture(autouse=True)
def _logins(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    for name in ("GOOGLE_CLOUD_PROJECT", "AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA0000000000000000")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-aws-0123456789")


async def test_gemini_on_google_cloud_with_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERTEX_KEY", "canary-vertex-0123456789")
    async with ScriptedServer(protocol="google", answers=["hello"]) as server:
        ref = ModelRef.parse(
            "vertex:gemini-2.5-flash", base_url=server.base_url, api_key="${VERTEX_KEY}"
        )
        reply = await ask(ref, HELLO)
        (asked,) = server.requests
    assert (reply.text, reply.usage.input_tokens) == ("hello", 7)
    assert asked.path.endswith("publishers/google/models/gemini-2.5-flash:generateContent")
    assert asked.headers["x-goog-api-key"] == "canary-vertex-0123456789"


async def test_google_cloud_without_a_login_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    with pytest.raises(ModelRefused) as refused:
        await ask(ModelRef.parse("vertex:gemini-2.5-flash"), HELLO)
    assert "GOOGLE_CLOUD_PROJECT" in refused.value.remedy
    assert "gcloud auth application-default login" in refused.value.remedy


async def test_bedrock_names_its_extra_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ModelRefused) as refused:
        await ask(ModelRef.parse("bedrock:amazon.nova-lite-v1:0"), HELLO)
    assert refused.value.remedy == install_command("bedrock")


@needs_boto
async def test_a_model_on_bedrock_answers() -> None:
    async with ScriptedServer(protocol="bedrock", answers=["hello", '{"total": 85}']) as server:
        ref = ModelRef.parse(
            "bedrock:amazon.nova-lite-v1:0",
            base_url=server.base_url,
            settings=ModelSettings(temperature=0.5),
        )
        plain = await ask(ref, HELLO)
        shaped = await ask(ref, TOTAL)
        asked = server.requests[0]
    assert (plain.text, plain.usage.input_tokens, plain.finish) == ("hello", 7, "stop")
    assert shaped.text == '{"total": 85}'
    assert asked.path.startswith("/model/amazon.nova-lite-v1")
    assert asked.json["inferenceConfig"]["temperature"] == 0.5
    assert "Credential=AKIA" in asked.headers["authorization"]


@needs_boto
async def test_bedrock_fails_once_and_its_retries_are_ours() -> None:
    async with ScriptedServer(protocol="bedrock", answers=[Status(503)]) as server:
        with pytest.raises(ModelUnavailable):
            await ask(ModelRef.parse("bedrock:m", base_url=server.base_url), HELLO)
        assert len(server.requests) == 1


@needs_boto
async def test_bedrock_without_a_login_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    async with ScriptedServer(protocol="bedrock") as server:
        with pytest.raises(ModelRefused) as refused:
            await ask(ModelRef.parse("bedrock:m", base_url=server.base_url), HELLO)
        assert not server.requests
    assert "AWS_REGION" in refused.value.remedy


@pytest.mark.parametrize("label", ["mistral:mistral-small", "deepseek:deepseek-chat"])
def test_a_setting_that_a_provider_does_not_take_is_refused(
    label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{label.partition(':')[0].upper()}_API_KEY", "canary-0123456789")
    with pytest.raises(ModelRefused, match="does not support seed"):
        WireBackend().check(ModelRef.parse(label, settings=ModelSettings(seed=1)))
    # Another endpoint may take what the provider's own does not.
    own = ModelRef.parse(label, base_url="http://127.0.0.1:9/v1", settings=ModelSettings(seed=1))
    monkeypatch.setenv("KEY", "canary-0123456789")
    WireBackend().check(ModelRef.parse(own.label, base_url=own.base_url, api_key="${KEY}"))


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("oauth_token", "ANTHROPIC_API_KEY"),
        ("bedrock", "provider: bedrock"),
        ("foundry", "provider: azure"),
        ("custom", "base_url"),
    ],
)
def test_another_login_of_holodeck_says_what_to_write(way: str, words: str) -> None:
    block = {"provider": "anthropic", "name": "claude-sonnet-4-6", "auth_provider": way}
    with pytest.raises(ValueError, match=f"auth_provider '{way}' is not supported") as error:
        ModelBlock.model_validate(block)
    assert words in str(error.value)


def test_a_missing_key_mentions_openrouter_where_its_key_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ref = ModelRef.parse("deepseek/deepseek-chat")
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    assert "OpenRouter" not in missing_key(ref).remedy
    monkeypatch.setenv("OPENROUTER_API_KEY", "canary-0123456789")
    assert "write openrouter:deepseek/deepseek-chat" in missing_key(ref).remedy
