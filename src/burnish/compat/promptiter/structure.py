"""Snapshots in PromptIter's terms: nodes, edges, and surfaces with values of one flat union."""

from typing import Literal, TypeAlias

from pydantic import Field

from burnish.compat.promptiter.wire import Wire
from burnish.core.content import Json
from burnish.core.structures import NodeKind, SurfaceType

PromptSyntax: TypeAlias = Literal["mixed_brace", "single_brace", "double_brace"]


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
    prompt_syntax: PromptSyntax | None = None
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
