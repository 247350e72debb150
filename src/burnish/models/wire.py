"""Models behind HTTP: OpenAI and whatever speaks like it, Azure, Anthropic, Google.

pydantic-ai knows the wire. What is ours: one connection pool a place, the time limit, no
retries underneath ours, no setting dropped in silence, plainer forms of a structured answer
where an endpoint refuses the better one, and three kinds of failure.
"""

import asyncio
import json
import re
import time
import warnings
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from burnish.core.cases import Message
from burnish.core.content import Json
from burnish.models.chat import ChatReply, ChatRequest, Form
from burnish.models.endpoints import (
    Endpoint,
    EndpointErrors,
    build_model,
    endpoint_of,
    failures,
    http_client,
)
from burnish.models.errors import ModelError, ModelRefused, words_of
from burnish.models.references import ModelRef

if TYPE_CHECKING:
    from httpx2 import AsyncClient
    from pydantic_ai.exceptions import ModelHTTPError
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings


_LANE = 8
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
        from burnish.models.conversation import reply_from

        started = time.perf_counter()
        with self._lane(ref.endpoint) as lane:
            line = self._lines.get((ref, lane)) or self._open(ref, lane)
            result, form = await line.answer(request, draw)
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
        lane = next((n for n, calls in enumerate(lanes) if calls < _LANE), len(lanes))
        if lane == len(lanes):
            lanes.append(0)
        lanes[lane] += 1
        try:
            yield lane
        finally:
            lanes[lane] -= 1

    def _check(self, ref: ModelRef) -> Endpoint:
        endpoint = endpoint_of(ref)
        settings = (*_identity(ref, endpoint), *ref.settings.sent())
        if settings not in self._checked:
            _require_settings(ref, endpoint)
            self._checked.add(settings)
        return endpoint

    def _open(self, ref: ModelRef, lane: int) -> "_Line":
        endpoint = self._check(ref)
        identity = (*_identity(ref, endpoint), lane)
        if identity not in self._models:
            place = (endpoint.address, lane)
            client = self._clients.get(place) or http_client(endpoint)
            self._clients[place] = client
            self._models[identity] = build_model(ref, endpoint, client)
        line = _Line(
            ref=ref,
            model=self._models[identity],
            errors=EndpointErrors(ref=ref, endpoint=endpoint),
            # Whoever asks this model, in whatever lane and with whatever settings.
            refused=self._refused.setdefault(_identity(ref, endpoint), set()),
        )
        self._lines[ref, lane] = line
        return line


def _identity(ref: ModelRef, endpoint: Endpoint) -> tuple[str, ...]:
    return (ref.provider, ref.name, endpoint.address, endpoint.key, endpoint.api_version)


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """What one request came to."""

    result: "ModelResponse | ModelError"
    refused: bool = False
    """Whether it seems that the endpoint refused the form of the answer."""


@dataclass(frozen=True, kw_only=True)
class _Line:
    """A model that was checked and can be asked."""

    ref: ModelRef
    model: "Model[Any]"
    errors: EndpointErrors
    refused: set[Form]
    """The forms of a structured answer that its endpoint refuses, as far as is known."""

    async def answer(
        self, request: ChatRequest, draw: int
    ) -> "tuple[ModelResponse | ModelError, Form | None]":
        """The answer, in the best form that the endpoint takes; a plain text has no form."""
        forms = _forms_for(self.model, request)
        if not forms:
            return (await self._attempt(request, draw)).result, None
        untried: tuple[Form, ...] = tuple(form for form in forms if form not in self.refused)
        refusals: dict[Form, _Outcome] = {}
        for form in untried or forms[-1:]:
            fallback = None if form == forms[0] else form
            outcome = await self._attempt(request, draw, fallback)
            if not outcome.refused:
                if not isinstance(outcome.result, Exception):
                    # Only now is it clear that the form was the trouble.
                    self.refused.update(refusals)
                return outcome.result, form
            refusals[form] = outcome
        first = next(iter(refusals.values()))
        return first.result, None

    async def _attempt(
        self, request: ChatRequest, draw: int, fallback: Form | None = None
    ) -> _Outcome:
        """The answer, or what went wrong."""
        from pydantic_ai.exceptions import ModelHTTPError

        try:
            async with asyncio.timeout(self.ref.settings.timeout):
                response = await _post(self.model, self.ref, request, draw, fallback)
        except TimeoutError:
            return _Outcome(result=self.errors.timed_out())
        except failures() as error:
            refused = isinstance(error, ModelHTTPError) and _refuses_form(error)
            return _Outcome(result=self.errors.of(error), refused=refused)
        if response.finish_reason is None:
            return _Outcome(result=self.errors.unfinished())
        if response.finish_reason == "content_filter" and not response.usage.has_values():
            return _Outcome(result=self.errors.filtered())
        return _Outcome(result=response)


