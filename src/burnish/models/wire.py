"""Models over HTTP: OpenAI and compatible endpoints, Azure, Anthropic, Google.

`chat_completions` speaks OpenAI's protocol; pydantic-ai knows the others, and calls for its agents
with tools. Added here: a connection pool per endpoint, timeouts, no hidden retries, no silently
dropped setting, simpler forms of a structured answer if an endpoint refuses the best one, and three
kinds of failure.
"""

import asyncio
import json
import re
import time
import warnings
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from burnish.core.cases import Message
from burnish.core.content import Json
from burnish.models.chat import LADDER, ChatReply, ChatRequest, Form
from burnish.models.chat_completions import ChatCompletions
from burnish.models.endpoints import (
    Endpoint,
    EndpointErrors,
    build_model,
    endpoint_of,
    failures,
    http_client,
    missing_extra,
    require_library,
    status_failure,
)
from burnish.models.errors import EndpointFailure, ModelError, ModelRefused, words_of
from burnish.models.references import ModelRef, is_providers_own

if TYPE_CHECKING:
    from httpx2 import AsyncClient

    from burnish.models.conversation import LibraryModel


_LANE = 8
"""Calls per connection pool: a pool checks all its connections for every call."""


class WireBackend:
    """Calls models over HTTP. Use and `close` it inside one event loop.

    Concurrent calls to an address fill one connection pool after the other, so that no pool is
    crowded.
    """

    def __init__(self) -> None:
        self._clients: dict[tuple[object, ...], AsyncClient] = {}
        self._models: dict[tuple[Any, ...], LibraryModel] = {}
        self._lines: dict[tuple[ModelRef, int], _Line] = {}
        self._refused: dict[tuple[str, ...], set[Form]] = {}
        self._checked: set[tuple[Any, ...]] = set()
        self._under_way: dict[str, list[int]] = {}

    async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
        started = time.perf_counter()
        with self._lane(ref.endpoint) as lane:
            line = self._lines.get((ref, lane)) or self._open(ref, lane)
            result, form = await line.answer(request, draw)
        # Raised here, not where it was caught: the SDK's error may carry the key along.
        if isinstance(result, Exception):
            raise result
        return replace(result, seconds=time.perf_counter() - started, form=form)

    def check(self, ref: ModelRef) -> None:
        self._checked_endpoint(ref)

    def identity(self, ref: ModelRef) -> str:
        del ref
        return ""

    def refused_forms(self, ref: ModelRef) -> tuple[Form, ...]:
        refused = self._refused_by(ref, self._checked_endpoint(ref))
        return tuple(form for form in LADDER if form in refused)

    def refuse_forms(self, ref: ModelRef, forms: Collection[Form]) -> None:
        self._refused_by(ref, self._checked_endpoint(ref)).update(forms)

    async def close(self) -> None:
        clients = list(self._clients.values())
        for memory in (self._clients, self._models, self._lines, self._refused):
            memory.clear()
        for client in clients:
            await client.aclose()

    @contextmanager
    def _lane(self, endpoint: str) -> Generator[int, None, None]:
        """The first lane that is not full, or a new one."""
        lanes = self._under_way.setdefault(endpoint, [])
        lane = next((n for n, calls in enumerate(lanes) if calls < _LANE), len(lanes))
        if lane == len(lanes):
            lanes.append(0)
        lanes[lane] += 1
        try:
            yield lane
        finally:
            lanes[lane] -= 1

    def _checked_endpoint(self, ref: ModelRef) -> Endpoint:
        endpoint = endpoint_of(ref)
        settings = (*_identity(ref, endpoint), *ref.settings.sent())
        if settings not in self._checked:
            _require_settings(ref, endpoint)
            self._checked.add(settings)
        return endpoint

    def _refused_by(self, ref: ModelRef, endpoint: Endpoint) -> set[Form]:
        """Shared by all who ask this model, in whatever lane and with whatever settings."""
        return self._refused.setdefault(_identity(ref, endpoint), set())

    def _open(self, ref: ModelRef, lane: int) -> "_Line":
        endpoint = self._checked_endpoint(ref)
        place = (endpoint.address, endpoint.answer_bytes, endpoint.headers, lane)
        client = self._clients.get(place) or http_client(endpoint)
        self._clients[place] = client
        line = _Line(
            ref=ref,
            direct=ChatCompletions.of(ref, endpoint, client),
            library=lambda: self._library_model(ref, endpoint, client, lane),
            errors=EndpointErrors(ref=ref, endpoint=endpoint),
            refused=self._refused_by(ref, endpoint),
        )
        self._lines[ref, lane] = line
        return line

    def _library_model(
        self, ref: ModelRef, endpoint: Endpoint, client: "AsyncClient", lane: int
    ) -> "LibraryModel":
        """Shared by references that only differ in their settings."""
        require_library(ref)
        from burnish.models.conversation import LibraryModel

        identity = (*_identity(ref, endpoint), endpoint.answer_bytes, lane)
        known = self._models.get(identity)
        if known is None:
            known = LibraryModel(ref, build_model(ref, endpoint, client))
            self._models[identity] = known
        return replace(known, ref=ref)


