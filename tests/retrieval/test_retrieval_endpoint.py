"""Embeddings from an endpoint on a real socket: in order, in batches, paid once, never silent."""

from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import ConfigError
from burnish.journal.once import DirectEffects
from burnish.journal.outages import RetryPolicy
from burnish.models.chat import Prices
from burnish.models.errors import ModelRefused, ModelRejected, ModelUnavailable
from burnish.models.factory import Models
from burnish.models.providers import Price
from burnish.models.references import ModelRef, ModelSettings
from burnish.retrieval.embedders import EndpointEmbedder, embedder_for
from tests.journal.journals import effects_in
from tests.retrieval.corpus import EmbeddingServer, hits, names, opened, shop

KEY = "canary-0f9e8d7c6b"
FAST = RetryPolicy(attempts=3, first_wait=0.0)


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    for name in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY"):
        monkeypatch.setenv(name, KEY)


def embedder_at(server: EmbeddingServer, provider: str = "openai", **more: Any) -> EndpointEmbedder:
    ref = ModelRef(
        provider=provider,
        name="small",
        base_url=server.base_url,
        settings=ModelSettings(timeout=120.0),
    )
    return EndpointEmbedder(ref=ref, retries=FAST, **more)


async def test_vectors_come_in_the_order_of_the_texts() -> None:
    async with EmbeddingServer() as server:
        embedder = embedder_at(server)
        found = await embedder.embed(["a cat", "a parcel", "nothing"], effects=DirectEffects())
        await embedder.close()
    assert [[round(number, 1) for number in vector] for vector in found] == [
        [0, 0, 1, 0, 0.1],
        [0, 1, 0, 0, 0.1],
        [0, 0, 0, 0, 0.1],
    ]
    (asked,) = server.requests
    assert asked.path == "/v1/embeddings"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.json == {"model": "small", "input": ["a cat", "a parcel", "nothing"]}


async def test_many_texts_go_in_batches() -> None:
    texts = [f"cat {'cat ' * number}" for number in range(150)]
    async with EmbeddingServer() as server:
        embedder = embedder_at(server)
        effects = DirectEffects()
        found = await embedder.embed(texts, effects=effects)
        await embedder.close()
    assert [vector[2] for vector in found] == [number + 1 for number in range(150)]
    assert sorted(len(asked.json["input"]) for asked in server.requests) == [22, 64, 64]
    assert effects.spent.calls == 3


async def test_the_length_of_vectors_can_be_asked_for_and_is_another_model() -> None:
    async with EmbeddingServer() as server:
        short, usual, again = (embedder_at(server, dimensions=n) for n in (256, None, None))
        await short.embed(["cat"], effects=DirectEffects())
        await short.close()
    assert server.requests[0].json["dimensions"] == 256
    assert short.identity != usual.identity
    assert usual.identity == again.identity


async def test_azure_is_asked_at_its_deployment() -> None:
    async with EmbeddingServer() as server:
        ref = ModelRef(
            provider="azure",
            name="my embedder",
            base_url=server.base_url.removesuffix("/v1"),
            api_version="2024-10-21",
        )
        embedder = EndpointEmbedder(ref=ref)
        await embedder.embed(["cat"], effects=DirectEffects())
        await embedder.close()
    (asked,) = server.requests
    assert asked.path == "/openai/deployments/my%20embedder/embeddings"
    assert asked.query == "api-version=2024-10-21"
    assert asked.headers["api-key"] == KEY


