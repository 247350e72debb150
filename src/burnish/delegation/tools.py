"""Tools of workers: files, commands, functions, MCP servers."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from pydantic import ValidationError
from pydantic_core import to_json

from burnish.core.content import Json, codec
from burnish.core.errors import BurnishError, ConfigError, FileTrouble, Problem
from burnish.core.money import NOTHING
from burnish.core.protocols import Call, Effects, Receipt
from burnish.delegation.workspace import INPUT
from burnish.metrics.text_matching import without_middle
from burnish.models.chat import ToolSpec
from burnish.system.sandbox import CommandLimits, CommandResult, Sandbox, named_paths
from burnish.system.workspaces import path_problem, read_contents, shown, snapshot, write_files
from burnish.targets.agent.blocks import FunctionTool, McpTool
from burnish.targets.artifacts.task import finished

if TYPE_CHECKING:
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.tools import Tool


OwnTool: TypeAlias = FunctionTool | McpTool
BUILT_IN = ("file_read", "file_write", "file_list", "file_delete", "run_command")


class ToolRefused(Exception):
    """A tool refused a request; the message is for the worker."""


class WorkerTool(Protocol):
    """Something that a worker can use."""

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def only_looks(self) -> bool: ...

    async def use(self, arguments: Mapping[str, Json]) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Toolkit:
    """All tools of a run, by name."""

    tools: Mapping[str, WorkerTool]

    def allowed(self, names: Sequence[str]) -> dict[str, WorkerTool]:
        """The tools that a manager allows, in either spelling; all if it names none."""
        spellings = {_spelled(name) for name in names}
        if not spellings:
            return dict(self.tools)
        return {name: tool for name, tool in self.tools.items() if name in spellings}

    def listed(self) -> str:
        """One line per tool, for the manager."""
        return "\n".join(
            f"- {name}: {tool.spec.description.splitlines()[0]}"
            for name, tool in self.tools.items()
        )


def _spelled(name: str) -> str:
    return "run_command" if name in ("code.execute", "shell") else name.replace(".", "_")


def _text_of(arguments: Mapping[str, Json], name: str, *, otherwise: str | None = None) -> str:
    value = arguments.get(name, otherwise)
    if not isinstance(value, str):
        raise ToolRefused(f"'{name}' must be a text")
    return value


def _readable(text: str) -> str:
    """The text without lone surrogates, which cannot be encoded."""
    return text.encode("utf-8", "replace").decode()


def text_schema(required: Sequence[str], **properties: str) -> dict[str, Json]:
    """The schema of arguments that are texts."""
    described: dict[str, Json] = {
        name: {"type": "string", "description": description}
        for name, description in properties.items()
    }
    return {
        "type": "object",
        "properties": described,
        "required": list(required),
        "additionalProperties": False,
    }


_MOST_SAID = 20_000
"""Characters of a command's output that are returned."""
_SPEC = ToolSpec(
    name="run_command",
    description="Run one line of sh in the workspace; its output and exit code come back.",
    parameters=text_schema(
        ["command"], command="a line for sh; the workspace is the current folder"
    ),
)


@dataclass(frozen=True, kw_only=True)
class Commands:
    """Runs commands in one workspace, within limits and in a sandbox if there is one."""

    sandbox: Sandbox
    folder: Path
    limits: CommandLimits
    seconds_left: Callable[[], float]
    """The remaining time of the run, which also limits each command."""

    async def run(
        self,
        command: str | list[str],
        *,
        seconds: float | None = None,
        env: Mapping[str, str] | None = None,
        also: Path | None = None,
        own: bool = False,
    ) -> CommandResult:
        """Run a command to its end; `also` is a second folder that it may write.

        `own` commands are the user's: they can read what they name with a full path.
        """
        most = min(seconds or self.limits.seconds, max(1.0, self.seconds_left()))
        limits = replace(self.limits, seconds=most)
        writable = [self.folder] if also is None else [self.folder, also]
        return await self.sandbox.run(
            command, cwd=self.folder, writable=writable, env=env, limits=limits,
            readable=named_paths(command) if own and isinstance(command, str) else (),
        )  # fmt: skip

    def plain(self, text: str, most: int = _MOST_SAID) -> str:
        """Printed text without the path of the workspace, which differs in every run."""
        folder = str(self.folder)
        readable = _readable(text).replace(f"{folder}/", "").replace(folder, ".")
        return without_middle(readable, most)

    def why(self, ran: CommandResult) -> str:
        """Why a command failed, with the end of its output."""
        output = self.plain(ran.stderr.strip() or ran.stdout.strip(), 800)
        return f"{ran.reason}: {output}" if output else ran.reason


