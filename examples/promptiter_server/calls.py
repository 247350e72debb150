"""What a client of the service does: look at the structure, start a run, follow it, read it."""

import asyncio
import socket
import sys
import tempfile
from pathlib import Path

import httpx
import uvicorn

sys.path.insert(0, str(Path(__file__).parents[1] / "promptiter_syncrun"))
from desk import request

from server import application

BASE = "/promptiter/v1/apps/desk"


async def calls(client: httpx.AsyncClient) -> None:
    """The recommended order."""
    structure = (await client.get(f"{BASE}/structure")).json()["structure"]
    print(f"{len(structure['Surfaces'])} surfaces")  # noqa: T201
    made = await client.post(f"{BASE}/async-runs", json={"run": request().to_json()})
    run, place = made.json()["result"], made.headers["location"]
    print(made.status_code, run["Status"])  # noqa: T201
    async with client.stream("GET", f"/api/v1/apps/desk/runs/{run['ID']}/stream") as stream:
        kinds = [line[7:] async for line in stream.aiter_lines() if line.startswith("event: ")]
    print(f"{kinds[1]} … {kinds[-3]}, {kinds[-1]}")  # noqa: T201
    result = (await client.get(place)).json()["result"]
    print(result["Status"], result["Rounds"][0]["Acceptance"]["Reason"])  # noqa: T201


async def main(folder: Path) -> None:
    """Serve on a free port, and ask."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        server = uvicorn.Server(uvicorn.Config(application(folder), log_level="warning"))
        task = asyncio.create_task(server.serve(sockets=[sock]))
        address = f"http://127.0.0.1:{sock.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=address, timeout=60, trust_env=False) as client:
            await calls(client)
        server.should_exit = True
        await task


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(main(Path(temporary)))