@pytest.mark.parametrize("end", ["", "/", "/openai/v1"])
async def test_azure_without_a_version_is_asked_at_its_v1_api(
    end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_VERSION", raising=False)
    async with EmbeddingServer() as server:
        address = server.base_url.removesuffix("/v1")
        ref = ModelRef(provider="azure", name="my embedder", base_url=f"{address}{end}")
        embedder = EndpointEmbedder(ref=ref)
        await embedder.embed(["cat"], effects=DirectEffects())
        await embedder.close()
    (asked,) = server.requests
    assert (asked.path, asked.query) == ("/openai/v1/embeddings", "")
    assert asked.json["model"] == "my embedder"
    assert asked.headers["api-key"] == KEY


async def test_ollama_needs_no_key() -> None:
    async with EmbeddingServer() as server:
        embedder = embedder_at(server, "ollama")
        await embedder.embed(["cat"], effects=DirectEffects())
        await embedder.close()
    assert "authorization" not in server.requests[0].headers


async def test_what_is_paid_is_journaled_and_paid_once(tmp_path: Path) -> None:
    prices = Prices(overrides={"openai:small": Price(input_per_million=2, output_per_million=0)})
    found: list[Any] = []
    async with EmbeddingServer() as server:
        for _ in range(2):
            embedder = embedder_at(server, prices=prices)
            effects = effects_in(tmp_path)
            scope = effects.scope(trial=0)
            found.append(await embedder.embed(["a small cat"], effects=scope))
            (spend,) = scope.used.values()
            effects.journal.close()
            await embedder.close()
            assert (spend.calls, spend.tokens_in, spend.nano_usd, spend.unpriced) == (1, 3, 6000, 0)
        assert len(server.requests) == 1
    assert found[0] == found[1]


async def test_an_unknown_price_is_unknown() -> None:
    async with EmbeddingServer() as server:
        embedder, effects = embedder_at(server), DirectEffects()
        await embedder.embed(["cat"], effects=effects)
        await embedder.close()
    assert effects.spent.usd is None


def error(message: str, code: str = "") -> dict[str, Any]:
    return {"error": {"message": message, "code": code}}


AGAIN: dict[str, tuple[int, Any]] = {
    "busy": (429, error("slow down")),
    "down": (503, b"<html>sorry</html>"),
    "no json": (200, b"<html>It works!</html>"),
    "a chat": (200, {"choices": []}),
    "too few": (200, {"data": []}),
    "no numbers": (200, {"data": [{"index": 0, "embedding": []}]}),
    "not finite": (200, b'{"data": [{"index": 0, "embedding": [1e999]}]}'),
}


@pytest.mark.parametrize("name", AGAIN)
async def test_what_may_pass_is_tried_again(name: str) -> None:
    async with EmbeddingServer(AGAIN[name]) as server:
        embedder = embedder_at(server)
        (vector,) = await embedder.embed(["cat"], effects=DirectEffects())
        await embedder.close()
        assert vector[2] == 1
        assert len(server.requests) == 2


@pytest.mark.parametrize("name", AGAIN)
async def test_what_does_not_pass_is_missing(name: str, tmp_path: Path) -> None:
    async with EmbeddingServer(*[AGAIN[name]] * 3) as server:
        embedder = embedder_at(server)
        effects = effects_in(tmp_path)
        for _ in range(2):
            with pytest.raises(ModelUnavailable, match=r"openai:small at .*after 3 attempts"):
                await embedder.embed(["cat"], effects=effects.scope(trial=0))
        effects.journal.close()
        await embedder.close()
        assert len(server.requests) == 3, "what is missing is journaled, and not asked for again"


async def test_an_endpoint_that_is_not_there_is_missing() -> None:
    async with EmbeddingServer() as server:
        embedder = embedder_at(server)
    with pytest.raises(ModelUnavailable, match="could not be reached"):
        await embedder.embed(["cat"], effects=DirectEffects())
    await embedder.close()


REFUSED: dict[str, tuple[tuple[int, Any], type[Exception], str]] = {
    "too long": ((400, error("maximum context length is 8192")), ModelRejected, "8192"),
    "key": ((401, error(f"bad key {KEY}")), ModelRefused, "refused the key"),
    "quota": ((429, error("no money", "insufficient_quota")), ModelRefused, "no money"),
    "model": ((404, error("no such model", "model_not_found")), ModelRefused, "no such model"),
    "redirect": ((302, b""), ModelRefused, "burnish sends no key to a redirect"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_will_not_pass_is_not_tried_again(name: str) -> None:
    answer, kind, words = REFUSED[name]
    async with EmbeddingServer(answer) as server:
        embedder = embedder_at(server)
        with pytest.raises(kind, match=words) as raised:
            await embedder.embed(["cat"], effects=DirectEffects())
        await embedder.close()
        assert len(server.requests) == 1
    assert KEY not in f"{raised.value!r} {raised.value} {raised.value.__context__!r}"


async def test_a_missing_key_is_said_before_anything_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ModelRefused, match="no key for openai:small"):
        EndpointEmbedder(ref=ModelRef.parse("openai:small")).check()


async def test_an_index_over_an_endpoint_finds_what_is_meant(tmp_path: Path) -> None:
    async with EmbeddingServer() as server:
        embedder = embedder_at(server)
        index = await shop(tmp_path, embedder)
        assert names(await hits(index, "money back", embedder, mode="semantic"))[0] == "returns"
        await opened(tmp_path, embedder=embedder)
        await embedder.close()
        assert [len(asked.json["input"]) for asked in server.requests] == [4, 1]


def test_a_reference_names_the_embedder() -> None:
    models = Models()
    made = embedder_for(models.client(ModelRef.parse("openai:small")), dimensions=8)
    assert isinstance(made, EndpointEmbedder)
    assert made.dimensions == 8
    local = embedder_for(models.client(ModelRef.parse("local:minilm")))
    assert local.identity.startswith("minilm:")
    for name in ("anthropic:claude", "google:gecko", "local:smollm2"):
        with pytest.raises(ConfigError, match="does not know any embeddings") as refused:
            embedder_for(models.client(ModelRef.parse(name)))
        assert "local:minilm" in str(refused.value)
    with pytest.raises(ConfigError, match="has 384 dimensions, not 512"):
        embedder_for(models.client(ModelRef.parse("local:minilm")), dimensions=512)
