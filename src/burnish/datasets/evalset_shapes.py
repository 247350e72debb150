"""The shapes of EvalSets, whose keys may be in the spelling of Python, JSON or Go."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, field_validator
from pydantic.alias_generators import to_camel

from burnish.core.content import Json
from burnish.system.config import Fault, shown
from burnish.system.settings import SchemaPosition
from burnish.system.yaml import TreePath

_NEVER_CAMEL = frozenset(
    {"content_parts", "reasoning_content", "tool_id", "tool_name", "tool_calls"}
)
"""Keys of Go's messages that are always in snake_case."""


def folded(key: str) -> str:
    """The key without underscores and in lower case, to compare spellings."""
    return key.replace("_", "").lower()


def as_python(value: Json, model: type[BaseModel]) -> Json:
    """The value with known keys in Python's spelling."""
    return _renamed(value, SchemaPosition.of(model), str)


def as_json(value: Json, model: type[BaseModel]) -> Json:
    """The value with known keys in camelCase."""
    return _renamed(value, SchemaPosition.of(model), _camel)


def spelled_twice(value: Json, model: type[BaseModel]) -> list[tuple[TreePath, str]]:
    """The places where a key occurs in two spellings, with the second one."""
    return _twice(value, SchemaPosition.of(model), ())


def as_spelled(fault: Fault, value: Json) -> Fault:
    """The fault with its place and keys in the spelling of the file."""
    path: list[str | int] = []
    camel = isinstance(value, dict) and any(key != key.lower() for key in value)
    spell = _camel if camel else str
    for step in fault.path:
        if isinstance(step, int):
            path.append(step)
            value = value[step] if isinstance(value, list) and step < len(value) else None
        else:
            held: dict[str, Json] = value if isinstance(value, dict) else {}
            path.append(next((key for key in held if folded(key) == folded(step)), spell(step)))
            value = held.get(str(path[-1]))
    return replace(fault, path=tuple(path), known_keys=tuple(map(spell, fault.known_keys)))


def _renamed(value: Json, place: SchemaPosition, spell: Callable[[str], str]) -> Json:
    if isinstance(value, list):
        below = _place_below(place, 0)
        return [_renamed(item, below, spell) for item in value]
    if not isinstance(value, dict) or not (names := _names(place)):
        return value
    return {
        spell(names[folded(key)]) if folded(key) in names else key: _renamed(
            item, _place_of_key(place, key), spell
        )
        for key, item in value.items()
    }


def _twice(value: Json, place: SchemaPosition, path: TreePath) -> list[tuple[TreePath, str]]:
    if isinstance(value, list):
        below = _place_below(place, 0)
        return [each for i, item in enumerate(value) for each in _twice(item, below, (*path, i))]
    if not isinstance(value, dict) or not (names := _names(place)):
        return []
    seen: set[str] = set()
    repeats: list[tuple[TreePath, str]] = []
    for key, item in value.items():
        repeats += [(path, key)] if folded(key) in seen and folded(key) in names else []
        seen.add(folded(key))
        repeats += _twice(item, _place_of_key(place, key), (*path, key))
    return repeats


@cache
def _names(place: SchemaPosition) -> Mapping[str, str]:
    return {folded(key): key for key in place.keys}


@cache
def _place_below(place: SchemaPosition, step: str | int) -> SchemaPosition:
    return place.below(step)


def _place_of_key(place: SchemaPosition, key: str) -> SchemaPosition:
    return _place_below(place, _names(place).get(folded(key), key))


def _camel(key: str) -> str:
    return key if key in _NEVER_CAMEL else to_camel(key)


class EvalShape(BaseModel):
    """A mapping in an EvalSet; unknown keys are rejected."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    def as_read(self) -> dict[str, Json]:
        """What the file says, under Python's names."""
        return self.model_dump(exclude_unset=True)


class FunctionCallShape(EvalShape):
    """A tool call."""

    name: str
    id: str | None = None
    args: dict[str, Json] | None = None
    will_continue: Json = None
    partial_args: Json = None


class FunctionResponseShape(EvalShape):
    """The response of a tool."""

    name: str | None = None
    id: str | None = None
    response: dict[str, Json] | None = None
    will_continue: Json = None
    scheduling: Json = None
    parts: Json = None


class PartShape(EvalShape):
    """A part of a message."""

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


class MessageShape(EvalShape):
    """A message: with `parts` in Python's files, with `content` in Go's."""

    role: str | None = None
    parts: list[PartShape] | None = None
    content: str | None = None
    content_parts: list[dict[str, Json]] | None = None
    reasoning_content: Json = None
    tool_id: Json = None
    tool_name: Json = None
    tool_calls: Json = None


class EventShape(EvalShape):
    """An event before the reply."""

    author: str | None = None
    content: MessageShape | None = None


class IntermediateShape(EvalShape):
    """What happened before the reply: calls and responses, or events."""

    tool_uses: list[FunctionCallShape] | None = None
    tool_responses: list[FunctionResponseShape] | None = None
    intermediate_responses: list[Json] | None = None
    invocation_events: list[EventShape] | None = None


class GoToolShape(EvalShape):
    """A tool call in Go's files; arguments may be JSON in a string."""

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
    """The arguments of a call, parsed if they are JSON in a string."""
    if value is None or value == "":
        return {}
    if not isinstance(value, str):
        return value
    try:
        arguments: Json = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return arguments


_Number = StrictInt | float


class InvocationShape(EvalShape):
    """One turn."""

    user_content: MessageShape
    invocation_id: str | None = None
    final_response: MessageShape | None = None
    intermediate_data: IntermediateShape | None = None
    creation_timestamp: _Number | None = None
    metric_names: list[str] | None = None
    context_messages: list[MessageShape] | None = None
    tools: list[GoToolShape] | None = None
    tool_mock: Json = None
    intermediate_responses: list[MessageShape] | None = None


class ScenarioShape(EvalShape):
    """A conversation with a simulated user."""

    starting_prompt: str
    conversation_plan: str
    stop_signal: str | None = None
    max_allowed_invocations: StrictInt | None = None
    driver: str | None = None


class SessionShape(EvalShape):
    """The initial state of a session."""

    app_name: str | None = None
    user_id: str | None = None
    state: dict[str, Json] | None = None


class RubricTextShape(EvalShape):
    """The text of a rubric."""

    text: str


class EvalRubricShape(EvalShape):
    """A rubric of one case."""

    id: str
    content: RubricTextShape
    metric_name: str | None = None
    description: str | None = None
    type: str | None = None


class EvalCaseShape(EvalShape):
    """One case."""

    eval_id: str = Field(min_length=1)
    eval_mode: str | None = None
    conversation: list[InvocationShape] | None = None
    actual_conversation: list[InvocationShape] | None = None
    conversation_scenario: ScenarioShape | None = None
    session_input: SessionShape | None = None
    context_messages: list[MessageShape] | None = None
    creation_timestamp: _Number | None = None
    expected_runner_enabled: StrictBool | None = None
    rubrics: list[EvalRubricShape] | None = None


class EvalSetShape(EvalShape):
    """The set around the cases, which are validated one by one."""

    eval_set_id: str
    eval_cases: list[object]
    app_name: str | None = None
    name: str | None = None
    description: str | None = None
    creation_timestamp: _Number | None = None
