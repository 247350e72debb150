"""A program that trains on a suite, to be killed at it.

    python -m tests.crash.suite_child FOLDER

FOLDER/run is the run, FOLDER/policy.db the registry, FOLDER/calls what models were asked.
"""

import sys
from pathlib import Path

from pydantic import JsonValue

from burnish.delegation.policy import PolicyRegistry, PolicyTexts
from burnish.projects import load_project, reload_project
from burnish.projects.launch import optimize
from burnish.testing.delegation_world import FAULT, GUILTY, SUITE_FLOW, suite_text, suite_world
from burnish.testing.doubles import CallCounter


def prepare(folder: Path) -> None:
    """The files, and a registry with a text that has a fault."""
    folder.mkdir()
    (folder / "workflow.yaml").write_text(SUITE_FLOW, encoding="utf-8")
    (folder / "suite.yaml").write_text(suite_text("heat", "rain"), encoding="utf-8")
    faulty = PolicyTexts.shipped()[GUILTY] + FAULT + "\n"
    PolicyRegistry(folder / "policy.db").add(GUILTY, faulty, activate=True)


def main(folder: Path) -> None:
    """Start, or go on."""
    run = folder / "run"
    models = suite_world(counter=CallCounter(path=folder / "calls")).models()
    flags: dict[str, JsonValue] = {
        "epochs": 3,
        "with_textgrad": True,
        "repeats": 2,
        "concurrency": 2,
        "db": str(folder / "policy.db"),
    }
    if (run / "run.json").exists():
        project = reload_project(run, flags, models=models)
    else:
        project = load_project(folder / "suite.yaml", flags, models=models)
    optimize(project.setup, run)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
