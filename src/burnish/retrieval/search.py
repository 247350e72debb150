"""Search an index by meaning, by words, word for word, or by all of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from burnish.core.errors import ConfigError, Problem
from burnish.core.protocols import Effects
from burnish.retrieval.chunks import Chunk, phrases
from burnish.retrieval.embedders import Embedder, as_unit_rows
from burnish.retrieval.index import Index, ScoredRow


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
