"""An index of chunks by words and vectors: built once per content, stored in a file, searched."""

import asyncio
import hashlib
import json
import math
import os
import sqlite3
import weakref
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import quote

from burnish.core.content import Json, codec, digest
from burnish.core.errors import ConfigError, FileTrouble, Problem, RunLocked
from burnish.core.money import NOTHING
from burnish.core.protocols import Call, Effects, Receipt
from burnish.models.errors import ModelRefused
from burnish.retrieval.chunks import (
    TOKENIZER,
    Chunk,
    SourceSettings,
    indexed,
    occurrences,
    phrases,
    terms_of,
    whole_phrase,
)
from burnish.retrieval.documents import SourceFile, find_files, read_chunks
from burnish.retrieval.embedders import WITHOUT, Embedder, as_unit_rows
from burnish.system import FileLock, remove_stale_temporaries, write_atomic
from burnish.system.files import file_trouble, put_in_place

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LARGE = 1000


@dataclass(frozen=True, kw_only=True)
class ScoredRow:
    """A row that a search found, and its score."""

    row: int
    worth: float


@dataclass(frozen=True, kw_only=True)
class Index:
    """A searchable index. It never changes: other content is another index."""

    hash: str
    size: int
    db: sqlite3.Connection = field(repr=False)
    vectors: "NDArray[np.float32] | None" = field(default=None, repr=False)
    """One row per chunk, each of length 1; None without an embedder."""
    path: Path | None = None
    """Its file; None if it is in memory only."""
    notes: tuple[str, ...] = ()
    """What its user should know, such as that it has no vectors."""

    def chunk(self, row: int) -> Chunk:
        select = "SELECT id, text, source, place, headings, metadata FROM chunks WHERE row = ?"
        ((name, text, source, place, headings, metadata),) = self.db.execute(select, (row,))
        return Chunk(
            id=name,
            text=text,
            source=source,
            place=place,
            headings=tuple(json.loads(headings)),
            metadata=json.loads(metadata),
        )

    def require_fit(self, length: int) -> None:
        """Raise ModelRefused for a vector of the wrong length."""
        if self.vectors is not None and self.vectors.shape[1] != length:
            raise ModelRefused(
                f"the embedding model returned {length} numbers, but the index {self.path} has "
                f"{self.vectors.shape[1]} for each chunk",
                remedy="the model has changed: delete the index, and it will be rebuilt",
            )

    def by_meaning(self, vector: "NDArray[np.float32]", most: int) -> list[ScoredRow]:
        """The chunks nearest to a vector of length 1, by cosine."""
        import numpy as np

        if self.vectors is None or not self.size:
            return []
        cosines = self.vectors @ vector
        # Stable, and rows are in the order of the ids: so equals are, too.
        best = np.argsort(-cosines, kind="stable")[:most]
        return [ScoredRow(row=int(at) + 1, worth=float(cosines[at])) for at in best]

    def by_words(self, query: str, most: int) -> list[ScoredRow]:
        """The chunks with words of the query, by BM25."""
        match = " OR ".join(self._distinctive(terms_of(query)))
        return [ScoredRow(row=row, worth=-rank) for row, rank in self._matching(match, most)]

    def by_phrases(self, phrases: Sequence[str], most: int) -> list[ScoredRow]:
        """The chunks that contain the phrases word for word, by count."""
        counts = Counter[int]()
        for phrase in phrases:
            # Stems match more than the phrase itself, so the text has the last word.
            for row, _ in self._matching(whole_phrase(phrase), 2 * most):
                counts[row] += occurrences(phrase, self.chunk(row).passage)
        rows = [ScoredRow(row=row, worth=float(count)) for row, count in counts.items() if count]
        return sorted(rows, key=lambda each: (-each.worth, each.row))[:most]

    def _distinctive(self, terms: list[str]) -> list[str]:
        """Leave out words that half of a large index has: BM25 gives them no weight anyway."""
        if self.size < _LARGE:
            return terms
        count = "SELECT count(*) FROM words WHERE words MATCH ?"
        counts = {term: self.db.execute(count, (term,)).fetchone()[0] for term in terms}
        return [term for term in terms if counts[term] <= self.size / 2] or terms

    def _matching(self, match: str, most: int) -> list[tuple[int, float]]:
        if not match:
            return []
        select = "SELECT rowid, rank FROM words WHERE words MATCH ? ORDER BY rank, rowid LIMIT ?"
        return self.db.execute(select, (match, most)).fetchall()


_SCHEMA = f"""
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE chunks (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, text TEXT NOT NULL, source TEXT NOT NULL,
    place TEXT NOT NULL, headings TEXT NOT NULL, metadata TEXT NOT NULL
);
CREATE TABLE vectors (row INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(text, content='', tokenize="{TOKENIZER}");
"""


