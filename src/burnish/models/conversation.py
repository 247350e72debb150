"""Conversations in pydantic-ai's types and in ours; the model that its agents call, and its own.

The journal key of a call is made of our types: messages and tool calls, in order, without
pydantic-ai's timestamps and ids. Nothing else is sent, so the key has all that an answer depends
on.
"""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast, get_args

from pydantic import TypeAdapter
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    RetryFeedbackPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from burnish.core.cases import Image, Message, ToolUse, Usage
from burnish.core.content import Json
from burnish.core.protocols import Effects
from burnish.core.thoughts import without_thoughts
from burnish.models.chat import ChatReply, ChatRequest, Finish, Form, ModelClient, Priced, ToolSpec
from burnish.models.errors import AnswerUnfinished, RequestFiltered
from burnish.models.references import ModelRef

_VERBATIM = "burnish_verbatim"
"""Where a response stores what its provider expects back."""
_PASSING = ("timestamp", "usage", "provider_details", "run_id", "metadata")
"""Fields about this moment, which do not go back to the provider."""
_RESPONSES = TypeAdapter(ModelResponse)


@dataclass
class ReplyLog:
    """The replies to an agent's requests, for usage, price and trace."""

    replies: list[Priced] = field(default_factory=list[Priced])


class JournaledModel(Model[None]):
    """A client as a pydantic-ai model: every request of an agent is one journaled effect.

    Its profile is the same for every provider, so that keys do not depend on what pydantic-ai
    knows about it. Features that an endpoint lacks are emulated in the backend.
    """

    def __init__(self, client: ModelClient, *, draw: int, effects: Effects, log: ReplyLog) -> None:
        super().__init__(
            profile=ModelProfile(
                supports_json_schema_output=True,
                supports_tools=True,
                # Otherwise pydantic-ai adds a sentence of its own to the instructions.
                supports_inline_system_prompts=True,
            )
        )
        self._client = client
        self._draw = draw
        self._effects = effects
        self._log = log

    @property
    def model_name(self) -> str:
        return self._client.ref.name

    @property
    def system(self) -> str:
        return self._client.ref.provider

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        _, parameters = self.prepare_request(model_settings, model_request_parameters)
        request = _chat_request(messages, parameters)
        priced = await self._client.ask(request, draw=self._draw, effects=self._effects)
        self._log.replies.append(priced)
        return _replied(priced.reply)


def _chat_request(
    messages: Sequence[ModelMessage], parameters: ModelRequestParameters
) -> ChatRequest:
    parts = [part.content for part in parameters.instruction_parts or () if part.content]
    instructions = [Message(role="system", content="\n\n".join(parts))] if parts else []
    shape = parameters.output_object
    return ChatRequest(
        messages=(*instructions, *(each for message in messages for each in _messages(message))),
        schema=cast("dict[str, Json]", shape.json_schema) if shape else None,
        schema_name=(shape.name if shape else None) or "answer",
        tools=tuple(
            ToolSpec(
                name=tool.name,
                description=tool.description or "",
                parameters=cast("dict[str, Json]", tool.parameters_json_schema),
            )
            for tool in parameters.function_tools
        ),
    )


@dataclass(frozen=True)
class LibraryModel:
    """A model that pydantic-ai calls."""

    ref: ModelRef
    model: Model[Any]

    def forms(self, schema: Mapping[str, Json]) -> dict[Form, bool]:
        """Which forms of a structured answer it offers."""
        profile = self.model.profile
        enforces = profile.get("supports_json_schema_output", False)
        # Anthropic would make every open mapping an empty one.
        if self.model.system == "anthropic" and _has_open_mapping(cast("Json", schema)):
            enforces = False
        return {
            "json_schema": enforces,
            "json_object": profile.get("supports_json_object_output", False),
            "prompt": True,
        }

    async def post(self, request: ChatRequest, draw: int, form: Form | None) -> ChatReply:
        """The answer; raises what went wrong, for `EndpointErrors` to say."""
        messages, settings = model_messages(request.messages), _settings_for(self.ref, draw)
        response = await self.model.request(messages, settings, _parameters_for(request, form))
        if response.finish_reason is None:
            raise AnswerUnfinished
        if response.finish_reason == "content_filter" and not response.usage.has_values():
            raise RequestFiltered
        return _reply_from(response)


def _has_open_mapping(schema: Json) -> bool:
    if isinstance(schema, list):
        return any(map(_has_open_mapping, schema))
    if not isinstance(schema, dict):
        return False
    more = schema.get("additionalProperties")
    is_open = more is True or isinstance(more, dict)
    return is_open or any(map(_has_open_mapping, schema.values()))


def _settings_for(ref: ModelRef, draw: int) -> ModelSettings:
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


