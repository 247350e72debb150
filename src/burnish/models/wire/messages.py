"""Our words and pydantic-ai's: requests out, replies in."""

import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from burnish.core.content import Json
from burnish.core.messages import Message, ToolUse
from burnish.core.outcomes import Usage
from burnish.models.chat import ChatReply, ChatRequest, Finish, Form
from burnish.models.references import ModelRef

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse, ToolCallPart
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings as Settings

_FINISHES: dict[str, Finish] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "tool_call": "tool_call",
}


_PASSING = ("timestamp", "usage", "provider_details", "run_id", "metadata")
"""What a response says of itself and of this moment."""


def settings_for(ref: ModelRef, draw: int) -> "Settings":
    """The settings as pydantic-ai names them. A seed counts on with the draw: two samples of
    one seed would be one sample."""
    sent = ref.settings.sent()
    if "stop" in sent:
        sent["stop_sequences"] = list(sent.pop("stop"))
    if "seed" in sent:
        sent["seed"] += draw
    if ref.provider == "google" and ref.settings.timeout is not None:
        sent["timeout"] = ref.settings.timeout  # Its SDK would end the call after 600 s.
    return cast("Settings", sent)


def messages_for(messages: tuple[Message, ...]) -> "list[ModelMessage]":
    """The conversation; what one side says in a row goes together."""
    from pydantic_ai.messages import ModelRequest

    found: list[ModelMessage] = []
    for message in messages:
        if message.role == "assistant":
            found.append(_response(message))
            continue
        last = found[-1] if found else None
        if isinstance(last, ModelRequest):
            last.parts = [*last.parts, _part(message)]
        else:
            found.append(ModelRequest(parts=[_part(message)]))
    return found


def _response(message: Message) -> "ModelResponse":
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

    if message.verbatim is not None:
        return _responses().validate_python(message.verbatim)
    uses = [ToolCallPart(use.name, dict(use.arguments), use.id) for use in message.uses]
    texts = [TextPart(message.content)] if message.content or not uses else []
    return ModelResponse(parts=[*texts, *uses])


def _part(message: Message) -> "ModelRequestPart":
    from pydantic_ai.messages import (
        BinaryContent,
        SystemPromptPart,
        ToolReturnPart,
        UserPromptPart,
    )

    if message.role == "system":
        return SystemPromptPart(message.content)
    if message.role == "tool":
        return ToolReturnPart(message.tool, message.content, message.answers)
    if not message.images:
        return UserPromptPart(message.content)
    pictures = [
        BinaryContent(b64decode(image.base64), media_type=image.media_type)
        for image in message.images
    ]
    return UserPromptPart([message.content, *pictures])


@cache
def _responses() -> "TypeAdapter[ModelResponse]":
    from pydantic import TypeAdapter
    from pydantic_ai.messages import ModelResponse

    return TypeAdapter(ModelResponse)


def parameters_for(
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
        output_mode="prompted" if form or not enforces(model, request.schema) else "native",
        output_object=shape,
        prompted_output_template=False if form else None,
    )


def with_schema(messages: tuple[Message, ...], schema: Mapping[str, Json]) -> tuple[Message, ...]:
    """The conversation with the schema in its system message: many endpoints take only one."""
    instruction = (
        "Answer with one JSON object that keeps this JSON schema, without a word before or after "
        f"it and without a Markdown fence:\n\n{json.dumps(schema, ensure_ascii=False)}"
    )
    first, rest = messages[:1], messages[1:]
    if first and first[0].role == "system":
        return (replace(first[0], content=f"{first[0].content.rstrip()}\n\n{instruction}"), *rest)
    return (Message(role="system", content=instruction), *messages)


def enforces(model: "Model[Any]", schema: Mapping[str, Json]) -> bool:
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


def reply_from(response: "ModelResponse", seconds: float, form: Form | None = None) -> ChatReply:
    """What the model answered; its thoughts are not part of it, though they go back with it."""
    from pydantic_ai.messages import TextPart, ToolCallPart

    texts = [part.content for part in response.parts if isinstance(part, TextPart)]
    uses = tuple(
        ToolUse(id=part.tool_call_id, name=part.tool_name, arguments=_arguments(part))
        for part in response.parts
        if isinstance(part, ToolCallPart)
    )
    used = response.usage
    return ChatReply(
        text="".join(texts),
        uses=uses,
        finish=_FINISHES.get(response.finish_reason or "", "other"),
        usage=Usage(requests=1, input_tokens=used.input_tokens, output_tokens=used.output_tokens),
        model=response.model_name or "",
        seconds=seconds,
        form=form,
        verbatim=_verbatim(response) if uses else None,
    )


def _arguments(part: "ToolCallPart") -> dict[str, Json]:
    """What the model wants to hand over; what is no JSON object is handed over as it is."""
    try:
        return cast("dict[str, Json]", part.args_as_dict())
    except (ValueError, AssertionError):
        return {"": str(part.args)}


def _verbatim(response: "ModelResponse") -> Json:
    """The response as JSON, without what the clock says."""
    data = cast("dict[str, Json]", _responses().dump_python(response, mode="json"))
    return {key: value for key, value in data.items() if key not in _PASSING}
