"""The structures and values of PromptIter's JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, TypeVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem, first_problems
from burnish.core.formatting import shorten
from burnish.core.surfaces import (
    ChoiceSurface,
    Demonstration,
    NodeKind,
    NumberSurface,
    Position,
    SurfaceType,
    Value,
)
from burnish.core.surfaces import Surface as CoreSurface
from burnish.datasets.evalset_shapes import as_python, folded
from burnish.system.config import nearest
from burnish.system.removed import way_out
from burnish.system.settings import SchemaPosition, too_many_keys

_OUR_NAMES = {
    "step_id": "step",
    "node_id": "node",
    "metric_name": "metric",
    "loss": "text",
    "gradient": "text",
}
"""What burnish calls the same field."""
_UPPER = {"id": "ID", "ids": "IDs", "url": "URL", "api": "API", "usd": "USD"}


def _pascal(name: str) -> str:
    """The name of a field in Go: `eval_set_id` is `EvalSetID`."""
    return "".join(_UPPER.get(word, word.capitalize()) for word in name.split("_"))


class Wire(BaseModel):
    """A model with PromptIter's JSON keys."""

    model_config = ConfigDict(
        frozen=True,
        populate_by_name=True,
        alias_generator=_pascal,
        allow_inf_nan=False,
        extra="forbid",
    )
    where: ClassVar[str] = "JSON"
    """The name in error messages."""

    @model_validator(mode="before")
    @classmethod
    def _nulls(cls, value: Any) -> Any:
        """Go writes `null` for unset fields, so it counts as a missing key."""
        if not isinstance(value, Mapping):
            return value
        mapping = cast("Mapping[str, Any]", value)
        return {key: held for key, held in mapping.items() if held is not None}

    @classmethod
    def of(cls, source: object, **fields: Any) -> Self:
        """Copy the fields of a burnish object, except for those in `fields`."""
        for name in cls.model_fields.keys() - fields.keys():
            for own in (name, _OUR_NAMES.get(name, name)):
                if hasattr(source, own):
                    fields[name] = getattr(source, own)
                    break
        return cls(**fields)

    def to_json(self) -> dict[str, Json]:
        """The data as PromptIter writes it."""
        return cast("dict[str, Json]", self.model_dump(mode="json", by_alias=True))

    @classmethod
    def from_json(cls, data: Json) -> Self:
        """Read JSON data; keys may be in any letter case, unknown ones are ignored."""
        try:
            return cls.model_validate(_pruned(as_python(data, cls), SchemaPosition.of(cls)))
        except ValidationError as error:
            raise ConfigError(_problems(error, cls.where)) from None


class CamelWire(Wire):
    """A model with keys in camelCase."""

    model_config = ConfigDict(alias_generator=to_camel)


@dataclass(frozen=True, kw_only=True)
class UnknownKey:
    """A key that a model does not have."""

    path: str
    place: SchemaPosition
    """Where it stands."""

    @property
    def problem(self) -> Problem:
        """What is wrong with it, and the key that was probably meant."""
        blocks = (kind for kind in self.place.types if isinstance(kind, type))
        names = [
            str(field.alias)
            for block in blocks
            if issubclass(block, BaseModel)
            for field in block.model_fields.values()
        ]
        key = self.path.rpartition(".")[2]
        likely = nearest(key, names)
        remedy = way_out(key) or (f"did you mean '{likely}'?" if likely else "")
        return Problem(where="run", message=f"unknown field '{self.path}'", remedy=remedy)


def unknown_keys(data: Json, model: type[BaseModel]) -> list[UnknownKey]:
    """The keys that the model does not have; refuses blocks with too many keys."""
    return list(_unknown(data, SchemaPosition.of(model), ""))


def _pruned(data: Json, place: SchemaPosition) -> Json:
    if isinstance(data, list):
        below = place.below(0)
        return [_pruned(item, below) for item in data]
    if not isinstance(data, dict) or not (keys := place.keys):
        return data
    return {key: _pruned(item, place.below(key)) for key, item in data.items() if key in keys}


