"""Stand-ins for three models, served on this machine: no key, no network.

`careful` knows every word of the trade, `quick` the plain ones only, and `gone` is no longer
served. Warm answers of `quick` wander off. Name a real endpoint in EXAMPLE_BASE_URL (with
EXAMPLE_API_KEY and EXAMPLE_MODEL), and nothing here is used.

`python offline.py COMMAND …` runs a command with them.
"""

import asyncio
import os
import sys
from pathlib import Path

from burnish.testing.servers import HttpRequest, ModelReply, ScriptedServer, Status, port_of

PLAIN = {"refund": "refund", "money": "refund", "parcel": "delivery", "late": "delivery"}
TRADE = {
    "charged": "refund", "paid": "refund", "amount": "refund", "credit": "refund",
    "courier": "delivery", "tracking": "delivery", "delivered": "delivery", "ship": "delivery",
}  # fmt: skip


def answer(asked: HttpRequest) -> ModelReply | Status:
    """What a model says to a message."""
    body = asked.json
    name, message = body["model"], body["messages"][-1]["content"].lower()
    if name not in ("careful", "quick"):
        return Status(404, message=f"the model {name} does not exist")
    known = PLAIN | (TRADE if name == "careful" else {})
    word = next((label for sign, label in known.items() if sign in message), "other")
    if name == "quick" and body.get("temperature", 0) > 0.5 and len(message) % 2:
        word = f"I would say {word}."
    return ModelReply(text=word, input_tokens=60, output_tokens=2)


async def run_beside(command: list[str]) -> int:
    """Run a command with the models, or their stand-ins, beside it; its exit code."""
    if os.environ.get("EXAMPLE_BASE_URL"):
        process = await asyncio.create_subprocess_exec(*command)
        return await process.wait()
    # At the same port for each command in a folder, since a measurement is resumed where it began.
    port = port_of(Path.cwd())
    async with ScriptedServer(protocol="openai", answers=answer, port=port) as server:
        named = {
            **os.environ,
            "EXAMPLE_MODEL": "careful",
            "EXAMPLE_BASE_URL": server.base_url,
            "EXAMPLE_API_KEY": "none-is-needed-offline",
        }
        process = await asyncio.create_subprocess_exec(*command, env=named)
        return await process.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(run_beside(sys.argv[1:])))
