"""The wire: what is sent to each kind of endpoint, and what comes back."""

import subprocess
import sys
from typing import Any

import pytest

from burnish.core.outcomes import Usage
from burnish.models.chat import ChatRequest, Message
from burnish.models.references import ModelRef
from burnish.models.wire import WireBackend
from burnish.testing.servers import Answer, CutOff, Reply, ScriptedServer
from tests.models.wire_world import CANARY, HELLO, KINDS, Kind, ask, said, set_keys

SCHEMA = {
    "type": "object",
    "properties": {"total": {"type": "integer"}},
    "required": ["total"],
    "additionalProperties": False,
}


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    set_keys(monkeypatch)


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


async def test_a_reply_with_its_usage_and_the_name_the_endpoint_gives(kind: Kind) -> None:
    answer = Reply(text="grüße", input_tokens=11, output_tokens=5, model="real-name-2")
    async with ScriptedServer(protocol=kind.protocol, answers=[answer]) as server:
        reply = await ask(kind.ref(server))
    assert reply.text == "grüße"
    assert reply.finish == "stop"
    assert reply.usage == Usage(requests=1, input_tokens=11, output_tokens=5)
    assert reply.model == "real-name-2"
    assert 0 < reply.seconds < 5


@pytest.mark.parametrize(
    ("answer", "finish"),
    [(CutOff("half"), "length"), (Reply(finish="content_filter"), "content_filter")],
)
async def test_how_an_answer_ended(kind: Kind, answer: Answer, finish: str) -> None:
    async with ScriptedServer(protocol=kind.protocol, answers=[answer]) as server:
        reply = await ask(kind.ref(server))
    assert reply.finish == finish
    assert reply.usage.output_tokens == 3


SENT: dict[str, dict[str, Any]] = {
    "openai": {
        "temperature": 0.5, "top_p": 0.9, "max_tokens": 64, "stop": ["END"], "seed": 7,
    },
    "azure": {
        "temperature": 0.5, "top_p": 0.9, "max_completion_tokens": 64, "stop": ["END"], "seed": 7,
    },
    "anthropic": {
        "temperature": 0.5, "top_p": 0.9, "max_tokens": 64, "stop_sequences": ["END"],
    },
    "google": {
        "temperature": 0.5, "topP": 0.9, "maxOutputTokens": 64, "stopSequences": ["END"],
        "seed": 7,
    },
    "ollama": {
        "temperature": 0.5, "top_p": 0.9, "max_tokens": 64, "stop": ["END"], "seed": 7,
    },
}  # fmt: skip


async def test_every_setting_is_on_the_wire(kind: Kind) -> None:
    seed = {} if kind.provider == "anthropic" else {"seed": 7}
    async with ScriptedServer(protocol=kind.protocol) as server:
        ref = kind.ref(server, temperature=0.5, top_p=0.9, max_tokens=64, stop=("END",), **seed)
        await ask(ref)
        body = server.requests[-1].json
    found = {**body, **body.get("generationConfig", {})}
    expected = SENT[kind.provider]
    assert {name: found.get(name) for name in expected} == expected


async def test_nothing_is_sent_that_was_not_set(kind: Kind) -> None:
    async with ScriptedServer(protocol=kind.protocol) as server:
        await ask(kind.ref(server))
        body = server.requests[-1].json
    found = {**body, **body.get("generationConfig", {})}
    assert not {"temperature", "top_p", "topP", "seed", "stop"} & set(found)


async def test_a_seed_counts_on_with_the_draw() -> None:
    async with ScriptedServer() as server:
        ref = KINDS["openai"].ref(server, seed=7)
        for draw in (0, 1, 5):
            await ask(ref, draw=draw)
        assert [asked.json["seed"] for asked in server.requests] == [7, 8, 12]


async def test_system_prompt_and_turns_arrive_in_order(kind: Kind) -> None:
    talk = ChatRequest(
        messages=(
            Message(role="system", content="Be brief."),
            Message(role="user", content="one?"),
            Message(role="assistant", content="1"),
            Message(role="user", content="two?"),
        )
    )
    async with ScriptedServer(protocol=kind.protocol) as server:
        await ask(kind.ref(server), talk)
        assert said(server.requests[-1]) == [(each.role, each.content) for each in talk.messages]


def _schema_on_the_wire(body: dict[str, Any]) -> Any:
    if "response_format" in body:
        return body["response_format"]["json_schema"]["schema"]
    if "output_config" in body:
        return body["output_config"]["format"]["schema"]
    return body["generationConfig"]["responseJsonSchema"]


