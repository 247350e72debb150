"""OpenAI's chat completions over HTTP, which most endpoints speak: requests and answers.

Nothing but the HTTP client is loaded for them. Conversations with tools are left to pydantic-ai,
whose agents they come from, and so is what `model_families` does not know.
"""

import base64
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, Field

from burnish.core.cases import Message, ToolUse, Usage
from burnish.core.content import Json
from burnish.core.thoughts import without_thoughts
from burnish.models.chat import ChatReply, ChatRequest, Finish, Form
from burnish.models.endpoints import AZURE_V1, Endpoint
from burnish.models.errors import (
    AnswerUnfinished,
    EndpointFailure,
    RequestFiltered,
    failure_kind,
    inside,
)
from burnish.models.model_families import Family, UnknownSchema, family_of, written_schema
from burnish.models.references import ModelRef
from burnish.version import VERSION

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

_SAMPLING = ("temperature", "top_p")
_FINISHES: Mapping[str, Finish] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_call",
    "function_call": "tool_call",
    "content_filter": "content_filter",
}


@dataclass(frozen=True)
class ChatCompletions:
    """A model at an endpoint that speaks OpenAI's protocol."""

    ref: ModelRef
    endpoint: Endpoint
    family: Family
    client: "AsyncClient | None" = None

    @classmethod
    def of(
        cls, ref: ModelRef, endpoint: Endpoint, client: "AsyncClient | None" = None
    ) -> "ChatCompletions | None":
        """The model; None if it has another protocol or is only known to pydantic-ai."""
        family = family_of(ref.row, ref.name, endpoint.address)
        return family and cls(ref, endpoint, family, client)

    def takes(self, request: ChatRequest) -> bool:
        """Whether it can be called with this request: without tools, and with a usual schema."""
        if request.tools or not all(map(_is_plain, request.messages)):
            return False
        if request.schema is None or not self.family.enforces_schemas:
            return True
        try:
            written_schema(request.schema, self.family)
        except UnknownSchema:
            return False
        return True

    def forms(self, schema: Mapping[str, Json]) -> dict[Form, bool]:
        """Which forms of a structured answer it offers."""
        del schema
        return {
            "json_schema": self.family.enforces_schemas,
            "json_object": self.family.has_json_mode,
            "prompt": True,
        }

    def body(self, request: ChatRequest, draw: int, form: Form | None) -> dict[str, Any]:
        """The request as it is sent."""
        sent = self.ref.settings.sent()
        if self.family.reasons_by_default:
            sent = {name: value for name, value in sent.items() if name not in _SAMPLING}
        if "seed" in sent:
            sent["seed"] += draw
        limit = "max_completion_tokens" if self.family.newer_max_tokens else "max_tokens"
        fields = {
            "model": self.ref.name,
            "messages": [self._message(each) for each in request.messages],
            "stream": False,
            "stop": list(sent["stop"]) if "stop" in sent else None,
            limit: sent.get("max_tokens"),
            "response_format": self._format(request, form),
            **{name: sent.get(name) for name in ("seed", *_SAMPLING)},
        }
        return {name: value for name, value in fields.items() if value is not None}

    async def post(self, request: ChatRequest, draw: int, form: Form | None) -> ChatReply:
        """The answer; raises what went wrong, for `EndpointErrors` to say."""
        assert self.client is not None, "it was made to look at a request"
        url = self.endpoint.url_for(self.ref.name, "chat/completions")
        response = await self.client.post(
            url, json=self.body(request, draw, form), headers=self._headers
        )
        if not response.is_success:
            raise self._failure(response)
        return _reply(_Completion.model_validate(response.json()))

    @cached_property
    def _headers(self) -> dict[str, str]:
        """The key where the endpoint looks for it, and headers from variables."""
        address, key = self.endpoint.address, self.endpoint.key
        is_azure = self.ref.row.protocol == "azure"
        in_own_header = is_azure and (self.endpoint.api_version or address.endswith(AZURE_V1))
        return {
            **dict(self.endpoint.headers),
            "accept": "application/json",
            "user-agent": f"burnish/{VERSION}",
            **({"api-key": key} if in_own_header else {"authorization": f"Bearer {key}"}),
        }

    def _message(self, message: Message) -> dict[str, Json]:
        role = self.family.system_role if message.role == "system" else message.role
        if message.role != "user" or not message.images:
            return {"role": role, "content": message.content}
        pictures: list[Json] = [
            {
                "image_url": {"url": f"data:{image.media_type};base64,{_base64(image.base64)}"},
                "type": "image_url",
            }
            for image in message.images
        ]
        return {"role": role, "content": [{"text": message.content, "type": "text"}, *pictures]}

    def _format(self, request: ChatRequest, form: Form | None) -> dict[str, Any] | None:
        if request.schema is None or form in (None, "prompt"):
            return None
        if form == "json_object":
            return {"type": "json_object"}
        name = request.schema_name or "final_result"
        schema = written_schema(request.schema, self.family)
        return {"type": "json_schema", "json_schema": {"name": name, **schema}}

    def _failure(self, response: "Response") -> Exception:
        """An endpoint's refusal; Azure's for a filtered prompt is about this request alone."""
        try:
            document = cast("object", response.json())
        except (ValueError, RecursionError):
            document = response.text
        status, body = response.status_code, inside(document)
        kind, code = failure_kind(status, body)
        if self.ref.row.protocol == "azure" and status == 400 and code == "content_filter":
            return RequestFiltered()
        return EndpointFailure(status, body, headers=response.headers, kind=kind, code=code)


