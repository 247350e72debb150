"""An index: chunks, a full-text index over them, and their vectors."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from burnish.models.errors import ModelRefused
from burnish.targets.retrieval.chunks import Chunk
from burnish.targets.retrieval.words import occurrences, terms_of, whole_phrase

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_LARGE = 1000
_CHUNK = "SELECT id, text, source, place, headings, metadata FROM chunks WHERE row = ?"
_COUNT = "SELECT count(*) FROM words WHERE words MATCH ?"
_MATCH = "SELECT rowid, rank FROM words WHERE words MATCH ? ORDER BY rank, rowid LIMIT ?"


@dataclass(frozen=True, kw_only=True)
class Found:
    """A chunk that a search came upon, by its row, and how well it fits there."""

    row: int
    worth: float


@dataclass(frozen=True, kw_only=True)
class Index:
    """What is searched. It never changes: other content is another index."""

    hash: str
    size: int
    """How many chunks there are."""
    db: sqlite3.Connection = field(repr=False)
    vectors: "NDArray[np.float32] | None" = field(default=None, repr=False)
    """A row a chunk, each of length 1; None where there is no embedder."""
    path: Path | None = None
    """The file that keeps it; None where it is in memory only."""
    notes: tuple[str, ...] = ()
    """What its user should know, such as that it has no vectors."""

    def chunk(self, row: int) -> Chunk:
        """The chunk of a row."""
        (found,) = self.db.execute(_CHUNK, (row,))
        name, text, source, place, headings, metadata = found
        return Chunk(
            id=name,
            text=text,
            source=source,
            place=place,
            headings=tuple(json.loads(headings)),
            metadata=json.loads(metadata),
        )

    def require_fit(self, length: int) -> None:
        """Raise ModelRefused for a vector of another length than those in here."""
        if self.vectors is not None and self.vectors.shape[1] != length:
            raise ModelRefused(
                f"the embedding model gave {length} numbers, the index {self.path} has "
                f"{self.vectors.shape[1]} for each chunk",
                remedy="the model behind the name was changed: remove the index, it is made again",
            )

    def by_meaning(self, vector: "NDArray[np.float32]", most: int) -> list[Found]:
        """The chunks nearest to a vector of length 1, by their cosine."""
        import numpy as np

        if self.vectors is None or not self.size:
            return []
        cosines = self.vectors @ vector
        # Stable, and rows are in the order of the ids: so equals are, too.
        best = np.argsort(-cosines, kind="stable")[:most]
        return [Found(row=int(at) + 1, worth=float(cosines[at])) for at in best]

    def by_words(self, query: str, most: int) -> list[Found]:
        """The chunks that have words of the query, by BM25."""
        match = " OR ".join(self._telling(terms_of(query)))
        return [Found(row=row, worth=-rank) for row, rank in self._matching(match, most)]

    def by_phrases(self, phrases: Sequence[str], most: int) -> list[Found]:
        """The chunks in which the phrases stand word for word, by how often."""
        counts: dict[int, int] = {}
        for phrase in phrases:
            # Stems match more than the phrase itself, so the text has the last word.
            for row, _ in self._matching(whole_phrase(phrase), 2 * most):
                held = occurrences(phrase, self.chunk(row).passage)
                counts[row] = counts.get(row, 0) + held
        found = [Found(row=row, worth=float(count)) for row, count in counts.items() if count]
        return sorted(found, key=lambda each: (-each.worth, each.row))[:most]

    def _telling(self, terms: list[str]) -> list[str]:
        """Without words that half of a large index has: BM25 weighs them at nothing anyway."""
        if self.size < _LARGE:
            return terms
        return [term for term in terms if self._having(term) <= self.size / 2] or terms

    def _having(self, term: str) -> int:
        (count,) = self.db.execute(_COUNT, (term,)).fetchone()
        return count

    def _matching(self, match: str, most: int) -> list[tuple[int, float]]:
        if not match:
            return []
        return self.db.execute(_MATCH, (match, most)).fetchall()