# -- forms of a structured answer --------------------------------------------------------------
# Every OpenAI-compatible endpoint says that it takes `response_format`; many refuse the value
# `json_schema`, some `json_object` too. So the same question goes down a ladder: the schema
# enforced by the endpoint, JSON mode with the schema in the prompt, the prompt alone.

_LADDER: tuple[Form, ...] = ("json_schema", "json_object", "prompt")

_STATUSES = {400, 404, 415, 422, 501}
_SILENT = 400
"""The only status that may be a refusal without a word about the form."""

_THE_FORM = re.compile(
    r"response[\s_.-]?(format|schema|mime|json)|json[\s_-]?(schema|object|mode)|structured[\s_-]?output"
    r"|guided[\s_-]?(json|decoding|grammar)|output_(config|format)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[a-z]+")
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
"""A word that names no cause, nor a model or a setting that would be one."""


def _forms_for(model: "Model[Any]", request: ChatRequest) -> tuple[Form, ...]:
    """The rungs of the ladder that this model has for this request; none for a plain text."""
    if request.schema is None:
        return ()
    skipped: set[Form] = set()
    if not _enforces(model, request.schema):
        skipped.add("json_schema")
    if not model.profile.get("supports_json_object_output", False):
        skipped.add("json_object")
    return tuple(form for form in _LADDER if form not in skipped)


def _refuses_form(error: "ModelHTTPError") -> bool:
    """Whether an endpoint seems to refuse the form of the answer, rather than the request.

    In doubt it does: the next form shows.
    """
    if error.status_code not in _STATUSES:
        return False
    text = _spelled(error.body)
    if _TOO_LONG.search(text):
        return False
    if _THE_FORM.search(text):
        return True
    words = _WORD.findall(_words(error.body))
    return error.status_code == _SILENT and all(map(_NO_CAUSE.fullmatch, words))


def _spelled(body: object) -> str:
    """All that an endpoint said: gateways keep the words of the model's server somewhere inside."""
    return body if isinstance(body, str) else json.dumps(body, default=str)


def _words(body: object) -> str:
    """What an endpoint said about the cause, in lower case."""
    message = words_of(body)
    if not message and isinstance(body, Mapping):
        detail = cast("Mapping[str, object]", body).get("detail")  # Where FastAPI keeps it.
        message = "" if detail is None else _spelled(detail)
    return message.lower()


# -- one request -------------------------------------------------------------------------------


async def _post(
    model: "Model[Any]", ref: ModelRef, request: ChatRequest, draw: int, fallback: Form | None
) -> "ModelResponse":
    from burnish.models.conversation import model_messages

    messages = request.messages
    if fallback is not None and request.schema is not None:
        messages = _with_schema(messages, request.schema)
    parameters = _parameters_for(model, request, fallback)
    return await model.request(model_messages(messages), _settings_for(ref, draw), parameters)


def _settings_for(ref: ModelRef, draw: int) -> "ModelSettings":
    """The settings as pydantic-ai names them. A seed counts on with the draw: two samples of
    one seed would be one sample."""
    sent = ref.settings.sent()
    if "stop" in sent:
        sent["stop_sequences"] = list(sent.pop("stop"))
    if "seed" in sent:
        sent["seed"] += draw
    if ref.provider == "google" and ref.settings.timeout is not None:
        sent["timeout"] = ref.settings.timeout  # Its SDK would end the call after 600 s.
    return cast("ModelSettings", sent)


