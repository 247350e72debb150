"""The embedded model: how long it takes to load, and how fast it reads and writes."""

import asyncio
import time
from pathlib import Path

from benchmarks.figures import Figure
from burnish.core.cases import Message
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.embedded import EmbeddedBackend
from burnish.models.embedded.files import find_model
from burnish.models.references import ModelRef, ModelSettings

_MODEL = find_model("smollm2")
"""Looked up before the benchmarks get a BURNISH_HOME of their own."""
_ROUNDS = 3
_WRITTEN = 64
_PROMPT = "Tell me about the sea, the hills behind it, and the people who live there. " * 8


def figures() -> list[Figure]:
    """Everything this file measures; nothing where the model is not here."""
    return [] if _MODEL is None else asyncio.run(_measure(_MODEL))


async def _measure(path: Path) -> list[Figure]:
    rounds = [await _round(path, number) for number in range(_ROUNDS)]
    loads, reading, writing, cached = zip(*rounds, strict=True)
    name = "local:smollm2"
    return [
        Figure(what=f"{name}: load and one token", value=min(loads), unit="s", goal=3.0),
        Figure(what=f"{name}: writing", value=max(writing), unit="tokens/s", goal=20, more=True),
        Figure(what=f"{name}: reading", value=max(reading), unit="tokens/s"),
        Figure(what=f"{name}: a prompt seen before", value=min(cached), unit="s"),
    ]


async def _round(path: Path, number: int) -> tuple[float, float, float, float]:
    """Seconds to load; tokens read and written in a second; seconds for a known prompt."""
    backend = EmbeddedBackend()
    started = time.perf_counter()
    await _ask(backend, path, "Hi", 1)
    loaded = time.perf_counter() - started
    prompt = f"{number}. {_PROMPT}"
    first = await _ask(backend, path, prompt, 1)
    again = await _ask(backend, path, prompt, 1)
    long = await _ask(backend, path, prompt, _WRITTEN)
    await backend.close()
    written = (long.usage.output_tokens - 1) / (long.seconds - again.seconds)
    return loaded, first.usage.input_tokens / first.seconds, written, again.seconds


async def _ask(backend: EmbeddedBackend, path: Path, text: str, length: int) -> ChatReply:
    settings = ModelSettings(temperature=0.0, max_tokens=length)
    ref = ModelRef(provider="local", name=str(path), settings=settings)
    request = ChatRequest(messages=(Message(role="user", content=text),))
    return await backend.complete(ref, request, draw=0)
