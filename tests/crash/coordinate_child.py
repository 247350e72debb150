"""Coordinate descent in a process of its own that kills itself when a chosen call starts.

python -m tests.crash.coordinate_child FOLDER [--call N]
"""

import argparse
import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

from burnish.core.content import codec
from burnish.core.money import Spend
from burnish.runs.directory import NAME as HEADER
from burnish.runs.driver import Ending, drive
from burnish.runs.setup import Setup, resume, start
from burnish.strategies.coordinate.settings import PhaseLimits
from burnish.testing import CallCounter, tuning_world
from tests.crash.child import DeadlyCounter, die_at_file_operation

SETTINGS = tuning_world.AXES.model_copy(
    update={
        "repeats": 1,
        "max_cycles": 2,
        "demonstration_phase": PhaseLimits(max_trials=4, patience=3),
        "numeric_phase": PhaseLimits(max_trials=5, patience=4),
        "textual_phase": PhaseLimits(max_trials=4, patience=2),
    }
)


def setup(counter: CallCounter, concurrency: int) -> Setup:
    """The run that all these tests share."""
    world = tuning_world.TuningWorld(
        train=6, holdout=4, test=3, noise=0.03, crash_rate=0.02, role_failure_rate=0.1
    )
    made = tuning_world.setup(world, SETTINGS, counter=counter)
    return replace(made, concurrency=concurrency)


async def driven(made: Setup, folder: Path, *, is_run: bool) -> Ending:
    """Make the run, or go on with it."""
    run = resume(made, folder) if is_run else start(made, folder=folder)
    try:
        return await drive(run)
    finally:
        await run.close()


def main() -> None:
    """Run, and print how it ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--call", type=int, default=0)
    parser.add_argument("--file", type=int, default=0)
    parser.add_argument("--concurrency", type=int, default=4)
    options = parser.parse_args()
    folder: Path = options.folder
    if options.file:
        die_at_file_operation(folder, options.file)
    counter = DeadlyCounter(path=folder.with_suffix(".calls"), deadly=options.call, seen=[])
    made = setup(counter, options.concurrency)
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
