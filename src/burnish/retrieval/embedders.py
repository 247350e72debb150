"""Embedders: what turns texts into vectors, so that what means the same lies close together.

The small one runs here: all-MiniLM-L6-v2 by onnxruntime. Texts go through it one by one: without
padding that is as fast as in batches, and what a text gives cannot depend on its neighbours.
"""

import asyncio
import importlib
import os
from array import array
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from burnish.core.protocols import Effects
from burnish.models.embedded.files import carried_files, require_embedding
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


MINILM = "minilm"
_WINDOW = 254
"""Tokens at a time, beside the two that mark the ends: what the model was trained with."""


@dataclass(frozen=True, kw_only=True)
class MiniLmEmbedder:
    """Embeds on this machine. A text longer than the model's window is read window by window."""

    dimensions: ClassVar[int] = 384
    _loading: Lock = field(default_factory=Lock, repr=False, compare=False)

    @property
    def identity(self) -> str:
        """The files, by their content."""
        return ":".join([MINILM, *(carried.sha256[:12] for carried in carried_files(MINILM))])

    def check(self) -> None:
        """Raise ModelRefused where a package or a file is missing."""
        for module in ("onnxruntime", "tokenizers"):
            _required(module)
        require_embedding(MINILM)

    async def embed(self, texts: Sequence[str], *, effects: Effects) -> list[Vector]:
        """Computed here: nothing is paid, so nothing is journaled."""
        del effects
        return await asyncio.to_thread(self._embed, list(texts))

    async def close(self) -> None:
        """Let go of the model; it is loaded again when it is needed."""
        self.__dict__.pop("_model", None)

    def _embed(self, texts: list[str]) -> list[Vector]:
        with self._loading:
            model = self._model
        if len(texts) == 1:
            return [model.vector(texts[0])]
        with ThreadPoolExecutor(_workers()) as pool:
            return list(pool.map(model.vector, texts))

    @cached_property
    def _model(self) -> "_Model":
        return _Model(*require_embedding(MINILM))


class _Model:
    """The engine and the tokenizer. They have no types, so their objects are Any."""

    def __init__(self, model: Path, tokenizer: Path) -> None:
        engine, tokenizers = _required("onnxruntime"), _required("tokenizers")
        options = engine.SessionOptions()
        # One thread: more of them wait for each other on a busy machine.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session: Any = engine.InferenceSession(
            str(model), options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def vector(self, text: str) -> Vector:
        """The mean over all tokens of all windows, at length 1."""
        import numpy as np

        clean = text.encode("utf-8", "replace").decode()
        states = [self._states(window) for window in self._windows(clean)]
        mean = np.concatenate(states).mean(axis=0)
        return array("f", as_unit_rows([mean])[0].tobytes())

    def _windows(self, text: str) -> Iterator[list[int]]:
        first, *inner, last = self._tokenizer.encode(text).ids
        for start in range(0, max(1, len(inner)), _WINDOW):
            yield [first, *inner[start : start + _WINDOW], last]

    def _states(self, ids: list[int]) -> Any:
        import numpy as np

        tokens = np.array([ids], dtype=np.int64)
        fed = {
            "input_ids": tokens,
            "attention_mask": np.ones_like(tokens),
            "token_type_ids": np.zeros_like(tokens),
        }
        return self._session.run(None, fed)[0][0]


def _workers() -> int:
    """The engine leaves Python alone while it computes, so texts are embedded side by side."""
    return min(8, os.cpu_count() or 1)


def _required(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        message = f"the embedding model {MINILM} needs {module}, which is not installed"
        remedy = "install it: pip install 'burnish[embeddings]'"
        raise ModelRefused(message, remedy=remedy) from error


def usual_embedder() -> Embedder | None:
    """The small model of this machine, where it was pulled and can run; else none."""
    embedder = MiniLmEmbedder()
    try:
        embedder.check()
    except ModelRefused:
        return None
    return embedder
