"""Services for tests: managers over the desk and the toy world, behind real sockets."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from burnish.core.cases import Case, Outcome
from burnish.core.surfaces import Candidate
from burnish.server.apps import EngineApp, FileApp
from burnish.server.manager import RunManager, ServiceLimits
from burnish.server.runs import Datasets
from burnish.server.service import listening_on, server_config
from burnish.server.stores import RunStatus, RunStore, StoredRun
from tests.compat.promptiter.desk import WRITE, Bench, answer, desk

QUICK = ServiceLimits(lease_seconds=5.0, grace_seconds=5.0)
RUN: dict[str, Any] = {
    "train": [{"evalSetId": "t"}],
    "validation": [{"evalSetId": "v"}],
    "TargetSurfaceIDs": [WRITE],
    "MaxRounds": 2,
}
"""A run request of PromptIter for the desk."""
TOY = """\
kind: toy
world: {train: 6, holdout: 4, test: 4, counter: calls.txt, call_seconds: %s}
budget: {max_trials: 8}
"""


@dataclass
class Door:
    """Keeps the desk from answering until it is opened; counts what was asked."""

    open: threading.Event = field(default_factory=threading.Event)
    knocked: threading.Event = field(default_factory=threading.Event)
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    after: int = 0
    """So many cases are answered before the door is shut."""

    async def answer(self, candidate: Candidate, case: Case, draw: int) -> Outcome:
        await self.passed(candidate, case)
        return answer(candidate, case, draw)

    async def passed(self, candidate: Candidate, case: Case) -> None:
        """Wait until the door lets this one through."""
        self.asked.append((candidate.id, case.id))
        if len(self.asked) > self.after:
            self.knocked.set()
            while not self.open.is_set():  # noqa: ASYNC110 - opened from another thread
                await asyncio.sleep(0.005)


def desk_app(folder: Path, door: Door | None = None, name: str = "desk") -> EngineApp:
    """The desk under a name; with a door, it waits there."""
    bench = Bench(folder=folder)
    if door is not None:
        bench.target = desk(door.answer)
    return EngineApp(name, bench.engine)


def toy_app(folder: Path, *, seconds: float = 0.0, **more: Any) -> FileApp:
    """The toy world, whose calls are counted in calls.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "toy.yaml"
    path.write_text(TOY % seconds)
    datasets = Datasets(folder=folder / "data" / "datasets")
    return FileApp(name="toy", path=path, datasets=datasets, **more)


def calls(folder: Path) -> list[str]:
    """The calls that the toy world was asked for."""
    path = folder / "calls.txt"
    return path.read_text().splitlines() if path.exists() else []


async def until(manager: RunManager, app: str, run: str, *wanted: RunStatus) -> StoredRun:
    """Wait until a run has one of these states."""
    async with asyncio.timeout(120):
        while True:
            record = await manager.get(app, run)
            if record.status in wanted:
                return record
            await asyncio.sleep(0.01)


async def knocked(door: Door) -> None:
    """Wait until somebody stands before the door."""
    assert await asyncio.to_thread(door.knocked.wait, 120)


@asynccontextmanager
async def listening(app: FastAPI, **more: Any) -> AsyncGenerator[httpx.AsyncClient, None]:
    """The application behind a socket of its own, and a client for it."""
    with listening_on("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        limits = getattr(app.state, "manager", None)
        limits = ServiceLimits() if limits is None else limits.limits
        config = server_config(app, limits.connection, timeout_graceful_shutdown=30)
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve(sockets=[sock]))
        try:
            # Nothing is encrypted here: reading the machine's certificates would be in vain.
            async with httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}",
                timeout=120,
                trust_env=False,
                verify=False,
                **more,
            ) as client:
                yield client
        finally:
            server.should_exit = True
            await task


def manager_of(
    tmp_path: Path,
    *apps: Any,
    store: RunStore | None = None,
    limits: ServiceLimits = QUICK,
    data: str = "data",
) -> RunManager:
    """A manager over the desk and the toy world, unless other apps are given."""
    chosen = apps or (desk_app(tmp_path), toy_app(tmp_path))
    return RunManager(chosen, data=tmp_path / data, store=store, limits=limits)