@dataclass(frozen=True, kw_only=True)
class CommandTool:
    """`run_command`."""

    commands: Commands
    spec: ToolSpec = _SPEC
    only_looks: bool = False

    async def use(self, arguments: Mapping[str, Json]) -> str:
        try:
            ran = await self.commands.run(_text_of(arguments, "command"))
        except FileTrouble as error:
            raise ToolRefused(error.message) from error
        parts = [f"exit code {ran.exit_code}" + (f" ({ran.reason})" if ran.reason else "")]
        for name, text in (("stdout", ran.stdout), ("stderr", ran.stderr)):
            if text.strip():
                parts.append(f"{name}:\n{self.commands.plain(text.rstrip())}")
        return "\n".join(parts)


_MOST_READ = 100_000
_MOST_LISTED = 500
_PATH = "a path relative to the workspace, such as report.md"


@dataclass(frozen=True, kw_only=True)
class _FileTool:
    spec: ToolSpec
    act: Callable[[Mapping[str, Json]], str]

    @property
    def only_looks(self) -> bool:
        return self.spec.name in ("file_read", "file_list")

    async def use(self, arguments: Mapping[str, Json]) -> str:
        try:
            return _readable(await finished(self.act, arguments))
        except FileTrouble as error:
            raise ToolRefused(error.message) from error


def file_tools(folder: Path) -> dict[str, WorkerTool]:
    """Reading, writing, listing and deleting files below `folder`."""
    files = _Files(folder)
    table: list[tuple[str, str, dict[str, Json], Callable[[Mapping[str, Json]], str]]] = [
        ("file_read", "Read a text file.", text_schema(["path"], path=_PATH), files.read),
        (
            "file_write",
            "Give a file this text, whole; folders are made as needed.",
            text_schema(["path", "content"], path=_PATH, content="the whole text of the file"),
            files.write,
        ),
        (
            "file_list",
            "List the files of the workspace, or of a folder in it.",
            text_schema([], path="a folder; all of the workspace unless said"),
            files.listed,
        ),
        ("file_delete", "Delete a file.", text_schema(["path"], path=_PATH), files.delete),
    ]
    return {
        name: _FileTool(spec=ToolSpec(name=name, description=words, parameters=shape), act=act)
        for name, words, shape, act in table
    }


@dataclass(frozen=True)
class _Files:
    folder: Path

    def read(self, arguments: Mapping[str, Json]) -> str:
        path = self._inside(_text_of(arguments, "path"))
        content = read_contents(self.folder, [path]).get(path)
        if content is None:
            raise ToolRefused(f"there is no file {path}; file_list shows what is there")
        return without_middle(content.decode("utf-8", "replace"), _MOST_READ)

    def write(self, arguments: Mapping[str, Json]) -> str:
        path, content = self._own(arguments), _text_of(arguments, "content")
        write_files(self.folder, {path: content})
        return f"wrote {path}: {len(content.encode())} bytes"

    def delete(self, arguments: Mapping[str, Json]) -> str:
        path = self._own(arguments)
        if not os.path.lexists(self.folder / path):
            raise ToolRefused(f"there is no file {path}")
        write_files(self.folder, {path: None})
        return f"deleted {path}"

    def listed(self, arguments: Mapping[str, Json]) -> str:
        path = _text_of(arguments, "path", otherwise="").strip("/")
        below = "" if path in ("", ".") else f"{self._inside(path)}/"
        entries = snapshot(self.folder).entries
        lines = [
            f"{shown(path)} ({entry.size} bytes)"
            for path, entry in entries.items()
            if entry.kind == "file" and path.startswith(below)
        ]
        more = [f"… and {len(lines) - _MOST_LISTED} more"] if len(lines) > _MOST_LISTED else []
        return "\n".join([*lines[:_MOST_LISTED], *more]) or "(no files)"

    def _own(self, arguments: Mapping[str, Json]) -> str:
        path = self._inside(_text_of(arguments, "path"))
        if path == INPUT or path.startswith(f"{INPUT}/"):
            raise ToolRefused(f"{path} was given with the task and stays as it is: write elsewhere")
        return path

    def _inside(self, path: str) -> str:
        plain = path.removeprefix("./")
        if problem := path_problem(plain):
            raise ToolRefused(f"'{shown(path)}' is refused: {problem}")
        home = os.path.realpath(self.folder)
        target = os.path.realpath(self.folder / plain)
        if not target.startswith(f"{home}{os.sep}"):
            raise ToolRefused(f"'{shown(path)}' is refused: a link leads out of the workspace")
        return plain


