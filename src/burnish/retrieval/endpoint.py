"""Embeddings from an OpenAI-compatible endpoint: journaled, retried, limited, priced.

And the choice between such an endpoint and the small model that runs here.
"""

import asyncio
import math
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, cast
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from burnish.core.content import Json, codec, digest, short_id
from burnish.core.errors import ConfigError, Problem
from burnish.core.money import Spend
from burnish.core.outcomes import Usage
from burnish.core.protocols import Call, Effects, Receipt
from burnish.journal.limits import Limits, RetryPolicy, retry
from burnish.models.chat import RETRIES, ModelClient
from burnish.models.endpoints import (
    NO_KEY,
    Endpoint,
    EndpointErrors,
    endpoint_of,
    failures,
    http_client,
)
from burnish.models.errors import ModelError, ModelRejected, ModelUnavailable, inside
from burnish.models.prices import Prices
from burnish.models.providers import all_providers
from burnish.models.references import ModelRef
from burnish.retrieval.embedders import MINILM, Embedder, MiniLmEmbedder, Vector

if TYPE_CHECKING:
    from httpx2 import AsyncClient, HTTPStatusError
    from pydantic_ai.exceptions import (
        ModelAuthenticationError,
        ModelHTTPError,
        ModelNotFoundError,
        ModelQuotaExceededError,
    )

    Category: TypeAlias = (
        type[ModelQuotaExceededError] | type[ModelAuthenticationError] | type[ModelNotFoundError]
    )


_BATCH = 64
"""Texts in one request."""
_QUOTA = {"insufficient_quota", "billing_hard_limit_reached"}


@dataclass(frozen=True, kw_only=True)
class _Embeddings:
    """What an endpoint gave for some texts."""

    vectors: Sequence["array[float]"]
    tokens: int = 0
    model: str = ""
    """What the endpoint says it is."""


class _Item(BaseModel):
    embedding: list[float]
    index: int | None = None


class _Used(BaseModel):
    prompt_tokens: int = 0


class _Answer(BaseModel):
    data: list[_Item]
    usage: _Used | None = None
    model: str | None = None


def _read_answer(body: bytes, texts: int) -> _Embeddings | None:
    """The vectors in the order of the texts; None where the answer does not fit them."""
    try:
        answer = _Answer.model_validate_json(body)
    except ValidationError:
        return None
    items = sorted(answer.data, key=lambda item: item.index or 0)
    lengths = {len(item.embedding) for item in items}
    finite = all(math.isfinite(number) for item in items for number in item.embedding)
    if len(items) != texts or len(lengths) != 1 or 0 in lengths or not finite:
        return None
    return _Embeddings(
        vectors=[array("f", item.embedding) for item in items],
        tokens=answer.usage.prompt_tokens if answer.usage else 0,
        model=answer.model or "",
    )


@dataclass(frozen=True, kw_only=True)
class _EmbeddingPosts:
    """Posts requests, over one connection pool an address."""

    _clients: dict[str, "AsyncClient"] = field(default_factory=dict[str, "AsyncClient"])

    async def post(
        self, ref: ModelRef, texts: Sequence[str], dimensions: int | None
    ) -> _Embeddings:
        """One attempt. Raises ModelUnavailable, ModelRejected or ModelRefused."""
        place = endpoint_of(ref)
        body: dict[str, Json] = {"model": ref.name, "input": [*texts]}
        if dimensions is not None:
            body["dimensions"] = dimensions
        outcome = await self._attempt(ref, place, body)
        # Raised here, not where it was caught: the error behind it may carry the key along.
        if not isinstance(outcome, bytes):
            raise outcome
        embeddings = _read_answer(outcome, len(texts))
        if embeddings is None:
            message = f"{ref.label} at {place.address} gave something that is no list of vectors"
            raise ModelUnavailable(f"{message}; is it a model for embeddings?")
        return embeddings

    async def close(self) -> None:
        """Close every connection."""
        clients = list(self._clients.values())
        self._clients.clear()
        for client in clients:
            await client.aclose()

    async def _attempt(
        self, ref: ModelRef, place: Endpoint, body: Mapping[str, Json]
    ) -> bytes | ModelError:
        """The body of the answer, or what went wrong."""
        import httpx2

        blame = EndpointErrors(ref=ref, endpoint=place)
        try:
            async with asyncio.timeout(ref.settings.timeout):
                response = await self._client(place).post(
                    _url(ref, place), json=body, headers=_headers(ref, place)
                )
            response.raise_for_status()
        except TimeoutError:
            return blame.timed_out()
        except httpx2.HTTPStatusError as error:
            return blame.of(_of_status(ref, error))
        except failures() as error:
            return blame.of(error)
        return response.content

    def _client(self, place: Endpoint) -> "AsyncClient":
        if place.address not in self._clients:
            self._clients[place.address] = http_client(place)
        return self._clients[place.address]


def _url(ref: ModelRef, place: Endpoint) -> str:
    """Azure's dated addresses name the deployment and the version."""
    if place.api_version:
        deployment = quote(ref.name, safe="")
        url = place.url(f"openai/deployments/{deployment}/embeddings")
        return f"{url}?api-version={quote(place.api_version)}"
    return place.url("embeddings")


def _headers(ref: ModelRef, place: Endpoint) -> dict[str, str]:
    if place.key == NO_KEY:
        return {}
    if ref.row.protocol == "azure":
        return {"api-key": place.key}
    return {"Authorization": f"Bearer {place.key}"}