@dataclass(frozen=True, kw_only=True)
class IndexContent:
    """The content of a new index."""

    hash: str
    chunks: Sequence[Chunk]
    """Sorted by id, so that equal scores come in that order."""
    vectors: "NDArray[np.float32] | None"
    """One row per chunk; None without an embedder."""


def _index_in_memory(content: IndexContent) -> Index:
    """An index without a file."""
    db = sqlite3.connect(":memory:", check_same_thread=False)
    _fill(db, content)
    size = len(content.chunks)
    return Index(hash=content.hash, size=size, db=db, vectors=content.vectors)


def _write_index(path: Path, content: IndexContent) -> None:
    """Write an index to a file, atomically."""

    def make(spare: Path) -> None:
        with closing(sqlite3.connect(spare)) as db:
            # The file is nobody's until it is renamed: a torn one is thrown away.
            db.execute("PRAGMA journal_mode = OFF")
            db.execute("PRAGMA synchronous = OFF")
            _fill(db, content)
        with spare.open("rb") as file:
            os.fsync(file.fileno())

    try:
        put_in_place(path, make)
    except sqlite3.Error as error:
        message = f"cannot write the index {path}: {error}"
        raise FileTrouble(message, remedy="Check the free disk space.") from error
    except OSError as error:
        raise file_trouble("write", path, error) from error


def _read_index(path: Path, name: str) -> Index | None:
    """Read an index from its file; None if it is missing or damaged."""
    if not path.is_file():
        return None
    # Nobody changes such a file: it is read without locks, also where nothing can be written.
    address = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    with suppress(sqlite3.Error, ValueError, OverflowError):
        db = sqlite3.connect(address, uri=True, check_same_thread=False)
        try:
            return _read(db, path, name)
        except BaseException:  # whatever it was, the connection is closed
            db.close()
            raise
    return None


def _read(db: sqlite3.Connection, path: Path, name: str) -> Index:
    """Raises ValueError or sqlite3.Error where the file is damaged."""
    about = dict[str, str](db.execute("SELECT name, value FROM about"))
    whole = db.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)
    (size,) = db.execute("SELECT count(*) FROM chunks").fetchone()
    if not whole or about.get("hash") != name or int(about.get("size", -1)) != size:
        raise ValueError(name)
    return Index(hash=name, size=size, db=db, vectors=_vectors(db, about, size), path=path)


def _vectors(
    db: sqlite3.Connection, about: dict[str, str], size: int
) -> "NDArray[np.float32] | None":
    import numpy as np

    if "vectors" not in about:
        return None
    held = b"".join(vector for (vector,) in db.execute("SELECT vector FROM vectors ORDER BY row"))
    if hashlib.sha256(held).hexdigest() != about["vectors"]:
        raise ValueError("vectors")
    return np.frombuffer(held, dtype=np.float32).reshape(size, int(about["dimensions"]))


def _fill(db: sqlite3.Connection, content: IndexContent) -> None:
    db.executescript(_SCHEMA)
    with db:
        for row, chunk in enumerate(content.chunks, start=1):
            headings = json.dumps(chunk.headings, ensure_ascii=False)
            metadata = json.dumps(dict(chunk.metadata), ensure_ascii=False)
            texts = (chunk.id, chunk.text, chunk.source, chunk.place, headings, metadata)
            db.execute("INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?)", (row, *texts))
        words = ((row, indexed(chunk.passage)) for row, chunk in enumerate(content.chunks, start=1))
        db.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", words)
        about = {"hash": content.hash, "size": str(len(content.chunks))}
        if content.vectors is not None:
            vectors = enumerate((vector.tobytes() for vector in content.vectors), start=1)
            db.executemany("INSERT INTO vectors VALUES (?, ?)", vectors)
            about["vectors"] = hashlib.sha256(content.vectors.tobytes()).hexdigest()
            about["dimensions"] = str(content.vectors.shape[1])
        db.executemany("INSERT INTO about VALUES (?, ?)", about.items())
    db.execute("INSERT INTO words (words) VALUES ('optimize')")
    db.commit()


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Rows from best to worst, and the weight of this ranking."""

    rows: Sequence[int]
    weight: float


def fuse(rankings: Sequence[Ranking], *, rrf_k: float) -> Mapping[int, float]:
    """Reciprocal rank fusion: the sum of weight / (k + rank), scaled so that first in all is 1.

    Weights are relative, so that leaving a ranking out keeps the scale.
    """
    whole = math.fsum(ranking.weight for ranking in rankings)
    if whole <= 0:
        return {}
    shares: dict[int, list[float]] = {}
    for ranking in rankings:
        for rank, row in enumerate(ranking.rows, start=1):
            # (k + 1) / (k + rank) is the rank's worth beside that of the first.
            worth = ranking.weight / whole * (rrf_k + 1) / (rrf_k + rank)
            shares.setdefault(row, []).append(worth)
    return {row: min(1.0, math.fsum(parts)) for row, parts in shares.items()}


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """How to search."""

    mode: Literal["semantic", "keyword", "hybrid"] = "hybrid"
    top_k: int = 10
    min_score: float | None = None
    """Hits below it are dropped, after the cut to `top_k`."""
    semantic_weight: float = 0.5
    keyword_weight: float = 0.3
    exact_weight: float = 0.2
    rrf_k: float = 60
    """The larger it is, the less the first ranks stand out. Weights and this are for `hybrid`."""

    def __post_init__(self) -> None:
        weights = (self.semantic_weight, self.keyword_weight, self.exact_weight)
        if self.top_k < 1 or min(weights) < 0 or self.rrf_k < 0:
            message = "top_k must be 1 or more, weights and rrf_k 0 or more"
            raise ConfigError([Problem(message=message, where="search")])

    @property
    def by_meaning(self) -> bool:
        """Whether the query has to be embedded, which may cost money."""
        weighed = self.mode == "hybrid" and self.semantic_weight > 0
        return weighed or self.mode == "semantic"

    @property
    def fetched(self) -> int:
        """How far down each ranking is read before they are fused."""
        return max(4 * self.top_k, 20)


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A chunk and its score; 1 is best."""

    chunk: Chunk
    score: float


