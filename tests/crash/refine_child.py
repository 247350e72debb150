"""A program that refines a run, to be killed at it.

    run(FOLDER, WHAT, NUMBER)

FOLDER/seed is refined, FOLDER/calls has every question that was really asked. It kills itself at
the NUMBERth question (`call`) or the NUMBERth file that is put in place (`rename`).
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from burnish.core.content import Json
from burnish.core.errors import SeedRefused
from burnish.delegation.refine.settings import RefineSettings
from burnish.delegation.refine.setup import RefineOptions, Seat, open_refinement
from burnish.delegation.runs import delegate
from burnish.delegation.team import load_workflow
from burnish.testing.delegation_world import (
    REFINE_FLOW,
    TASK,
    DelegationWorld,
    Response,
    RoleTurn,
    critic,
    manager,
    worker,
)
from burnish.testing.doubles import CallCounter

ITERATIONS = 4


@dataclass
class Death:
    """Comes at the last of so many."""

    left: int

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def mortal(role: Callable[[RoleTurn], Response], death: Death) -> Callable[[RoleTurn], Response]:
    """A role that may be the last that is asked."""

    def said(turn: RoleTurn) -> Response:
        death.step()
        return role(turn)

    return said


def world_in(folder: Path, death: Death) -> DelegationWorld:
    """The team; what it is asked is counted in a file."""
    return DelegationWorld(
        manager=mortal(manager, death),
        worker=mortal(worker, death),
        critic=mortal(critic, death),
        counter=CallCounter(path=folder / "calls"),
    )


def make_seed(folder: Path) -> None:
    """A finished run with every flaw, that took its time."""
    flow = folder / "workflow.yaml"
    flow.write_text(REFINE_FLOW, encoding="utf-8")
    loaded = load_workflow(flow, models=world_in(folder, Death(0)).models())
    kept: dict[str, Json] = {"file": str(flow), "overrides": {}}
    asyncio.run(delegate(loaded.workflow, TASK, folder=folder / "seed", kept=kept))
    path = folder / "seed" / "run_completion.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    data["final_budget"]["wall_time"]["elapsed_s"] = 600
    path.write_text(json.dumps(data), encoding="utf-8")
    (folder / "calls").unlink()


def run(folder: Path, what: str, number: int) -> None:
    """Begin a session, or go on with the one that is unfinished."""
    calls, files = Death(number if what == "call" else 0), Death(number if what == "rename" else 0)

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        if event == "os.rename" and str(folder) in str(arguments[0]):
            files.step()

    sys.addaudithook(audit)
    seat, wishes = (
        Seat.beside(folder / "seed"),
        RefineOptions(models=world_in(folder, calls).models),
    )
    settings = RefineSettings(iterations=ITERATIONS)
    try:
        opened = open_refinement(seat, settings, resume="last", options=wishes)
    except SeedRefused:
        opened = open_refinement(seat, settings, options=wishes)
    session = asyncio.run(opened.run())
    sys.stdout.write(session.text)
