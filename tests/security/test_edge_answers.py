"""An endpoint's answer: how much of it is read, and what an impossible one costs."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.journal.once import DirectEffects
from burnish.journal.outages import RetryPolicy
from burnish.models.chat import ModelClient, Priced
from burnish.models.errors import ModelUnavailable
from burnish.models.references import ModelRef, ModelSettings
from burnish.models.wire import WireBackend
from burnish.projects.measurements import load_measurement, measured
from burnish.retrieval.embedders import EndpointEmbedder
from burnish.server.stores.records import pack, unpack
from burnish.targets.callables.http import LONGEST_BODY, HttpTarget
from burnish.targets.callables.target import TurnInput
from burnish.testing.servers import Answer, HttpRequest, Malformed, ModelReply, ScriptedServer
from tests.models.wire_world import HELLO, KINDS, Kind, set_keys

pytestmark = pytest.mark.slow
ONCE = RetryPolicy(attempts=1)
SMALL = 0.25
"""Megabytes."""


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    set_keys(monkeypatch)


@pytest.fixture(params=["openai", "azure", "anthropic", "google"])
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


async def ask(ref: ModelRef) -> Priced:
    backend = WireBackend()
    try:
        client = ModelClient(ref=ref, backend=backend, retries=ONCE)
        return await client.ask(HELLO, draw=0, effects=DirectEffects())
    finally:
        await backend.close()


async def trouble(kind: Kind, answer: Answer, **settings: float) -> str:
    async with ScriptedServer(protocol=kind.protocol, answers=[answer]) as server:
        with pytest.raises(ModelUnavailable) as caught:
            await ask(kind.ref(server, **settings))
    return str(caught.value)


class Fountain:
    """An endpoint that writes once, or for as long as anyone reads, and counts."""

    def __init__(self, head: bytes, piece: bytes, *, endless: bool = False) -> None:
        self._head, self._piece, self._endless = head, piece, endless
        self.written = 0
        self.left = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + self._head)
        with suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(self._piece)
                self.written += len(self._piece)
                await writer.drain()
                if not self._endless:
                    break
        self.left.set()
        writer.close()


@asynccontextmanager
async def flowing(fountain: Fountain) -> AsyncGenerator[str, None]:
    server = await asyncio.start_server(fountain, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def _chunk(content: bytes) -> bytes:
    return f"{len(content):x}\r\n".encode() + content + b"\r\n"


def _model_at(kind: Kind, address: str) -> ModelRef:
    base = address if kind.provider != "openai" else f"{address}/v1"
    settings = ModelSettings(timeout=60, max_answer_mb=SMALL)
    return ModelRef(
        provider=kind.provider,
        name=kind.name,
        base_url=base,
        api_version=kind.api_version,
        settings=settings,
    )


async def test_an_endless_answer_is_read_up_to_the_limit(kind: Kind) -> None:
    fountain = Fountain(b"Transfer-Encoding: chunked\r\n\r\n", _chunk(b" " * 65_536), endless=True)
    async with flowing(fountain) as address:
        with pytest.raises(ModelUnavailable, match="more than 262,144 bytes"):
            await ask(_model_at(kind, address))
        await fountain.left.wait()
    assert fountain.written < 32 * 1024 * 1024, "what the sockets hold, and no more"


async def test_a_size_that_is_announced_is_not_read_at_all(kind: Kind) -> None:
    fountain = Fountain(b"Content-Length: 99999999999\r\n\r\n", b" " * 65_536, endless=True)
    async with flowing(fountain) as address:
        with pytest.raises(ModelUnavailable, match="more than 262,144 bytes"):
            await ask(_model_at(kind, address))
        await fountain.left.wait()


@pytest.mark.parametrize("packing", ["gzip", "deflate"])
async def test_a_bomb_is_measured_after_unpacking(kind: Kind, packing: str) -> None:
    whole = b" " * 5_000_000
    bomb = gzip.compress(whole) if packing == "gzip" else zlib.compress(whole)
    assert len(bomb) < SMALL * 1024 * 1024
    head = f"Content-Encoding: {packing}\r\nContent-Length: {len(bomb)}\r\n\r\n".encode()
    async with flowing(Fountain(head, bomb)) as address:
        with pytest.raises(ModelUnavailable, match="more than 262,144 bytes"):
            await ask(_model_at(kind, address))


async def test_a_packed_answer_is_an_answer() -> None:
    document = {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "packed"},
            }
        ],
    }
    body = gzip.compress(json.dumps(document).encode())
    head = f"Content-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    async with flowing(Fountain(head, body)) as address:
        assert (await ask(_model_at(KINDS["openai"], address))).reply.text == "packed"


async def test_an_unknown_packing_is_the_endpoints_failure(kind: Kind) -> None:
    async with flowing(Fountain(b"Content-Encoding: br\r\n\r\n", b"x" * 1000)) as address:
        with pytest.raises(ModelUnavailable, match="packed with br"):
            await ask(_model_at(kind, address))


def test_the_limit_is_32_megabytes_and_part_of_no_key() -> None:
    ref = ModelRef.parse("openai:gpt-4o")
    assert ref.settings.max_answer_mb == 32
    other = replace(ref, settings=ModelSettings(max_answer_mb=1))
    assert other.fingerprint == ref.fingerprint
    assert other.settings.sent() == {}


@pytest.mark.parametrize("tokens", [10**30, -1, 2**63])
async def test_impossible_usage_is_an_infrastructure_failure(kind: Kind, tokens: int) -> None:
    for reply in (ModelReply(input_tokens=tokens), ModelReply(output_tokens=tokens)):
        assert "returned" in await trouble(kind, reply)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"NaN",
        b'{"choices": NaN}',
        b"9" * 100_000,
        b"null",
        b"[]",
        b"\xff\xfe",
        b"\x00",
    ],
    ids=["lists", "objects", "NaN", "NaN inside", "digits", "null", "list", "no utf-8", "NUL"],
)
async def test_absurd_json_is_an_infrastructure_failure(kind: Kind, body: bytes) -> None:
    assert "returned" in await trouble(kind, Malformed(body))


@pytest.mark.parametrize("count", ["NaN", "Infinity", "1e400", '"many"', "[]", "1.5", "9" * 400])
async def test_usage_that_is_no_number(count: str) -> None:
    body = f"""{{"id": "x", "object": "chat.completion", "created": 1, "model": "m",
      "choices": [{{"index": 0, "finish_reason": "stop",
                    "message": {{"role": "assistant", "content": "ok"}}}}],
      "usage": {{"prompt_tokens": {count}, "completion_tokens": 1, "total_tokens": 1}}}}"""
    assert await trouble(KINDS["openai"], Malformed(body.encode()))


async def test_half_a_surrogate_pair_is_an_infrastructure_failure(kind: Kind) -> None:
    assert "Unicode" in await trouble(kind, ModelReply(text="half \ud83d of it"))


async def test_arguments_of_a_tool_that_cannot_be_stored() -> None:
    deep: list[object] = []
    for _ in range(900):
        deep = [deep]
    for arguments in ({"a": "\udc00"}, {"\ud800": 1}, {"a": deep}):
        reply = ModelReply(uses=(("search", arguments),))
        with suppress(ModelUnavailable):  # or a reply that any store can hold
            async with ScriptedServer(answers=[reply]) as server:
                priced = await ask(KINDS["openai"].ref(server))
                assert unpack(pack([dict(each.arguments) for each in priced.reply.uses]))


@pytest.mark.parametrize(
    "body",
    [
        b'{"data": [{"embedding": [1.0]}], "usage": {"prompt_tokens": -1}}',
        b'{"data": [{"embedding": [1.0]}], "usage": {"prompt_tokens": 1' + b"0" * 30 + b"}}",
        b'{"data": [{"embedding": [NaN]}]}',
        b"[" * 100_000,
        b" " * 400_000,
    ],
    ids=["negative", "huge", "NaN", "deep", "long"],
)
async def test_absurd_embeddings_are_infrastructure_failures(body: bytes) -> None:
    head = f"Content-Length: {len(body)}\r\n\r\n".encode()
    async with flowing(Fountain(head, body)) as address:
        ref = _model_at(KINDS["openai"], address)
        embedder = EndpointEmbedder(ref=ref, retries=ONCE)
        try:
            with pytest.raises(ModelUnavailable):
                await embedder.embed(["text"], effects=DirectEffects())
        finally:
            await embedder.close()


async def test_an_agent_behind_http_fails_with_an_answer_that_is_too_large() -> None:
    bomb = gzip.compress(b" " * (LONGEST_BODY + 1))
    head = f"Content-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n".encode()
    async with (
        flowing(Fountain(head, bomb)) as address,
        HttpTarget(url=address).conversation() as reply,
    ):
        outcome = await reply(TurnInput(input="hello"))
    assert outcome.failure is not None
    assert "more than" in outcome.failure.message


async def test_an_agent_behind_http_in_an_encoding_that_nobody_has() -> None:
    head = b"Content-Type: text/plain; charset=klingon\r\nContent-Length: 2\r\n\r\n"
    async with (
        flowing(Fountain(head, b"ok")) as address,
        HttpTarget(url=address).conversation() as reply,
    ):
        assert (await reply(TurnInput(input="hello"))).replies == ("ok",)


AGENT = """\
name: clerk
model: {provider: openai, name: m, base_url: "%s", api_key: "${OPENAI_API_KEY}"}
instructions: {inline: Answer.}
evaluations:
  metrics: [{type: standard, metric: equality}]
test_cases:
  - {name: a, input: good one, ground_truth: "yes"}
  - {name: b, input: half one, ground_truth: "yes"}
  - {name: c, input: good two, ground_truth: "yes"}
"""


async def test_half_a_surrogate_pair_costs_its_case_and_not_the_run(tmp_path: Path) -> None:
    def answer(request: HttpRequest) -> Answer:
        return "half \ud83d" if "half" in json.dumps(request.json) else "yes"

    async with ScriptedServer(answers=answer) as server:
        path = tmp_path / "agent.yaml"
        path.write_text(AGENT % server.base_url, encoding="utf-8")
        measurement = load_measurement(path, {"set": ["models.attempts=1"]})
        evaluated = await measured(measurement, tmp_path / "run")
    assert evaluated.score("equality") == 1.0, "of the two that were answered"
    missing = [run for run in evaluated.evaluation.results if run.value("equality") is None]
    assert len(missing) == 1
