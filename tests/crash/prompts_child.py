"""A program that tries candidates in prompt files and behind callbacks, to be killed at it.

    python -m tests.crash.prompts_child FOLDER WHAT [--file N]

It makes `ready` in the folder while the agent is at work under a candidate, and stays there.
WHAT is `wait` (the agent waits), `command` (the agent is a process), `fork` (the agent has forked
a child), `isolated`, `candidates` (several, one after the other, then the end), `baseline` (tells
what it takes for the fields' own texts), `write back` (new texts for good).
`--file N` kills at the N-th operation on a file.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from burnish.core.cases import Case
from burnish.core.surfaces import Candidate
from burnish.journal.once import DirectEffects
from burnish.targets.callables import CallableTarget, CallingTarget, CommandTarget
from burnish.targets.prompts import PromptsTarget, TargetPrompt, write_back
from burnish.targets.user_code import prompts_folder
from tests.crash.child import die_at_file_operation


def fields(folder: Path) -> TargetPrompt:
    """Two files, and a field in a JSON file that only this program knows how to read."""
    store = folder / "store.json"

    async def read() -> str:
        return json.loads(store.read_text())["rule"]

    async def write(text: str) -> None:
        store.write_text(json.dumps({"rule": text}))

    prompts = TargetPrompt().add_path("system", folder / "prompts" / "system.md")
    prompts.add_path("skill", folder / "prompts" / "skill.md")
    return prompts.add_callback("rule", read=read, write=write)


def agent(folder: Path, what: str) -> CallingTarget:
    """An agent that never comes to an end, unless candidates are tried one after the other."""

    async def call(query: str) -> str:
        if what == "candidates":
            return "done"
        if what == "isolated":
            (prompts_folder() / "system.md").read_text()
        if what == "fork" and os.fork() == 0:
            (folder / "pid").write_text(str(os.getpid()))
            signal.pause()
            os._exit(0)
        (folder / "ready").touch()
        await asyncio.sleep(60)
        return ""

    if what == "command":
        # It closes nothing and inherits whatever it can.
        script = f"echo $$ > {folder}/pid; touch {folder}/ready; sleep 60"
        return CommandTarget(command=("sh", "-c", script))
    return CallableTarget(agent=call)


async def main() -> None:
    """Do what is asked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("what")
    parser.add_argument("--file", type=int, default=0)
    options = parser.parse_args()
    mode = "isolated" if options.what == "isolated" else "source"
    prompts = fields(options.folder)
    target = await PromptsTarget.load(agent(options.folder, options.what), prompts, mode=mode)
    if options.what == "baseline":
        told = {"values": dict(target.baseline.values), "notes": target.notes}
        sys.stdout.write(json.dumps(told))
        return
    if options.file:
        die_at_file_operation(options.folder, options.file)
    if options.what == "write back":
        texts = {name: f"new {name}" for name in prompts.names()}
        await write_back(prompts, texts, expected=await prompts.read_all())
        return
    try:
        for number in range(3 if options.what == "candidates" else 1):
            texts = {name: f"{name} of candidate {number}" for name in prompts.names()}
            await target.run(
                Candidate(values=texts), Case.single("?"), draw=0, effects=DirectEffects()
            )
    finally:
        await target.close()


if __name__ == "__main__":
    # What is started in the background of a shell has Ctrl-C ignored, and hands that on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asyncio.run(main())
