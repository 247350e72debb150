"""PromptIter's JSON: structures, values, and keys as Go spells them."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, Self, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.structures import NodeKind, Position, SurfaceType
from burnish.core.surfaces import (
    ChoiceSurface,
    Demonstration,
    NumberSurface,
    Value,
)
from burnish.core.surfaces import (
    Surface as CoreSurface,
)
from burnish.datasets.evalset_shapes import as_python, folded
from burnish.system.settings import SchemaPosition

_UPPER = {"id": "ID", "ids": "IDs", "url": "URL", "api": "API", "usd": "USD"}


def _pascal(name: str) -> str:
    """A field as a Go struct calls it: `eval_set_id` is `EvalSetID`."""
    return "".join(_UPPER.get(word, word.capitalize()) for word in name.split("_"))


class Wire(BaseModel):
    """Something that travels as JSON under PromptIter's names."""

    model_config = ConfigDict(
        frozen=True,
        populate_by_name=True,
        alias_generator=_pascal,
        allow_inf_nan=False,
        extra="forbid",
    )
    where: ClassVar[str] = "JSON"
    """What messages call it."""

    @model_validator(mode="before")
    @classmethod
    def _nulls(cls, value: Any) -> Any:
        """`null` is what Go has for nothing: as good as a key that is not there."""
        if not isinstance(value, Mapping):
            return value
        mapping = cast("Mapping[str, Any]", value)
        return {key: held for key, held in mapping.items() if held is not None}

    def to_json(self) -> dict[str, Json]:
        """The data as PromptIter writes it."""
        return cast("dict[str, Json]", self.model_dump(mode="json", by_alias=True))

    @classmethod
    def from_json(cls, data: Json) -> Self:
        """The value that the data spells; keys in any letter case, unknown ones ignored."""
        try:
            return cls.model_validate(_pruned(as_python(data, cls), SchemaPosition.of(cls)))
        except ValidationError as error:
            raise ConfigError(list(_problems(error, cls.where))) from None


class CamelWire(Wire):
    """The same, for the few parts that are in camelCase."""

    model_config = ConfigDict(alias_generator=to_camel)


def unknown_keys(data: Json, model: type[BaseModel]) -> list[str]:
    """The paths of the keys that nobody reads."""
    return list(_unknown(data, SchemaPosition.of(model), ""))


def _pruned(data: Json, place: SchemaPosition) -> Json:
    """The data without the keys that nobody reads."""
    if isinstance(data, list):
        return [_pruned(item, place.below(0)) for item in data]
    if not isinstance(data, dict) or not (keys := place.keys):
        return data
    return {key: _pruned(item, place.below(key)) for key, item in data.items() if key in keys}


def _unknown(data: Json, place: SchemaPosition, at: str) -> Iterator[str]:
    if isinstance(data, list):
        for index, item in enumerate(data):
            yield from _unknown(item, place.below(index), f"{at}[{index}]")
        return
    keys = {folded(key): key for key in place.keys}
    if not isinstance(data, dict) or not keys:
        return
    for key, item in data.items():
        path = f"{at}.{key}" if at else key
        if folded(key) not in keys:
            yield path
        else:
            yield from _unknown(item, place.below(keys[folded(key)]), path)


def _problems(error: ValidationError, where: str) -> Iterator[Problem]:
    for each in error.errors():
        path = ".".join(
            _pascal(part) if isinstance(part, str) else str(part) for part in each["loc"]
        )
        yield Problem(where=path or where, message=each["msg"])


# -- Snapshots in PromptIter's terms --------------------------------------------------------------


_PromptSyntax: TypeAlias = Literal["mixed_brace", "single_brace", "double_brace"]


def _nothing(value: object) -> bool:
    return not value


class Message(Wire):
    """One thing said in an example."""

    role: str = ""
    content: str = ""


class Example(Wire):
    """A worked example: what was asked, and what was answered."""

    messages: tuple[Message, ...] = ()


class ModelValue(Wire):
    """A model; what is empty is left out."""

    provider: str = Field(default="", exclude_if=_nothing)
    name: str = Field(default="", exclude_if=_nothing)
    variant: str = Field(default="", exclude_if=_nothing)
    base_url: str = Field(default="", exclude_if=_nothing)
    api_key: str = Field(default="", exclude_if=_nothing)
    headers: dict[str, str] = Field(default_factory=dict[str, str], exclude_if=_nothing)


class ToolValue(Wire):
    """A tool as its model is told of it."""

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
    prompt_syntax: _PromptSyntax | None = None
    few_shot: tuple[Example, ...] | None = None
    model: ModelValue | None = None
    tools: tuple[ToolValue, ...] | None = None
    skills: tuple[SkillValue, ...] | None = None

    @property
    def branches(self) -> tuple[str, ...]:
        """The branches that are set."""
        names = ("text", "few_shot", "model", "tools", "skills")
        return tuple(name for name in names if getattr(self, name) is not None)


