"""The tools of an agent: functions, prompts, MCP servers and retrieval."""

import asyncio
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pydantic_ai import RunContext
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ToolReturn
from pydantic_ai.tools import Tool
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset

from burnish.core.content import Json, short_id
from burnish.core.errors import ConfigError, Problem
from burnish.models.dotenv import additions, read_dotenv, require_own_addresses, require_own_keys
from burnish.models.factory import EMBEDDINGS, ModelBlock, Models
from burnish.models.references import ModelRef, split_reference
from burnish.system import Redactor, expand_variables
from burnish.system.extras import install_command
from burnish.system.user_code import leaving_no_bytecode
from burnish.system.variables import refuse_login
from burnish.targets.agent.blocks import (
    AgentTool,
    FunctionTool,
    HierarchicalTool,
    McpTool,
    PromptTool,
    VectorstoreTool,
)
from burnish.targets.agent.conversation import LoggedToolset, RunLog
from burnish.targets.agent.files import LoadedAgent, template_of

if TYPE_CHECKING:
    from pydantic_ai.mcp import MCPToolset

    from burnish.retrieval import Embedder, Hit, SearchSettings, SourceSettings


# -- Retrieval: passages from the sources that a tool names ----------------------------------------


_SearchTool: TypeAlias = VectorstoreTool | HierarchicalTool


class SearchTools:
    """The indexes of an agent's sources, shared by all candidates and cases."""

    def __init__(self, agent: LoadedAgent, models: Models) -> None:
        from burnish.retrieval import Indexes

        self._agent = agent
        self._models = models
        self._indexes = Indexes()
        self._embedders: dict[tuple[ModelRef | None, int | None], Embedder | None] = {}

    def contents(self, tools: Sequence[AgentTool]) -> dict[str, str]:
        """A hash of the content that each tool searches; raises if it cannot be read."""
        return {
            tool.name: self._indexes.hash_of(self._source(tool), self._embedder(tool))
            for tool in tools
            if isinstance(tool, _SearchTool)
        }

    def notes(self, tools: Sequence[AgentTool]) -> list[str]:
        """What the user should know about how the tools search."""
        from burnish.retrieval.embedders import WITHOUT

        return [
            f"tool {tool.name}: {WITHOUT}"
            for tool in tools
            if isinstance(tool, _SearchTool)
            and getattr(tool, "search_mode", "semantic") != "keyword"
            and self._embedder(tool) is None
        ]

    def tool(self, block: _SearchTool) -> Tool[RunLog]:
        """The tool that searches one source."""
        from burnish.retrieval import search

        source, settings, embedder = (
            self._source(block),
            _search_settings(block),
            self._embedder(block),
        )

        async def find(ctx: RunContext[RunLog], query: str) -> ToolReturn[str]:
            effects = ctx.deps.effects
            index = await self._indexes.open(source, embedder=embedder, effects=effects)
            hits = await search(index, query, settings, embedder=embedder, effects=effects)
            return ToolReturn(_passages(hits), metadata=tuple(hit.chunk.passage for hit in hits))

        return Tool(
            find, takes_ctx=True, name=f"{block.name}_search", description=block.description
        )

    async def close(self) -> None:
        """Close the indexes and the models."""
        self._indexes.close()
        for embedder in self._embedders.values():
            if embedder is not None:
                await embedder.close()
        self._embedders.clear()

    def _source(self, tool: _SearchTool) -> "SourceSettings":
        from burnish.retrieval import SourceSettings

        shared: dict[str, Any] = {"source": tool.source, "folder": self._agent.folder}
        if isinstance(tool, HierarchicalTool):
            return SourceSettings(
                **shared,
                chunking=tool.chunking_strategy,
                max_chunk_tokens=tool.max_chunk_tokens,
                chunk_overlap=tool.chunk_overlap,
            )
        fields = [tool.vector_field] if isinstance(tool.vector_field, str) else tool.vector_field
        size: dict[str, Any] = {
            "max_chunk_tokens": tool.chunk_size,
            "chunk_overlap": tool.chunk_overlap,
        }
        return SourceSettings(
            **shared,
            **{key: value for key, value in size.items() if value is not None},
            id_field=tool.id_field or "",
            vector_fields=tuple(fields or ()),
            meta_fields=tuple(tool.meta_fields or ()),
            field_separator=tool.field_separator,
            delimiter=tool.delimiter,
            record_path=tool.record_path,
        )

    def _embedder(self, tool: _SearchTool) -> "Embedder | None":
        from burnish.retrieval import embedder_for, usual_embedder

        ref = self._embedding_model(tool)
        size = tool.embedding_dimensions if isinstance(tool, VectorstoreTool) else None
        if (ref, size) not in self._embedders:
            if ref is None:
                self._embedders[ref, size] = usual_embedder()
            else:
                client = self._models.client(ref, role=EMBEDDINGS)
                self._embedders[ref, size] = embedder_for(client, dimensions=size)
        return self._embedders[ref, size]

    def _embedding_model(self, tool: _SearchTool) -> ModelRef | None:
        """The tool's own model, or one of the agent's provider of embeddings."""
        block, named = self._agent.block, tool.embedding_model
        if isinstance(named, ModelBlock):
            return named.reference()
        provider = block.embedding_provider
        if provider is not None:
            return provider.model_copy(update={"name": named or provider.name}).reference()
        if named is None:
            return None
        if split_reference(named) is not None:
            return ModelRef.parse(named)
        if block.model.row.has_embeddings:
            return block.model.model_copy(
                update={"name": named, "temperature": None, "max_tokens": None}
            ).reference()
        message = f"no provider is set for the embedding model '{named}'"
        remedy = "add an embedding_provider, or use local:minilm"
        raise ConfigError([Problem(where=f"tool {tool.name}", message=message, remedy=remedy)])


