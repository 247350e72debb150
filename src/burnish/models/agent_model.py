"""A client as a model of pydantic-ai: its agents spend through the journal like all else."""

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from burnish.core.content import Json
from burnish.core.effects import Effects
from burnish.core.messages import Image, Message, ToolUse
from burnish.models.calling import ModelClient, Priced
from burnish.models.chat import ChatReply, ChatRequest, ToolSpec

VERBATIM = "burnish_verbatim"
"""Where a response keeps what its provider wants back."""


@dataclass
class Asked:
    """What an agent's requests came to."""

    replies: list[Priced] = field(default_factory=list[Priced])


class ClientModel(Model[None]):
    """Asks a client; every request of the agent is one journaled effect.

    `asked` gathers the replies, for usage, price and trace.
    """

    def __init__(self, client: ModelClient, *, draw: int, effects: Effects, asked: Asked) -> None:
        super().__init__(profile=_PROFILE)
        self._client = client
        self._draw = draw
        self._effects = effects
        self._asked = asked

    @property
    def model_name(self) -> str:
        """The model's name."""
        return self._client.ref.name

    @property
    def system(self) -> str:
        """The provider's name."""
        return self._client.ref.provider

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """One answer, once."""
        _, parameters = self.prepare_request(model_settings, model_request_parameters)
        request = chat_request(messages, parameters)
        priced = await self._client.ask(request, draw=self._draw, effects=self._effects)
        self._asked.replies.append(priced)
        return _response(priced.reply)


_PROFILE = ModelProfile(
    supports_json_schema_output=True,
    supports_tools=True,
    # Otherwise pydantic-ai adds a sentence of its own to the instructions that are tuned.
    supports_inline_system_prompts=True,
)


def chat_request(
    messages: Sequence[ModelMessage], parameters: ModelRequestParameters
) -> ChatRequest:
    """The conversation in our words, without what the clock says."""
    parts = [part.content for part in parameters.instruction_parts or () if part.content]
    standing = [Message(role="system", content="\n\n".join(parts))] if parts else []
    shape = parameters.output_object
    return ChatRequest(
        messages=(*standing, *(said for message in messages for said in _messages(message))),
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


def _messages(message: ModelMessage) -> Iterator[Message]:
    if isinstance(message, ModelRequest):
        for part in message.parts:
            yield from _said(part)
        return
    texts = [part.content for part in message.parts if isinstance(part, TextPart)]
    uses = tuple(
        ToolUse(
            id=part.tool_call_id,
            name=part.tool_name,
            arguments=cast("dict[str, Json]", part.args_as_dict()),
        )
        for part in message.parts
        if isinstance(part, ToolCallPart)
    )
    kept = (message.provider_details or {}).get(VERBATIM)
    yield Message(role="assistant", content="".join(texts), uses=uses, verbatim=kept)


def _said(part: Any) -> Iterator[Message]:
    if isinstance(part, SystemPromptPart):
        yield Message(role="system", content=part.content)
    elif isinstance(part, UserPromptPart):
        yield _from_user(part)
    elif isinstance(part, ToolReturnPart):
        told: str = part.model_response_str()
        yield Message(role="tool", content=told, answers=part.tool_call_id, tool=part.tool_name)
    elif isinstance(part, RetryFeedbackPart):
        yield Message(role="user", content=part.model_response())


def _from_user(part: UserPromptPart) -> Message:
    if isinstance(part.content, str):
        return Message(role="user", content=part.content)
    texts = [piece for piece in part.content if isinstance(piece, str)]
    images = tuple(
        Image(media_type=piece.media_type, base64=base64.b64encode(piece.data).decode())
        for piece in part.content
        if isinstance(piece, BinaryContent)
    )
    return Message(role="user", content="\n\n".join(texts), images=images)


def _response(reply: ChatReply) -> ModelResponse:
    texts = [TextPart(reply.text)] if reply.text or not reply.uses else []
    uses = [ToolCallPart(use.name, json.dumps(dict(use.arguments)), use.id) for use in reply.uses]
    usage = RequestUsage(
        input_tokens=reply.usage.input_tokens, output_tokens=reply.usage.output_tokens
    )
    details = {VERBATIM: reply.verbatim} if reply.verbatim is not None else None
    return ModelResponse(
        parts=[*texts, *uses],
        usage=usage,
        model_name=reply.model or None,
        finish_reason=None if reply.finish == "other" else reply.finish,
        provider_details=details,
    )
