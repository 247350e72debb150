"""A team for workflow.yaml, served on this machine: no key, no network.

It writes the report with flaws, on purpose, and mends one flaw each time that it is told of some.
Name a real model in EXAMPLE_MODEL, and another one for the critic in EXAMPLE_CRITIC (with
EXAMPLE_API_KEY, and EXAMPLE_BASE_URL for another address), and nothing here is used.

`python offline.py COMMAND …` runs a command with the team beside it.
"""

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from burnish.testing.servers import Answer, HttpRequest, ModelReply, ScriptedServer

WORKER, CRITIC = "openai:stand-in", "openai:strict-critic"
FLAWS = {
    "the temperatures have no unit": (
        "rose from 31.2 to 36.1 and",
        "rose from 31.2 °C to 36.1 °C and",
    ),
    "it is not said where it was measured": (
        "The readings are reliable.",
        "The readings are those of the station at the airport, in the shade.",
    ),
    "there is no conclusion": (
        "More could be said.",
        "## Conclusion\n\nFour days above 33 °C in a row call for shade at every bus stop.",
    ),
}
"""By what the critic says of it: what the draft has, and what it should have."""
DRAFT = """\
# The heat of the week

At noon the temperature rose from 31.2 to 36.1 and fell to 33.0 again. Friday was the hottest day,
Monday the least hot one; between Wednesday and Saturday there was hardly any relief, neither in the
morning nor in the evening, and the wind stayed light all the time.

## How it was measured

The readings are reliable. One reading counts for each day, that of noon, and none of the seven is
missing. No reading was corrected afterwards, and no day was left out of the comparison, so that the
figures above can be checked against the table that came with the task.

TODO: say more.

## What follows

Old people and small children suffer first.

More could be said.
"""


def answer(asked: HttpRequest) -> Answer:
    """What the one who is asked says."""
    messages = asked.json["messages"]
    said = "\n".join(str(each["content"]) for each in messages if each["role"] == "user")
    system = str(messages[0]["content"])
    if "You are the manager" in system:
        return json.dumps(manage(said))
    if "You check the work" in system:
        return json.dumps(criticise(said.partition("<files>")[2].partition("</files>")[0]))
    tools = [str(each["content"]) for each in messages if each["role"] == "tool"]
    return work(part(said, "Your instructions:"), tools)


def manage(said: str) -> dict[str, Any]:
    """Plan, delegate, complete; what was sent back is mended first."""
    if "Iteration 1." in said:
        known = [flaw for flaw in FLAWS if flaw in said]
        told = f"mend input/report.md: {known[0]}" if known else "write it"
        task = {"id": "report", "description": told, "required_outputs": ["report.md"]}
        return {"decision": "plan", "subtasks": [task]}
    plan, results = part(said, "The plan so far:"), part(said, "What workers reported:")
    sent_back = part(said, "Your last completion was sent back:")
    if "no_placeholder" in sent_back and "repairer" not in results:
        return delegate(repairer="take the line with TODO out of report.md")
    if results:
        done = "The report is written."
        return {"decision": "complete", "final_result": done, "confidence": 0.8}
    if found := re.search(r"mend input/report.md: ([\w ]+)", plan):
        return delegate(mender=f"mend input/report.md: {found[1]}")
    return delegate(reader="put the temperatures into notes.md", writer="write the report")


def delegate(**jobs: str) -> dict[str, Any]:
    """One worker a job."""
    told = [{"worker_id": name, "subtask_id": "report", "instructions": job}
            for name, job in jobs.items()]  # fmt: skip
    return {"decision": "delegate", "delegations": told}


def work(job: str, tools: list[str]) -> Answer:
    """Read a file, write a file, say so."""
    if "TODO" in job:
        source, target = "report.md", "report.md"
    elif "mend" in job:
        source, target = "input/report.md", "report.md"
    elif "notes.md" in job:
        source, target = "input/temperatures.csv", "notes.md"
    else:
        source, target = "notes.md", "report.md"
    if not tools:
        return ModelReply(uses=(("file_read", {"path": source}),))
    if len(tools) == 1:
        content = written(job, tools[0])
        return ModelReply(uses=(("file_write", {"path": target, "content": content}),))
    return json.dumps({"summary": f"wrote {target}", "outputs": [target], "confidence": 0.8})


def written(job: str, text: str) -> str:
    """What a worker makes of what it has read."""
    if "TODO" in job:
        return text.replace("TODO: say more.\n\n", "")
    if "notes.md" in job:
        return f"# Notes\n\n{text}"
    flaw = job.partition(": ")[2].strip()
    return text.replace(*FLAWS[flaw]) if flaw in FLAWS else DRAFT


def criticise(files: str) -> dict[str, Any]:
    """The flaws that are really in the file."""
    there = [flaw for flaw, (bad, _) in FLAWS.items() if bad in files]
    defects = [
        {"category": "incomplete", "location": "report.md", "description": flaw,
         "severity": "warning"}
        for flaw in there
    ]  # fmt: skip
    return {"score": 1 - 0.2 * len(there), "defects": defects, "summary": f"{len(there)} flaws"}


def part(said: str, heading: str) -> str:
    """The lines below a heading, up to the next empty one."""
    return said.partition(f"{heading}\n")[2].lstrip("\n").partition("\n\n")[0]


def with_real_models(command: list[str]) -> list[str]:
    """The command over a copy of the workflow that names the models of the environment."""
    names = {WORKER: os.environ["EXAMPLE_MODEL"]}
    names[CRITIC] = os.environ.get("EXAMPLE_CRITIC") or names[WORKER]
    copy = Path("work/workflow.yaml")
    if "workflow.yaml" in command:
        text = Path("workflow.yaml").read_text(encoding="utf-8")
        for ref, name in names.items():
            text = text.replace(ref, f"openai:{name}")
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(text, encoding="utf-8")
    return [str(copy) if each == "workflow.yaml" else each for each in command]


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
