"""Models over HTTP: OpenAI and compatible endpoints, Azure, Anthropic, Google.

pydantic-ai knows the protocols. Added here: a connection pool per endpoint, timeouts, no hidden
retries, no silently dropped setting, simpler forms of a structured answer if an endpoint refuses
the best one, and three kinds of failure.
"""

import asyncio
import json
import re
import time
import warnings
from collections.abc import Collection, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from burnish.core.cases import Message
from burnish.core.content import Json
from burnish.models.chat import LADDER, ChatReply, ChatRequest, Form
from burnish.models.endpoints import (
    Endpoint,
    EndpointErrors,
    build_model,
    endpoint_of,
    failures,
    http_client,
)
from burnish.models.errors import ModelError, ModelRefused, words_of
from burnish.models.references import ModelRef, is_providers_own

if TYPE_CHECKING:
    from httpx2 import AsyncClient
    from pydantic_ai.exceptions import ModelHTTPError
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings


_LANE = 8
"""Calls per connection pool: a pool checks all its connections for every call."""


class WireBackend:
    """Calls models over HTTP. Use and `close` it inside one event loop.

    Concurrent calls to an address fill one connection pool after the other, so that no pool is
    crowded.
    """

    def __init__(self) -> None:
        self._clients: dict[tuple[str, int, int], AsyncClient] = {}
        self._models: dict[tuple[Any, ...], Model[Any]] = {}
        self._lines: dict[tuple[ModelRef, int], _Line] = {}
        self._refused: dict[tuple[str, ...], set[Form]] = {}
        self._checked: set[tuple[Any, ...]] = set()
        self._under_way: dict[str, list[int]] = {}

    async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
        from burnish.models.conversation import reply_from

        started = time.perf_counter()
        with self._lane(ref.endpoint) as lane:
            line = self._lines.get((ref, lane)) or self._open(ref, lane)
            result, form = await line.answer(request, draw)
        # Raised here, not where it was caught: the SDK's error may carry the key along.
        if isinstance(result, Exception):
            raise result
        with _readable(line.errors):
            return reply_from(result, time.perf_counter() - started, form)

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
        identity = (*_identity(ref, endpoint), endpoint.answer_bytes, lane)
        if identity not in self._models:
            place = (endpoint.address, endpoint.answer_bytes, lane)
            client = self._clients.get(place) or http_client(endpoint)
            self._clients[place] = client
            self._models[identity] = build_model(ref, endpoint, client)
        line = _Line(
            ref=ref,
            model=self._models[identity],
            errors=EndpointErrors(ref=ref, endpoint=endpoint),
            refused=self._refused_by(ref, endpoint),
        )
        self._lines[ref, lane] = line
        return line


def _identity(ref: ModelRef, endpoint: Endpoint) -> tuple[str, ...]:
    return (ref.provider, ref.name, endpoint.address, endpoint.key, endpoint.api_version)


@contextmanager
def _readable(errors: EndpointErrors) -> Generator[None, None, None]:
    """An answer whose parts cannot be read, such as the arguments of a tool, is a failed one."""
    try:
        yield
    except failures() as error:
        unreadable = errors.of(error)
    else:
        return
    raise unreadable


@dataclass(frozen=True, kw_only=True)
class _Line:
    """A checked model that can be called."""

    ref: ModelRef
    model: "Model[Any]"
    errors: EndpointErrors
    refused: set[Form]
    """The forms of a structured answer that are of no use at its endpoint."""

    async def answer(
        self, request: ChatRequest, draw: int
    ) -> "tuple[ModelResponse | ModelError, Form | None]":
        """The answer in the best form that the endpoint accepts; plain text has no form."""
        forms = _forms_for(self.model, self.ref, request)
        if not forms:
            return (await self._attempt(request, draw))[0], None
        untried: tuple[Form, ...] = (
            tuple(form for form in forms if form not in self.refused) or forms[-1:]
        )
        refusals: dict[Form, ModelError] = {}
        for form in untried:
            result, refused = await self._attempt(request, draw, form)
            if isinstance(result, Exception) and refused:
                refusals[form] = result
                continue
            if not isinstance(result, Exception):
                # Only now is it clear that the form was the trouble.
                self.refused.update(refusals)
            return result, form
        return next(iter(refusals.values())), None

    async def _attempt(
        self, request: ChatRequest, draw: int, form: Form | None = None
    ) -> "tuple[ModelResponse | ModelError, bool]":
        """The answer or the error, and whether the form of the answer seems to be refused."""
        from pydantic_ai.exceptions import ModelHTTPError

        try:
            async with asyncio.timeout(self.ref.settings.timeout):
                response = await _post(self.model, self.ref, request, draw, form)
        except TimeoutError:
            return self.errors.timed_out(), False
        except failures() as error:
            refused = isinstance(error, ModelHTTPError) and _refuses_form(error)
            return self.errors.of(error), refused
        if response.finish_reason is None:
            return self.errors.unfinished(), False
        if response.finish_reason == "content_filter" and not response.usage.has_values():
            return self.errors.filtered(), False
        return response, False


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


