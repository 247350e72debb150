"""Embedders turn texts into vectors, so that texts with the same meaning are close together.

One asks an OpenAI-compatible endpoint. The local one is all-MiniLM-L6-v2 by onnxruntime. It embeds
texts one by one: without padding that is as fast as in batches, and a text's vector cannot depend
on its neighbours.
"""

import asyncio
import importlib
import math
import os
from array import array
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias, cast

from pydantic import BaseModel, ValidationError

from burnish.core.cases import Usage
from burnish.core.comparisons import one_line
from burnish.core.content import Json, NoneOrMore, codec, digest, short_id
from burnish.core.errors import ConfigError, Problem
from burnish.core.money import Spend
from burnish.core.protocols import Call, Effects, Receipt
from burnish.journal.limits import Limits
from burnish.journal.outages import RetryPolicy
from burnish.models.chat import RETRIES, EndpointAttempts, ModelClient, Prices
from burnish.models.embedded.files import carried_files, require_embedding
from burnish.models.endpoints import (
    NO_KEY,
    Endpoint,
    EndpointErrors,
    endpoint_of,
    failures,
    http_client,
)
from burnish.models.errors import ModelError, ModelRefused, ModelRejected, ModelUnavailable, inside
from burnish.models.providers import all_providers
from burnish.models.references import ModelRef
from burnish.system.extras import install_command

if TYPE_CHECKING:
    import numpy as np
    from httpx2 import AsyncClient, HTTPStatusError
    from numpy.typing import NDArray
    from pydantic_ai.exceptions import ModelHTTPError

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


_MINILM = "minilm"
_WINDOW = 254
"""Tokens at a time, without the two that mark the ends: what the model was trained with."""


@dataclass(frozen=True, kw_only=True)
class MiniLmEmbedder:
    """Embeds on this machine. A text longer than the model's window is read window by window."""

    dimensions: ClassVar[int] = 384
    _loading: Lock = field(default_factory=Lock, repr=False, compare=False)

    @property
    def identity(self) -> str:
        return ":".join([_MINILM, *(carried.sha256[:12] for carried in carried_files(_MINILM))])

    def check(self) -> None:
        """Raise ModelRefused where a package or a file is missing."""
        for module in ("onnxruntime", "tokenizers"):
            _required(module)
        require_embedding(_MINILM)

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
        return _Model(*require_embedding(_MINILM))


class _Model:
    """The engine and the tokenizer. They have no types, so their objects are Any."""

    def __init__(self, model: Path, tokenizer: Path) -> None:
        engine, tokenizers = _required("onnxruntime"), _required("tokenizers")
        options = engine.SessionOptions()
        # One thread: more of them wait for each other on a busy machine.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            # Both read their file whole; neither maps it.
            self._session: Any = engine.InferenceSession(
                str(model), options, providers=["CPUExecutionProvider"]
            )
            self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(tokenizer))
        except Exception as error:  # neither has a class of error that is only about files
            message = f"{model} or {tokenizer.name} cannot be loaded: {one_line(str(error))}"
            remedy = f"fetch them again: `burnish models pull {_MINILM}`"
            raise ModelRefused(message, remedy=remedy) from error
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
        message = f"the embedding model {_MINILM} needs {module}, which is not installed"
        remedy = f"install it: {install_command('embeddings')}"
        raise ModelRefused(message, remedy=remedy) from error


def usual_embedder() -> Embedder | None:
    """The local model if it was pulled and can run, else None."""
    embedder = MiniLmEmbedder()
    try:
        embedder.check()
    except ModelRefused:
        return None
    return embedder


_BATCH = 64
"""Texts in one request."""


class _Item(BaseModel):
    embedding: list[float]
    index: int | None = None


class _TokenCount(BaseModel):
    prompt_tokens: NoneOrMore = 0


class _Answer(BaseModel):
    data: list[_Item]
    usage: _TokenCount | None = None
    model: str | None = None


def _read_answer(body: bytes, texts: int) -> _Answer | None:
    """The vectors in the order of the texts; None where the answer does not fit them."""
    try:
        answer = _Answer.model_validate_json(body)
    except ValidationError:
        return None
    answer.data.sort(key=lambda item: item.index or 0)
    lengths = {len(item.embedding) for item in answer.data}
    finite = all(math.isfinite(number) for item in answer.data for number in item.embedding)
    if len(answer.data) != texts or len(lengths) != 1 or 0 in lengths or not finite:
        return None
    return answer


