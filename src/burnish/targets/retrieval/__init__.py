"""Retrieval: sources cut into chunks, kept in an index, searched by meaning and by words."""

from burnish.targets.retrieval.chunks import Chunk, SourceSettings
from burnish.targets.retrieval.embedders import Embedder, Vector
from burnish.targets.retrieval.endpoint import embedder_for
from burnish.targets.retrieval.index import Index
from burnish.targets.retrieval.indexes import Indexes
from burnish.targets.retrieval.minilm import usual_embedder
from burnish.targets.retrieval.searching import Hit, SearchSettings, search

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
