"""The engine of embedded models: one model file in memory, behind threads of its own."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from burnish.models.embedded.server import EngineShape
from burnish.models.troubles import ModelRejected

Chunk: TypeAlias = dict[str, Any]
"""A piece of an answer, as an OpenAI-compatible endpoint streams it."""


class Server(Protocol):
    """What is used of the engine's server."""

    def handle_chat_completions(self, body: Chunk, heard: Callable[[Chunk], bool], /) -> object:
        """Answer; `heard` gets every chunk and ends the answer by returning True."""
        ...


Start: TypeAlias = Callable[[Path, EngineShape], Server]


@dataclass(frozen=True, kw_only=True)
class Heard:
    """All chunks of one answer, and how long they took."""

    chunks: list[Chunk]
    seconds: float


class Engine:
    """One model file: loaded by the first request, asked by at most `slots` threads."""

    def __init__(self, path: Path, shape: EngineShape, start: Start) -> None:
        self._path, self._shape, self._start = path, shape, start
        self._threads = ThreadPoolExecutor(shape.slots, thread_name_prefix="burnish-engine")
        self._loading = threading.Lock()
        self._closing = threading.Event()
        self._server: Server | None = None

    async def chat(self, body: Chunk) -> Heard:
        """The answer. The event loop stays free, and a cancelled answer ends at its next chunk."""
        gone = threading.Event()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self._answer, body, gone)
        finally:
            gone.set()

    async def close(self) -> None:
        """End what is running and free the memory."""
        self._closing.set()
        await asyncio.to_thread(self._free)

    def _answer(self, body: Chunk, gone: threading.Event) -> Heard:
        server = self._loaded()
        chunks: list[Chunk] = []

        def heard(chunk: Chunk) -> bool:
            chunks.append(chunk)
            return gone.is_set() or self._closing.is_set()

        started = time.perf_counter()
        try:
            server.handle_chat_completions(body, heard)
        except (ValueError, RuntimeError, TypeError) as error:
            # With orjson in the environment a lone surrogate is a TypeError, else a ValueError.
            raise ModelRejected(f"{self._path.name} cannot take this request: {error}") from error
        return Heard(chunks=chunks, seconds=time.perf_counter() - started)

    def _loaded(self) -> Server:
        with self._loading:
            if self._server is None:
                self._server = self._start(self._path, self._shape)
            return self._server

    def _free(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._server = None
