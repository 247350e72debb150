"""Two judges for task_metrics.yaml, served on this machine: no key, no network.

They look for signs that a rubric is kept; the second wants more of them, so the two do not always
agree. Name real judges in EXAMPLE_JUDGE and EXAMPLE_SECOND_JUDGE (with EXAMPLE_API_KEY, and
EXAMPLE_BASE_URL for another address), and nothing here is used.

`python offline.py COMMAND …` runs a command with them.
"""

import asyncio
import json
import os
import re
import sys

from burnish.testing.servers import HttpRequest, ScriptedServer

_LENIENT, _STRICT = "lenient-judge", "strict-judge"
_SIGNS = {
    "order": (r"\bsort", r"\bfirst\b"),
    "format": (r"## output format", r"\bheading\b"),
    "example": (r"\bchange: ", r"\bline: "),
    "breaking": (r"\bbreaks\b", r"\btop\b"),
}
"""Of each rubric: one sign is enough for the first judge, the second wants both."""


def answer(asked: HttpRequest) -> str:
    """The verdicts of the judge that is asked."""
    said = "\n".join(message["content"] for message in asked.json["messages"])
    reply = re.findall(r"<agent_response>(.*?)</agent_response>", said, flags=re.DOTALL)[-1]
    needed = 2 if asked.json["model"] == _STRICT else 1
    return json.dumps({"items": [_verdict(rubric, reply, needed) for rubric in _SIGNS]})


def _verdict(rubric: str, reply: str, needed: int) -> dict[str, str]:
    there = [sign for sign in _SIGNS[rubric] if re.search(sign, reply.lower())]
    holds = len(there) >= needed
    return {
        "id": rubric,
        "evidence": f"{len(there)} of {len(_SIGNS[rubric])} signs",
        "reason": "it is there" if holds else "it is not there",
        "verdict": "yes" if holds else "no",
    }


async def run_beside(command: list[str]) -> int:
    """Run a command with the judges, or their stand-ins, beside it; its exit code."""
    if os.environ.get("EXAMPLE_JUDGE"):
        usual = {"EXAMPLE_BASE_URL": "", "EXAMPLE_SECOND_JUDGE": os.environ["EXAMPLE_JUDGE"]}
        process = await asyncio.create_subprocess_exec(*command, env={**usual, **os.environ})
        return await process.wait()
    async with ScriptedServer(protocol="openai", answers=answer) as server:
        named = {
            "EXAMPLE_JUDGE": _LENIENT,
            "EXAMPLE_SECOND_JUDGE": _STRICT,
            "EXAMPLE_BASE_URL": server.base_url,
            "EXAMPLE_API_KEY": "none-is-needed-offline",
        }
        process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **named})
        return await process.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(run_beside(sys.argv[1:])))
