"""Weighted reciprocal-rank fusion: several rankings become one, with scores in [0, 1]."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


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