def _of_status(ref: ModelRef, error: "HTTPStatusError") -> "ModelHTTPError":
    """The failure in the words that the wire's own judgement is made from."""
    from pydantic_ai.exceptions import ModelHTTPError

    body = _document(error)
    code = str(body.get("code") or body.get("type") or "")
    status = error.response.status_code
    made = ModelHTTPError.for_category(
        _category(status, code),
        status_code=status,
        model_name=ref.name,
        body=body or None,
        headers=dict(error.response.headers),
        provider_error_code=code or None,
    )
    made.__cause__ = error
    return made


def _category(status: int, code: str) -> "Category | None":
    from pydantic_ai import exceptions

    if code in _QUOTA or status == 402:
        return exceptions.ModelQuotaExceededError
    if status in {401, 403}:
        return exceptions.ModelAuthenticationError
    return exceptions.ModelNotFoundError if code == "model_not_found" else None


def _document(error: "HTTPStatusError") -> Mapping[str, object]:
    try:
        content = inside(cast("object", error.response.json()))
    except ValueError:
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
    """How long its vectors shall be, where the model offers a choice."""
    prices: Prices = field(default_factory=Prices)
    limits: Limits = field(default_factory=Limits)
    retries: RetryPolicy = RETRIES
    _posts: _EmbeddingPosts = field(default_factory=_EmbeddingPosts, repr=False, compare=False)

    @classmethod
    def of(cls, client: ModelClient, *, dimensions: int | None = None) -> "EndpointEmbedder":
        """With the prices, limits and retries of a client of the same model."""
        return cls(
            ref=client.ref,
            dimensions=dimensions,
            prices=client.prices,
            limits=client.limits,
            retries=client.retries,
        )

    @property
    def identity(self) -> str:
        """The model, where it is, and how long its vectors are."""
        ref = self.ref
        parts: Json = [ref.provider, ref.name, ref.base_url, ref.api_version, self.dimensions]
        return f"{ref.label}:{short_id(parts)}"

    def check(self) -> None:
        """Raise ModelRefused where an extra, a key or the address is missing."""
        endpoint_of(self.ref)

    async def embed(self, texts: Sequence[str], *, effects: Effects) -> list[Vector]:
        """The vectors, in batches; each batch is an effect.

        Raises ModelUnavailable or ModelRejected when there are none, on a replay too.
        """
        answers = await asyncio.gather(*(self._ask(batch, effects) for batch in _batches(texts)))
        return [array("f", b64decode(vector)) for answer in answers for vector in answer.vectors]

    async def close(self) -> None:
        """Close every connection."""
        await self._posts.close()

    async def _ask(self, texts: Sequence[str], effects: Effects) -> _Embedded:
        call = Call(
            kind="embed",
            request=self._request(texts),
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

    def _request(self, texts: Sequence[str]) -> Json:
        request: dict[str, Json] = {"model": self.identity, "texts": len(texts)}
        if len(texts) == 1:
            return {**request, "text": texts[0]}
        return {**request, "digest": digest([*texts])}

    async def _perform(self, texts: Sequence[str]) -> Receipt[_Embedded]:
        attempts = 0

        async def attempt(number: int) -> _Embeddings:
            nonlocal attempts
            attempts = number
            async with self.limits.place(self.ref.endpoint):
                return await self._posts.post(self.ref, texts, self.dimensions)

        try:
            embeddings = await retry(
                attempt,
                policy=self.retries,
                again=lambda error: isinstance(error, ModelUnavailable),
                requested_wait=lambda error: getattr(error, "retry_after", None),
            )
        except ModelUnavailable as error:
            gone = _Embedded(trouble="unavailable", message=str(error), attempts=attempts)
            return Receipt(value=gone, spend=Spend(calls=1), missing=True)
        except ModelRejected as error:
            refused = _Embedded(trouble="rejected", message=str(error), attempts=attempts)
            return Receipt(value=refused, spend=Spend(calls=1))
        vectors = tuple(b64encode(vector.tobytes()).decode() for vector in embeddings.vectors)
        return Receipt(
            value=_Embedded(vectors=vectors, attempts=attempts), spend=self._spend(embeddings)
        )

    def _spend(self, embeddings: _Embeddings) -> Spend:
        usage = Usage(requests=1, input_tokens=embeddings.tokens)
        cost = self.prices.nano_usd(self.ref, usage, embeddings.model)
        unpriced = 1 if cost is None else 0
        return Spend(calls=1, tokens_in=embeddings.tokens, nano_usd=cost or 0, unpriced=unpriced)


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(texts), _BATCH):
        yield texts[start : start + _BATCH]


def embedder_for(client: ModelClient, *, dimensions: int | None = None) -> Embedder:
    """The embedder that a reference names: `local:minilm`, or a model behind an endpoint."""
    ref = client.ref
    if ref.row.has_embeddings:
        return EndpointEmbedder.of(client, dimensions=dimensions)
    if (ref.provider, ref.name) != ("local", MINILM):
        raise ConfigError([_no_embeddings(ref)])
    if dimensions not in (None, MiniLmEmbedder.dimensions):
        message = f"its vectors have {MiniLmEmbedder.dimensions} dimensions, not {dimensions}"
        remedy = "leave embedding_dimensions out"
        raise ConfigError([Problem(where=ref.label, message=message, remedy=remedy)])
    return MiniLmEmbedder()


def _no_embeddings(ref: ModelRef) -> Problem:
    names = ", ".join(row.written for row in all_providers() if row.has_embeddings)
    return Problem(
        where=ref.label,
        message="burnish knows no embeddings of this provider",
        remedy=f"take a model of an OpenAI-compatible endpoint ({names}), or local:minilm",
    )
