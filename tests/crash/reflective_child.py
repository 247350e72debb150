"""Reflective search in a process of its own that kills itself when a chosen call starts.

python -m tests.crash.reflective_child FOLDER [--call N] [--kind KIND]
"""

import argparse
import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

from burnish.core.content import codec
from burnish.core.money import Spend
from burnish.journal.limits import Budget
from burnish.runs.directory import NAME as HEADER
from burnish.runs.setup import Setup
from burnish.strategies.reflective.settings import ReflectiveSettings
from burnish.testing import CallCounter, reflection_world
from tests.crash.child import DeadlyCounter, die_at_file_operation
from tests.crash.coordinate_child import driven

WORLD = reflection_world.World(
    train=8,
    holdout=20,
    rules=4,
    fields=4,
    known=0,
    needs=1,
    noise=0.08,
    idle_share=0.3,
    harmful_share=0.1,
    crash_rate=0.02,
    role_failure_rate=0.05,
    call_seconds=0.001,
)
SETTINGS = {
    "trail": ReflectiveSettings(),
    "three": ReflectiveSettings(proposals_per_round=3),
    "merge": ReflectiveSettings(
        parent_selection="pareto",
        racing=False,
        reuse=False,
        merge=True,
        proposals_per_round=3,
    ),
}


def setup(kind: str, counter: CallCounter, concurrency: int) -> Setup:
    """The run that all these tests share."""
    budget = Budget(max_metric_calls=300)
    made = reflection_world.setup(WORLD, SETTINGS[kind], budget=budget, counter=counter)
    return replace(made, concurrency=concurrency)


def main() -> None:
    """Run, and print how it ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--call", type=int, default=0)
    parser.add_argument("--file", type=int, default=0)
    parser.add_argument("--kind", choices=sorted(SETTINGS), default="trail")
    parser.add_argument("--concurrency", type=int, default=4)
    options = parser.parse_args()
    folder: Path = options.folder
    if options.file:
        die_at_file_operation(folder, options.file)
    counter = DeadlyCounter(path=folder.with_suffix(".calls"), deadly=options.call, seen=[])
    made = setup(options.kind, counter, options.concurrency)
    ending = asyncio.run(driven(made, folder, is_run=(folder / HEADER).exists()))
    told = {
        "best": ending.best.id,
        "code": ending.reason.code,
        "spent": codec(Spend).encode(ending.spent),
        "billed": codec(Spend).encode(ending.billed),
    }
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
