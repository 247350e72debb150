"""Models behind HTTP: OpenAI and whatever speaks like it, Azure, Anthropic, Google.

pydantic-ai knows the wire. What is ours: one connection pool a place, the time limit, no
retries underneath ours, no setting dropped in silence, plainer forms of a structured answer
where an endpoint refuses the better one, and three kinds of failure.
"""

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burnish.models.chat import ChatReply, ChatRequest, Form
from burnish.models.references import ModelRef
from burnish.models.troubles import ModelRejected, ModelUnavailable
from burnish.models.wire.errors import Blame, Trouble, failures
from burnish.models.wire.formats import forms_for, refuses_form
from burnish.models.wire.messages import (
    messages_for,
    parameters_for,
    reply_from,
    settings_for,
    with_schema,
)
from burnish.models.wire.places import Place, place_of
from burnish.models.wire.settings import require_settings

if TYPE_CHECKING:
    from httpx2 import AsyncClient
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model


@dataclass(frozen=True, kw_only=True)
class _Line:
    """A model that was checked and can be asked."""

    model: "Model[Any]"
    blame: Blame
    refused: set[Form]
    """The forms of a structured answer that its endpoint refuses, as far as is known."""


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """What one request came to."""

    result: "ModelResponse | Trouble"
    refused: bool = False
    """Whether it seems that the endpoint refused the form of the answer."""


LANE = 8
"""Calls that share a connection pool: a pool looks at all its connections for every call."""


class WireBackend:
    """Reaches models over HTTP. Used inside one event loop; `close` it there.

    The first calls under way at an address share one connection pool, the next ones another,
    and so on: with few calls there is one, with many none is crowded.
    """

    def __init__(self) -> None:
        self._clients: dict[tuple[str, int], AsyncClient] = {}
        self._models: dict[tuple[Any, ...], Model[Any]] = {}
        self._lines: dict[tuple[ModelRef, int], _Line] = {}
        self._refused: dict[tuple[str, ...], set[Form]] = {}
        self._checked: set[tuple[Any, ...]] = set()
        self._under_way: dict[str, list[int]] = {}

    async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
        """One attempt at one answer."""
        started = time.perf_counter()
        with self._lane(ref.endpoint) as lane:
            line = self._lines.get((ref, lane)) or self._open(ref, lane)
            result, form = await _answer(line, ref, request, draw)
        # Raised here, not where it was caught: the SDK's error may carry the key along.
        if isinstance(result, Exception):
            raise result
        return reply_from(result, time.perf_counter() - started, form)

    def check(self, ref: ModelRef) -> None:
        """Extra, key, address and settings; calls nobody."""
        self._check(ref)

    def identity(self, ref: ModelRef) -> str:
        """What runs behind an address is not known beyond its name."""
        del ref
        return ""

    async def close(self) -> None:
        """Close every connection."""
        clients = list(self._clients.values())
        for memory in (self._clients, self._models, self._lines, self._refused):
            memory.clear()
        for client in clients:
            await client.aclose()

    @contextmanager
    def _lane(self, endpoint: str) -> Generator[int, None, None]:
        """The first lane that is not full; a new one when all are."""
        lanes = self._under_way.setdefault(endpoint, [])
        lane = next((n for n, calls in enumerate(lanes) if calls < LANE), len(lanes))
        if lane == len(lanes):
            lanes.append(0)
        lanes[lane] += 1
        try:
            yield lane
        finally:
            lanes[lane] -= 1

    def _check(self, ref: ModelRef) -> Place:
        place = place_of(ref)
        seen = (*_identity(ref, place), *ref.settings.sent())
        if seen not in self._checked:
            require_settings(ref, place)
            self._checked.add(seen)
        return place

    def _open(self, ref: ModelRef, lane: int) -> _Line:
        place = self._check(ref)
        identity = (*_identity(ref, place), lane)
        if identity not in self._models:
            self._models[identity] = self._build(ref, place, lane)
        line = _Line(
            model=self._models[identity],
            blame=Blame(ref=ref, place=place),
            # Whoever asks this model, in whatever lane and with whatever settings.
            refused=self._refused.setdefault(_identity(ref, place), set()),
        )
        self._lines[ref, lane] = line
        return line

    def _build(self, ref: ModelRef, place: Place, lane: int) -> "Model[Any]":
        from burnish.models.wire.models import build_model, http_client

        if (place.address, lane) not in self._clients:
            self._clients[place.address, lane] = http_client(place)
        return build_model(ref, place, self._clients[place.address, lane])


def _identity(ref: ModelRef, place: Place) -> tuple[str, ...]:
    return (ref.provider, ref.name, place.address, place.key, place.api_version)


async def _answer(
    line: _Line, ref: ModelRef, request: ChatRequest, draw: int
) -> "tuple[ModelResponse | Trouble, Form | None]":
    """The answer, in the best form that the endpoint takes; a plain text has no form."""
    forms = forms_for(line.model, request)
    if not forms:
        return (await _attempt(line, ref, request, draw)).result, None
    untried: tuple[Form, ...] = tuple(form for form in forms if form not in line.refused)
    refusals: dict[Form, _Outcome] = {}
    for form in untried or forms[-1:]:
        fallback = None if form == forms[0] else form
        outcome = await _attempt(line, ref, request, draw, fallback)
        if not outcome.refused:
            if not isinstance(outcome.result, Exception):
                # Only now is it clear that the form was the trouble.
                line.refused.update(refusals)
            return outcome.result, form
        refusals[form] = outcome
    first = next(iter(refusals.values()))
    return first.result, None


async def _attempt(
    line: _Line, ref: ModelRef, request: ChatRequest, draw: int, fallback: Form | None = None
) -> _Outcome:
    """The answer, or what went wrong."""
    from pydantic_ai.exceptions import ModelHTTPError

    messages = request.messages
    if fallback is not None and request.schema is not None:
        messages = with_schema(messages, request.schema)
    try:
        async with asyncio.timeout(ref.settings.timeout):
            response = await line.model.request(
                messages_for(messages),
                settings_for(ref, draw),
                parameters_for(line.model, request, fallback),
            )
    except TimeoutError:
        return _Outcome(result=line.blame.timed_out())
    except failures() as error:
        refused = isinstance(error, ModelHTTPError) and refuses_form(error)
        return _Outcome(result=line.blame.of(error), refused=refused)
    return _Outcome(result=_unusable(line.blame, response) or response)


def _unusable(blame: Blame, response: "ModelResponse") -> ModelRejected | ModelUnavailable | None:
    """Answers that are none: turned away before the model read them, or broken off."""
    if response.finish_reason is None:
        return blame.unfinished()
    if response.finish_reason == "content_filter" and not response.usage.has_values():
        return blame.filtered()
    return None