async def test_a_schema_is_enforced_by_the_endpoint(kind: Kind) -> None:
    asked = ChatRequest(messages=HELLO.messages, schema=SCHEMA, schema_name="invoice")
    async with ScriptedServer(protocol=kind.protocol, answers=['{"total": 85}']) as server:
        reply = await ask(kind.ref(server), asked)
        sent = _schema_on_the_wire(server.requests[-1].json)
    assert reply.text == '{"total": 85}'
    assert sent["properties"] == SCHEMA["properties"]
    assert sent["required"] == ["total"]


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("ollama", SCHEMA),
        ("anthropic", {"type": "object", "additionalProperties": {"type": "integer"}}),
    ],
)
async def test_a_schema_goes_into_the_instructions_where_it_is_not_enforced(
    name: str, schema: dict[str, Any]
) -> None:
    kind = KINDS[name]
    asked = ChatRequest(messages=HELLO.messages, schema=schema)
    async with ScriptedServer(protocol=kind.protocol, answers=["{}"]) as server:
        # Ollama's cloud takes a schema and ignores it.
        model = "gpt-oss:120b-cloud" if name == "ollama" else kind.name
        ref = ModelRef(provider=kind.provider, name=model, base_url=server.base_url)
        reply = await ask(ref, asked)
        talk = said(server.requests[-1])
    assert reply.text == "{}"
    role, text = talk[0]
    assert role == "system"
    assert '"integer"' in text


async def test_the_key_goes_where_the_provider_looks_for_it(kind: Kind) -> None:
    async with ScriptedServer(protocol=kind.protocol) as server:
        await ask(kind.ref(server))
        headers = server.requests[-1].headers
    expected = {
        "openai": ("authorization", f"Bearer {CANARY}"),
        "azure": ("api-key", CANARY),
        "anthropic": ("authorization", f"Bearer {CANARY}"),
        "google": ("x-goog-api-key", CANARY),
        "ollama": ("authorization", "Bearer no-key-needed"),
    }
    name, value = expected[kind.provider]
    assert headers[name] == value


async def test_a_key_by_the_name_of_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_GATEWAY_SECRET", "gate-123456789")
    async with ScriptedServer() as server:
        ref = ModelRef(
            provider="openai", name="m", base_url=server.base_url, api_key="${MY_GATEWAY_SECRET}"
        )
        await ask(ref)
        assert server.requests[-1].headers["authorization"] == "Bearer gate-123456789"


async def test_an_address_may_hold_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedServer() as server:
        monkeypatch.setenv("MY_GATEWAY", server.base_url)
        ref = ModelRef(provider="openai", name="m", base_url="${MY_GATEWAY}/")
        assert (await ask(ref)).text == "ok"


async def test_azure_takes_its_model_and_version_from_the_address() -> None:
    async with ScriptedServer() as server:
        await ask(KINDS["azure"].ref(server))
        asked = server.requests[-1]
    assert asked.path == "/openai/deployments/gpt-4o/chat/completions"
    assert asked.query == "api-version=2024-10-21"


async def test_the_v1_api_of_azure_takes_no_version() -> None:
    async with ScriptedServer() as server:
        base_url = f"{server.address}/openai/v1"
        await ask(ModelRef(provider="azure", name="gpt-4o", base_url=base_url))
        assert server.requests[-1].path == "/openai/v1/chat/completions"
        assert server.requests[-1].query == ""


async def test_anthropic_answers_of_any_length_come_as_a_stream() -> None:
    async with ScriptedServer(protocol="anthropic", answers=["streamed", CutOff("ha")]) as server:
        ref = ModelRef(provider="anthropic", name="claude-opus-5", base_url=server.base_url)
        first, second = await ask(ref), await ask(ref)
        assert server.requests[-1].json["stream"] is True
    assert (first.text, first.finish) == ("streamed", "stop")
    assert first.usage == Usage(requests=1, input_tokens=7, output_tokens=3)
    assert (second.text, second.finish) == ("ha", "length")


async def test_ollama_is_found_by_its_bare_address() -> None:
    async with ScriptedServer(protocol="ollama") as server:
        ref = ModelRef(provider="ollama", name="llama3.2", base_url=server.address)
        assert (await ask(ref)).text == "ok"
        assert server.requests[-1].path == "/v1/chat/completions"


async def test_models_of_one_endpoint_share_their_connections() -> None:
    backend = WireBackend()
    async with ScriptedServer() as server:
        for name, temperature in (("a", 0.1), ("b", 0.2), ("b", 0.3)):
            ref = Kind(provider="openai", name=name, protocol="openai").ref(
                server, temperature=temperature
            )
            await backend.complete(ref, HELLO, draw=0)
        assert server.connections == 1
        await backend.close()


def test_the_libraries_are_loaded_when_a_model_is_asked_and_not_before() -> None:
    code = "import sys, burnish.models.wire; print({'pydantic_ai', 'httpx2'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