def _is_plain(message: Message) -> bool:
    """Whether a message is text, with images at most."""
    if message.role == "tool" or message.uses or message.verbatim is not None:
        return False
    return all(image.media_type.startswith("image/") for image in message.images)


def _base64(text: str) -> str:
    """In the usual spelling; an error if it is none."""
    return base64.b64encode(base64.b64decode(text)).decode()


# -- Answers ---------------------------------------------------------------------------------------


def _joined(content: object) -> object:
    """Some servers send a list of parts, of which the texts count."""
    if not isinstance(content, list):
        return content
    parts = cast("list[object]", content)
    return "".join(map(_text, parts)) or None


def _text(part: object) -> str:
    if isinstance(part, Mapping):
        fields = cast("Mapping[str, object]", part)
        part = fields.get("text") if fields.get("type") == "text" else ""
    return part if isinstance(part, str) else ""


class _Function(BaseModel):
    name: str
    arguments: str


class _ToolCall(BaseModel):
    id: str
    type: Literal["function"]
    function: _Function


class _Answer(BaseModel):
    role: Literal["assistant"]
    content: Annotated[str | None, BeforeValidator(_joined)] = None
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(BaseModel):
    index: int
    message: _Answer
    finish_reason: Annotated[str, Field(min_length=1)] | None = None


class _Tokens(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class _Completion(BaseModel):
    """What every answer has; one without it is not a model's."""

    id: str
    object: Literal["chat.completion"]
    created: int | None = None
    model: str
    choices: Annotated[list[_Choice], Field(min_length=1)]
    usage: _Tokens | None = None


def _reply(completion: _Completion) -> ChatReply:
    """The answer; the thoughts of a model that writes them are not part of it."""
    choice, usage = completion.choices[0], completion.usage
    message = choice.message
    finish = _FINISHES.get(choice.finish_reason or "stop")
    if message.refusal:
        finish = "content_filter"
    if finish is None:
        raise AnswerUnfinished
    counts = (usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)
    if finish == "content_filter" and not any(counts):
        raise RequestFiltered
    return ChatReply(
        text="" if message.refusal else without_thoughts(message.content or ""),
        uses=() if message.refusal else tuple(map(_use, message.tool_calls or ())),
        finish=finish,
        usage=Usage(requests=1, input_tokens=counts[0], output_tokens=counts[1]),
        model=completion.model,
    )


def _use(call: _ToolCall) -> ToolUse:
    """A call of a tool that nobody offered: models make such calls too."""
    arguments: object = None
    with suppress(ValueError):
        arguments = json.loads(call.function.arguments or "{}")
    if not isinstance(arguments, dict):
        arguments = {"INVALID_JSON": call.function.arguments}
    return ToolUse(
        id=call.id, name=call.function.name, arguments=cast("dict[str, Json]", arguments)
    )
