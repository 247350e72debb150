"""Three stand-ins for models of one provider, served on this machine: no key, no network.

`python offline.py COMMAND` runs a command beside them. The small one confuses loans and accounts;
none of them knows the labels unless the prompt has them.
"""

import asyncio
import os
import re
import sys

from burnish.testing.servers import HttpRequest, ModelReply, ScriptedServer


def answer(request: HttpRequest) -> ModelReply:
    """The label of a message, by its first word that is one."""
    asked = request.json
    text = "\n".join(str(each["content"]) for each in asked["messages"])
    message = str(asked["messages"][-1]["content"])
    found = re.search(r"card|loan|account", message)
    label = found[0] if found else "account"
    if asked["model"] == "small" and label == "loan":
        label = "account"
    if "card, loan or account" not in text:
        label = "I can help you with that."
    return ModelReply(text=label, input_tokens=len(text) // 4, output_tokens=2)


async def main(command: list[str]) -> int:
    """Run the command with the address of the stand-ins."""
    async with ScriptedServer(answers=answer) as server:
        here = {"EXAMPLE_BASE_URL": server.base_url, "EXAMPLE_API_KEY": "none-is-needed-offline"}
        process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **here})
        return await process.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
