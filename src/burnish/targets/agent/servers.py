"""MCP servers as tools: started once for an agent, shared by all its cases."""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burnish.core.errors import ConfigError, Problem
from burnish.models.keys import read_dotenv
from burnish.system import expand_variables
from burnish.targets.agent.tool_blocks import McpTool

if TYPE_CHECKING:
    from pydantic_ai.mcp import MCPToolset


def check_server(tool: McpTool, folder: Path) -> list[Problem]:
    """What would keep a server from starting, without starting it."""
    where = f"tool {tool.name}"
    if tool.transport == "stdio" and shutil.which(str(tool.command)) is None:
        message = f"the command '{tool.command}' is not installed"
        return [Problem(where=where, message=message)]
    if tool.env_file and not (folder / tool.env_file).is_file():
        return [Problem(where=where, message=f"{tool.env_file} is not a file")]
    return []


def mcp_server(tool: McpTool, folder: Path) -> "MCPToolset[Any]":
    """The server of a tool, not started yet. Secrets are expanded here, and kept nowhere."""
    try:
        from fastmcp.client.transports import StdioTransport
        from pydantic_ai.mcp import MCPToolset
    except ImportError:
        remedy = "pip install 'burnish[mcp]'"
        raise ConfigError(
            [Problem(where=f"tool {tool.name}", message="MCP is not installed", remedy=remedy)]
        ) from None
    limits: dict[str, Any] = {
        "init_timeout": tool.timeout or 30.0,
        "read_timeout": tool.request_timeout,
    }
    if tool.transport == "http":
        headers = {name: _expanded(value) for name, value in tool.headers.items()}
        return MCPToolset(_expanded(str(tool.url)), headers=headers or None, **limits)
    transport = StdioTransport(
        command=str(tool.command),
        args=[_expanded(arg) for arg in tool.args],
        env=_environment(tool, folder),
        cwd=str(folder.resolve()),
        keep_alive=False,
        log_file=Path(os.devnull),
    )
    return MCPToolset(transport, **limits)


def _environment(tool: McpTool, folder: Path) -> dict[str, str]:
    """What the server may see: where programs are, and what the file gives it."""
    usual = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    file = read_dotenv(folder / tool.env_file) if tool.env_file else {}
    return {**usual, **file, **{name: _expanded(value) for name, value in tool.env.items()}}


def _expanded(text: str) -> str:
    return expand_variables(text, os.environ)