def _search_settings(tool: _SearchTool) -> "SearchSettings":
    from burnish.retrieval import SearchSettings

    if isinstance(tool, VectorstoreTool):
        least = tool.min_similarity_score
        return SearchSettings(mode="semantic", top_k=tool.top_k, min_score=least)
    return SearchSettings(
        mode=tool.search_mode,
        top_k=tool.top_k,
        min_score=tool.min_score,
        semantic_weight=tool.semantic_weight,
        keyword_weight=tool.keyword_weight,
        exact_weight=tool.exact_weight,
        rrf_k=tool.rrf_k,
    )


def _passages(hits: "Sequence[Hit]") -> str:
    passages = [
        f"[{number}] {hit.chunk.source}{f', {hit.chunk.place}' if hit.chunk.place else ''}\n"
        f"{hit.chunk.text}"
        for number, hit in enumerate(hits, start=1)
    ]
    return "\n\n".join(passages) or "nothing was found"


# -- All tools of an agent -------------------------------------------------------------------------


def load_function(tool: FunctionTool, folder: Path) -> Callable[..., Any]:
    """Import the function that a tool names."""
    path = (folder / tool.file).resolve()
    home = str(folder.resolve())
    if home not in sys.path:
        sys.path.insert(0, home)
    if not path.is_file():
        raise _wrong(tool, f"{tool.file} is not a file")
    # A name of its own for each file: two agents may both have a tools.py.
    spec = importlib.util.spec_from_file_location(f"burnish_tools_{short_id(str(path))}", path)
    if spec is None or spec.loader is None:
        raise _wrong(tool, f"{tool.file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        with leaving_no_bytecode():
            spec.loader.exec_module(module)
    except Exception as error:  # the border to the user's module
        raise _wrong(tool, f"{tool.file} raised {type(error).__name__}: {error}") from error
    function = getattr(module, tool.function, None)
    if not callable(function):
        raise _wrong(tool, f"{tool.file} has no function '{tool.function}'")
    return function


def function_tool(tool: FunctionTool, function: Callable[..., Any], description: str) -> Tool[Any]:
    """Make a function a tool; its schema is in the file, or in its type hints."""
    try:
        if tool.parameters is None:
            return Tool(function, takes_ctx=False, name=tool.name, description=description)
        schema = _parameters_schema(tool.parameters)
        return Tool.from_schema(function, tool.name, description, schema)
    except (UserError, TypeError, NameError) as error:
        raise _wrong(tool, f"cannot derive a schema for '{tool.function}': {error}") from error


def _parameters_schema(parameters: dict[str, dict[str, Json]]) -> dict[str, Any]:
    """The parameters of a file as a JSON schema; a parameter with a default is optional."""
    needed = [
        name
        for name, parameter in parameters.items()
        if "default" not in parameter and parameter.get("required", True)
    ]
    properties = {
        name: {key: value for key, value in parameter.items() if key != "required"}
        for name, parameter in parameters.items()
    }
    return {
        "type": "object",
        "properties": properties,
        "required": needed,
        "additionalProperties": False,
    }


def _wrong(tool: FunctionTool, message: str) -> ConfigError:
    return ConfigError([Problem(where=f"tool {tool.name}", message=message)])


def check_server(tool: McpTool, folder: Path) -> list[Problem]:
    """What would keep a server from starting, without starting it."""
    where = f"tool {tool.name}"
    if tool.transport == "stdio" and shutil.which(str(tool.command)) is None:
        message = f"the command '{tool.command}' is not installed"
        return [Problem(where=where, message=message)]
    if tool.env_file and not (folder / tool.env_file).is_file():
        return [Problem(where=where, message=f"{tool.env_file} is not a file")]
    if tool.transport == "http":
        _address(tool)
    return []


def mcp_server(tool: McpTool, folder: Path) -> "MCPToolset[Any]":
    """The server of a tool, not started yet. Secrets are expanded here and not stored."""
    try:
        from fastmcp.client.transports import StdioTransport
        from pydantic_ai.mcp import MCPToolset
    except ImportError:
        remedy = install_command("mcp")
        raise ConfigError(
            [Problem(where=f"tool {tool.name}", message="MCP is not installed", remedy=remedy)]
        ) from None
    limits: dict[str, Any] = {
        "init_timeout": tool.timeout or 30.0,
        "read_timeout": tool.request_timeout,
    }
    if tool.transport == "http":
        require_own_keys(str(tool.url), tool.headers.values())
        headers = {name: _expanded(value) for name, value in tool.headers.items()}
        return MCPToolset(_address(tool), headers=headers or None, **limits)
    require_own_addresses([*tool.args, *tool.env.values()])
    transport = StdioTransport(
        command=str(tool.command),
        args=[_expanded(arg) for arg in tool.args],
        env=_environment(tool, folder),
        cwd=str(folder.resolve()),
        keep_alive=False,
        log_file=Path(os.devnull),
    )
    return MCPToolset(transport, **limits)


def _address(tool: McpTool) -> str:
    address = _expanded(str(tool.url))
    refuse_login(address, f"tool {tool.name}", "write a header such as Authorization: ${LOGIN}")
    return address


def _environment(tool: McpTool, folder: Path) -> dict[str, str]:
    """What the server may see: where programs are, and the variables of the file.

    The file decides as little as the `.env` of a folder: it may be the same.
    """
    usual = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    own = usual | {name: _expanded(value) for name, value in tool.env.items()}
    if not tool.env_file:
        return own
    path = folder / tool.env_file
    return own | additions(read_dotenv(path), own, path)


def _expanded(text: str) -> str:
    return expand_variables(text, os.environ)


_PLACE = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}|\{([A-Za-z_]\w*)\}")


