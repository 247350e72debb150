"""A program that delegates with real commands, to be killed at it.

    python -m tests.crash.delegation_child FOLDER

FOLDER/run is the run, FOLDER/calls what models were asked, FOLDER/commands what was started.
"""

import asyncio
import json
import sys
from pathlib import Path

from burnish.delegation.team import load_workflow
from burnish.testing.delegation_world import COMPLETE, Response, RoleTurn, delegation, plan, use
from burnish.testing.doubles import CallCounter
from tests.delegation.alone import delegate
from tests.delegation.delegation_world import FLOW, REPORT, DelegationWorld, in_order

ROUNDS = 2


def world(folder: Path) -> DelegationWorld:
    """A worker whose commands add to a file, slowly, and leave something running."""
    command = (
        f"echo started >> {folder}/commands; echo half >> log.txt; setsid sleep 60 & sleep 0.25; "
        "sed -i '$ d' log.txt; echo line >> log.txt; wc -l < log.txt"
    )

    def worker(turn: RoleTurn) -> Response:
        done = len(turn.answers)
        if done < ROUNDS:
            return use("run_command", command=f"{command} # {done}")
        if done == ROUNDS:
            return use("file_write", path="report.md", content=REPORT + "\n".join(turn.answers))
        return {"summary": "wrote it"}

    return DelegationWorld(
        manager=in_order(plan("report.md", "log.txt"), delegation("one"), COMPLETE),
        worker=worker,
        counter=CallCounter(path=folder / "calls"),
    )


async def main(folder: Path) -> None:
    """Start, or go on."""
    path = folder / "workflow.yaml"
    path.write_text(FLOW, encoding="utf-8")
    loaded = load_workflow(path, models=world(folder).models())
    result = await delegate(loaded.workflow, "Write a report.", folder=folder / "run")
    told = {
        "status": result.status,
        "iterations": result.iterations,
        "files": {each.name: each.read_text() for each in result.deliverables},
        "tokens": result.spent.tokens,
    }
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
