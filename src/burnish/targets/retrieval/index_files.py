"""Index files: SQLite, written whole, opened only if whole."""

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from burnish.core.errors import FileTrouble
from burnish.system.files import file_trouble, put_in_place
from burnish.targets.retrieval.chunks import Chunk
from burnish.targets.retrieval.index import Index
from burnish.targets.retrieval.words import TOKENIZER, indexed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
    """What an index is filled with."""

    hash: str
    chunks: Sequence[Chunk]
    """In the order of their ids: equals are then found in that order."""
    vectors: "NDArray[np.float32] | None"
    """A row a chunk; None without an embedder."""


def index_in_memory(content: IndexContent) -> Index:
    """An index that no file keeps."""
    db = sqlite3.connect(":memory:", check_same_thread=False)
    _fill(db, content)
    size = len(content.chunks)
    return Index(hash=content.hash, size=size, db=db, vectors=content.vectors)


def write_index(path: Path, content: IndexContent) -> None:
    """Keep an index in a file, which appears when it is whole."""

    def make(spare: Path) -> None:
        with closing(sqlite3.connect(spare)) as db:
            # The file is nobody's until it is renamed: a torn one is thrown away.
            db.execute("PRAGMA journal_mode = OFF")
            db.execute("PRAGMA synchronous = OFF")
            _fill(db, content)
        _sync(spare)

    try:
        put_in_place(path, make)
    except sqlite3.Error as error:
        message = f"cannot write the index {path}: {error}"
        raise FileTrouble(message, remedy="Check the space on the disk.") from error
    except OSError as error:
        raise file_trouble("write", path, error) from error


def read_index(path: Path, name: str) -> Index | None:
    """The index that a file keeps; None where there is none, or none that is whole."""
    if not path.is_file():
        return None
    # Nobody changes such a file: it is read without locks, also where nothing can be written.
    address = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    with suppress(sqlite3.Error, ValueError, OverflowError):
        db = sqlite3.connect(address, uri=True, check_same_thread=False)
        try:
            return _read(db, path, name)
        except BaseException:
            db.close()
            raise
    return None


def _read(db: sqlite3.Connection, path: Path, name: str) -> Index:
    """Raises ValueError or an error of SQLite where the file is not whole."""
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
        db.executemany("INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?)", _rows(content.chunks))
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


def _rows(chunks: Sequence[Chunk]) -> Iterator[tuple[int, str, str, str, str, str, str]]:
    for row, chunk in enumerate(chunks, start=1):
        headings = json.dumps(chunk.headings, ensure_ascii=False)
        metadata = json.dumps(dict(chunk.metadata), ensure_ascii=False)
        yield row, chunk.id, chunk.text, chunk.source, chunk.place, headings, metadata


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
