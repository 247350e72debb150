"""Embedders: what turns texts into vectors, so that what means the same lies close together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from burnish.core.effects import Effects
from burnish.core.errors import ConfigError, Problem
from burnish.models.calling import ModelClient
from burnish.models.providers import all_providers
from burnish.models.references import ModelRef
from burnish.models.troubles import ModelRefused

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vector: TypeAlias = Sequence[float]

WITHOUT = "there is no embedding model: the search is by keywords only"


class Embedder(Protocol):
    """Turns texts into vectors of one length.

    Raises ModelUnavailable, ModelRejected or ModelRefused, as models do.
    """

    @property
    def identity(self) -> str:
        """What its vectors depend on; vectors of different identities cannot be compared."""
        ...

    def check(self) -> None:
        """Raise ModelRefused when it cannot be asked. Costs nothing and calls nobody."""
        ...

    async def embed(self, texts: Sequence[str], *, effects: Effects) -> list[Vector]:
        """A vector for each text, in order."""
        ...

    async def close(self) -> None:
        """Let go of connections and memory."""
        ...


def embedder_for(client: ModelClient, *, dimensions: int | None = None) -> Embedder:
    """The embedder that a reference names: `local:minilm`, or a model behind an endpoint."""
    from burnish.targets.retrieval.endpoint import EndpointEmbedder
    from burnish.targets.retrieval.minilm import NAME, MiniLmEmbedder

    ref = client.ref
    if ref.row.has_embeddings:
        return EndpointEmbedder.of(client, dimensions=dimensions)
    if (ref.provider, ref.name) != ("local", NAME):
        raise ConfigError([_no_embeddings(ref)])
    if dimensions not in (None, MiniLmEmbedder.dimensions):
        message = f"its vectors have {MiniLmEmbedder.dimensions} dimensions, not {dimensions}"
        remedy = "leave embedding_dimensions out"
        raise ConfigError([Problem(where=ref.label, message=message, remedy=remedy)])
    return MiniLmEmbedder()


def usual_embedder() -> Embedder | None:
    """The small model of this machine, where it was pulled and can run; else none."""
    from burnish.targets.retrieval.minilm import MiniLmEmbedder

    embedder = MiniLmEmbedder()
    try:
        embedder.check()
    except ModelRefused:
        return None
    return embedder


def as_unit_rows(vectors: Sequence[Vector]) -> "NDArray[np.float32]":
    """Vectors as the rows of a matrix, each of length 1; one of length 0 stays so."""
    import numpy as np

    if len({len(vector) for vector in vectors}) > 1:
        raise ModelRefused("the embedding model gave vectors of different lengths")
    matrix = np.array(vectors, dtype=np.float32).reshape(len(vectors), -1)
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix / np.where(lengths > 0, lengths, 1).astype(np.float32)


def _no_embeddings(ref: ModelRef) -> Problem:
    names = ", ".join(row.written for row in all_providers() if row.has_embeddings)
    return Problem(
        where=ref.label,
        message="burnish knows no embeddings of this provider",
        remedy=f"take a model of an OpenAI-compatible endpoint ({names}), or local:minilm",
    )