def _headers(ref: ModelRef, place: Endpoint) -> dict[str, str]:
    if place.key == NO_KEY:
        return {}
    if ref.row.protocol == "azure":
        return {"api-key": place.key}
    return {"Authorization": f"Bearer {place.key}"}


def _model_error(ref: ModelRef, error: "HTTPStatusError") -> "ModelHTTPError":
    """The error that pydantic-ai would raise for this status."""
    from pydantic_ai import exceptions

    body = _error_document(error)
    code = str(body.get("code") or body.get("type") or "")
    status = error.response.status_code
    category = None
    if code in {"insufficient_quota", "billing_hard_limit_reached"} or status == 402:
        category = exceptions.ModelQuotaExceededError
    elif status in {401, 403}:
        category = exceptions.ModelAuthenticationError
    elif code == "model_not_found":
        category = exceptions.ModelNotFoundError
    model_error = exceptions.ModelHTTPError.for_category(
        category,
        status_code=status,
        model_name=ref.name,
        body=body or None,
        headers=dict(error.response.headers),
        provider_error_code=code or None,
    )
    model_error.__cause__ = error
    return model_error


def _error_document(error: "HTTPStatusError") -> Mapping[str, object]:
    try:
        content = inside(cast("object", error.response.json()))
    except (ValueError, RecursionError):
        return {}
    if isinstance(content, str):
        return {"message": content}
    return cast("Mapping[str, object]", content) if isinstance(content, Mapping) else {}


@dataclass(frozen=True, kw_only=True)
class _Embedded:
    """How a call ended, as the journal keeps it: vectors, or why there are none."""

    vectors: tuple[str, ...] = ()
    """Each one's 32-bit floats in base64: a third of their digits, and exact."""
    trouble: Literal["", "unavailable", "rejected"] = ""
    message: str = ""
    attempts: int = 1


