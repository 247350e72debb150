"""The backend of local models, over a scripted engine: what it sends and what it makes of it."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Message, Usage
from burnish.models.chat import Backend, ChatRequest
from burnish.models.embedded import EmbeddedBackend
from burnish.models.embedded.backend import (
    Chunk,
    EngineShape,
    default_threads,
    engine_threads,
)
from burnish.models.errors import ModelRefused, ModelRejected, ModelUnavailable
from burnish.models.references import ModelRef, ModelSettings
from burnish.system.extras import install_command
from tests.models.gguf_files import gguf

HELLO = ChatRequest(
    messages=(Message(role="system", content="Be brief."), Message(role="user", content="Hello"))
)


def piece(text: str | None = None, finish: str | None = None, **more: Any) -> Chunk:
    """A chunk as the engine gives it."""
    delta = {} if text is None else {"content": text}
    return {
        "choices": [{"index": 0, "finish_reason": finish, "delta": delta}],
        "model": "m",
        **more,
    }


ENDLESS = 100_000
USED: Chunk = {"choices": [], "model": "m", "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
ANSWER = [piece(None, prompt_progress={}), piece("Hi "), piece("there"), piece(None, "stop"), USED]


@dataclass
class ScriptedEngine:
    """Gives the chunks it was made with, to everybody."""

    chunks: list[Chunk] = field(default_factory=lambda: list(ANSWER))
    pause: float = 0.0
    raises: Exception | None = None
    bodies: list[Chunk] = field(default_factory=list[Chunk])
    loaded: list[tuple[Path, EngineShape]] = field(default_factory=list[tuple[Path, EngineShape]])
    given: int = 0
    most: int = 0
    _now: int = 0

    def start(self, path: Path, shape: EngineShape) -> "ScriptedEngine":
        """Load a file."""
        self.loaded.append((path, shape))
        return self

    def handle_chat_completions(self, body: Chunk, heard: Callable[[Chunk], bool], /) -> object:
        """Answer, and note how many are being answered."""
        self.bodies.append(body)
        self._now += 1
        self.most = max(self.most, self._now)
        if self.raises is not None:
            raise self.raises
        for chunk in self.chunks:
            time.sleep(self.pause)
            self.given += 1
            if heard(chunk):
                break
        self._now -= 1
        return None


@pytest.fixture
def ref(tmp_path: Path) -> ModelRef:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf())
    return ModelRef(provider="local", name=str(path))


def using(ref: ModelRef, **settings: Any) -> ModelRef:
    """The reference with these settings."""
    return replace(ref, settings=ModelSettings(**settings))


async def test_an_answer_is_put_together(ref: ModelRef) -> None:
    engine = ScriptedEngine()
    backend: Backend = EmbeddedBackend(start=engine.start)
    reply = await backend.complete(ref, HELLO, draw=0)
    assert (reply.text, reply.finish, reply.model) == ("Hi there", "stop", "m")
    assert reply.usage == Usage(requests=1, input_tokens=7, output_tokens=2)
    assert reply.seconds >= 0
    await backend.close()


async def test_its_thoughts_are_no_part_of_an_answer(ref: ModelRef) -> None:
    chunks = [piece("<think>Hm"), piece("</think>\n"), piece("\n200"), piece(finish="stop"), USED]
    engine = ScriptedEngine(chunks=chunks)
    backend: Backend = EmbeddedBackend(start=engine.start)
    assert (await backend.complete(ref, HELLO, draw=0)).text == "200"
    await backend.close()


async def test_every_setting_is_sent(ref: ModelRef) -> None:
    engine = ScriptedEngine()
    backend = EmbeddedBackend(start=engine.start)
    await backend.complete(ref, HELLO, draw=0)
    asked = using(ref, temperature=0.0, top_p=0.5, max_tokens=9, stop=("a", "b"))
    await backend.complete(asked, replace(HELLO, schema={"type": "object"}), draw=0)
    plain, full = engine.bodies
    assert plain["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
    ]
    assert plain["max_tokens"] == 512
    assert not {"temperature", "top_p", "stop", "response_format"} & set(plain)
    assert (full["temperature"], full["top_p"], full["max_tokens"]) == (0.0, 0.5, 9)
    assert tuple(full["stop"]) == ("a", "b")
    schema = {"name": "answer", "schema": {"type": "object"}, "strict": True}
    assert full["response_format"] == {"type": "json_schema", "json_schema": schema}


async def test_the_seed_follows_from_the_setting_and_the_draw(ref: ModelRef) -> None:
    engine = ScriptedEngine()
    backend = EmbeddedBackend(start=engine.start)
    for seed, draw in ((None, 0), (None, 1), (0, 0), (5, 0), (5, 1), (5, 1), (-(2**70), 0)):
        await backend.complete(using(ref, seed=seed), HELLO, draw=draw)
    none0, none1, zero0, five0, five1, again, huge = (body["seed"] for body in engine.bodies)
    assert none0 == zero0
    assert five1 == again
    assert len({none0, none1, five0, five1, huge}) == 5
    assert all(0 <= body["seed"] < 2**31 for body in engine.bodies)


@pytest.mark.parametrize(
    ("finish", "told"), [("length", "length"), ("stop", "stop"), ("tool_calls", "other")]
)
async def test_the_finish_reason_is_told(ref: ModelRef, finish: str, told: str) -> None:
    engine = ScriptedEngine(chunks=[piece("x"), piece(None, finish), USED])
    reply = await EmbeddedBackend(start=engine.start).complete(ref, HELLO, draw=0)
    assert reply.finish == told


TOO_LONG = {"code": 400, "message": "too long", "n_prompt_tokens": 5031, "n_ctx": 4096}
TROUBLES: dict[str, tuple[list[Chunk], type[Exception], str]] = {
    "too long": ([{"error": TOO_LONG}], ModelRejected, "5031 tokens; .* takes 4096"),
    "bad": ([{"error": {"code": 400, "message": "no"}}], ModelRejected, "this request: no"),
    "failed": ([{"error": {"code": 500, "message": "oops"}}], ModelUnavailable, "failed: oops"),
    "late": ([piece("x"), {"error": {"code": 503}}], ModelUnavailable, "failed"),
    "cut": ([piece("x")], ModelUnavailable, "in the middle"),
    "nothing": ([], ModelUnavailable, "in the middle"),
    "unreadable": ([{"choices": 3}], ModelUnavailable, "cannot be read"),
}


@pytest.mark.parametrize("name", TROUBLES)
async def test_trouble_has_its_kind(ref: ModelRef, name: str) -> None:
    chunks, kind, words = TROUBLES[name]
    backend = EmbeddedBackend(start=ScriptedEngine(chunks=chunks).start)
    with pytest.raises(kind, match=words):
        await backend.complete(ref, HELLO, draw=0)


@pytest.mark.parametrize("error", [ValueError, RuntimeError])
async def test_what_the_engine_raises_is_the_requests_fault(
    ref: ModelRef, error: type[Exception]
) -> None:
    backend = EmbeddedBackend(start=ScriptedEngine(raises=error("bad text")).start)
    with pytest.raises(ModelRejected, match="bad"):
        await backend.complete(ref, HELLO, draw=0)


async def test_a_file_is_loaded_once_and_late(ref: ModelRef, tmp_path: Path) -> None:
    engine = ScriptedEngine()
    other = tmp_path / "other.gguf"
    other.write_bytes(gguf())
    backend = EmbeddedBackend(EngineShape(threads=3, context=99), start=engine.start)
    backend.check(ref)
    assert engine.loaded == []
    await asyncio.gather(*(backend.complete(ref, HELLO, draw=n) for n in range(3)))
    await backend.complete(replace(ref, name=str(other)), HELLO, draw=0)
    assert [path.name for path, _ in engine.loaded] == ["tiny.gguf", "other.gguf"]
    assert engine.loaded[0][1] == EngineShape(threads=3, context=99, slots=1)
    await backend.close()
    await backend.complete(ref, HELLO, draw=0)
    assert len(engine.loaded) == 3


@pytest.mark.parametrize("slots", [1, 2])
async def test_answers_take_turns_and_the_loop_stays_free(ref: ModelRef, slots: int) -> None:
    engine = ScriptedEngine(pause=0.01)
    backend = EmbeddedBackend(EngineShape(slots=slots), start=engine.start)
    asked = [asyncio.ensure_future(backend.complete(ref, HELLO, draw=n)) for n in range(4)]
    ticks = 0
    while not all(task.done() for task in asked):
        await asyncio.sleep(0)
        ticks += 1
    assert engine.most <= slots
    assert ticks > 4
    await backend.close()


async def test_a_cancelled_answer_ends_and_the_next_one_comes(ref: ModelRef) -> None:
    engine = ScriptedEngine(chunks=[piece("x")] * ENDLESS, pause=0.01)
    backend = EmbeddedBackend(start=engine.start)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await backend.complete(ref, HELLO, draw=0)
    engine.chunks = list(ANSWER)
    assert (await backend.complete(ref, HELLO, draw=0)).text == "Hi there"
    assert engine.given < ENDLESS
    await backend.close()


async def test_closing_ends_what_is_running(ref: ModelRef) -> None:
    engine = ScriptedEngine(chunks=[piece("x")] * ENDLESS, pause=0.01)
    backend = EmbeddedBackend(start=engine.start)
    before = set(threading.enumerate())
    running = asyncio.ensure_future(backend.complete(ref, HELLO, draw=0))
    while not engine.given:  # noqa: ASYNC110 - another thread counts
        await asyncio.sleep(0.01)
    await backend.close()
    with pytest.raises(ModelUnavailable):
        await running
    mine = {t for t in threading.enumerate() if t.name.startswith("burnish-engine")}
    assert mine <= before


def test_it_works_in_one_event_loop_after_another(ref: ModelRef) -> None:
    engine = ScriptedEngine()
    backend = EmbeddedBackend(start=engine.start)
    for draw in range(2):
        assert asyncio.run(backend.complete(ref, HELLO, draw=draw)).text == "Hi there"
    asyncio.run(backend.close())
    assert len(engine.loaded) == 1


def test_a_setting_that_would_be_ignored_or_misread_is_refused(ref: ModelRef) -> None:
    wrong = {
        "base_url": replace(ref, base_url="http://127.0.0.1"),
        "api_key": replace(ref, api_key="${KEY}"),
        "api_version": replace(ref, api_version="1"),
        "max_tokens": using(ref, max_tokens=0),
        "temperature": using(ref, temperature=-0.1),
        "top_p": using(ref, top_p=1.5),
        "stop": using(ref, stop=("",)),
    }
    for name, bad in wrong.items():
        with pytest.raises(ModelRefused, match=name):
            EmbeddedBackend().check(bad)
    with pytest.raises(ModelRefused, match="temperature is nan"):
        EmbeddedBackend().check(using(ref, temperature=float("nan")))


async def test_a_file_that_is_no_model_never_reaches_the_engine(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    backend = EmbeddedBackend(start=engine.start)
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF" + b"\xff" * 999)
    for name in (str(bad), str(tmp_path), "gone.gguf", "smollm2"):
        ref = ModelRef(provider="local", name=name)
        with pytest.raises(ModelRefused):
            backend.check(ref)
        with pytest.raises(ModelRefused):
            await backend.complete(ref, HELLO, draw=0)
    assert engine.loaded == []


async def test_without_the_engine_the_extra_is_named(
    ref: ModelRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ModelRefused) as error:
        EmbeddedBackend().check(ref)
    assert install_command("local") in error.value.remedy
    with pytest.raises(ModelRefused, match="xllamacpp"):
        await EmbeddedBackend().complete(ref, HELLO, draw=0)


@pytest.mark.parametrize(
    ("cores", "busy", "threads"),
    [(1, 0, 1), (2, 0, 2), (2, 1, 1), (4, 1, 3), (4, 9, 1), (6, 0, 3), (8, 5, 4), (64, 0, 8)],
)
def test_threads_leave_busy_cores_alone(cores: int, busy: int, threads: int) -> None:
    assert default_threads(cores, busy) == threads


@pytest.mark.parametrize("named", ["0", "-1", "two"])
def test_a_number_of_threads_that_is_none(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNISH_LOCAL_THREADS", named)
    with pytest.raises(ModelRefused, match="BURNISH_LOCAL_THREADS"):
        engine_threads()


def test_a_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNISH_LOCAL_THREADS", "3")
    assert engine_threads() == 3
    monkeypatch.delenv("BURNISH_LOCAL_THREADS")
    assert engine_threads() >= 1