@dataclass(frozen=True, kw_only=True)
class _FunctionUse:
    """A function of the user, called in this process: it is trusted as the user is."""

    tool: "Tool[Any]"
    only_looks: bool = False

    @property
    def spec(self) -> ToolSpec:
        definition = self.tool.tool_def
        parameters = cast("dict[str, Json]", definition.parameters_json_schema)
        return ToolSpec(
            name=definition.name, description=definition.description or "", parameters=parameters
        )

    async def use(self, arguments: Mapping[str, Json]) -> str:
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
class _McpUse:
    servers: "OwnTools"
    server: McpTool
    spec: ToolSpec
    only_looks: bool = False

    async def use(self, arguments: Mapping[str, Json]) -> str:
        from pydantic_ai.exceptions import ModelRetry

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
    """The tools that a workflow file names, and the servers started for them."""

    blocks: Sequence[OwnTool]
    folder: Path
    _servers: dict[str, "MCPToolset[Any]"] = field(
        default_factory=dict[str, "MCPToolset[Any]"], init=False
    )
    _open: AsyncExitStack = field(default_factory=AsyncExitStack, init=False)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def tools(self, effects: Effects) -> dict[str, WorkerTool]:
        """All tools. What a server offers is journaled: a replay starts no server."""
        by_name: dict[str, WorkerTool] = {}
        for block in self.blocks:
            tools: list[WorkerTool]
            if isinstance(block, FunctionTool):
                tools = [_FunctionUse(tool=_function(block, self.folder))]
            else:
                specs = await self._offered(block, effects)
                tools = [_McpUse(servers=self, server=block, spec=spec) for spec in specs]
            for tool in tools:
                name = tool.spec.name
                if name in by_name or name in BUILT_IN:
                    message = f"there are two tools called '{name}'"
                    remedy = "rename one, or leave it out with load_tools"
                    raise _tool_error(block, message, remedy)
                by_name[name] = tool
        return by_name

    async def started(self, block: McpTool) -> "MCPToolset[Any]":
        """The server, running."""
        from burnish.targets.agent.tools import mcp_server

        async with self._opening:
            if block.name not in self._servers:
                server = mcp_server(block, self.folder)
                try:
                    await self._open.enter_async_context(server)
                except Exception as error:  # a server of the user's own may fail in any way
                    message = f"the MCP server did not start: {type(error).__name__}: {error}"
                    raise _tool_error(block, message) from error
                self._servers[block.name] = server
            return self._servers[block.name]

    async def close(self) -> None:
        await self._open.aclose()
        self._servers.clear()

    async def _offered(self, block: McpTool, effects: Effects) -> tuple[ToolSpec, ...]:
        async def perform(_: Effects) -> Receipt[tuple[ToolSpec, ...]]:
            server = await self.started(block)
            chosen = block.load_tools
            # By the name on the wire, which is the same in every version of the library.
            offers = [tool.model_dump(by_alias=True) for tool in await server.list_tools()]
            specs = tuple(
                ToolSpec(
                    name=str(tool["name"]),
                    description=str(tool.get("description") or ""),
                    parameters=cast("dict[str, Json]", tool["inputSchema"]),
                )
                for tool in offers
                if chosen is True or (isinstance(chosen, list) and tool["name"] in chosen)
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
    """What is wrong with these tools, without starting a server."""
    problems: list[Problem] = []
    for block in blocks:
        try:
            if isinstance(block, FunctionTool):
                _function(block, folder)
            else:
                problems += _server_problems(block, folder)
        except ConfigError as error:
            problems += error.problems
    return problems


# The library of agents takes longer to load than all of this package, and a command that only
# shows runs reads this module too.
def _function(block: FunctionTool, folder: Path) -> "Tool[Any]":
    from burnish.targets.agent.tools import function_tool, load_function

    return function_tool(block, load_function(block, folder), block.description)


def _server_problems(block: McpTool, folder: Path) -> list[Problem]:
    from burnish.targets.agent.tools import check_server

    return check_server(block, folder)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return _readable(value)
    return to_json(value, fallback=repr, inf_nan_mode="strings").decode("utf-8", "replace")


def _tool_error(block: OwnTool, message: str, remedy: str = "") -> ConfigError:
    return ConfigError([Problem(where=f"tool {block.name}", message=message, remedy=remedy)])
