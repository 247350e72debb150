"""Calling a model: time to the first answer, and calls per second beside a bare HTTP loop."""

import asyncio
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeAlias

from benchmarks.figures import Figure
from burnish.core.cases import Message
from burnish.journal.journal import Journal
from burnish.journal.limits import EndpointLimit, Limits
from burnish.journal.once import JournaledEffects
from burnish.models.chat import ChatRequest
from burnish.models.factory import Models
from burnish.models.references import ModelRef, ModelSettings
from burnish.system import Redactor

Caller: TypeAlias = Callable[[int], Awaitable[object]]
"""Makes one call; its number tells it from the others."""
Opener: TypeAlias = Callable[[str], AbstractAsyncContextManager[Caller]]
"""A way to call the endpoint at an address."""

CONCURRENCIES = (1, 16, 64)
CALLS = 600
ROUNDS = 5

_ENDPOINT = """
import asyncio, sys
from burnish.testing.servers import ScriptedServer

async def main():
    async with ScriptedServer(protocol="openai", answers=["yes"]) as server:
        print(server.base_url, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""

_FIRST_CALL = """
import asyncio, sys
from benchmarks.models import stack

async def main():
    async with stack(sys.argv[1]) as call:
        await call(0)

asyncio.run(main())
"""


@asynccontextmanager
async def stack(base_url: str) -> AsyncGenerator[Caller]:
    """Calls through everything: journal, limits, retries, prices, backend."""
    numbers = itertools.count()
    models = Models(limits=Limits(default=EndpointLimit(concurrency=1000)))
    client = models.client(reference(base_url))
    with tempfile.TemporaryDirectory() as folder:
        effects = JournaledEffects(Journal(Path(folder)), redactor=Redactor(secrets=()))
        try:
            # Each call is a draw of its own: the journal would answer a second one by itself.
            yield lambda _: client.ask(REQUEST, draw=next(numbers), effects=effects.scope(trial=0))
        finally:
            effects.journal.close()
            await models.close()


@asynccontextmanager
async def wire(base_url: str) -> AsyncGenerator[Caller]:
    """Calls through the backend alone."""
    from burnish.models.wire import WireBackend

    backend = WireBackend()
    ref = reference(base_url)
    try:
        yield lambda number: backend.complete(ref, REQUEST, draw=number)
    finally:
        await backend.close()


@asynccontextmanager
async def bare(base_url: str) -> AsyncGenerator[Caller]:
    """The same requests by the HTTP library alone."""
    import httpx2

    url = f"{base_url}/chat/completions"
    limits = httpx2.Limits(max_connections=1000, max_keepalive_connections=256)
    said = [{"role": each.role, "content": each.content} for each in REQUEST.messages]

    async with httpx2.AsyncClient(limits=limits, timeout=60) as client:

        async def call(number: int) -> object:
            body = {"model": "any", "messages": said, "temperature": 0.5, "seed": number}
            response = await client.post(url, json=body, headers={"Authorization": "Bearer x"})
            response.raise_for_status()
            return response.json()["choices"][0]["message"]["content"]

        yield call


REQUEST = ChatRequest(
    messages=(
        Message(role="system", content="You extract the total of an invoice. Be brief."),
        Message(role="user", content="Invoice 17, two chairs at 40 each, freight 5. " * 4),
    )
)


def reference(base_url: str) -> ModelRef:
    """The model of the endpoint."""
    settings = ModelSettings(temperature=0.5, seed=0)
    return ModelRef(provider="openai", name="any", base_url=base_url, settings=settings)


def figures() -> list[Figure]:
    """Everything this file measures."""
    named = "whole stack"
    with endpoint() as base_url:
        first = min(_first_call(base_url) for _ in range(3))
        rates = asyncio.run(_rates(base_url, {named: stack, "wire": wire, "bare httpx2": bare}))
    found = [Figure(what="time to first call, imports included", value=first, unit="s")]
    for (way, at_once), rate in sorted(rates.items(), key=lambda item: item[0][1]):
        found.append(Figure(what=f"calls, {way}, {at_once} at once", value=rate, unit="/s"))
    share = 100 * rates[named, 64] / rates["bare httpx2", 64]
    what = f"{named} beside bare httpx2, 64 at once"
    return [*found, Figure(what=what, value=share, unit="%", goal=60, more=True)]


@contextmanager
def endpoint() -> Generator[str]:
    """An instant endpoint in a process of its own; its address."""
    with subprocess.Popen(
        [sys.executable, "-c", _ENDPOINT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


def _first_call(base_url: str) -> float:
    started = time.perf_counter()
    command = [sys.executable, "-c", _FIRST_CALL, base_url]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    return time.perf_counter() - started


async def _rates(base_url: str, ways: dict[str, Opener]) -> dict[tuple[str, int], float]:
    """The best rate of each way; they take turns, so that a busy machine is fair to both."""
    best: dict[tuple[str, int], float] = {}
    for _ in range(ROUNDS):
        for at_once in CONCURRENCIES:
            for way, opener in ways.items():
                async with opener(base_url) as call:
                    await calls_per_second(call, at_once, 2 * at_once)
                    rate = await calls_per_second(call, at_once, CALLS)
                best[way, at_once] = max(rate, best.get((way, at_once), 0.0))
    return best


async def calls_per_second(call: Caller, at_once: int, calls: int) -> float:
    """Make so many calls, so many at once."""
    numbers = iter(range(calls))

    async def work() -> None:
        for number in numbers:
            await call(number)

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(at_once)))
    return calls / (time.perf_counter() - started)
