"""Back-propagation in a process of its own that kills itself when a chosen call starts.

python -m tests.crash.backprop_child FOLDER [--call N]
"""

import argparse
import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

from burnish.core.cases import Case
from burnish.core.content import codec
from burnish.core.errors import RoleFailed
from burnish.core.money import Spend
from burnish.core.outcomes import Outcome
from burnish.core.surfaces import Candidate
from burnish.runs.directory import NAME as HEADER
from burnish.runs.setup import Setup
from burnish.strategies.backprop.prompts import (
    BackwardAnswer,
    BackwardRequest,
    PatchAnswer,
    PatchRequest,
)
from burnish.strategies.backprop.settings import BackpropSettings
from burnish.testing import CallCounter
from tests.crash.child import DeadlyCounter
from tests.crash.coordinate_child import driven
from tests.strategies.backprop_world import (
    PLANNER,
    WRITER,
    Roles,
    blame_the_plan,
    outcome,
    world,
)


def half(candidate: Candidate, case: Case, draw: int) -> Outcome:
    """Even cases need a word from the planner, odd ones from the writer."""
    del draw
    text = str(candidate.values[PLANNER if int(case.id[1:]) % 2 == 0 else WRITER])
    return outcome("yes" if "FIX" in text else "no", plan=f"a plan for {case.id}")


def blame_both(request: BackwardRequest, draw: int) -> BackwardAnswer:
    """The writer for odd cases, the planner for the others; now and then nobody."""
    if draw % 7 == 6:
        raise RoleFailed("not today")
    number = int(request.input.rpartition("q")[2] or 0)
    if number % 2 == 1 and request.surfaces[0].id == WRITER:
        return blame_the_plan(request.model_copy(update={"predecessors": ()}), draw)
    return blame_the_plan(request, draw)


def patch(request: PatchRequest, draw: int) -> PatchAnswer:
    """What is right comes in the second round."""
    word = "FIX" if draw >= 2_000_000 else f"Try {draw}."
    return PatchAnswer(value=f"{request.surface.value} {word}", reason="it may help")


def setup(counter: CallCounter, concurrency: int) -> Setup:
    """The run that all these tests share."""
    settings = BackpropSettings(
        max_rounds=3,
        candidates_per_round=2,
        merge_single=True,
        backward_parallelism=concurrency,
        aggregation_parallelism=concurrency,
        patch_parallelism=concurrency,
    )
    made = world(half, Roles(back=blame_both, patch=patch), settings, counter=counter)
    return replace(made, concurrency=concurrency)


def main() -> None:
    """Run, and print how it ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--call", type=int, default=0)
    parser.add_argument("--concurrency", type=int, default=4)
    options = parser.parse_args()
    folder: Path = options.folder
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
