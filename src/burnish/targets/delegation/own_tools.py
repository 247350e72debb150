"""The user's own tools: Python functions, and the tools of MCP servers.

Loaded only where a workflow has some: pydantic-ai, which knows both, takes a while to load.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError
from pydantic_ai.exceptions import ModelRetry
from pydantic_core import to_json

from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.core.effects import Call, Effects, Receipt
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.core.money import NOTHING
from burnish.models.chat import ToolSpec
from burnish.targets.agent.functions import function_tool, load_function
from burnish.targets.agent.servers import check_server, mcp_server
from burnish.targets.agent.tool_blocks import FunctionTool, McpTool
from burnish.targets.delegation.tools import (
    BUILT_IN,
    OwnTool,
    ToolRefused,
    WorkerTool,
    readable,
)

if TYPE_CHECKING:
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.tools import Tool


@dataclass(frozen=True, kw_only=True)
class FunctionUse:
    """A function of the user's own, called in this process: it is trusted as the user is."""

    tool: "Tool[Any]"
    only_looks: bool = False

    @property
    def spec(self) -> ToolSpec:
        """From its type hints, or from the file."""
        told = self.tool.tool_def
        parameters = cast("dict[str, Json]", told.parameters_json_schema)
        return ToolSpec(name=told.name, description=told.description or "", parameters=parameters)

    async def use(self, arguments: Mapping[str, Json]) -> str:
        """Call it; what it raises is told to the worker."""
        schema = self.tool.function_schema
        try:
            valid = schema.validator.validate_python(dict(arguments))
            return _text(await schema.call(valid, cast("Any", None)))
        except ValidationError as error:
            raise ToolRefused(f"the arguments do not fit: {error}") from error
        except BurnishError:
            raise
        except Exception as error:  # the border to the user's code: the worker may mend it
            raise ToolRefused(f"{type(error).__name__}: {error}") from error


@dataclass(frozen=True, kw_only=True)
class McpUse:
    """One tool of a server, which is started when it is first used."""

    servers: "OwnTools"
    server: McpTool
    spec: ToolSpec
    only_looks: bool = False

    async def use(self, arguments: Mapping[str, Json]) -> str:
        """Ask the server."""
        server = await self.servers.started(self.server)
        try:
            return _text(await server.direct_call_tool(self.spec.name, dict(arguments)))
        except ModelRetry as error:
            raise ToolRefused(str(error)) from error
        except BurnishError:
            raise
        except Exception as error:  # a server of the user's own may fail in any way
            raise ToolRefused(f"{type(error).__name__}: {error}") from error


@dataclass(kw_only=True)
class OwnTools:
    """The tools that a workflow file names, and the servers that were started for them."""

    blocks: Sequence[OwnTool]
    folder: Path
    _servers: dict[str, "MCPToolset[Any]"] = field(
        default_factory=dict[str, "MCPToolset[Any]"], init=False
    )
    _open: AsyncExitStack = field(default_factory=AsyncExitStack, init=False)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def tools(self, effects: Effects) -> dict[str, WorkerTool]:
        """All of them. What a server offers is journaled: a replay starts no server."""
        found: dict[str, WorkerTool] = {}
        for block in self.blocks:
            for tool in await self._of(block, effects):
                if tool.spec.name in found or tool.spec.name in BUILT_IN:
                    raise _taken(block, tool.spec.name)
                found[tool.spec.name] = tool
        return found

    async def _of(self, block: OwnTool, effects: Effects) -> Sequence[WorkerTool]:
        if isinstance(block, FunctionTool):
            function = load_function(block, self.folder)
            return [FunctionUse(tool=function_tool(block, function, block.description))]
        specs = await self._offered(block, effects)
        return [McpUse(servers=self, server=block, spec=spec) for spec in specs]

    async def started(self, block: McpTool) -> "MCPToolset[Any]":
        """The server, running."""
        async with self._opening:
            if block.name not in self._servers:
                server = mcp_server(block, self.folder)
                try:
                    await self._open.enter_async_context(server)
                except Exception as error:
                    raise _not_started(block, error) from error
                self._servers[block.name] = server
            return self._servers[block.name]

    async def close(self) -> None:
        """Stop every server."""
        await self._open.aclose()
        self._servers.clear()

    async def _offered(self, block: McpTool, effects: Effects) -> tuple[ToolSpec, ...]:
        async def perform(_: Effects) -> Receipt[tuple[ToolSpec, ...]]:
            server = await self.started(block)
            wanted = block.load_tools
            # By the name on the wire, which is the same in every version of the library.
            told = [tool.model_dump(by_alias=True) for tool in await server.list_tools()]
            specs = tuple(
                ToolSpec(
                    name=str(tool["name"]),
                    description=str(tool.get("description") or ""),
                    parameters=cast("dict[str, Json]", tool["inputSchema"]),
                )
                for tool in told
                if wanted is True or (isinstance(wanted, list) and tool["name"] in wanted)
            )
            return Receipt(value=specs)

        call = Call(
            kind="tools",
            request=cast("Json", block.model_dump(mode="json")),
            codec=codec(tuple[ToolSpec, ...]),
            estimate=NOTHING,
        )
        return await effects.once(call, perform)


def own_tool_problems(blocks: Sequence[OwnTool], folder: Path) -> list[Problem]:
    """What would keep these tools from being had, without starting a server."""
    problems: list[Problem] = []
    for block in blocks:
        try:
            if isinstance(block, FunctionTool):
                function_tool(block, load_function(block, folder), block.description)
            else:
                problems += check_server(block, folder)
        except ConfigError as error:
            problems += error.problems
    return problems


def _text(value: Any) -> str:
    if isinstance(value, str):
        return readable(value)
    return to_json(value, fallback=repr, inf_nan_mode="strings").decode("utf-8", "replace")


def _taken(block: OwnTool, name: str) -> ConfigError:
    message = f"there are two tools called '{name}'"
    remedy = "rename one, or leave it out with load_tools"
    return ConfigError([Problem(where=f"tool {block.name}", message=message, remedy=remedy)])


def _not_started(block: McpTool, error: Exception) -> ConfigError:
    message = f"the MCP server did not start: {type(error).__name__}: {error}"
    return ConfigError([Problem(where=f"tool {block.name}", message=message)])
