"""Searching an index: by meaning, by words, word for word, or by all of them together."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from burnish.core.errors import ConfigError, Problem
from burnish.core.protocols import Effects
from burnish.retrieval.chunks import Chunk, phrases
from burnish.retrieval.embedders import Embedder, as_unit_rows
from burnish.retrieval.index import Index, ScoredRow


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Rows from the best on, and how much this ranking counts."""

    rows: Sequence[int]
    weight: float


def fuse(rankings: Sequence[Ranking], *, rrf_k: float) -> Mapping[int, float]:
    """The fused score of each row: the sum of weight / (k + rank), 1 for the first in all.

    Weights are taken in proportion, so that leaving a ranking out keeps the scale.
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


_SearchMode: TypeAlias = Literal["semantic", "keyword", "hybrid"]
_LEAST_FETCHED = 20


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """How to search; every one of these is looked at in every search of its mode."""

    mode: _SearchMode = "hybrid"
    top_k: int = 10
    min_score: float | None = None
    """A hit below it is left out, after the cut to `top_k`."""
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
    def fetched(self) -> int:
        """How far down each ranking is read before they are fused."""
        return max(4 * self.top_k, _LEAST_FETCHED)


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A chunk that was found, and how well it fits: 1 is best."""

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
    """The best chunks, the best first; equals in the order of their ids.

    Without an embedder, meaning is out of reach: `semantic` becomes `keyword`, and `hybrid`
    does without that leg. The notes of the index say so.
    """
    if not query.strip() or not index.size:
        return []
    # Half a character, which a model may well write, has no form that could be sent or kept.
    clean = query.encode("utf-8", "replace").decode()
    legs = _Legs(index=index, query=clean, settings=settings)
    meant = await legs.semantic(embedder, effects) if legs.wants_meaning(embedder) else None
    scores = legs.scores(meant)
    best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[: settings.top_k]
    lowest = settings.min_score
    return [
        Hit(chunk=index.chunk(row), score=score)
        for row, score in best
        if lowest is None or score >= lowest
    ]


@dataclass(frozen=True, kw_only=True)
class _Legs:
    """The rankings of one search."""

    index: Index
    query: str
    settings: SearchSettings

    def wants_meaning(self, embedder: Embedder | None) -> bool:
        """Whether the query has to be embedded, which may cost."""
        weighed = self.settings.mode == "hybrid" and self.settings.semantic_weight > 0
        able = embedder is not None and self.index.vectors is not None
        return able and (weighed or self.settings.mode == "semantic")

    async def semantic(self, embedder: Embedder | None, effects: Effects) -> list[ScoredRow]:
        """The chunks nearest in meaning."""
        assert embedder is not None
        (vector,) = as_unit_rows(await embedder.embed([self.query], effects=effects))
        self.index.require_fit(len(vector))
        return self.index.by_meaning(vector, self.settings.fetched)

    def scores(self, meant: list[ScoredRow] | None) -> Mapping[int, float]:
        """The score of each row that was found."""
        if self.settings.mode == "hybrid":
            return self._fused(meant)
        if meant is not None:
            return {each.row: min(1.0, max(0.0, each.worth)) for each in meant}
        return _beside_the_best(self.index.by_words(self.query, self.settings.fetched))

    def _fused(self, meant: list[ScoredRow] | None) -> Mapping[int, float]:
        settings, most = self.settings, self.settings.fetched
        rankings = [_ranking(meant, settings.semantic_weight)] if meant is not None else []
        # Where meaning was all that counted and is out of reach, words are better than nothing.
        alone = not rankings and not (settings.keyword_weight or settings.exact_weight)
        if settings.keyword_weight or alone:
            rows = self.index.by_words(self.query, most)
            rankings.append(_ranking(rows, settings.keyword_weight or 1.0))
        if settings.exact_weight:
            rows = self.index.by_phrases(phrases(self.query), most)
            # A question seldom stands in a text word for word; that is no reason to score less.
            rankings += [_ranking(rows, settings.exact_weight)] if rows else []
        return fuse(rankings, rrf_k=settings.rrf_k)


def _ranking(rows: list[ScoredRow], weight: float) -> Ranking:
    return Ranking(rows=[each.row for each in rows], weight=weight)


def _beside_the_best(rows: list[ScoredRow]) -> Mapping[int, float]:
    """BM25 has no scale of its own: the best is 1 and the others are in proportion."""
    best = max((each.worth for each in rows), default=0.0)
    if best <= 0:
        return {each.row: 1.0 for each in rows}
    return {each.row: max(0.0, each.worth / best) for each in rows}
