"""Embedders: what turns texts into vectors, so that what means the same lies close together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from burnish.core.effects import Effects
from burnish.models.errors import ModelRefused

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


def as_unit_rows(vectors: Sequence[Vector]) -> "NDArray[np.float32]":
    """Vectors as the rows of a matrix, each of length 1; one of length 0 stays so."""
    import numpy as np

    if len({len(vector) for vector in vectors}) > 1:
        raise ModelRefused("the embedding model gave vectors of different lengths")
    matrix = np.array(vectors, dtype=np.float32).reshape(len(vectors), -1)
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix / np.where(lengths > 0, lengths, 1).astype(np.float32)
