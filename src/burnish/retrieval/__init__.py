"""Retrieval: cut sources into chunks, index them, and search by meaning and by words."""

from burnish.retrieval.chunks import Chunk, SourceSettings
from burnish.retrieval.embedders import Embedder, Vector, embedder_for, usual_embedder
from burnish.retrieval.index import Hit, Index, Indexes, SearchSettings, search

__all__ = [
    "Chunk",
    "Embedder",
    "Hit",
    "Index",
    "Indexes",
    "SearchSettings",
    "SourceSettings",
    "Vector",
    "embedder_for",
    "search",
    "usual_embedder",
]
