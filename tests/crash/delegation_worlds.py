"""The runs of delegations that are killed: a training on a suite, and a refinement."""

import asyncio
import json
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from burnish.core.content import Json, codec
from burnish.core.errors import SeedRefused
from burnish.core.money import Spend
from burnish.delegation.policy import PolicyRegistry, PolicyTexts
from burnish.delegation.refine.plugin import RefineOptions, Seat, open_refinement
from burnish.delegation.refine.setup import RefineSettings
from burnish.delegation.team import load_workflow
from burnish.projects import load_project, reload_project
from burnish.projects.launch import launch_in
from burnish.runs.directory import NAME as HEADER
from burnish.runs.directory import RunRecord
from burnish.runs.driver import Ending
from burnish.testing.delegation_world import FAULT
from burnish.testing.doubles import CallCounter, story
from tests.delegation.alone import delegate
from tests.delegation.delegation_world import (
    GUILTY,
    REFINE_FLOW,
    SUITE_FLOW,
    TASK,
    refine_world,
    suite_text,
    suite_world,
)

TRAINING_AT_ONCE = 6
"""Two delegations at once, or six questions about texts."""
ITERATIONS = 4


# -- A training, in the folder of a run whose files are beside it ---------------------------------


def registry_of(run: Path) -> Path:
    """The registry that a training writes."""
    return run.with_name("policy.db")


def prepare_training(run: Path) -> None:
    """The files, and a registry with a text that has a fault."""
    run.with_name("workflow.yaml").write_text(SUITE_FLOW, encoding="utf-8")
    run.with_name("suite.yaml").write_text(suite_text("heat", "rain"), encoding="utf-8")
    faulty = PolicyTexts.shipped()[GUILTY] + FAULT + "\n"
    PolicyRegistry(registry_of(run)).add(GUILTY, faulty, activate=True)


def train(run: Path, counter: CallCounter) -> Ending:
    """Start a training, or go on with it."""
    models = suite_world(counter=counter).models()
    flags: dict[str, JsonValue] = {
        "epochs": 3,
        "with_textgrad": True,
        "repeats": 2,
        "concurrency": 2,
        "db": str(registry_of(run)),
    }
    if (run / HEADER).exists():
        return launch_in(reload_project(run, flags, models=models).setup, run)
    return launch_in(load_project(run.with_name("suite.yaml"), flags, models=models).setup, run)


def training_story(run: Path) -> list[Any]:
    """The trials without the names of delegations, which chance gives."""
    rows = story(run / "trials.jsonl")
    for row in rows:
        for each in row["trial"]["details"].get("runs", ()):
            each.pop("run_id")
    return rows


# -- A refinement, whose folder is its seed's -----------------------------------------------------


def sessions_of(seed: Path) -> Path:
    """The folder of all sessions of a seed."""
    return seed / "refinement_sessions"


def session_in(seed: Path) -> Path:
    """The folder of the session's run, or of the seed before there is one."""
    runs = sessions_of(seed)
    return next((path.parent for path in sorted(runs.glob(f"*/{HEADER}"))), seed / "nothing")


def make_seed(seed: Path) -> None:
    """A finished run with every flaw, that took its time."""
    flow = seed.with_name("workflow.yaml")
    flow.write_text(REFINE_FLOW, encoding="utf-8")
    loaded = load_workflow(flow, models=refine_world().models())
    kept: dict[str, Json] = {"file": str(flow), "overrides": {}}
    asyncio.run(delegate(loaded.workflow, TASK, folder=seed, kept=kept))
    path = seed / "run_completion.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    data["final_budget"]["wall_time"]["elapsed_s"] = 600
    path.write_text(json.dumps(data), encoding="utf-8")


def refine(seed: Path, counter: CallCounter) -> dict[str, Any]:
    """Begin a session, or go on with the one that is unfinished."""
    seat = Seat.beside(seed)
    options = RefineOptions(models=refine_world(counter=counter).models)
    settings = RefineSettings(iterations=ITERATIONS)
    try:
        opened = open_refinement(seat, settings, resume="last", options=options)
    except SeedRefused:
        opened = open_refinement(seat, settings, options=options)
    session = asyncio.run(opened.run())
    record = RunRecord.read(opened.folder)
    return {
        "best": [session.best_iter, session.best_loss],
        "code": session.stop_reason,
        "claim": None,
        "spent": codec(Spend).encode(record.spent),
        "billed": codec(Spend).encode(record.billed),
    }


def refinement_story(run: Path) -> list[Any]:
    """What the session says of its iterations; ids and times are different each time."""
    session = json.loads(run.with_suffix(".json").read_text(encoding="utf-8"))
    return [(row["k"], row["loss"], row["note"]) for row in session["iterations"]]
