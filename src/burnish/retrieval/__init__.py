"""Retrieval: cut sources into chunks, index them, and search by meaning and by words."""

from burnish.retrieval.chunks import Chunk, SourceSettings
from burnish.retrieval.embedders import Embedder, Vector, usual_embedder
from burnish.retrieval.endpoint import embedder_for
from burnish.retrieval.index import Index
from burnish.retrieval.indexes import Indexes
from burnish.retrieval.search import Hit, SearchSettings, search

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
