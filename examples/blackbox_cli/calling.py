"""The tool as `call_agent`: one process a question, its banner cut off, its errors told."""

import asyncio
import sys
from pathlib import Path

from burnish import prompts_folder

HERE = Path(__file__).parent
WORKSPACE = HERE / "workspace"
SECONDS = 30.0
"""Measure your own tool first: the longest honest answer, and some more."""


async def call_agent(query: str) -> str:
    """Ask the tool. The question is an argument of its own: there is no shell to escape for."""
    process = await _started(query)
    try:
        async with asyncio.timeout(SECONDS):
            said, complaint = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        told = complaint.decode(errors="replace").strip()[-400:]
        raise RuntimeError(f"the tool ended with {process.returncode}: {told}")
    return normal(said.decode(errors="replace"))


async def _started(query: str) -> asyncio.subprocess.Process:
    workspace = prompts_folder(WORKSPACE)
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, str(HERE / "notes.py"), "--workspace", str(workspace), query),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        # No answer of the tool but trouble of the machine: such a case is missing, not 0.
        raise ConnectionError(f"the tool could not be started: {error}") from error


def normal(output: str) -> str:
    """The answer alone: what stands after the last `> `."""
    return output.rpartition("> ")[2].strip()
