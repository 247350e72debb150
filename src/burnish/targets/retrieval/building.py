"""Building an index: by one process at a time, whole or not at all."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from burnish.core.effects import Effects
from burnish.core.errors import ConfigError, FileTrouble, Problem, RunLocked
from burnish.system import FileLock, remove_stale_temporaries, write_atomic
from burnish.system.files import file_trouble
from burnish.targets.retrieval.chunking import read_chunks
from burnish.targets.retrieval.chunks import Chunk, SourceSettings
from burnish.targets.retrieval.contents import index_hash
from burnish.targets.retrieval.embedders import WITHOUT, Embedder, as_unit_rows
from burnish.targets.retrieval.index import Index
from burnish.targets.retrieval.index_files import (
    IndexContent,
    index_in_memory,
    read_index,
    write_index,
)
from burnish.targets.retrieval.sources import SourceFile

_PAUSE = 0.05


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """An index by its name, and what it takes to build it."""

    name: str
    settings: SourceSettings
    files: tuple[SourceFile, ...]
    embedder: Embedder | None
    folder: Path

    @property
    def path(self) -> Path:
        """The file that keeps it."""
        return self.folder / f"{self.name}.db"


async def read_or_build(wanted: Wanted, effects: Effects) -> Index:
    """The index from its file, or built; in memory where nothing can be kept."""
    if (found := await asyncio.to_thread(read_index, wanted.path, wanted.name)) is not None:
        return found
    async with _alone(wanted):
        # Somebody else may have built it while this one waited.
        found = read_index(wanted.path, wanted.name)
        if found is None:
            content = await _content(wanted, effects)
            found = await asyncio.to_thread(_kept, wanted, content) or index_in_memory(content)
        return found


async def _content(wanted: Wanted, effects: Effects) -> IndexContent:
    chunks = await asyncio.to_thread(_chunks, wanted)
    vectors = None
    if wanted.embedder is not None and chunks:
        texts = [chunk.passage for chunk in chunks]
        vectors = as_unit_rows(await wanted.embedder.embed(texts, effects=effects))
    return IndexContent(hash=wanted.name, chunks=chunks, vectors=vectors)


def _chunks(wanted: Wanted) -> list[Chunk]:
    """In the order of their ids, of the content that the name stands for."""
    chunks = read_chunks(wanted.settings, wanted.files)
    identity = wanted.embedder.identity if wanted.embedder else ""
    if index_hash(wanted.settings, wanted.files, identity) != wanted.name:
        message = "its files were changed while they were read"
        problem = Problem(where=wanted.settings.source, message=message, remedy="start again")
        raise ConfigError([problem])
    return sorted(chunks, key=lambda chunk: chunk.id)


def _kept(wanted: Wanted, content: IndexContent) -> Index | None:
    try:
        write_index(wanted.path, content)
    except FileTrouble:
        return None
    return read_index(wanted.path, wanted.name)


@asynccontextmanager
async def _alone(wanted: Wanted) -> AsyncGenerator[None, None]:
    """One process builds and the others wait; where there can be no lock, each builds its own."""
    lock = await _lock(wanted)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


async def _lock(wanted: Wanted) -> FileLock | None:
    path = wanted.folder / f"{wanted.name}.lock"
    try:
        _prepare(wanted.folder)
        while True:
            try:
                return await asyncio.to_thread(FileLock.acquire, path, holding="the index")
            except RunLocked:
                await asyncio.sleep(_PAUSE)
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


def notes_on(wanted: Wanted, index: Index) -> tuple[str, ...]:
    """What the user of an index should know."""
    source = wanted.settings.source
    told = {
        f"{source}: {WITHOUT}": wanted.embedder is None,
        f"{source} holds no text": not index.size,
        f"the index of {source} is in memory only: {wanted.folder} cannot be written": (
            index.path is None
        ),
    }
    return tuple(note for note, holds in told.items() if holds)