def _identity(ref: ModelRef, endpoint: Endpoint) -> tuple[str, ...]:
    return (ref.provider, ref.name, endpoint.address, endpoint.key, endpoint.api_version)


class _Caller(Protocol):
    """Calls one model at one endpoint."""

    def forms(self, schema: Mapping[str, Json]) -> Mapping[Form, bool]: ...

    async def post(self, request: ChatRequest, draw: int, form: Form | None) -> ChatReply: ...


@dataclass(frozen=True, kw_only=True)
class _Line:
    """A checked model that can be called."""

    ref: ModelRef
    direct: ChatCompletions | None
    library: "Callable[[], LibraryModel]"
    """The model as pydantic-ai calls it, which is loaded then."""
    errors: EndpointErrors
    refused: set[Form]
    """The forms of a structured answer that are of no use at its endpoint."""

    async def answer(
        self, request: ChatRequest, draw: int
    ) -> tuple[ChatReply | ModelError, Form | None]:
        """The answer in the best form that the endpoint accepts; plain text has no form."""
        takes = self.direct is not None and self.direct.takes(request)
        caller = self.direct if self.direct is not None and takes else self.library()
        forms = _forms_for(caller, self.ref, request)
        if not forms:
            return (await self._attempt(caller, request, draw))[0], None
        untried: tuple[Form, ...] = (
            tuple(form for form in forms if form not in self.refused) or forms[-1:]
        )
        refusals: dict[Form, ModelError] = {}
        for form in untried:
            result, refused = await self._attempt(caller, request, draw, form)
            if isinstance(result, Exception) and refused:
                refusals[form] = result
                continue
            if not isinstance(result, Exception):
                # Only now is it clear that the form was the trouble.
                self.refused.update(refusals)
            return result, form
        return next(iter(refusals.values())), None

    async def _attempt(
        self, caller: _Caller, request: ChatRequest, draw: int, form: Form | None = None
    ) -> tuple[ChatReply | ModelError, bool]:
        """The answer or the error, and whether the form of the answer seems to be refused."""
        if form not in (None, "json_schema") and request.schema is not None:
            request = replace(request, messages=_with_schema(request.messages, request.schema))
        try:
            async with asyncio.timeout(self.ref.settings.timeout):
                return await caller.post(request, draw, form), False
        except TimeoutError:
            return self.errors.timed_out(), False
        except failures() as error:
            failure = status_failure(error)
            return self.errors.of(error), failure is not None and _refuses_form(failure)


# Every OpenAI-compatible endpoint says that it takes `response_format`; many refuse the value
# `json_schema`, some `json_object` too. So the same question goes down a ladder: the schema
# enforced by the endpoint, JSON mode with the schema in the prompt, the prompt alone.

_THE_FORM = re.compile(
    r"response[\s_.-]?(format|schema|mime|json)|json[\s_-]?(schema|object|mode)|structured[\s_-]?output"
    r"|guided[\s_-]?(json|decoding|grammar)|output_(config|format)",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"context[\s_-]?(length|window|size)|maximum context|too (long|large|many tokens)"
    r"|reduce the length|exceeds? the (limit|maximum)",
    re.IGNORECASE,
)
_NO_CAUSE = re.compile(
    r"an?|the|this|is|was|not|of|in|none|null|http|code|status|error|detail|client|provider|upstream"
    r"|bad|invalid|malformed|unknown|unsupported|supported|failed|returned|contains|validation"
    r"|request|input|body|payload|format|feature|option|value|arguments?|param(eter)?s?"
)
"""A word that names neither a cause nor a model or setting that would be one."""


def _forms_for(caller: _Caller, ref: ModelRef, request: ChatRequest) -> tuple[Form, ...]:
    """The forms that this model offers for this request; none for plain text."""
    if request.schema is None:
        return ()
    offered = caller.forms(request.schema)
    best = ref.row.best_form if is_providers_own(ref) else LADDER[0]
    return tuple(form for form in LADDER[LADDER.index(best) :] if offered[form])


