"""Embedders turn texts into vectors, so that texts with the same meaning are close together.

The local one is all-MiniLM-L6-v2 by onnxruntime. It embeds texts one by one: without padding that
is as fast as in batches, and a text's vector cannot depend on its neighbours.
"""

import asyncio
import importlib
import os
from array import array
from collections.abc import Sequence
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

WITHOUT = "without an embedding model, the search is by keywords only"


class Embedder(Protocol):
    """Turns texts into vectors of one length.

    Raises ModelUnavailable, ModelRejected or ModelRefused, as models do.
    """

    @property
    def identity(self) -> str:
        """What its vectors depend on; vectors of different identities cannot be compared."""
        ...

    def check(self) -> None:
        """Raise ModelRefused if it cannot be used, without making a call."""
        ...

    async def embed(self, texts: Sequence[str], *, effects: Effects) -> list[Vector]:
        """A vector for each text, in order."""
        ...

    async def close(self) -> None:
        """Release connections and memory."""
        ...


def as_unit_rows(vectors: Sequence[Vector]) -> "NDArray[np.float32]":
    """Stack vectors as the rows of a matrix, each of length 1; one of length 0 stays so."""
    import numpy as np

    if len({len(vector) for vector in vectors}) > 1:
        raise ModelRefused("the embedding model returned vectors of different lengths")
    matrix = np.array(vectors, dtype=np.float32).reshape(len(vectors), -1)
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix / np.where(lengths > 0, lengths, 1).astype(np.float32)


MINILM = "minilm"
_WINDOW = 254
"""Tokens at a time, without the two that mark the ends: what the model was trained with."""


@dataclass(frozen=True, kw_only=True)
class MiniLmEmbedder:
    """Embeds on this machine. A text longer than the model's window is read window by window."""

    dimensions: ClassVar[int] = 384
    _loading: Lock = field(default_factory=Lock, repr=False, compare=False)

    @property
    def identity(self) -> str:
        return ":".join([MINILM, *(carried.sha256[:12] for carried in carried_files(MINILM))])

    def check(self) -> None:
        """Raise ModelRefused where a package or a file is missing."""
        for module in ("onnxruntime", "tokenizers"):
            _required(module)
        require_embedding(MINILM)

    async def embed(self, texts: Sequence[str], *, effects: Effects) -> list[Vector]:
        """Compute the vectors locally; nothing is paid, so nothing is journaled."""
        del effects
        return await asyncio.to_thread(self._embed, list(texts))

    async def close(self) -> None:
        """Unload the model; it is loaded again when needed."""
        self.__dict__.pop("_model", None)

    def _embed(self, texts: list[str]) -> list[Vector]:
        with self._loading:
            model = self._model
        if len(texts) == 1:
            return [model.vector(texts[0])]
        # The engine releases the GIL while it computes, so texts are embedded side by side.
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
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
        first, *inner, last = self._tokenizer.encode(clean).ids
        states = [
            self._states([first, *inner[start : start + _WINDOW], last])
            for start in range(0, max(1, len(inner)), _WINDOW)
        ]
        mean = np.concatenate(states).mean(axis=0)
        return array("f", as_unit_rows([mean])[0].tobytes())

    def _states(self, ids: list[int]) -> Any:
        import numpy as np

        tokens = np.array([ids], dtype=np.int64)
        fed = {
            "input_ids": tokens,
            "attention_mask": np.ones_like(tokens),
            "token_type_ids": np.zeros_like(tokens),
        }
        return self._session.run(None, fed)[0][0]


def _required(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        message = f"the embedding model {MINILM} needs {module}, which is not installed"
        remedy = "install it: pip install 'burnish[embeddings]'"
        raise ModelRefused(message, remedy=remedy) from error


def usual_embedder() -> Embedder | None:
    """The local model if it was pulled and can run, else None."""
    embedder = MiniLmEmbedder()
    try:
        embedder.check()
    except ModelRefused:
        return None
    return embedder