def _unknown(data: Json, place: SchemaPosition, at: str) -> Iterator[UnknownKey]:
    if isinstance(data, list):
        below = place.below(0)
        for index, item in enumerate(data):
            yield from _unknown(item, below, f"{at}[{index}]")
        return
    keys = {folded(key): key for key in place.keys}
    if not isinstance(data, dict) or not keys:
        return
    if message := too_many_keys(data):
        raise ConfigError.of(at or "run", message)
    for key, item in data.items():
        path = f"{at}.{shorten(key, 60)}" if at else shorten(key, 60)
        if folded(key) not in keys:
            yield UnknownKey(path=path, place=place)
        else:
            yield from _unknown(item, place.below(keys[folded(key)]), path)


def _problems(error: ValidationError, where: str) -> list[Problem]:
    def problem(each: ErrorDetails) -> Problem:
        parts = (
            shorten(_pascal(part), 60) if isinstance(part, str) else str(part)
            for part in each["loc"]
        )
        return Problem(where=".".join(parts) or where, message=each["msg"])

    return first_problems(error.errors(include_url=False, include_input=False), problem)


Id: TypeAlias = Annotated[str, StringConstraints(strip_whitespace=True)]
"""An id that a client or a model wrote: spaces around it do not count."""


def is_empty(value: object) -> bool:
    """Whether a field is left out of the JSON."""
    return not value


class Message(Wire):
    """One message of an example."""

    role: str = ""
    content: str = ""


class Example(Wire):
    """A few-shot example."""

    messages: tuple[Message, ...] = ()


_OMITTED: Any = Field(default="", exclude_if=is_empty)


class ModelValue(Wire):
    """A model; empty fields are left out."""

    provider: str = _OMITTED
    name: str = _OMITTED
    variant: str = _OMITTED
    base_url: str = _OMITTED
    api_key: str = _OMITTED
    headers: dict[str, str] = Field(default_factory=dict[str, str], exclude_if=is_empty)


class ToolValue(Wire):
    """A tool as its model sees it."""

    id: str = ""
    description: str = ""
    input_schema: Json = None
    output_schema: Json = None


class SkillValue(Wire):
    """A skill: its name, and its text."""

    id: str = ""
    description: str = ""


class SurfaceValue(Wire):
    """The value of a surface: one branch is set, the others are null."""

    text: str | None = None
    prompt_syntax: Literal["mixed_brace", "single_brace", "double_brace"] | None = None
    few_shot: tuple[Example, ...] | None = None
    model: ModelValue | None = None
    tools: tuple[ToolValue, ...] | None = None
    skills: tuple[SkillValue, ...] | None = None

    @property
    def branches(self) -> tuple[str, ...]:
        names = ("text", "few_shot", "model", "tools", "skills")
        return tuple(name for name in names if getattr(self, name) is not None)


class Node(Wire):
    """A node of the graph."""

    node_id: str = ""
    kind: NodeKind = NodeKind.AGENT
    name: str = ""


class Edge(Wire):
    """An edge of the graph."""

    from_node_id: str = ""
    to_node_id: str = ""


NUMBER: Literal["number"] = "number"
"""The type of a model's settings, which PromptIter does not have."""
TypeName: TypeAlias = SurfaceType | Literal["number"]


class Surface(Wire):
    """One editable position and its value."""

    surface_id: str = ""
    node_id: str = ""
    type: TypeName = SurfaceType.INSTRUCTION
    value: SurfaceValue = Field(default_factory=SurfaceValue)


class Snapshot(Wire):
    """The static structure of an agent."""

    where = "structure"

    structure_id: str = ""
    entry_node_id: str = ""
    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()
    surfaces: tuple[Surface, ...] = ()

    def surface(self, name: str) -> Surface | None:
        return next((each for each in self.surfaces if each.surface_id == name), None)


class SurfaceOverride(Wire):
    """Another value for a surface."""

    surface_id: Id = ""
    value: SurfaceValue = Field(default_factory=SurfaceValue)


class Profile(Wire):
    """A version: what differs from the snapshot."""

    where = "profile"

    structure_id: str = ""
    overrides: tuple[SurfaceOverride, ...] = ()


class SurfacePatch(Wire):
    """A new value for a surface, and why."""

    surface_id: Id = ""
    value: SurfaceValue = Field(default_factory=SurfaceValue)
    reason: str = ""


class PatchSet(Wire):
    """The patches of one round."""

    patches: tuple[SurfacePatch, ...] = ()


_Named = TypeVar("_Named", ToolValue, SkillValue)


