"""A toy run in a process of its own that kills itself with SIGKILL at a chosen point.

    python -m tests.crash.child FOLDER [--call N | --file N | --seconds S] …

`--call N`: when the N-th call of this process starts. `--file N`: at the N-th operation of
this process on a file of the run (open for writing, rename, link, mkdir, remove), through an
audit hook, so before the operation happens. `--seconds S`: S seconds after the imports.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

from burnish.core.content import codec
from burnish.core.evaluations import Objective
from burnish.core.money import Spend
from burnish.journal.limits import Budget
from burnish.projects import optimize
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.testing import CallCounter, toy
from burnish.testing.toy import Climb, MeasuredCandidate, proposer

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_OPERATIONS = {"open", "os.rename", "os.link", "os.symlink", "os.mkdir", "os.remove"}


def die() -> None:
    """What the kernel does to a process that the user loses patience with."""
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True, kw_only=True)
class DeadlyCounter(CallCounter):
    """Counts, and kills at a count."""

    deadly: int
    seen: list[str]

    def count(self, what: str) -> None:
        """Count outside the process first: the call has started."""
        super().count(what)
        self.seen.append(what)
        if len(self.seen) == self.deadly:
            die()


@dataclass(frozen=True, kw_only=True)
class EditedClimb(Climb):
    """Someone changed the code and not the version."""

    async def _trial(
        self, run: Run, best: MeasuredCandidate, cycle: int, phase: str, step: int
    ) -> MeasuredCandidate:
        return await super()._trial(run, best, cycle, phase, step + 1)


def die_at_file_operation(folder: Path, deadly: int) -> None:
    """Install the audit hook."""
    seen = 0
    inside = str(folder)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if event not in _OPERATIONS or inside not in str(arguments[0]) + str(arguments[1:2]):
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _WRITING):
            return
        seen += 1
        if seen == deadly:
            die()

    sys.addaudithook(hook)


def die_later(seconds: float) -> None:
    """Start the clock."""

    def wait() -> None:
        time.sleep(seconds)
        die()

    threading.Thread(target=wait, daemon=True).start()


def setup(options: argparse.Namespace, counter: CallCounter) -> Setup:
    """The run that all crash tests share."""
    world = toy.ToyWorld(
        train=6,
        holdout=5,
        test=4,
        call_seconds=0.002,
        outage_rate=options.outages,
        crash_rate=options.outages / 2,
    )
    kind = EditedClimb if options.edited else Climb
    return Setup(
        target=toy.target(world, counter=counter),
        metrics=(toy.RulesKept(),),
        objective=Objective(weights={"rules_kept": 1.0}),
        dataset=replace(toy.dataset(world), **({"test": ()} if options.no_test else {})),
        strategy=kind(proposer=proposer(counter=counter), cycles=2, trials_per_phase=3),
        budget=Budget(max_trials=options.trials),
        concurrency=options.concurrency,
        test_repeats=2,
    )


def main() -> None:
    """Run, and print how it ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--call", type=int, default=0)
    parser.add_argument("--file", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--outages", type=float, default=0.0)
    parser.add_argument("--trials", type=int, default=None)
    parser.add_argument("--edited", action="store_true")
    parser.add_argument("--no-test", action="store_true")
    options = parser.parse_args()
    if options.file:
        die_at_file_operation(options.folder, options.file)
    if options.seconds:
        die_later(options.seconds)
    counts = options.folder.with_suffix(".calls")
    counter = DeadlyCounter(path=counts, deadly=options.call, seen=[])
    ending = optimize(setup(options, counter), options.folder)
    told = {
        "best": ending.best.id,
        "code": ending.reason.code,
        "spent": codec(Spend).encode(ending.spent),
        "billed": codec(Spend).encode(ending.billed),
    }
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
