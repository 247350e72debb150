"""Our words and pydantic-ai's: requests out, replies in."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from burnish.core.content import Json
from burnish.core.messages import Message
from burnish.core.outcomes import Usage
from burnish.models.chat import ChatReply, ChatRequest, Finish
from burnish.models.references import ModelRef

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings as Settings

_FINISHES: dict[str, Finish] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
}


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
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        UserPromptPart,
    )

    found: list[ModelMessage] = []
    for message in messages:
        if message.role == "assistant":
            found.append(ModelResponse(parts=[TextPart(message.content)]))
            continue
        kind = SystemPromptPart if message.role == "system" else UserPromptPart
        last = found[-1] if found else None
        if isinstance(last, ModelRequest):
            last.parts = [*last.parts, kind(message.content)]
        else:
            found.append(ModelRequest(parts=[kind(message.content)]))
    return found


def parameters_for(model: "Model[Any]", request: ChatRequest) -> "ModelRequestParameters":
    """How the answer is to look: text, or JSON by a schema the endpoint or the prompt enforces."""
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition

    if request.schema is None:
        return ModelRequestParameters()
    schema = cast("dict[str, Any]", request.schema)
    shape = OutputObjectDefinition(json_schema=schema, name=request.schema_name)
    mode = "native" if _enforces(model, request.schema) else "prompted"
    return ModelRequestParameters(output_mode=mode, output_object=shape)


def _enforces(model: "Model[Any]", schema: Mapping[str, Json]) -> bool:
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


def reply_from(response: "ModelResponse", seconds: float) -> ChatReply:
    """What the model answered; its thoughts are not part of it."""
    from pydantic_ai.messages import TextPart

    texts = [part.content for part in response.parts if isinstance(part, TextPart)]
    used = response.usage
    return ChatReply(
        text="".join(texts),
        finish=_FINISHES.get(response.finish_reason or "", "other"),
        usage=Usage(requests=1, input_tokens=used.input_tokens, output_tokens=used.output_tokens),
        model=response.model_name or "",
        seconds=seconds,
    )
