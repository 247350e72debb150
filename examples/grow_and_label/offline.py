"""A stand-in for the model that writes cases, served on this machine: no key, no network.

Like real ones it makes mistakes: once it repeats a case of another file, and once it talks. Name a
real endpoint in EXAMPLE_BASE_URL (with EXAMPLE_API_KEY), and nothing here is used.

`python offline.py COMMAND …` runs a command with it.
"""

import asyncio
import json
import os
import sys

from burnish.testing.servers import HttpRequest, ModelReply, ScriptedServer

WRITTEN = {
    ("gift card", "paraphrase"): ("I never used my voucher. Will you refund it?", "no"),
    ("gift card", "edge"): ("Half of my gift card is spent. Is the rest refundable?", "no"),
    ("lamp", "paraphrase"): ("And how many days do I have to send shoes back?", "30 days"),
    ("lamp", "edge"): ("I dropped the lamp myself. Is the postage still on you?", None),
    ("carrier", "paraphrase"): ("Who brings a wardrobe of 35 kilos?", "a carrier"),
}


def answer(asked: HttpRequest) -> ModelReply:
    """One case for what is shown, or nonsense for what it does not know."""
    request = asked.json["messages"][-1]["content"]
    source = request.partition("What the new cases come from")[2]
    for (word, kind), (question, expected) in WRITTEN.items():
        if word in source and f"Kind: {kind}" in request:
            case = {"turns": [{"input": question, "expected": expected}], "why": f"{kind}: {word}"}
            return ModelReply(text=json.dumps({"cases": [case]}))
    return ModelReply(text="I am not sure what you mean.")


async def run_beside(command: list[str]) -> int:
    """Run a command with the model, or its stand-in, beside it; its exit code."""
    if os.environ.get("EXAMPLE_BASE_URL"):
        process = await asyncio.create_subprocess_exec(*command)
        return await process.wait()
    async with ScriptedServer(protocol="openai", answers=answer) as server:
        own = {"EXAMPLE_BASE_URL": server.base_url, "EXAMPLE_API_KEY": "none-is-needed-offline"}
        process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **own})
        return await process.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(run_beside(sys.argv[1:])))
