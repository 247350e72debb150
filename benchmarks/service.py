"""The service: reads with many runs stored, events to listeners, what storing progress costs."""

import asyncio
import contextlib
import socket
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import uvicorn

from benchmarks.figures import Figure
from benchmarks.overhead import make_cases, setup
from burnish.core.content import Json
from burnish.runs.setup import start
from burnish.server import RunManager, create_app, open_store
from burnish.server.service import listening_on
from burnish.server.stores import NewEvent, RunChanges, RunStatus, RunStore
from burnish.server.stores.records import Where

RUNS = 10_000
LISTENERS = 100
TRIALS = 1_000
_SECONDS = 2.0
_CONNECTIONS = 4
_EVENTS = 20


def figures() -> list[Figure]:
    """Measure all three."""
    with tempfile.TemporaryDirectory() as folder:
        reads = asyncio.run(_reads(Path(folder)))
    with tempfile.TemporaryDirectory() as folder:
        delay = asyncio.run(_latency(Path(folder)))
    with tempfile.TemporaryDirectory() as folder:
        first, last = asyncio.run(_progress(Path(folder)))
    growth = last / first
    return [
        Figure(
            what=f"service: reads of {RUNS:,} runs", value=reads[0], unit="/s", goal=1000, more=True
        ),
        Figure(what="service: pages of 50 runs", value=reads[1], unit="/s", goal=500, more=True),
        Figure(what=f"service: event to {LISTENERS} listeners", value=delay, unit="ms", goal=10),
        Figure(what=f"service: storing event {TRIALS:,}", value=last, unit="ms", goal=20),
        Figure(what="service: the same, by the first ones", value=growth, unit="×", goal=1.5),
    ]


async def _reads(folder: Path) -> tuple[float, float]:
    address = f"sqlite:///{folder / 'runs.db'}"
    store = await open_store(address)
    run = start(setup(make_cases(1)), folder=folder / "run")
    await run.close()
    where = Where(journal="files", host=socket.gethostname(), folder=str(folder / "run"))
    asked: Json = {"settings": {"max_trials": 3}}
    await store.create("app", "one", strategy="climb", request=asked, where=where)
    await store.update("app", "one", RunChanges(status=RunStatus.SUCCEEDED, best_score=0.5))
    await store.close()
    _multiply(folder / "runs.db")
    async with _served(folder, await open_store(address)) as (port, _):
        one = await _rate(port, "/api/v1/apps/app/runs/one-{}")
        return one, await _rate(port, "/api/v1/runs?limit=50&app=app&n={}")


def _multiply(path: Path) -> None:
    """The one run, many times: what 10,000 creates would leave."""
    numbers = (
        f"WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < {RUNS - 1})"
    )
    with contextlib.closing(sqlite3.connect(path)) as db:
        for table, key in (("burnish_runs", "id"), ("burnish_run_payloads", "run")):
            names = [str(row[1]) for row in db.execute(f"PRAGMA table_info({table})")]
            chosen = {key: "n.n + 2", "run_id": "run_id || '-' || n.n"}
            columns = ", ".join(chosen.get(name, f"t.{name}") for name in names)
            source = f"SELECT {columns} FROM {table} t, n WHERE t.{key} = 1"
            db.execute(f"{numbers} INSERT INTO {table} {source}")
        db.commit()


_CLIENT = """
import asyncio, sys, time

port, path, connections, seconds, runs = sys.argv[1:]
count, end = int(connections), time.perf_counter() + float(seconds)
done = [0] * count

async def ask(place):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
    while time.perf_counter() < end:
        number = (done[place] * count + place) * 7919 % int(runs)
        head = f"GET {path.format(number)} HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n"
        writer.write(head.encode())
        head = await reader.readuntil(b"\\r\\n\\r\\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        size = next(line for line in head.lower().split(b"\\r\\n") if b"content-length" in line)
        await reader.readexactly(int(size.split(b":")[1]))
        done[place] += 1
    writer.close()

async def main():
    await asyncio.gather(*map(ask, range(count)))

asyncio.run(main())
print(sum(done) / float(seconds))
"""


