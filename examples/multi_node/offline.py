"""A stand-in for the model of every agent and role, served on this machine: no key, no network.

It cannot think. As an agent it follows the rules that its instructions state, and no others; as
backwarder, aggregator and patcher it reads what it is shown and knows how letters are made, not
where the fault is. Name a real model in EXAMPLE_MODEL (with EXAMPLE_API_KEY, and EXAMPLE_BASE_URL
for another address), and nothing here is used.

`python offline.py COMMAND …` runs a command with it.
"""

import asyncio
import os
import sys

from burnish.testing.graph_world import play
from burnish.testing.servers import HttpRequest, ScriptedServer


def answer(asked: HttpRequest) -> str:
    """What the model says to what it is told and asked."""
    messages = asked.json["messages"]
    told = [each["content"] for each in messages if each["role"] in ("system", "developer")]
    return play("\n".join(told), messages[-1]["content"])


async def run_beside(command: list[str]) -> int:
    """Run a command with the model, or its stand-in, beside it; its exit code."""
    if os.environ.get("EXAMPLE_MODEL"):
        named = {"EXAMPLE_BASE_URL": "", **os.environ}
        process = await asyncio.create_subprocess_exec(*command, env=named)
        return await process.wait()
    async with ScriptedServer(protocol="openai", answers=answer) as server:
        named = {
            **os.environ,
            "EXAMPLE_MODEL": "stand-in",
            "EXAMPLE_BASE_URL": server.base_url,
            "EXAMPLE_API_KEY": "none-is-needed-offline",
        }
        process = await asyncio.create_subprocess_exec(*command, env=named)
        return await process.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(run_beside(sys.argv[1:])))
