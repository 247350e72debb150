"""Embeddings from an OpenAI-compatible endpoint: journaled, retried, limited, priced.

And the choice between such an endpoint and the small model that runs here.
"""

import asyncio
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from burnish.core.codec import codec
from burnish.core.content import Json, digest, short_id
from burnish.core.effects import Call, Effects, Receipt
from burnish.core.errors import ConfigError, Problem
from burnish.core.money import Spend
from burnish.core.outcomes import Usage
from burnish.effects.limits import Limits
from burnish.effects.retries import RetryPolicy, retry
from burnish.models.chat import RETRIES, ModelClient
from burnish.models.endpoints import endpoint_of
from burnish.models.errors import ModelRejected, ModelUnavailable
from burnish.models.prices import Prices
from burnish.models.providers import all_providers
from burnish.models.references import ModelRef
from burnish.targets.retrieval.embedders import Embedder, Vector
from burnish.targets.retrieval.endpoint_answers import Embeddings
from burnish.targets.retrieval.endpoint_posts import EmbeddingPosts
from burnish.targets.retrieval.minilm import NAME as MINILM
from burnish.targets.retrieval.minilm import MiniLmEmbedder

BATCH = 64
"""Texts in one request."""


@dataclass(frozen=True, kw_only=True)
class Embedded:
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
    _posts: EmbeddingPosts = field(default_factory=EmbeddingPosts, repr=False, compare=False)

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
        told: Json = [ref.provider, ref.name, ref.base_url, ref.api_version, self.dimensions]
        return f"{ref.label}:{short_id(told)}"

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

    async def _ask(self, texts: Sequence[str], effects: Effects) -> Embedded:
        call = Call(
            kind="embed",
            request=self._request(texts),
            codec=codec(Embedded),
            estimate=Spend(calls=1, unpriced=0 if self.prices.known(self.ref) else 1),
        )
        answer = await effects.once(call, lambda _: self._perform(texts))
        if not answer.trouble:
            return answer
        if answer.trouble == "rejected":
            raise ModelRejected(answer.message)
        told = f" (after {answer.attempts} attempts)" if answer.attempts > 1 else ""
        raise ModelUnavailable(f"{answer.message}{told}")

    def _request(self, texts: Sequence[str]) -> Json:
        asked: dict[str, Json] = {"model": self.identity, "texts": len(texts)}
        if len(texts) == 1:
            return {**asked, "text": texts[0]}
        return {**asked, "digest": digest([*texts])}

    async def _perform(self, texts: Sequence[str]) -> Receipt[Embedded]:
        attempts = 0

        async def attempt(number: int) -> Embeddings:
            nonlocal attempts
            attempts = number
            async with self.limits.place(self.ref.endpoint):
                return await self._posts.post(self.ref, texts, self.dimensions)

        try:
            found = await retry(
                attempt,
                policy=self.retries,
                again=lambda error: isinstance(error, ModelUnavailable),
                asked=lambda error: getattr(error, "retry_after", None),
            )
        except ModelUnavailable as error:
            gone = Embedded(trouble="unavailable", message=str(error), attempts=attempts)
            return Receipt(value=gone, spend=Spend(calls=1), missing=True)
        except ModelRejected as error:
            refused = Embedded(trouble="rejected", message=str(error), attempts=attempts)
            return Receipt(value=refused, spend=Spend(calls=1))
        kept = tuple(b64encode(vector.tobytes()).decode() for vector in found.vectors)
        return Receipt(value=Embedded(vectors=kept, attempts=attempts), spend=self._spend(found))

    def _spend(self, found: Embeddings) -> Spend:
        usage = Usage(requests=1, input_tokens=found.tokens)
        cost = self.prices.nano_usd(self.ref, usage, found.model)
        unpriced = 1 if cost is None else 0
        return Spend(calls=1, tokens_in=found.tokens, nano_usd=cost or 0, unpriced=unpriced)


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(texts), BATCH):
        yield texts[start : start + BATCH]


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