class Node(Wire):
    """One place of the graph."""

    node_id: str = ""
    kind: NodeKind = NodeKind.AGENT
    name: str = ""


class Edge(Wire):
    """A way from one node to another."""

    from_node_id: str = ""
    to_node_id: str = ""


class Surface(Wire):
    """One editable position and its value."""

    surface_id: str = ""
    node_id: str = ""
    type: SurfaceType = SurfaceType.INSTRUCTION
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
        """The surface of this id, if there is one."""
        return next((each for each in self.surfaces if each.surface_id == name), None)


class SurfaceOverride(Wire):
    """Another value for a surface."""

    surface_id: str = ""
    value: SurfaceValue = Field(default_factory=SurfaceValue)


class Profile(Wire):
    """A version: what differs from the snapshot."""

    where = "profile"

    structure_id: str = ""
    overrides: tuple[SurfaceOverride, ...] = ()


class SurfacePatch(Wire):
    """A new value for a surface, and why."""

    surface_id: str = ""
    value: SurfaceValue = Field(default_factory=SurfaceValue)
    reason: str = ""


class PatchSet(Wire):
    """The patches of one round."""

    patches: tuple[SurfacePatch, ...] = ()


# -- Values of positions as PromptIter's flat union -----------------------------------------------


_ROLES = ["user", "assistant"]


def union_of(position: Position, value: Value) -> SurfaceValue:
    """A value of this position in its branch of the union."""
    if isinstance(value, tuple):
        return SurfaceValue(few_shot=tuple(map(_example, value)))
    match position.type:
        case SurfaceType.TOOL:
            return SurfaceValue(tools=(_tool(position, str(value)),))
        case SurfaceType.SKILL:
            return SurfaceValue(skills=(SkillValue(id=position.part, description=str(value)),))
        case SurfaceType.MODEL if not position.part:
            return SurfaceValue(model=_model(position, str(value)))
        case _:
            return SurfaceValue(text=str(value))


def value_of(union: SurfaceValue, position: Position, surface: CoreSurface) -> Value:
    """The value that a union spells for this position. Raises with what is wrong about it."""
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
            return _description(position, union.tools or ())
        case "skills":
            return _skill(position, union.skills or ())
        case "model":
            return _label(union.model or ModelValue(), surface)
        case _:
            return _scalar(position, union.text or "", surface)


def _branch_of(position: Position) -> str:
    """The branch of the union that holds values of this position."""
    if position.type is SurfaceType.FEW_SHOT:
        return "few_shot"
    if position.type is SurfaceType.MODEL:
        return "text" if position.part else "model"
    return {SurfaceType.TOOL: "tools", SurfaceType.SKILL: "skills"}.get(position.type, "text")


def _example(demo: Demonstration) -> Example:
    messages = (
        Message(role="user", content=demo.input),
        Message(role="assistant", content=demo.output),
    )
    return Example(messages=messages)


def _demonstration(position: Position, example: Example) -> Demonstration:
    roles = [message.role for message in example.messages]
    if roles != _ROLES:
        problem = (
            f"an example is a user's message and an assistant's, found {', '.join(roles) or 'none'}"
        )
        raise _wrong(position, problem)
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


def _description(position: Position, tools: tuple[ToolValue, ...]) -> str:
    """The new description; nothing else about a tool may change."""
    if [tool.id for tool in tools] != [position.part]:
        raise _wrong(position, f"exactly one tool is wanted, '{position.part}'")
    new, now = tools[0], _tool(position, "")
    for name in ("input_schema", "output_schema"):
        schema: Json = getattr(new, name)
        if schema is not None and schema != getattr(now, name):
            raise _wrong(position, f"the {name.replace('_', ' ')} of a tool cannot be changed")
    return new.description


def _skill(position: Position, skills: tuple[SkillValue, ...]) -> str:
    if [skill.id for skill in skills] != [position.part]:
        raise _wrong(position, f"exactly one skill is wanted, '{position.part}'")
    return skills[0].description


def _model(position: Position, label: str) -> ModelValue:
    provider = str(_about(position).get("provider") or "")
    before, colon, rest = label.partition(":")
    if colon and before == (provider or before):
        return ModelValue(provider=before, name=rest)
    return ModelValue(provider=provider, name=label)


def _label(model: ModelValue, surface: CoreSurface) -> str:
    """The model as the surface calls it: by its name, or with its provider."""
    choices = surface.choices if isinstance(surface, ChoiceSurface) else ()
    whole = f"{model.provider}:{model.name}"
    return whole if whole in choices else model.name


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
