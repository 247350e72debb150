"""The shapes of EvalSets in every spelling of their keys: Python, JSON and Go."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, field_validator
from pydantic.alias_generators import to_camel

from burnish.core.content import Json
from burnish.system.config_errors import Fault, shown
from burnish.system.settings import SchemaPosition
from burnish.system.yaml import TreePath

_NEVER_CAMEL = frozenset(
    {"content_parts", "reasoning_content", "tool_id", "tool_name", "tool_calls"}
)
"""Keys of Go's messages, which are in snake_case among all the camelCase."""


def folded(key: str) -> str:
    """The key without what spellings differ in."""
    return key.replace("_", "").lower()


def as_python(value: Json, model: type[BaseModel]) -> Json:
    """The value with the keys that `model` knows in Python's spelling, whatever they were."""
    return _renamed(value, SchemaPosition.of(model), _python_names)


def as_json(value: Json, model: type[BaseModel]) -> Json:
    """The value with the keys that `model` knows in camelCase."""
    return _renamed(value, SchemaPosition.of(model), _camel_names)


def spelled_twice(value: Json, model: type[BaseModel]) -> list[tuple[TreePath, str]]:
    """The places where a key stands in two spellings, with the second of them."""
    return _twice(value, SchemaPosition.of(model), ())


def as_spelled(fault: Fault, value: Json) -> Fault:
    """The fault at the place as the file spells it, with known keys in the file's spelling."""
    path: list[str | int] = []
    spell = _camel if _is_camel(value) else str
    for step in fault.path:
        missing = step if isinstance(step, int) else spell(step)
        path.append(_key_like(value, step) or missing)
        value = _below(value, path[-1])
    keys = tuple(map(spell, fault.known_keys))
    return replace(fault, path=tuple(path), known_keys=keys)


def _renamed(
    value: Json, place: SchemaPosition, names: Callable[[SchemaPosition], Mapping[str, str]]
) -> Json:
    if isinstance(value, list):
        below = _place_below(place, 0)
        return [_renamed(item, below, names) for item in value]
    if not isinstance(value, dict) or not (spellings := names(place)):
        return value
    return {
        spellings.get(folded(key), key): _renamed(item, _place_of_key(place, key), names)
        for key, item in value.items()
    }


def _twice(value: Json, place: SchemaPosition, path: TreePath) -> list[tuple[TreePath, str]]:
    if isinstance(value, list):
        below = _place_below(place, 0)
        return [each for i, item in enumerate(value) for each in _twice(item, below, (*path, i))]
    if not isinstance(value, dict) or not (names := _python_names(place)):
        return []
    seen: set[str] = set()
    repeats: list[tuple[TreePath, str]] = []
    for key, item in value.items():
        repeats += [(path, key)] if folded(key) in seen and folded(key) in names else []
        seen.add(folded(key))
        repeats += _twice(item, _place_of_key(place, key), (*path, key))
    return repeats


@cache
def _python_names(place: SchemaPosition) -> Mapping[str, str]:
    return {folded(key): key for key in place.keys}


@cache
def _camel_names(place: SchemaPosition) -> Mapping[str, str]:
    return {folded(key): _camel(key) for key in place.keys}


@cache
def _place_below(place: SchemaPosition, step: str | int) -> SchemaPosition:
    return place.below(step)


def _place_of_key(place: SchemaPosition, key: str) -> SchemaPosition:
    return _place_below(place, _python_names(place).get(folded(key), key))


def _camel(key: str) -> str:
    return key if key in _NEVER_CAMEL else to_camel(key)


def _is_camel(value: Json) -> bool:
    return isinstance(value, dict) and any(key != key.lower() for key in value)


def _key_like(value: Json, step: str | int) -> str | None:
    if not isinstance(value, dict) or isinstance(step, int):
        return None
    return next((key for key in value if folded(key) == folded(step)), None)


def _below(value: Json, step: str | int) -> Json:
    if isinstance(value, dict):
        return value.get(str(step))
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return value[step]
    return None


class EvalShape(BaseModel):
    """A mapping in an EvalSet: a key it does not know is a mistake."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    def as_read(self) -> dict[str, Json]:
        """What the file says here, under Python's names."""
        return self.model_dump(exclude_unset=True)


# -- The shape of what is said and called in an EvalSet -------------------------------------------


class FunctionCallShape(EvalShape):
    """A call that a model asked for."""

    name: str
    id: str | None = None
    args: dict[str, Json] | None = None
    will_continue: Json = None
    partial_args: Json = None


class FunctionResponseShape(EvalShape):
    """What a tool gave back."""

    name: str | None = None
    id: str | None = None
    response: dict[str, Json] | None = None
    will_continue: Json = None
    scheduling: Json = None
    parts: Json = None


class PartShape(EvalShape):
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
    """Something that happened on the way to the reply."""

    author: str | None = None
    content: MessageShape | None = None


class IntermediateShape(EvalShape):
    """What happened before the reply: calls and responses, or events."""

    tool_uses: list[FunctionCallShape] | None = None
    tool_responses: list[FunctionResponseShape] | None = None
    intermediate_responses: list[Json] | None = None
    invocation_events: list[EventShape] | None = None


class GoToolShape(EvalShape):
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
        arguments: Json = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return arguments


# -- The shape of an EvalSet ----------------------------------------------------------------------


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
    """A conversation whose user is played by a model."""

    starting_prompt: str
    conversation_plan: str
    stop_signal: str | None = None
    max_allowed_invocations: StrictInt | None = None
    driver: str | None = None


class SessionShape(EvalShape):
    """What a session starts with."""

    app_name: str | None = None
    user_id: str | None = None
    state: dict[str, Json] | None = None


class RubricTextShape(EvalShape):
    """What a rubric asks for."""

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
    """The set around the cases, which are looked at one by one."""

    eval_set_id: str
    eval_cases: list[object]
    app_name: str | None = None
    name: str | None = None
    description: str | None = None
    creation_timestamp: _Number | None = None