async def _rate(port: int, path: str) -> float:
    """Answers a second to a client in a process of its own, over connections that stay open."""
    words = (str(port), path, str(_CONNECTIONS), str(_SECONDS), str(RUNS))
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _CLIENT, *words, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await client.communicate()
    assert client.returncode == 0
    return float(said)


_LISTENERS = """
import asyncio, sys, time

port, count, events = map(int, sys.argv[1:])

async def listen():
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /api/v1/apps/app/runs/one/stream HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n")
    await reader.readuntil(b"event: status")
    return reader, writer

async def main():
    streams = [await listen() for _ in range(count)]
    print("listening", flush=True)
    for _ in range(events):
        await asyncio.gather(*(reader.readuntil(b"event: x") for reader, _ in streams))
        print(time.monotonic(), flush=True)

asyncio.run(main())
"""


async def _latency(folder: Path) -> float:
    """From before an event is stored until the last listener has it; the median of some.

    The listeners are in a process of their own. Both read the clock of the machine.
    """
    async with _served(folder, await open_store(f"sqlite:///{folder / 'runs.db'}")) as served:
        port, manager = served
        await manager.store.create("app", "one")
        await manager.store.append_event("app", "one", NewEvent(kind="status"))
        words = (str(port), str(LISTENERS), str(_EVENTS))
        listeners = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _LISTENERS, *words, stdout=asyncio.subprocess.PIPE
        )
        assert listeners.stdout is not None
        assert await listeners.stdout.readline() == b"listening\n"
        delays: list[float] = []
        for _ in range(_EVENTS):
            began = time.monotonic()
            await manager.store.append_event("app", "one", NewEvent(kind="x", payload=_trial()))
            manager.tails.announce("app", "one")
            delays.append(float(await listeners.stdout.readline()) - began)
        assert await listeners.wait() == 0
        return 1000 * statistics.median(delays)


async def _progress(folder: Path) -> tuple[float, float]:
    """What keeping one event takes in a run that begins, and in one of many trials; ms."""
    store = await open_store(f"sqlite:///{folder / 'runs.db'}")
    spent: dict[str, list[float]] = {"short": [], "long": []}
    for run in spent:
        await store.create("app", run)
        await store.claim("app", run, owner="bench", seconds=600)
    for number in range(TRIALS):
        await _kept(store, "long", number)
    for number in range(100):  # in turn, so that a busy disk is busy for both
        for run, times in spent.items():
            began = time.perf_counter()
            await _kept(store, run, TRIALS + number)
            times.append(1000 * (time.perf_counter() - began))
    await store.close()
    return statistics.median(spent["short"]), statistics.median(spent["long"])


async def _kept(store: RunStore, run: str, number: int) -> None:
    event = NewEvent(kind="trial_recorded", round=number, payload=_trial(), key=f"t:{number}")
    await store.append_event("app", run, event, RunChanges(current_round=number, best_score=0.5))


def _trial() -> dict[str, Json]:
    return {"trial": 1, "phase": "numbers", "numbers": {f"metric {n}": 0.5 for n in range(40)}}


@contextlib.asynccontextmanager
async def _served(folder: Path, store: RunStore) -> AsyncGenerator[tuple[int, RunManager], None]:
    manager = RunManager([], data=folder, store=store)
    with listening_on("127.0.0.1", 0) as sock:
        config = uvicorn.Config(create_app(manager), log_level="error", lifespan="on")
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve(sockets=[sock]))
        while not server.started:  # noqa: ASYNC110 - it has no event for it
            await asyncio.sleep(0.01)
        yield sock.getsockname()[1], manager
        manager.ask_to_stop()
        server.should_exit = True
        await task
