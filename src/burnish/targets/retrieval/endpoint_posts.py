"""One request for embeddings: where it goes, what comes back, what its failure means."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, cast
from urllib.parse import quote

from burnish.core.content import Json
from burnish.models.endpoints import (
    NO_KEY,
    Endpoint,
    EndpointErrors,
    endpoint_of,
    failures,
    http_client,
)
from burnish.models.errors import ModelError, ModelUnavailable, inside
from burnish.models.references import ModelRef
from burnish.targets.retrieval.endpoint_answers import Embeddings, read_answer

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

_QUOTA = {"insufficient_quota", "billing_hard_limit_reached"}


@dataclass(frozen=True, kw_only=True)
class EmbeddingPosts:
    """Posts requests, over one connection pool an address."""

    _clients: dict[str, "AsyncClient"] = field(default_factory=dict[str, "AsyncClient"])

    async def post(self, ref: ModelRef, texts: Sequence[str], dimensions: int | None) -> Embeddings:
        """One attempt. Raises ModelUnavailable, ModelRejected or ModelRefused."""
        place = endpoint_of(ref)
        body: dict[str, Json] = {"model": ref.name, "input": [*texts]}
        if dimensions is not None:
            body["dimensions"] = dimensions
        outcome = await self._attempt(ref, place, body)
        # Raised here, not where it was caught: the error behind it may carry the key along.
        if not isinstance(outcome, bytes):
            raise outcome
        found = read_answer(outcome, len(texts))
        if found is None:
            message = f"{ref.label} at {place.address} gave something that is no list of vectors"
            raise ModelUnavailable(f"{message}; is it a model for embeddings?")
        return found

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
        found = inside(cast("object", error.response.json()))
    except ValueError:
        return {}
    if isinstance(found, str):
        return {"message": found}
    return cast("Mapping[str, object]", found) if isinstance(found, Mapping) else {}