@dataclass(frozen=True, kw_only=True)
class EndpointEmbedder:
    """One embedding model behind HTTP. Used inside one event loop; `close` it there."""

    ref: ModelRef
    dimensions: int | None = None
    """The length of its vectors, where the model offers a choice."""
    prices: Prices = field(default_factory=Prices)
    limits: Limits = field(default_factory=Limits)
    retries: RetryPolicy = RETRIES
    _clients: dict[str, "AsyncClient"] = field(
        default_factory=dict[str, "AsyncClient"], repr=False, compare=False
    )
    """A connection pool for each address."""

    @property
    def identity(self) -> str:
        ref = self.ref
        parts: Json = [ref.provider, ref.name, ref.location, ref.api_version, self.dimensions]
        return f"{ref.label}:{short_id(parts)}"

    def check(self) -> None:
        """Raise ModelRefused where an extra, a key or the address is missing."""
        endpoint_of(self.ref)

    async def embed(self, texts: Sequence[str], *, effects: Effects) -> list[Vector]:
        """The vectors, in batches; each batch is an effect.

        Raises ModelUnavailable or ModelRejected when there are none, on a replay too.
        """
        batches = [texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH)]
        answers = await asyncio.gather(*(self._ask(batch, effects) for batch in batches))
        return [array("f", b64decode(vector)) for answer in answers for vector in answer.vectors]

    async def reach(self) -> Spend:
        """Ask for the vector of one word, outside of any journal; what it cost.

        Raises ModelError if there is none.
        """
        attempts = EndpointAttempts(self.ref, self.limits, self.retries)
        return self._spend(await attempts.make(lambda: self._post(["ok"])))

    async def close(self) -> None:
        clients = list(self._clients.values())
        self._clients.clear()
        for client in clients:
            await client.aclose()

    async def _ask(self, texts: Sequence[str], effects: Effects) -> _Embedded:
        request: dict[str, Json] = {"model": self.identity, "texts": len(texts)}
        if len(texts) == 1:
            request["text"] = texts[0]
        else:
            request["digest"] = digest([*texts])
        call = Call(
            kind="embed",
            request=request,
            codec=codec(_Embedded),
            estimate=Spend(calls=1, unpriced=0 if self.prices.known(self.ref) else 1),
        )
        answer = await effects.once(call, lambda _: self._perform(texts))
        if not answer.trouble:
            return answer
        if answer.trouble == "rejected":
            raise ModelRejected(answer.message)
        suffix = f" (after {answer.attempts} attempts)" if answer.attempts > 1 else ""
        raise ModelUnavailable(f"{answer.message}{suffix}")

    async def _perform(self, texts: Sequence[str]) -> Receipt[_Embedded]:
        attempts = EndpointAttempts(self.ref, self.limits, self.retries)
        try:
            answer = await attempts.make(lambda: self._post(texts))
        except ModelUnavailable as error:
            gone = _Embedded(trouble="unavailable", message=str(error), attempts=attempts.count)
            return Receipt(value=gone, spend=Spend(calls=1), missing=True)
        except ModelRejected as error:
            refused = _Embedded(trouble="rejected", message=str(error), attempts=attempts.count)
            return Receipt(value=refused, spend=Spend(calls=1))
        vectors = tuple(
            b64encode(array("f", item.embedding).tobytes()).decode() for item in answer.data
        )
        embedded = _Embedded(vectors=vectors, attempts=attempts.count)
        return Receipt(value=embedded, spend=self._spend(answer))

    def _spend(self, answer: _Answer) -> Spend:
        """What an answer cost."""
        tokens = answer.usage.prompt_tokens if answer.usage else 0
        usage = Usage(requests=1, input_tokens=tokens)
        cost = self.prices.nano_usd(self.ref, usage, answer.model or "")
        return Spend(
            calls=1, tokens_in=tokens, nano_usd=cost or 0, unpriced=1 if cost is None else 0
        )

    async def _post(self, texts: Sequence[str]) -> _Answer:
        """One attempt. Raises ModelUnavailable, ModelRejected or ModelRefused."""
        place = endpoint_of(self.ref)
        body: dict[str, Json] = {"model": self.ref.name, "input": [*texts]}
        if self.dimensions is not None:
            body["dimensions"] = self.dimensions
        content = await self._content(place, body)
        # Raised here, not where it was caught: the error behind it may carry the key along.
        if not isinstance(content, bytes):
            raise content
        answer = _read_answer(content, len(texts))
        if answer is None:
            message = f"{self.ref.label} at {place.address} did not return a list of vectors"
            raise ModelUnavailable(f"{message}; is it a model for embeddings?", cause="unusable")
        return answer

    async def _content(self, place: Endpoint, body: Mapping[str, Json]) -> bytes | ModelError:
        """The body of the answer, or what went wrong."""
        import httpx2

        errors = EndpointErrors(ref=self.ref, endpoint=place)
        if place.address not in self._clients:
            self._clients[place.address] = http_client(place)
        try:
            async with asyncio.timeout(self.ref.settings.timeout):
                response = await self._clients[place.address].post(
                    place.url_for(self.ref.name, "embeddings"),
                    json=body,
                    headers=_headers(self.ref, place),
                )
            response.raise_for_status()
        except TimeoutError:
            return errors.timed_out()
        except httpx2.HTTPStatusError as error:
            return errors.of(_model_error(self.ref, error))
        except failures() as error:
            return errors.of(error)
        return response.content


def embedder_for(client: ModelClient, *, dimensions: int | None = None) -> Embedder:
    """The embedder that a reference names: `local:minilm`, or a model behind an endpoint."""
    ref = client.ref
    if ref.row.has_embeddings:
        return EndpointEmbedder(
            ref=ref,
            dimensions=dimensions,
            prices=client.prices,
            limits=client.limits,
            retries=client.retries,
        )
    if (ref.provider, ref.name) != ("local", _MINILM):
        names = ", ".join(row.written for row in all_providers() if row.has_embeddings)
        message = "burnish does not know any embeddings of this provider"
        remedy = f"use a model of an OpenAI-compatible endpoint ({names}), or local:minilm"
        raise ConfigError([Problem(where=ref.label, message=message, remedy=remedy)])
    if dimensions not in (None, MiniLmEmbedder.dimensions):
        message = f"this model has {MiniLmEmbedder.dimensions} dimensions, not {dimensions}"
        remedy = "remove embedding_dimensions"
        raise ConfigError([Problem(where=ref.label, message=message, remedy=remedy)])
    return MiniLmEmbedder()
