"""The shape of what is said and called in an EvalSet: messages, their parts, calls, responses."""

import json
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, StrictBool, field_validator

from burnish.core.content import Json
from burnish.system.config_errors import shown


class Shape(BaseModel):
    """A mapping in an EvalSet: a key it does not know is a mistake."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    def kept(self) -> dict[str, Json]:
        """What the file says here, under Python's names."""
        return self.model_dump(exclude_unset=True)


class FunctionCallShape(Shape):
    """A call that a model asked for."""

    name: str
    id: str | None = None
    args: dict[str, Json] | None = None
    will_continue: Json = None
    partial_args: Json = None


class FunctionResponseShape(Shape):
    """What a tool gave back."""

    name: str | None = None
    id: str | None = None
    response: dict[str, Json] | None = None
    will_continue: Json = None
    scheduling: Json = None
    parts: Json = None


class PartShape(Shape):
    """A part of a message; only texts, calls and responses are looked into."""

    text: str | None = None
    thought: StrictBool | None = None
    function_call: FunctionCallShape | None = None
    function_response: FunctionResponseShape | None = None
    thought_signature: Json = None
    inline_data: Json = None
    file_data: Json = None
    executable_code: Json = None
    code_execution_result: Json = None
    video_metadata: Json = None
    media_resolution: Json = None
    part_metadata: Json = None
    tool_call: Json = None
    tool_response: Json = None


class MessageShape(Shape):
    """A message: with `parts` in Python's files, with `content` in Go's."""

    role: str | None = None
    parts: list[PartShape] | None = None
    content: str | None = None
    content_parts: list[dict[str, Json]] | None = None
    reasoning_content: Json = None
    tool_id: Json = None
    tool_name: Json = None
    tool_calls: Json = None


class EventShape(Shape):
    """Something that happened on the way to the reply."""

    author: str | None = None
    content: MessageShape | None = None


class IntermediateShape(Shape):
    """What happened before the reply: calls and responses, or events."""

    tool_uses: list[FunctionCallShape] | None = None
    tool_responses: list[FunctionResponseShape] | None = None
    intermediate_responses: list[Json] | None = None
    invocation_events: list[EventShape] | None = None


class ToolShape(Shape):
    """A use of a tool in Go's files; arguments may be JSON within a text."""

    name: str
    id: str | None = None
    arguments: Json = None
    result: Json = None

    @field_validator("arguments")
    @classmethod
    def _are_an_object(cls, value: Json) -> Json:
        if not isinstance(arguments_in(value), dict):
            message = f"expected a mapping, or JSON of one, found {shown(value)}"
            raise ValueError(message)  # noqa: TRY004
        return value


def arguments_in(value: Json) -> Json:
    """The arguments of a call: as they are, or as the JSON in a text says; none is none."""
    if value is None or value == "":
        return {}
    if not isinstance(value, str):
        return value
    try:
        found: Json = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return found
