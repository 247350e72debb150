"""Delegations as tests run them: a scripted world, a workflow file, a folder."""

import json
from pathlib import Path
from typing import Any

from burnish.delegation.result import DelegationResult
from burnish.delegation.team import Workflow, load_workflow
from tests.delegation.alone import delegate
from tests.delegation.delegation_world import FLOW, DelegationWorld

TASK = "Write a report about the heat of the day."


def workflow(folder: Path, world: DelegationWorld, text: str = FLOW) -> Workflow:
    """A workflow file read in a folder of the test's own."""
    path = folder / "workflow.yaml"
    path.write_text(text, encoding="utf-8")
    return load_workflow(path, models=world.models()).workflow


async def run(
    folder: Path, world: DelegationWorld, text: str = FLOW, task: str = TASK, **more: Any
) -> DelegationResult:
    """One delegation in `folder`/run, or on with the one that is there."""
    return await delegate(workflow(folder, world, text), task, folder=folder / "run", **more)


def with_loop(*lines: str) -> str:
    """The usual file with more said in the block of the loop."""
    return FLOW.replace("    models:", "".join(f"    {line}\n" for line in lines) + "    models:")


def read(folder: Path, name: str) -> Any:
    """A JSON file of the run."""
    return json.loads((folder / "run" / name).read_text(encoding="utf-8"))


def rows(path: Path) -> list[dict[str, Any]]:
    """A file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def events(result: DelegationResult) -> list[dict[str, Any]]:
    """What the run's log tells."""
    return rows(result.run_dir / "logs" / result.run_id / "events.jsonl")