def _prompt_tool(tool: PromptTool, template: str, description: str) -> Tool[Any]:
    named = {name or plain for name, plain in _PLACE.findall(template)}
    unknown = sorted(named - set(tool.parameters))
    if unknown:
        where, remedy = f"tool {tool.name}", f"there are: {', '.join(tool.parameters)}"
        causes = [
            f"the template has a place for '{name}', which is not a parameter" for name in unknown
        ]
        raise ConfigError([Problem(where=where, message=each, remedy=remedy) for each in causes])

    def fill(**arguments: Any) -> str:
        return _PLACE.sub(lambda match: str(arguments.get(match[1] or match[2], "")), template)

    return Tool.from_schema(fill, tool.name, description, _parameters_schema(tool.parameters))


class Toolbox:
    """The tools of one agent file, shared by all its candidates and cases."""

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
        """The JSON schema of each tool's arguments, by name, without those of servers."""
        tools = {block.name: self._tool(block) for block in self._agent.block.tools}
        return {
            name: cast("Json", tool.tool_def.parameters_json_schema)
            for name, tool in tools.items()
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
                return _prompt_tool(block, template_of(self._agent, block), block.description)
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
                except Exception as error:  # a server of the user's own may fail in any way
                    redactor = Redactor.from_environment(extra=self._agent.secrets())
                    cause = redactor.text(str(error))
                    message = f"the MCP server did not start: {type(error).__name__}: {cause}"
                    problem = Problem(where=f"tool {block.name}", message=message)
                    raise ConfigError([problem]) from error
                self._servers[block.name] = _offered_tools(server, block)
            return self._servers[block.name]

    def _loaded(self, tools: Sequence[AgentTool]) -> dict[str, Callable[..., Any]]:
        """Load the user's functions, and report all problems at once."""
        functions: dict[str, Callable[..., Any]] = {}
        problems: list[Problem] = []
        for block in tools:
            try:
                if isinstance(block, FunctionTool):
                    function = self._agent.functions.get(block.name)
                    functions[block.name] = function or load_function(block, self._agent.folder)
                    function_tool(block, functions[block.name], block.description)
                elif isinstance(block, PromptTool):
                    _prompt_tool(block, template_of(self._agent, block), block.description)
                elif isinstance(block, McpTool):
                    problems += check_server(block, self._agent.folder)
            except ConfigError as error:
                problems += error.problems
        if problems:
            raise ConfigError(problems)
        return functions


def _offered_tools(server: AbstractToolset[Any], block: McpTool) -> AbstractToolset[Any]:
    names = block.load_tools
    if isinstance(names, list):
        return server.filtered(lambda _, tool: tool.name in names)
    return server if names else server.filtered(lambda _, __: False)