def union_of(position: Position, value: Value) -> SurfaceValue:
    """A value of this position in its branch of the union."""
    if isinstance(value, tuple):
        return SurfaceValue(few_shot=tuple(map(_example, value)))
    match _branch_of(position):
        case "tools":
            return SurfaceValue(tools=(_tool(position, str(value)),))
        case "skills":
            return SurfaceValue(skills=(SkillValue(id=position.part, description=str(value)),))
        case "model":
            return SurfaceValue(model=_model(position, str(value)))
        case _:
            return SurfaceValue(text=str(value))


def value_of(union: SurfaceValue, position: Position, surface: CoreSurface) -> Value:
    """The value of a union for this position; raises ConfigError if it does not fit."""
    branch = _branch_of(position)
    if union.branches != (branch,):
        branches = ", ".join(union.branches) or "none"
        raise _wrong(position, f"only '{branch}' may be set, found {branches}")
    if union.prompt_syntax is not None:
        raise _wrong(position, "PromptSyntax cannot be changed", "leave it null")
    match branch:
        case "few_shot":
            return tuple(_demonstration(position, example) for example in union.few_shot or ())
        case "tools":
            return _tool_description(position, union.tools or ())
        case "skills":
            return _only(position, "skill", union.skills or ()).description
        case "model":
            model = union.model or ModelValue()
            label = f"{model.provider}:{model.name}"
            choices = surface.choices if isinstance(surface, ChoiceSurface) else ()
            return label if label in choices else model.name
        case _:
            return _scalar(position, union.text or "", surface)


def _branch_of(position: Position) -> str:
    if position.type is SurfaceType.MODEL and position.part:
        return "text"
    branches = {
        SurfaceType.FEW_SHOT: "few_shot",
        SurfaceType.MODEL: "model",
        SurfaceType.TOOL: "tools",
        SurfaceType.SKILL: "skills",
    }
    return branches.get(position.type, "text")


def _example(demo: Demonstration) -> Example:
    contents = {"user": demo.input, "assistant": demo.output}
    return Example(messages=tuple(Message(role=r, content=c) for r, c in contents.items()))


def _demonstration(position: Position, example: Example) -> Demonstration:
    roles = [message.role for message in example.messages]
    if roles != ["user", "assistant"]:
        listed = ", ".join(roles) or "none"
        message = f"an example needs a user message and an assistant message, found {listed}"
        raise _wrong(position, message)
    question, answer = example.messages
    return Demonstration(input=question.content, output=answer.content)


def _tool(position: Position, description: str) -> ToolValue:
    about = _about(position)
    return ToolValue(
        id=position.part,
        description=description,
        input_schema=about.get("parameters"),
        output_schema=about.get("returns"),
    )


def _tool_description(position: Position, tools: tuple[ToolValue, ...]) -> str:
    """The new description; nothing else about a tool may change."""
    new, now = _only(position, "tool", tools), _tool(position, "")
    for name in ("input_schema", "output_schema"):
        schema: Json = getattr(new, name)
        if schema is not None and schema != getattr(now, name):
            raise _wrong(position, f"the {name.replace('_', ' ')} of a tool cannot be changed")
    return new.description


def _only(position: Position, kind: str, values: tuple[_Named, ...]) -> _Named:
    if [value.id for value in values] != [position.part]:
        raise _wrong(position, f"expected exactly one {kind}, '{position.part}'")
    return values[0]


def _model(position: Position, label: str) -> ModelValue:
    provider = str(_about(position).get("provider") or "")
    before, colon, rest = label.partition(":")
    if colon and before == (provider or before):
        return ModelValue(provider=before, name=rest)
    return ModelValue(provider=provider, name=label)


def _scalar(position: Position, text: str, surface: CoreSurface) -> Value:
    if isinstance(surface, ChoiceSurface):
        return next((choice for choice in surface.choices if str(choice) == text), text)
    if not isinstance(surface, NumberSurface):
        return text
    try:
        number = float(text)
    except ValueError:
        raise _wrong(position, f"expected a number, found '{text}'") from None
    return int(number) if surface.integer and number.is_integer() else number


def _about(position: Position) -> Mapping[str, Json]:
    return cast("Mapping[str, Json]", position.about) if isinstance(position.about, dict) else {}


def _wrong(position: Position, message: str, remedy: str = "") -> ConfigError:
    return ConfigError([Problem(where=position.id, message=message, remedy=remedy)])
