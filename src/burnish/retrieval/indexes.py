"""Open indexes: built once per content, stored in a file, loaded once per process."""

import asyncio
import hashlib
import os
import weakref
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from burnish.core.content import Json, codec, digest
from burnish.core.errors import ConfigError, FileTrouble, Problem, RunLocked
from burnish.core.money import NOTHING
from burnish.core.protocols import Call, Effects, Receipt
from burnish.retrieval.chunkers import read_chunks
from burnish.retrieval.chunks import Chunk, SourceSettings
from burnish.retrieval.documents import SourceFile, find_files
from burnish.retrieval.embedders import WITHOUT, Embedder, as_unit_rows
from burnish.retrieval.index import Index, IndexContent, index_in_memory, read_index, write_index
from burnish.system import FileLock, remove_stale_temporaries, write_atomic
from burnish.system.files import file_trouble

_INDEX_VERSION = 1
"""Raised when the same chunks are stored or searched differently."""

_Stamp: TypeAlias = tuple[tuple[str, int, int, int], ...]


def _stamp_of(files: Sequence[SourceFile]) -> _Stamp:
    """Names, sizes and times, which show without reading whether a file changed."""
    return tuple((file.name, *_look(file.path)) for file in files)


def _index_hash(settings: SourceSettings, files: Sequence[SourceFile], identity: str) -> str:
    held: list[Json] = [[file.name, hashlib.sha256(file.read()).hexdigest()] for file in files]
    return digest([_INDEX_VERSION, settings.cut, held, identity])[:32]


def _look(path: Path) -> tuple[int, int, int]:
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return 0, 0, 0  # Reading it will say why.
    return status.st_size, status.st_mtime_ns, status.st_ino


@dataclass(frozen=True, kw_only=True)
class _IndexRequest:
    """The name of an index, and what it takes to build it."""

    name: str
    settings: SourceSettings
    files: tuple[SourceFile, ...]
    embedder: Embedder | None
    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.db"


async def _read_or_build(request: _IndexRequest, effects: Effects) -> Index:
    """Read the index from its file, or build it; in memory if it cannot be stored."""
    if (index := await asyncio.to_thread(read_index, request.path, request.name)) is not None:
        return index
    async with _alone(request):
        # Somebody else may have built it while this one waited.
        index = read_index(request.path, request.name)
        if index is None:
            content = await _content(request, effects)
            index = await asyncio.to_thread(_stored, request, content) or index_in_memory(content)
        return index


async def _content(request: _IndexRequest, effects: Effects) -> IndexContent:
    chunks = await asyncio.to_thread(_chunks, request)
    vectors = None
    if request.embedder is not None and chunks:
        texts = [chunk.passage for chunk in chunks]
        vectors = as_unit_rows(await request.embedder.embed(texts, effects=effects))
    return IndexContent(hash=request.name, chunks=chunks, vectors=vectors)


def _chunks(request: _IndexRequest) -> list[Chunk]:
    """The chunks sorted by id, of the content that the name stands for."""
    chunks = read_chunks(request.settings, request.files)
    identity = request.embedder.identity if request.embedder else ""
    if _index_hash(request.settings, request.files, identity) != request.name:
        message = "the files changed while they were read"
        problem = Problem(where=request.settings.source, message=message, remedy="start again")
        raise ConfigError([problem])
    return sorted(chunks, key=lambda chunk: chunk.id)


def _stored(request: _IndexRequest, content: IndexContent) -> Index | None:
    try:
        write_index(request.path, content)
    except FileTrouble:
        return None
    return read_index(request.path, request.name)


@asynccontextmanager
async def _alone(request: _IndexRequest) -> AsyncGenerator[None, None]:
    """One process builds and the others wait; without a lock, each builds its own."""
    lock = await _lock(request)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


async def _lock(request: _IndexRequest) -> FileLock | None:
    path = request.folder / f"{request.name}.lock"
    try:
        _prepare(request.folder)
        while True:
            try:
                return await asyncio.to_thread(FileLock.acquire, path, holding="the index")
            except RunLocked:
                await asyncio.sleep(0.05)
    except FileTrouble:
        return None


def _prepare(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise file_trouble("make", folder, error) from error
    remove_stale_temporaries(folder, shared=True)
    if not (folder / ".gitignore").exists():
        write_atomic(folder / ".gitignore", "*\n", durable=False)


def _notes_on(request: _IndexRequest, index: Index) -> tuple[str, ...]:
    source = request.settings.source
    notes = {
        f"{source}: {WITHOUT}": request.embedder is None,
        f"{source} contains no text": not index.size,
        f"the index of {source} is in memory only: {request.folder} cannot be written": (
            index.path is None
        ),
    }
    return tuple(note for note, holds in notes.items() if holds)


_FOLDER = Path(".burnish/index")
"""Where indexes are stored, relative to the folder of their sources."""


@dataclass(frozen=True, kw_only=True)
class _Kept:
    """What the journal keeps of an index."""

    index: str


class Indexes:
    """The open indexes, shared by all candidates that search the same content."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` stores the files; without it, `.burnish/index` beside the sources."""
        self._folder = folder
        self._open: dict[str, Index] = {}
        self._hashes: dict[tuple[SourceSettings, str], tuple[_Stamp, str]] = {}
        self._building: dict[str, asyncio.Lock] = {}

    def hash_of(self, settings: SourceSettings, embedder: Embedder | None = None) -> str:
        """The name of the index for this content; files are read again only when touched."""
        return self._hash(settings, find_files(settings), embedder)

    async def open(
        self, settings: SourceSettings, *, embedder: Embedder | None, effects: Effects
    ) -> Index:
        """Return the index of a source: already open, from its file, or newly built.

        It is an effect, so that a resumed run counts the cost of building it as the first run did.
        """
        files = find_files(settings)
        name = self._hash(settings, files, embedder)
        folder = self._folder or settings.folder / _FOLDER
        request = _IndexRequest(
            name=name, settings=settings, files=tuple(files), embedder=embedder, folder=folder
        )

        async def perform(nested: Effects) -> Receipt[_Kept]:
            await self._have(request, nested)
            return Receipt(value=_Kept(index=name))

        call = Call(kind="index", request={"index": name}, codec=codec(_Kept), estimate=NOTHING)
        await effects.once(call, perform)
        return await self._have(request, effects)

    def close(self) -> None:
        """Close every index. Their files stay."""
        for index in self._open.values():
            index.db.close()
        self._open.clear()

    def _hash(
        self, settings: SourceSettings, files: list[SourceFile], embedder: Embedder | None
    ) -> str:
        identity = embedder.identity if embedder else ""
        stamp = _stamp_of(files)
        cached = self._hashes.get((settings, identity))
        if cached is not None and cached[0] == stamp:
            return cached[1]
        name = _index_hash(settings, files, identity)
        self._hashes[settings, identity] = (stamp, name)
        return name

    async def _have(self, request: _IndexRequest, effects: Effects) -> Index:
        if request.name in self._open:
            return self._open[request.name]
        async with self._building.setdefault(request.name, asyncio.Lock()):
            if request.name not in self._open:
                opened = await _read_or_build(request, effects)
                index = replace(opened, notes=_notes_on(request, opened))
                # Whoever forgets to close lets go of the file all the same.
                weakref.finalize(index, index.db.close)
                self._open[request.name] = index
        return self._open[request.name]
