"""Opening indexes: built once for each content, kept in a file, loaded once in a process."""

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
"""Raised when the same chunks come to be kept or searched otherwise."""

_Stamp: TypeAlias = tuple[tuple[str, int, int, int], ...]


def _stamp_of(files: Sequence[SourceFile]) -> _Stamp:
    """Names, sizes and times: what tells without reading that nothing was changed."""
    return tuple((file.name, *_look(file.path)) for file in files)


def _index_hash(settings: SourceSettings, files: Sequence[SourceFile], identity: str) -> str:
    """A hash of everything that an index is made from."""
    held: list[Json] = [[file.name, _sha256_of(file)] for file in files]
    return digest([_INDEX_VERSION, settings.cut, held, identity])[:32]


def _look(path: Path) -> tuple[int, int, int]:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return 0, 0, 0  # Reading it will say why.
    return found.st_size, found.st_mtime_ns, found.st_ino


def _sha256_of(file: SourceFile) -> str:
    return hashlib.sha256(file.read()).hexdigest()


_PAUSE = 0.05


@dataclass(frozen=True, kw_only=True)
class _Wanted:
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


async def _read_or_build(wanted: _Wanted, effects: Effects) -> Index:
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


async def _content(wanted: _Wanted, effects: Effects) -> IndexContent:
    chunks = await asyncio.to_thread(_chunks, wanted)
    vectors = None
    if wanted.embedder is not None and chunks:
        texts = [chunk.passage for chunk in chunks]
        vectors = as_unit_rows(await wanted.embedder.embed(texts, effects=effects))
    return IndexContent(hash=wanted.name, chunks=chunks, vectors=vectors)


def _chunks(wanted: _Wanted) -> list[Chunk]:
    """In the order of their ids, of the content that the name stands for."""
    chunks = read_chunks(wanted.settings, wanted.files)
    identity = wanted.embedder.identity if wanted.embedder else ""
    if _index_hash(wanted.settings, wanted.files, identity) != wanted.name:
        message = "its files were changed while they were read"
        problem = Problem(where=wanted.settings.source, message=message, remedy="start again")
        raise ConfigError([problem])
    return sorted(chunks, key=lambda chunk: chunk.id)


def _kept(wanted: _Wanted, content: IndexContent) -> Index | None:
    try:
        write_index(wanted.path, content)
    except FileTrouble:
        return None
    return read_index(wanted.path, wanted.name)


@asynccontextmanager
async def _alone(wanted: _Wanted) -> AsyncGenerator[None, None]:
    """One process builds and the others wait; where there can be no lock, each builds its own."""
    lock = await _lock(wanted)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


async def _lock(wanted: _Wanted) -> FileLock | None:
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


def _notes_on(wanted: _Wanted, index: Index) -> tuple[str, ...]:
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


_FOLDER = Path(".burnish/index")
"""Where indexes are kept, from the folder of their sources."""


@dataclass(frozen=True, kw_only=True)
class _Kept:
    """What the journal keeps of an index: that it was there."""

    index: str


class Indexes:
    """The indexes that are open here, shared by all candidates that search the same content."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` keeps the files; without it, `.burnish/index` beside the sources."""
        self._folder = folder
        self._open: dict[str, Index] = {}
        self._hashes: dict[tuple[SourceSettings, str], tuple[_Stamp, str]] = {}
        self._building: dict[str, asyncio.Lock] = {}

    def hash_of(self, settings: SourceSettings, embedder: Embedder | None = None) -> str:
        """The name of the index that this content has; files are read again only when touched."""
        return self._hash(settings, find_files(settings), embedder)

    async def open(
        self, settings: SourceSettings, *, embedder: Embedder | None, effects: Effects
    ) -> Index:
        """The index of a source: as it is open here, from its file, or built.

        It is an effect of its own, so that a resumed run counts what building cost as the run
        did that built it.
        """
        files = find_files(settings)
        name = self._hash(settings, files, embedder)
        folder = self._folder or settings.folder / _FOLDER
        wanted = _Wanted(
            name=name, settings=settings, files=tuple(files), embedder=embedder, folder=folder
        )

        async def perform(nested: Effects) -> Receipt[_Kept]:
            await self._have(wanted, nested)
            return Receipt(value=_Kept(index=name))

        call = Call(kind="index", request={"index": name}, codec=codec(_Kept), estimate=NOTHING)
        await effects.once(call, perform)
        return await self._have(wanted, effects)

    def close(self) -> None:
        """Let go of every index. Their files stay."""
        for index in self._open.values():
            index.db.close()
        self._open.clear()

    def _hash(
        self, settings: SourceSettings, files: list[SourceFile], embedder: Embedder | None
    ) -> str:
        identity = embedder.identity if embedder else ""
        stamp = _stamp_of(files)
        known = self._hashes.get((settings, identity))
        if known is not None and known[0] == stamp:
            return known[1]
        name = _index_hash(settings, files, identity)
        self._hashes[settings, identity] = (stamp, name)
        return name

    async def _have(self, wanted: _Wanted, effects: Effects) -> Index:
        if wanted.name in self._open:
            return self._open[wanted.name]
        async with self._building.setdefault(wanted.name, asyncio.Lock()):
            if wanted.name not in self._open:
                found = await _read_or_build(wanted, effects)
                index = replace(found, notes=_notes_on(wanted, found))
                # Whoever forgets to close lets go of the file all the same.
                weakref.finalize(index, index.db.close)
                self._open[wanted.name] = index
        return self._open[wanted.name]
