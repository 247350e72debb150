"""The tools of an agent: loaded once, started once, and handed to every candidate's own agent."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai.tools import Tool
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.targets.agent.functions import function_tool, load_function
from burnish.targets.agent.loading import LoadedAgent, template_of
from burnish.targets.agent.run_log import LoggedToolset, RunLog
from burnish.targets.agent.servers import check_server, mcp_server
from burnish.targets.agent.templates import prompt_tool
from burnish.targets.agent.tool_blocks import (
    AgentTool,
    FunctionTool,
    HierarchicalTool,
    McpTool,
    PromptTool,
    VectorstoreTool,
)

if TYPE_CHECKING:
    from burnish.targets.agent.searching import SearchTools


class Toolbox:
    """What the tools of one agent file need, shared by all its candidates and cases."""

    def __init__(self, agent: LoadedAgent, search: "SearchTools | None") -> None:
        self._agent = agent
        self._search = search
        self._functions = self._loaded(agent.block.tools)
        self._servers: dict[str, AbstractToolset[RunLog]] = {}
        self._open = AsyncExitStack()
        self._opening = asyncio.Lock()

    async def toolsets(self, tools: Sequence[AgentTool]) -> tuple[AbstractToolset[RunLog], ...]:
        """The tools of a candidate, which may describe and search differently."""
        plain: FunctionToolset[RunLog] = FunctionToolset(
            [tool for block in tools if (tool := self._tool(block)) is not None]
        )
        servers = [
            LoggedToolset(await self._server(block), retrieves=block.is_retrieval)
            for block in tools
            if isinstance(block, McpTool)
        ]
        return (LoggedToolset(plain), *servers) if plain.tools else tuple(servers)

    def schemas(self) -> dict[str, Json]:
        """What each tool takes, by its name, as a JSON schema; servers tell once they run."""
        found = {block.name: self._tool(block) for block in self._agent.block.tools}
        return {
            name: cast("Json", tool.tool_def.parameters_json_schema)
            for name, tool in found.items()
            if tool is not None
        }

    async def close(self) -> None:
        """Stop every server."""
        await self._open.aclose()
        self._servers.clear()

    def _tool(self, block: AgentTool) -> Tool[RunLog] | None:
        match block:
            case FunctionTool():
                return function_tool(block, self._functions[block.name], block.description)
            case PromptTool():
                return prompt_tool(block, template_of(self._agent, block), block.description)
            case VectorstoreTool() | HierarchicalTool():
                assert self._search is not None
                return self._search.tool(block)
            case McpTool():
                return None

    async def _server(self, block: McpTool) -> AbstractToolset[RunLog]:
        async with self._opening:
            if block.name not in self._servers:
                server = mcp_server(block, self._agent.folder)
                try:
                    await self._open.enter_async_context(server)
                except Exception as error:
                    raise _not_started(block, error) from error
                self._servers[block.name] = _wanted(server, block)
            return self._servers[block.name]

    def _loaded(self, tools: Sequence[AgentTool]) -> dict[str, Callable[..., Any]]:
        """The user's functions; everything that keeps a tool from being had is said at once."""
        functions: dict[str, Callable[..., Any]] = {}
        problems: list[Problem] = []
        for block in tools:
            try:
                if isinstance(block, FunctionTool):
                    given = self._agent.functions.get(block.name)
                    functions[block.name] = given or load_function(block, self._agent.folder)
                    function_tool(block, functions[block.name], block.description)
                elif isinstance(block, PromptTool):
                    prompt_tool(block, template_of(self._agent, block), block.description)
                elif isinstance(block, McpTool):
                    problems += check_server(block, self._agent.folder)
            except ConfigError as error:
                problems += error.problems
        if problems:
            raise ConfigError(problems)
        return functions


def _wanted(server: AbstractToolset[Any], block: McpTool) -> AbstractToolset[Any]:
    """The tools of a server that the file asks for."""
    names = block.load_tools
    if isinstance(names, list):
        return server.filtered(lambda _, tool: tool.name in names)
    return server if names else server.filtered(lambda _, __: False)


def _not_started(block: McpTool, error: Exception) -> ConfigError:
    message = f"the MCP server did not start: {type(error).__name__}: {error}"
    return ConfigError([Problem(where=f"tool {block.name}", message=message)])