def _refuses_form(failure: EndpointFailure) -> bool:
    """Whether an endpoint seems to refuse the form of the answer rather than the request.

    If in doubt it does: the next form will show.
    """
    if failure.status not in (400, 404, 415, 422, 501):
        return False
    text = _spelled(failure.body)
    if _TOO_LONG.search(text):
        return False
    if _THE_FORM.search(text):
        return True
    # Only this status may be a refusal without a word about the form.
    words = re.findall(r"[a-z]+", _words(failure.body))
    return failure.status == 400 and all(map(_NO_CAUSE.fullmatch, words))


def _spelled(body: object) -> str:
    """The whole body: gateways include the message of the model's server somewhere inside."""
    return body if isinstance(body, str) else json.dumps(body, default=str)


def _words(body: object) -> str:
    """The endpoint's message about the cause, in lower case."""
    message = words_of(body)
    if not message and isinstance(body, Mapping):
        detail = cast("Mapping[str, object]", body).get("detail")  # Where FastAPI keeps it.
        message = "" if detail is None else _spelled(detail)
    return message.lower()


def _with_schema(messages: tuple[Message, ...], schema: Mapping[str, Json]) -> tuple[Message, ...]:
    """The conversation with the schema in its system message: many endpoints accept only one."""
    instruction = (
        "Answer with one JSON object that keeps this JSON schema, without a word before or after "
        f"it and without a Markdown fence:\n\n{json.dumps(schema, ensure_ascii=False)}"
    )
    first, rest = messages[:1], messages[1:]
    if first and first[0].role == "system":
        return (replace(first[0], content=f"{first[0].content.rstrip()}\n\n{instruction}"), *rest)
    return (Message(role="system", content=instruction), *messages)


_FIELDS = {
    "temperature": ("temperature",),
    "top_p": ("top_p", "topP"),
    "max_tokens": ("max_tokens", "max_completion_tokens", "maxOutputTokens"),
    "seed": ("seed",),
    "stop": ("stop", "stop_sequences", "stopSequences"),
}
"""The names of a setting in the protocols."""


def _require_settings(ref: ModelRef, endpoint: Endpoint) -> None:
    """Raise ModelRefused if a setting would not reach the model.

    Libraries drop what they think a model does not support, with a warning at best. So a real
    request is built, up to the socket, and inspected.
    """
    settings = ref.settings.sent()
    own = ref.row.unsupported if is_providers_own(ref) else ()
    _refuse_lost(ref, [name for name in settings if name in own])
    if not settings or ref.row.protocol == "bedrock":  # whose library drops none of the others
        return
    if missing_extra(ref.row, ref.name, address=endpoint.address):
        return  # without its library it is not asked
    fields = _first_body(ref, endpoint)
    fields = {**fields, **fields.get("generationConfig", {})}
    values = {**settings, "stop": list(ref.settings.stop)}
    _refuse_lost(
        ref,
        [
            name
            for name in settings
            if not any(fields.get(field) == values[name] for field in _FIELDS[name])
        ],
    )


def _refuse_lost(ref: ModelRef, names: Sequence[str]) -> None:
    if lost := " and ".join(names):
        raise ModelRefused(
            f"the model {ref.label} does not support {lost}: it would be ignored",
            remedy=f"remove {lost} from its settings, or use another model",
        )


_QUESTION = ChatRequest(messages=(Message(role="user", content="?"),))


def _first_body(ref: ModelRef, endpoint: Endpoint) -> Mapping[str, Any]:
    """The body of a request with this reference; nothing leaves this process."""
    if (direct := ChatCompletions.of(ref, endpoint)) is not None:
        return direct.body(_QUESTION, 0, None)
    # In a thread of its own, since this may be called from inside a running event loop.
    with ThreadPoolExecutor(1) as thread:
        body = thread.submit(lambda: asyncio.run(_capture(ref, endpoint))).result()
    if isinstance(body, Exception):
        raise EndpointErrors(ref=ref, endpoint=endpoint).of(body)
    return cast("Mapping[str, Any]", json.loads(body))


async def _capture(ref: ModelRef, endpoint: Endpoint) -> bytes | Exception:
    """The body of pydantic-ai's request."""
    import httpx2

    from burnish.models.conversation import LibraryModel

    bodies: list[bytes] = []

    class Nowhere(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            bodies.append(await request.aread())
            raise httpx2.ConnectError("not sent")

    async with http_client(endpoint, Nowhere()) as client:
        model = LibraryModel(ref, build_model(ref, endpoint, client))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                await model.post(_QUESTION, 0, None)
            except failures() as error:
                return bodies[0] if bodies else error
    raise AssertionError("a request went nowhere and was answered")
