"""The positions of an agent: what can be edited in it, as a node of a structure."""

from collections.abc import Iterator, Mapping

from burnish.core.content import Json
from burnish.core.structures import Position, SurfaceType, position_id
from burnish.core.surfaces import Value
from burnish.targets.agent.demonstrating import demonstrations_of
from burnish.targets.agent.loading import LoadedAgent
from burnish.targets.agent.surface_paths import DEMONSTRATIONS, INSTRUCTIONS
from burnish.targets.agent.tool_blocks import McpTool

SETTINGS = ("temperature", "top_p", "max_tokens")
"""The numbers of a model."""


def positions_of(agent: LoadedAgent, node: str, schemas: Mapping[str, Json]) -> Iterator[Position]:
    """Each position with its value; `surface` is the path in the agent file that holds it.

    `schemas` are those of the tools. What a server's tools say of themselves is not in the file.
    """

    def position(
        kind: SurfaceType, value: Value, path: str, part: str = "", about: Json = None
    ) -> Position:
        name = position_id(node, kind, part)
        return Position(
            id=name, node=node, type=kind, value=value, surface=path, part=part, about=about
        )

    block = agent.block
    yield position(SurfaceType.INSTRUCTION, agent.instructions.text, INSTRUCTIONS[0])
    yield position(SurfaceType.FEW_SHOT, demonstrations_of(block), DEMONSTRATIONS)
    for tool in block.tools:
        if not isinstance(tool, McpTool):
            path = f"tools[name={tool.name}].description"
            about: Json = {"type": tool.type, "parameters": schemas.get(tool.name)}
            yield position(SurfaceType.TOOL, tool.description, path, tool.name, about)
    model = block.model
    provider: Json = {"provider": model.provider}
    yield position(SurfaceType.MODEL, model.name, "model.name", about=provider)
    for key in SETTINGS:
        value: float | None = getattr(model, key)
        if value is not None:
            yield position(SurfaceType.MODEL, value, f"model.{key}", key)
