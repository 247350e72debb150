"""A folder with a workflow whose team is scripted, its runs, and their refinement."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.cli import delegation
from burnish.delegation.refine.plugin import RefineOptions
from tests.delegation.delegation_world import REFINE_FLOW, TASK, DelegationWorld, refine_world


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where somebody works with burnish."""

    folder: Path
    world: DelegationWorld = field(default_factory=refine_world)

    def __post_init__(self) -> None:
        if not self.flow.exists():
            self.flow.write_text(REFINE_FLOW, encoding="utf-8")

    @property
    def flow(self) -> Path:
        """The workflow file."""
        return self.folder / "workflow.yaml"

    @property
    def seed(self) -> Path:
        """The run that is refined."""
        return self.folder / "seed"

    def delegate(self, **given: Any) -> None:
        """`burnish delegate workflow.yaml --task … -q`."""
        options: dict[str, Any] = {"quiet": True, **given}
        request = delegation.DelegateRequest(file=self.flow, flags={"task": TASK}, **options)
        delegation.delegate_task(request, models=self.world.models())

    def make_seed(self, *, seconds: float = 600.0) -> Path:
        """A finished run with every flaw; it says that it took some time."""
        self.delegate(output_dir=self.seed)
        self.change_completion(lambda data: _took(data, seconds))
        return self.seed

    def change_completion(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Edit run_completion.json of the seed."""
        path = self.seed / "run_completion.json"
        data = json.loads(path.read_text(encoding="utf-8"))
        change(data)
        path.write_text(json.dumps(data), encoding="utf-8")

    def refine(self, **given: Any) -> None:
        """`burnish refine seed`, or with --target."""
        run = None if "target" in given else self.seed
        options: dict[str, Any] = {"run": run, "quiet": True, **given}
        request = delegation.RefineRequest(**options)
        delegation.refine_run(request, options=RefineOptions(models=self.world.models))

    def session(self, folder: Path | None = None) -> dict[str, Any]:
        """The session that was written last."""
        place = folder or self.seed / "refinement_sessions"
        *_, last = sorted(p for p in place.glob("*.json") if p.name != "session.json")
        return json.loads(last.read_text(encoding="utf-8"))


def _took(data: dict[str, Any], seconds: float) -> None:
    data["final_budget"]["wall_time"]["elapsed_s"] = seconds
