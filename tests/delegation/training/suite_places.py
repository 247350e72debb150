"""A folder with a suite whose team is scripted, its registry, and its trainings."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.delegation.policy import PolicyRegistry, PolicyTexts
from burnish.delegation.training.setup import find_registry
from burnish.projects import load_project, reload_project
from burnish.projects.launch import LoadedProject, launch
from burnish.runs.driver import Ending
from burnish.runs.setup import resume, start
from burnish.testing.delegation_world import FAULT
from tests.delegation.delegation_world import (
    GUILTY,
    SUITE_FLOW,
    DelegationWorld,
    suite_text,
    suite_world,
)

FAULTY = PolicyTexts.shipped()[GUILTY] + FAULT + "\n"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where somebody trains."""

    folder: Path
    world: DelegationWorld = field(default_factory=suite_world)

    def __post_init__(self) -> None:
        (self.folder / "workflow.yaml").write_text(SUITE_FLOW, encoding="utf-8")

    @property
    def suite(self) -> Path:
        """The suite file."""
        return self.folder / "suite.yaml"

    @property
    def registry(self) -> PolicyRegistry:
        """The usual registry."""
        return find_registry()

    def write(self, *tasks: str, **more: Any) -> None:
        """The suite."""
        self.suite.write_text(suite_text(*tasks, **more), encoding="utf-8")

    def spoil(self, registry: PolicyRegistry | None = None) -> None:
        """Make a text active that has the fault in it."""
        (registry or self.registry).add(GUILTY, FAULTY, activate=True)

    def prepare(self, **flags: Any) -> LoadedProject:
        """What `burnish optimize suite.yaml` would run, with models of this world."""
        flags = {"epochs": 2, "with_textgrad": True, "repeats": 1, **flags}
        return load_project(self.suite, flags, models=self.world.models())

    def train(self, name: str = "run", **flags: Any) -> Ending:
        """A new run."""
        project = self.prepare(**flags)
        return launch(lambda: start(project.setup, folder=self.folder / name))

    def go_on(self, name: str = "run", **flags: Any) -> Ending:
        """The run again, as `--resume` has it."""
        project = reload_project(self.folder / name, flags, models=self.world.models())
        return launch(lambda: resume(project.setup, self.folder / name))

    def rows(self, name: str = "run") -> list[dict[str, Any]]:
        """The ledger."""
        lines = (self.folder / name / "trials.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]
