"""A small MCP server for tests: over stdio, or over HTTP with a port as its argument."""

import os
import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("shelf")


@server.tool()
def lookup(title: str) -> str:
    """Where a book stands."""
    return f"{title}: shelf {len(title)} ({os.environ.get('SHELF_KEY', 'no key')})"


@server.tool()
def forbidden() -> str:
    """Not asked for."""
    return "never"


@server.tool()
def fails() -> str:
    """Raises."""
    raise RuntimeError("the shelf is empty")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run()
