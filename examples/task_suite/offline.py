"""A team for workflow.yaml, served on this machine: no key, no network.

It does what its policy texts say, also where they are wrong. Whoever is asked to change a text is
shown what went wrong and that text; it does not know where the fault is. Name a real model in
EXAMPLE_MODEL, and another one for the critic in EXAMPLE_CRITIC (with EXAMPLE_API_KEY, and
EXAMPLE_BASE_URL for another address), and nothing here is used.

`python offline.py COMMAND …` runs a command with the team beside it.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from burnish.core.cases import Message
from burnish.models.chat import ChatReply, ChatRequest
from burnish.testing import delegation_world
from burnish.testing.delegation_world import RoleTurn
from burnish.testing.servers import Answer, HttpRequest, ModelReply, ScriptedServer

WORKER, CRITIC = "openai:stand-in", "openai:strict-critic"
ROLES = {
    "You are the manager": delegation_world.suite_manager,
    "You check the work": delegation_world.suite_critic,
    "You look at one of these": delegation_world.textgrad,
}
"""Who is asked, by what stands in the prompt; all others are workers."""


def answer(asked: HttpRequest) -> Answer:
    """What the one who is asked says."""
    said = asked.json["messages"]
    messages = tuple(
        Message(role="system" if each["role"] == "developer" else each["role"],
                content=str(each["content"] or ""))
        for each in said
    )  # fmt: skip
    shape = asked.json.get("response_format", {}).get("json_schema", {})
    request = ChatRequest(messages=messages, schema_name=shape.get("name", "answer"))
    turn = RoleTurn(request=request, draw=0)
    text = " ".join(turn.system.split())
    role = next(
        (role for told, role in ROLES.items() if told in text), delegation_world.suite_worker
    )
    reply = role(turn)
    if isinstance(reply, ChatReply):
        return ModelReply(uses=tuple((use.name, use.arguments) for use in reply.uses))
    return json.dumps(reply)


def with_real_models(command: list[str]) -> list[str]:
    """The command over copies of the files that name the models of the environment."""
    names = {WORKER: os.environ["EXAMPLE_MODEL"]}
    names[CRITIC] = os.environ.get("EXAMPLE_CRITIC") or names[WORKER]
    copies = {name: Path("work") / name for name in ("suite.yaml", "workflow.yaml")}
    for name, copy in copies.items():
        text = Path(name).read_text(encoding="utf-8")
        for ref, model in names.items():
            text = text.replace(ref, f"openai:{model}")
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(text, encoding="utf-8")
    return [str(copies.get(each, each)) for each in command]


async def run_beside(command: list[str]) -> int:
    """Run a command with the team, or real models, beside it; its exit code."""
    if os.environ.get("EXAMPLE_MODEL"):
        usual = {"EXAMPLE_BASE_URL": "", **os.environ}
        process = await asyncio.create_subprocess_exec(*with_real_models(command), env=usual)
        return await process.wait()
    async with ScriptedServer(protocol="openai", answers=answer) as server:
        named = {"EXAMPLE_BASE_URL": server.base_url, "EXAMPLE_API_KEY": "none-is-needed-offline"}
        process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **named})
        return await process.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(run_beside(sys.argv[1:])))
