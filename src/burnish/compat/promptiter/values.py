"""Values of positions as PromptIter's flat union, and back."""

from collections.abc import Mapping
from typing import cast

from burnish.compat.promptiter.structure import (
    Example,
    Message,
    ModelValue,
    SkillValue,
    SurfaceValue,
    ToolValue,
)
from burnish.core.content import Json
from burnish.core.demonstrations import Demonstration
from burnish.core.errors import ConfigError, Problem
from burnish.core.structures import Position, SurfaceType
from burnish.core.surfaces import ChoiceSurface, NumberSurface, Surface, Value

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


def value_of(given: SurfaceValue, position: Position, surface: Surface) -> Value:
    """The value that a union spells for this position. Raises with what is wrong about it."""
    branch = branch_of(position)
    if given.branches != (branch,):
        found = ", ".join(given.branches) or "none"
        raise _wrong(position, f"only '{branch}' may be set, found {found}")
    if given.prompt_syntax is not None:
        raise _wrong(position, "PromptSyntax cannot be changed", "leave it null")
    match branch:
        case "few_shot":
            return tuple(_demonstration(position, example) for example in given.few_shot or ())
        case "tools":
            return _description(position, given.tools or ())
        case "skills":
            return _skill(position, given.skills or ())
        case "model":
            return _label(given.model or ModelValue(), surface)
        case _:
            return _scalar(position, given.text or "", surface)


def branch_of(position: Position) -> str:
    """The branch of the union that holds values of this position."""
    if position.type is SurfaceType.FEW_SHOT:
        return "few_shot"
    if position.type is SurfaceType.MODEL:
        return "text" if position.part else "model"
    return {SurfaceType.TOOL: "tools", SurfaceType.SKILL: "skills"}.get(position.type, "text")


def _example(demo: Demonstration) -> Example:
    said = (
        Message(role="user", content=demo.input),
        Message(role="assistant", content=demo.output),
    )
    return Example(messages=said)


def _demonstration(position: Position, example: Example) -> Demonstration:
    roles = [message.role for message in example.messages]
    if roles != _ROLES:
        told = (
            f"an example is a user's message and an assistant's, found {', '.join(roles) or 'none'}"
        )
        raise _wrong(position, told)
    asked, answered = example.messages
    return Demonstration(input=asked.content, output=answered.content)


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
    given, now = tools[0], _tool(position, "")
    for name in ("input_schema", "output_schema"):
        found: Json = getattr(given, name)
        if found is not None and found != getattr(now, name):
            raise _wrong(position, f"the {name.replace('_', ' ')} of a tool cannot be changed")
    return given.description


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


def _label(model: ModelValue, surface: Surface) -> str:
    """The model as the surface calls it: by its name, or with its provider."""
    known = surface.choices if isinstance(surface, ChoiceSurface) else ()
    whole = f"{model.provider}:{model.name}"
    return whole if whole in known else model.name


def _scalar(position: Position, text: str, surface: Surface) -> Value:
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
