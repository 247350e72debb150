"""Opening indexes: built once for each content, kept in a file, loaded once in a process."""

import asyncio
import weakref
from dataclasses import dataclass, replace
from pathlib import Path

from burnish.core.codec import codec
from burnish.core.effects import Call, Effects, Receipt
from burnish.core.money import NOTHING
from burnish.targets.retrieval.building import Wanted, notes_on, read_or_build
from burnish.targets.retrieval.chunks import SourceSettings
from burnish.targets.retrieval.contents import Stamp, index_hash, stamp_of
from burnish.targets.retrieval.embedders import Embedder
from burnish.targets.retrieval.index import Index
from burnish.targets.retrieval.sources import SourceFile, find_files

FOLDER = Path(".burnish/index")
"""Where indexes are kept, from the folder of their sources."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What the journal keeps of an index: that it was there."""

    index: str


class Indexes:
    """The indexes that are open here, shared by all candidates that search the same content."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` keeps the files; without it, `.burnish/index` beside the sources."""
        self._folder = folder
        self._open: dict[str, Index] = {}
        self._hashes: dict[tuple[SourceSettings, str], tuple[Stamp, str]] = {}
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
        folder = self._folder or settings.folder / FOLDER
        wanted = Wanted(
            name=name, settings=settings, files=tuple(files), embedder=embedder, folder=folder
        )

        async def perform(nested: Effects) -> Receipt[Kept]:
            await self._have(wanted, nested)
            return Receipt(value=Kept(index=name))

        call = Call(kind="index", request={"index": name}, codec=codec(Kept), estimate=NOTHING)
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
        stamp = stamp_of(files)
        known = self._hashes.get((settings, identity))
        if known is not None and known[0] == stamp:
            return known[1]
        name = index_hash(settings, files, identity)
        self._hashes[settings, identity] = (stamp, name)
        return name

    async def _have(self, wanted: Wanted, effects: Effects) -> Index:
        if wanted.name in self._open:
            return self._open[wanted.name]
        async with self._building.setdefault(wanted.name, asyncio.Lock()):
            if wanted.name not in self._open:
                found = await read_or_build(wanted, effects)
                index = replace(found, notes=notes_on(wanted, found))
                # Whoever forgets to close lets go of the file all the same.
                weakref.finalize(index, index.db.close)
                self._open[wanted.name] = index
        return self._open[wanted.name]
