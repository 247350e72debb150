"""Embeddings from an OpenAI-compatible endpoint, and the choice between it and the local model."""

import asyncio
import math
from array import array
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from burnish.core.content import Json, NoneOrMore, codec, digest, short_id
from burnish.core.errors import ConfigError, Problem
from burnish.core.money import Spend
from burnish.core.outcomes import Usage
from burnish.core.protocols import Call, Effects, Receipt
from burnish.journal.limits import Limits, RetryPolicy
from burnish.models.chat import RETRIES, EndpointAttempts, ModelClient
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
    from pydantic_ai.exceptions import ModelHTTPError


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
        parts: Json = [ref.provider, ref.name, ref.base_url, ref.api_version, self.dimensions]
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
        attempts = EndpointAttempts(self.ref.endpoint, self.limits, self.retries)
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
        tokens = answer.usage.prompt_tokens if answer.usage else 0
        usage = Usage(requests=1, input_tokens=tokens)
        cost = self.prices.nano_usd(self.ref, usage, answer.model or "")
        return Receipt(
            value=_Embedded(vectors=vectors, attempts=attempts.count),
            spend=Spend(
                calls=1, tokens_in=tokens, nano_usd=cost or 0, unpriced=1 if cost is None else 0
            ),
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
            raise ModelUnavailable(f"{message}; is it a model for embeddings?")
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
                    _url(self.ref, place), json=body, headers=_headers(self.ref, place)
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
    if (ref.provider, ref.name) != ("local", MINILM):
        names = ", ".join(row.written for row in all_providers() if row.has_embeddings)
        message = "burnish does not know any embeddings of this provider"
        remedy = f"use a model of an OpenAI-compatible endpoint ({names}), or local:minilm"
        raise ConfigError([Problem(where=ref.label, message=message, remedy=remedy)])
    if dimensions not in (None, MiniLmEmbedder.dimensions):
        message = f"this model has {MiniLmEmbedder.dimensions} dimensions, not {dimensions}"
        remedy = "remove embedding_dimensions"
        raise ConfigError([Problem(where=ref.label, message=message, remedy=remedy)])
    return MiniLmEmbedder()