def _parameters_for(request: ChatRequest, form: Form | None) -> ModelRequestParameters:
    """The tools, and the form of the answer: text, or JSON."""
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


def _reply_from(response: ModelResponse) -> ChatReply:
    """The model's answer; its thoughts are not part of it, but are sent back with it."""
    uses, used, finish = _uses(response), response.usage, response.finish_reason
    verbatim: Json = None
    if uses:
        data = cast("dict[str, Json]", _RESPONSES.dump_python(response, mode="json"))
        verbatim = {key: value for key, value in data.items() if key not in _PASSING}
    return ChatReply(
        text=_text(response),
        uses=uses,
        finish=cast("Finish", finish) if finish in get_args(Finish) else "other",
        usage=Usage(requests=1, input_tokens=used.input_tokens, output_tokens=used.output_tokens),
        model=response.model_name or "",
        verbatim=verbatim,
    )


def _messages(message: ModelMessage) -> Iterator[Message]:
    if isinstance(message, ModelRequest):
        for part in message.parts:
            yield from _request_message(part)
        return
    verbatim = (message.provider_details or {}).get(_VERBATIM)
    uses = _uses(message)
    yield Message(role="assistant", content=_text(message), uses=uses, verbatim=verbatim)


def _request_message(part: ModelRequestPart) -> Iterator[Message]:
    if isinstance(part, SystemPromptPart):
        yield Message(role="system", content=part.content)
    elif isinstance(part, UserPromptPart):
        pieces = [part.content] if isinstance(part.content, str) else part.content
        texts = [piece for piece in pieces if isinstance(piece, str)]
        images = tuple(
            Image(media_type=piece.media_type, base64=base64.b64encode(piece.data).decode())
            for piece in pieces
            if isinstance(piece, BinaryContent)
        )
        yield Message(role="user", content="\n\n".join(texts), images=images)
    elif isinstance(part, ToolReturnPart):
        result = part.model_response_str()
        yield Message(role="tool", content=result, answers=part.tool_call_id, tool=part.tool_name)
    elif isinstance(part, RetryFeedbackPart):
        yield Message(role="user", content=part.model_response())


def _text(response: ModelResponse) -> str:
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    # pydantic-ai takes thoughts out of a text, but not the white space after them.
    is_split = any(isinstance(part, ThinkingPart) for part in response.parts)
    return without_thoughts(text.strip() if is_split else text)


def _uses(response: ModelResponse) -> tuple[ToolUse, ...]:
    return tuple(
        ToolUse(
            id=part.tool_call_id,
            name=part.tool_name,
            arguments=cast("dict[str, Json]", part.args_as_dict()),
        )
        for part in response.parts
        if isinstance(part, ToolCallPart)
    )


def model_messages(messages: Iterable[Message]) -> list[ModelMessage]:
    """A conversation; consecutive messages of one side are joined."""
    joined: list[ModelMessage] = []
    for message in map(model_message, messages):
        last = joined[-1] if joined else None
        if isinstance(message, ModelRequest) and isinstance(last, ModelRequest):
            last.parts = [*last.parts, *message.parts]
        else:
            joined.append(message)
    return joined


def model_message(message: Message) -> ModelMessage:
    """One message; an assistant's in the form that its provider expects back."""
    if message.role != "assistant":
        return ModelRequest(parts=[_request_part(message)])
    if message.verbatim is not None:
        return _RESPONSES.validate_python(message.verbatim)
    calls = [ToolCallPart(use.name, dict(use.arguments), use.id) for use in message.uses]
    return _response(message.content, calls)


def user_content(text: str, images: Sequence[Image]) -> str | list[UserContent]:
    """A user's text with its images."""
    pictures = [
        BinaryContent(base64.b64decode(image.base64), media_type=image.media_type)
        for image in images
    ]
    return [text, *pictures] if pictures else text


def _request_part(message: Message) -> ModelRequestPart:
    if message.role == "system":
        return SystemPromptPart(message.content)
    if message.role == "tool":
        return ToolReturnPart(message.tool, message.content, message.answers)
    return UserPromptPart(user_content(message.content, message.images))


def _replied(reply: ChatReply) -> ModelResponse:
    """A reply for an agent, whose tools expect their arguments as JSON."""
    calls = [ToolCallPart(use.name, json.dumps(dict(use.arguments)), use.id) for use in reply.uses]
    usage = reply.usage
    return replace(
        _response(reply.text, calls),
        usage=RequestUsage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens),
        model_name=reply.model or None,
        finish_reason=None if reply.finish == "other" else reply.finish,
        provider_details=None if reply.verbatim is None else {_VERBATIM: reply.verbatim},
    )


def _response(text: str, calls: list[ToolCallPart]) -> ModelResponse:
    texts = [TextPart(text)] if text or not calls else []
    return ModelResponse(parts=[*texts, *calls])
