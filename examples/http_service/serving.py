"""The service as a process of its own: started on a free port, waited for, and always stopped."""

import asyncio
import json
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PATIENCE = 20.0
"""Seconds in which the service must be up."""


@asynccontextmanager
async def service() -> AsyncGenerator[str, None]:
    """Where the service listens, while entered."""
    address = f"http://127.0.0.1:{(port := _free_port())}"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "uvicorn", "service.server:app", "--port", str(port)),
        *("--log-level", "warning"),
        cwd=HERE,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            await _healthy(address, process)
        yield address
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _healthy(address: str, process: asyncio.subprocess.Process) -> None:
    while True:
        if process.returncode is not None:
            raise RuntimeError(f"the service ended with {process.returncode} before it was up")
        try:
            told = await asyncio.to_thread(ask, f"{address}/health")
        except urllib.error.URLError:
            await asyncio.sleep(0.05)
            continue
        if told["status"] != "ok":
            raise RuntimeError(f"the service is not well: {told}")
        return


def ask(url: str, body: Any = None, *, seconds: float = 10.0) -> Any:
    """The JSON that a request gives; an error status is raised, and not tried again."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=seconds) as response:  # noqa: S310
        return json.load(response)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