def _forms_for(model: "Model[Any]", ref: ModelRef, request: ChatRequest) -> tuple[Form, ...]:
    """The forms that this model offers for this request; none for plain text."""
    if request.schema is None:
        return ()
    ladder: dict[Form, bool] = {
        "json_schema": _enforces(model, request.schema),
        "json_object": model.profile.get("supports_json_object_output", False),
        "prompt": True,
    }
    best = ref.row.best_form if is_providers_own(ref) else LADDER[0]
    return tuple(form for form in LADDER[LADDER.index(best) :] if ladder[form])


def _refuses_form(error: "ModelHTTPError") -> bool:
    """Whether an endpoint seems to refuse the form of the answer rather than the request.

    If in doubt it does: the next form will show.
    """
    if error.status_code not in (400, 404, 415, 422, 501):
        return False
    text = _spelled(error.body)
    if _TOO_LONG.search(text):
        return False
    if _THE_FORM.search(text):
        return True
    # Only this status may be a refusal without a word about the form.
    words = re.findall(r"[a-z]+", _words(error.body))
    return error.status_code == 400 and all(map(_NO_CAUSE.fullmatch, words))


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


async def _post(
    model: "Model[Any]", ref: ModelRef, request: ChatRequest, draw: int, form: Form | None
) -> "ModelResponse":
    from burnish.models.conversation import model_messages

    messages = request.messages
    if form not in (None, "json_schema") and request.schema is not None:
        messages = _with_schema(messages, request.schema)
    parameters = _parameters_for(request, form)
    return await model.request(model_messages(messages), _settings_for(ref, draw), parameters)


def _settings_for(ref: ModelRef, draw: int) -> "ModelSettings":
    """The settings in pydantic-ai's names.

    The draw is added to a seed: two samples with the same seed would be one sample.
    """
    sent = ref.settings.sent()
    if "stop" in sent:
        sent["stop_sequences"] = list(sent.pop("stop"))
    if "seed" in sent:
        sent["seed"] += draw
    if ref.row.protocol in ("google", "vertex") and ref.settings.timeout is not None:
        sent["timeout"] = ref.settings.timeout  # Its SDK would end the call after 600 s.
    return cast("ModelSettings", sent)


def _parameters_for(request: ChatRequest, form: Form | None) -> "ModelRequestParameters":
    """The tools, and the form of the answer: text, or JSON."""
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
    if request.schema is None or form in (None, "prompt"):
        return ModelRequestParameters(function_tools=tools)
    schema = cast("dict[str, Any]", request.schema)
    shape = OutputObjectDefinition(json_schema=schema, name=request.schema_name)
    return ModelRequestParameters(
        function_tools=tools,
        output_mode="native" if form == "json_schema" else "prompted",
        output_object=shape,
        prompted_output_template=None if form == "json_schema" else False,
    )


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
    # In a thread of its own, since this may be called from inside a running event loop.
    with ThreadPoolExecutor(1) as thread:
        body = thread.submit(lambda: asyncio.run(_capture(ref, endpoint))).result()
    if isinstance(body, Exception):
        raise EndpointErrors(ref=ref, endpoint=endpoint).of(body)
    fields = cast("Mapping[str, Any]", json.loads(body))
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


async def _capture(ref: ModelRef, endpoint: Endpoint) -> bytes | Exception:
    """The body of the request for this reference; nothing leaves this process."""
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
