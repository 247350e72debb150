"""Whether losses find their way back to the instruction that caused them.

At each node of a desk of six agents with a loop a rule is left out. Twenty cases fail at the end
of the graph; the walk back is counted by where its gradients land, and the patch by whether it is
accepted and makes every letter right again.

The roles are scripts that read what they are shown and do not know the fault, so this measures the
walk, the merging and the patching; with real models the share depends on the models too.
"""

import asyncio
import multiprocessing
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.strategies.graph_world import NODES, planted, setup

from benchmarks.figures import Figure
from burnish.journal.journal import JournalReader
from burnish.runs.directory import trial_rows
from burnish.runs.driver import drive
from burnish.runs.setup import start
from burnish.strategies.backprop.packets import BackpropSettings

CASES, HOLDOUT = 20, 10


@dataclass(frozen=True, kw_only=True)
class Attributed:
    """What became of one fault."""

    guilty: float
    """The share of gradients that land on the surface that it stands in."""
    accepted: bool
    repaired: bool
    """Whether every letter of holdout is right afterwards."""


def figures() -> list[Figure]:
    """For each node, where the gradients land and whether the fault is gone."""
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(attributed, NODES))
    shares = [
        Figure(
            what=f"backprop, a fault at {node}, {CASES} cases: gradients that land on it",
            value=100 * each.guilty,
            unit="%",
            goal=90,
            more=True,
        )
        for node, each in zip(NODES, found, strict=True)
    ]
    mended = sum(each.accepted and each.repaired for each in found)
    what = "backprop: faults repaired and accepted"
    unit, goal = f"of {len(NODES)}", float(len(NODES))
    return [*shares, Figure(what=what, value=float(mended), unit=unit, goal=goal, more=True)]


def attributed(node: str) -> Attributed:
    """Plant a fault at a node, and look where the walk back leads."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BURNISH_HOME"] = folder
        run = Path(folder) / "run"
        asyncio.run(_searched(node, run))
        with JournalReader(run) as journal:
            trial = list(trial_rows(journal))[1].trial
    gradients: Any = trial.details["gradients"]
    on_it = sum(each["surface"] == planted(node) for each in gradients)
    return Attributed(
        guilty=on_it / len(gradients),
        accepted=trial.accepted,
        repaired=trial.holdout is not None and trial.holdout.measurement.score == 1.0,
    )


async def _searched(node: str, folder: Path) -> None:
    settings = BackpropSettings(max_rounds=1)
    run = start(setup(node, train=CASES, holdout=HOLDOUT, settings=settings), folder=folder)
    try:
        await drive(run)
    finally:
        await run.close()