async def search(
    index: Index,
    query: str,
    settings: SearchSettings,
    *,
    embedder: Embedder | None,
    effects: Effects,
) -> list[Hit]:
    """Return the best chunks, best first; equal scores are sorted by id.

    Without an embedder, `semantic` becomes `keyword`, and `hybrid` leaves that ranking out. The
    notes of the index say so.
    """
    if not query.strip() or not index.size:
        return []
    # Half a character, which a model may well write, has no form that could be sent or kept.
    clean = query.encode("utf-8", "replace").decode()
    vector_rows = None
    if embedder is not None and index.vectors is not None and settings.by_meaning:
        (vector,) = as_unit_rows(await embedder.embed([clean], effects=effects))
        index.require_fit(len(vector))
        vector_rows = index.by_meaning(vector, settings.fetched)
    scores = _scores(index, clean, settings, vector_rows)
    best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[: settings.top_k]
    lowest = settings.min_score
    return [
        Hit(chunk=index.chunk(row), score=score)
        for row, score in best
        if lowest is None or score >= lowest
    ]


def _scores(
    index: Index, query: str, settings: SearchSettings, vector_rows: list[ScoredRow] | None
) -> Mapping[int, float]:
    if settings.mode == "hybrid":
        return _hybrid_scores(index, query, settings, vector_rows)
    if vector_rows is not None:
        return {each.row: min(1.0, max(0.0, each.worth)) for each in vector_rows}
    return _relative_to_best(index.by_words(query, settings.fetched))


def _hybrid_scores(
    index: Index, query: str, settings: SearchSettings, vector_rows: list[ScoredRow] | None
) -> Mapping[int, float]:
    rankings = [_ranking(vector_rows, settings.semantic_weight)] if vector_rows is not None else []
    # Where meaning was all that counted and is out of reach, words are better than nothing.
    alone = not rankings and not (settings.keyword_weight or settings.exact_weight)
    if settings.keyword_weight or alone:
        rows = index.by_words(query, settings.fetched)
        rankings.append(_ranking(rows, settings.keyword_weight or 1.0))
    if settings.exact_weight:
        rows = index.by_phrases(phrases(query), settings.fetched)
        # A text seldom repeats a question word for word; that is no reason to score less.
        rankings += [_ranking(rows, settings.exact_weight)] if rows else []
    return fuse(rankings, rrf_k=settings.rrf_k)


def _ranking(rows: list[ScoredRow], weight: float) -> Ranking:
    return Ranking(rows=[each.row for each in rows], weight=weight)


def _relative_to_best(rows: list[ScoredRow]) -> Mapping[int, float]:
    """BM25 has no fixed scale: the best is 1 and the others are in proportion."""
    best = max((each.worth for each in rows), default=0.0)
    if best <= 0:
        return {each.row: 1.0 for each in rows}
    return {each.row: max(0.0, each.worth / best) for each in rows}


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
    if (index := await asyncio.to_thread(_read_index, request.path, request.name)) is not None:
        return index
    async with _alone(request):
        # Somebody else may have built it while this one waited.
        index = _read_index(request.path, request.name)
        if index is None:
            content = await _content(request, effects)
            index = await asyncio.to_thread(_stored, request, content) or _index_in_memory(content)
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
        _write_index(request.path, content)
    except FileTrouble:
        return None
    return _read_index(request.path, request.name)


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
