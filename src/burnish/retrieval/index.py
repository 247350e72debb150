"""An index: chunks, a full-text index over them, their vectors, and its file."""

import hashlib
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from burnish.core.errors import FileTrouble
from burnish.models.errors import ModelRefused
from burnish.retrieval.chunks import TOKENIZER, Chunk, indexed, occurrences, terms_of, whole_phrase
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


def index_in_memory(content: IndexContent) -> Index:
    """An index without a file."""
    db = sqlite3.connect(":memory:", check_same_thread=False)
    _fill(db, content)
    size = len(content.chunks)
    return Index(hash=content.hash, size=size, db=db, vectors=content.vectors)


def write_index(path: Path, content: IndexContent) -> None:
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


def read_index(path: Path, name: str) -> Index | None:
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
