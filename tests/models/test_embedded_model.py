"""The real embedded model: SmolLM2 through xllamacpp."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from burnish.core.cases import Message
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.embedded import EmbeddedBackend
from burnish.models.errors import ModelRefused, ModelRejected
from burnish.models.references import ModelRef, ModelSettings
from tests.models.gguf_files import gguf
from tests.models.smollm2 import HERE, needs_smollm2

pytestmark = [pytest.mark.model, needs_smollm2]
RULES = (
    "Extract the total price as a bare number.\nA pen for 3.50 -> 3.50\nTwo cakes, 12 in all -> 12"
)


@pytest.fixture(scope="module")
def backend() -> Iterator[EmbeddedBackend]:
    """Loaded once; it is bound to no event loop."""
    made = EmbeddedBackend()
    yield made
    asyncio.run(made.close())


def said(text: str, **more: Any) -> ChatRequest:
    """A request with the same beginning as the others."""
    system = Message(role="system", content=RULES)
    return ChatRequest(messages=(system, Message(role="user", content=text)), **more)


async def ask(
    backend: EmbeddedBackend, request: ChatRequest, *, draw: int = 0, **settings: Any
) -> ChatReply:
    """One answer of the real model."""
    chosen: dict[str, Any] = {"temperature": 0.0, "max_tokens": 12, **settings}
    ref = ModelRef(provider="local", name=str(HERE), settings=ModelSettings(**chosen))
    return await backend.complete(ref, request, draw=draw)


async def test_it_answers_in_silence(
    backend: EmbeddedBackend, capfd: pytest.CaptureFixture[str]
) -> None:
    reply = await ask(backend, said("A hat for 45.20"))
    assert "45.2" in reply.text
    assert reply.finish in {"stop", "length"}
    assert reply.usage.requests == 1
    assert reply.usage.input_tokens > 40
    assert 0 < reply.usage.output_tokens <= 12
    assert "SmolLM2" in reply.model
    assert capfd.readouterr() == ("", "")


async def test_temperature_zero_repeats_whatever_was_asked_before(
    backend: EmbeddedBackend,
) -> None:
    prompts = ["The bill came to 7 euros, plus 2 tip.", "Tell me about the sea.", "Why?"]
    first = [await ask(backend, said(text)) for text in prompts]
    await ask(backend, ChatRequest(messages=(Message(role="user", content="Something else"),)))
    second = [await ask(backend, said(text), draw=3) for text in reversed(prompts)]
    assert [r.text for r in first] == [r.text for r in reversed(second)]
    fresh = EmbeddedBackend()
    assert (await ask(fresh, said(prompts[1]))).text == first[1].text
    await fresh.close()


async def test_a_draw_repeats_and_another_differs(backend: EmbeddedBackend) -> None:
    poem = said("Write a poem about the sea")
    one, again, other = [await ask(backend, poem, draw=d, temperature=1.5) for d in (1, 1, 2)]
    assert one.text == again.text != other.text
    narrow = await ask(backend, poem, temperature=1.5, top_p=0.001)
    assert narrow.text == (await ask(backend, poem)).text


async def test_an_answer_may_be_cut_or_stopped(backend: EmbeddedBackend) -> None:
    count = said("Count: one two three four five six seven eight")
    cut = await ask(backend, count, max_tokens=2)
    assert (cut.finish, cut.usage.output_tokens) == ("length", 2)
    whole = (await ask(backend, count)).text
    mark = whole[3:6]
    stopped = await ask(backend, count, stop=(mark,))
    assert (stopped.finish, stopped.text) == ("stop", whole[: whole.index(mark)])


async def test_a_schema_is_kept(backend: EmbeddedBackend) -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"price": {"type": "number"}},
        "required": ["price"],
        "additionalProperties": False,
    }
    reply = await ask(backend, said("A hat for 45.20", schema=schema), max_tokens=30)
    assert isinstance(json.loads(reply.text)["price"], int | float)
    with pytest.raises(ModelRejected, match="nonsense"):
        await ask(backend, said("A hat", schema={"type": "nonsense"}))


async def test_a_request_it_cannot_take_is_rejected(backend: EmbeddedBackend) -> None:
    with pytest.raises(ModelRejected, match=r"the prompt has \d+ tokens; .* takes 4096"):
        await ask(backend, said("sea " * 4500))
    with pytest.raises(ModelRejected, match="cannot take this request"):
        await ask(backend, said("a lone \ud800 surrogate"))


async def test_a_cancelled_answer_stops_and_the_loop_never_waits(backend: EmbeddedBackend) -> None:
    long = said("the sea and the hills " * 100)
    asked = asyncio.ensure_future(ask(backend, long, max_tokens=500))
    for _ in range(30):
        await asyncio.sleep(0)
        assert not asked.done(), "the loop waited for the whole answer"
    asked.cancel()
    async with asyncio.timeout(120):
        assert (await ask(backend, said("A hat for 45.20"), max_tokens=1)).text
    assert asked.cancelled()


async def test_what_only_the_engine_can_tell_is_refused(tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    path.write_bytes(gguf())
    backend = EmbeddedBackend()
    ref = ModelRef(provider="local", name=str(path))
    backend.check(ref)
    with pytest.raises(ModelRefused, match="the engine cannot load"):
        await backend.complete(ref, replace(said("x")), draw=0)
    await backend.close()
