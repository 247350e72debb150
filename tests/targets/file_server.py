"""Files on loopback: a real HTTP server that serves, redirects, dawdles and breaks off."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


def answer(body: bytes = b"", status: int = 200, **headers: str) -> bytes:
    """A whole response."""
    told = {"Content-Length": str(len(body)), "Connection": "close", **headers}
    lines = [f"HTTP/1.1 {status} Said", *(f"{k.replace('_', '-')}: {v}" for k, v in told.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@dataclass
class Files:
    """What is served by path, and what was asked for."""

    answers: dict[str, list[bytes]]
    """The answers to a path in turn, the last one for ever. An empty one never comes."""
    asked: list[str] = field(default_factory=list[str])
    address: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            path = head.split(" ")[1]
            self.asked.append(path)
            left = self.answers.get(path.partition("?")[0], [answer(status=404)])
            said = left.pop(0) if len(left) > 1 else left[0]
            writer.write(said)
            if not said:
                await reader.read()
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return  # The client has gone, as some tests want it to.
        finally:
            writer.close()


@asynccontextmanager
async def serving(**answers: bytes | list[bytes]) -> AsyncGenerator[Files, None]:
    """Serve `/name` for each name."""
    given = {
        f"/{name}": said if isinstance(said, list) else [said] for name, said in answers.items()
    }
    files = Files(given)
    server = await asyncio.start_server(files.serve, "127.0.0.1", 0)
    files.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield files