def _parameters_for(
    model: "Model[Any]", request: ChatRequest, form: Form | None = None
) -> "ModelRequestParameters":
    """How the answer is to look: text, or JSON by a schema the endpoint or the prompt enforces.

    `form` is one that the endpoint is asked for after it refused the first.
    """
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.tools import ToolDefinition

    tools = [
        ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=cast("dict[str, Any]", tool.parameters),
        )
        for tool in request.tools
    ]
    if request.schema is None or form == "prompt":
        return ModelRequestParameters(function_tools=tools)
    schema = cast("dict[str, Any]", request.schema)
    shape = OutputObjectDefinition(json_schema=schema, name=request.schema_name)
    return ModelRequestParameters(
        function_tools=tools,
        output_mode="prompted" if form or not _enforces(model, request.schema) else "native",
        output_object=shape,
        prompted_output_template=False if form else None,
    )


def _with_schema(messages: tuple[Message, ...], schema: Mapping[str, Json]) -> tuple[Message, ...]:
    """The conversation with the schema in its system message: many endpoints take only one."""
    instruction = (
        "Answer with one JSON object that keeps this JSON schema, without a word before or after "
        f"it and without a Markdown fence:\n\n{json.dumps(schema, ensure_ascii=False)}"
    )
    first, rest = messages[:1], messages[1:]
    if first and first[0].role == "system":
        return (replace(first[0], content=f"{first[0].content.rstrip()}\n\n{instruction}"), *rest)
    return (Message(role="system", content=instruction), *messages)


def _enforces(model: "Model[Any]", schema: Mapping[str, Json]) -> bool:
    """Whether the endpoint is known to enforce a schema."""
    if not model.profile.get("supports_json_schema_output", False):
        return False
    # Anthropic would make every open mapping an empty one.
    return model.system != "anthropic" or not _has_open_mapping(cast("Json", schema))


def _has_open_mapping(schema: Json) -> bool:
    if isinstance(schema, list):
        return any(map(_has_open_mapping, schema))
    if not isinstance(schema, dict):
        return False
    more = schema.get("additionalProperties")
    is_open = more is True or isinstance(more, dict)
    return is_open or any(map(_has_open_mapping, schema.values()))


# -- settings that would be lost ---------------------------------------------------------------

_FIELDS = {
    "temperature": ("temperature",),
    "top_p": ("top_p", "topP"),
    "max_tokens": ("max_tokens", "max_completion_tokens", "maxOutputTokens"),
    "seed": ("seed",),
    "stop": ("stop", "stop_sequences", "stopSequences"),
}
"""The names that a setting has on some wire."""


def _require_settings(ref: ModelRef, endpoint: Endpoint) -> None:
    """Raise ModelRefused when a setting would not reach the model.

    Libraries drop what they believe a model does not take, with a warning at best. So a request
    is made, for real, up to the socket that is not there, and looked at.
    """
    settings = ref.settings.sent()
    if not settings:
        return
    # In a thread of its own, since this may be called from inside a running event loop.
    with ThreadPoolExecutor(1) as thread:
        body = thread.submit(lambda: asyncio.run(_capture(ref, endpoint))).result()
    if isinstance(body, Exception):
        raise EndpointErrors(ref=ref, endpoint=endpoint).of(body)
    fields = cast("Mapping[str, Any]", json.loads(body))
    fields = {**fields, **fields.get("generationConfig", {})}
    lost = " and ".join(name for name, value in settings.items() if not _among(fields, name, value))
    if lost:
        raise ModelRefused(
            f"the model {ref.label} takes no {lost}: it would be ignored",
            remedy=f"remove {lost} from its settings, or take another model",
        )


async def _capture(ref: ModelRef, endpoint: Endpoint) -> bytes | Exception:
    """The body of the request that this reference makes; nothing leaves this process."""
    import httpx2

    bodies: list[bytes] = []

    class Nowhere(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            bodies.append(await request.aread())
            raise httpx2.ConnectError("not sent")

    question = ChatRequest(messages=(Message(role="user", content="?"),))
    async with http_client(endpoint, Nowhere()) as client:
        model = build_model(ref, endpoint, client)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                await _post(model, ref, question, 0, None)
            except failures() as error:
                return bodies[0] if bodies else error
    raise AssertionError("a request went nowhere and was answered")


def _among(fields: Mapping[str, Any], name: str, value: object) -> bool:
    expected = list(cast("tuple[str, ...]", value)) if name == "stop" else value
    return any(fields.get(field) == expected for field in _FIELDS[name])
