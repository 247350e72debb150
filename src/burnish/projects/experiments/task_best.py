"""The BEST of a task: the run with the lowest loss, or the one that a person chose."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

from burnish.core.content import Json
from burnish.core.errors import RunNotFound, SeedRefused
from burnish.projects.experiments.places import ExperimentTask
from burnish.strategies.refine.best import (
    DELIVERED,
    Best,
    best_so_far,
    is_lower,
    loss_of,
    put_best,
    told_from,
)
from burnish.strategies.refine.run_files import (
    COMPLETION,
    mapping,
    read_json,
    run_id_in,
    run_signals,
    text,
)
from burnish.strategies.refine.seeds import deliverable_of
from burnish.strategies.refine.sessions import Session

Reason: TypeAlias = Literal["auto_loss", "user_override"]
OVERRIDE: Reason = "user_override"


@dataclass(frozen=True)
class TaskBest:
    """BEST in the folder of a task."""

    task: ExperimentTask

    @property
    def manifest(self) -> Mapping[str, Json] | None:
        """What it says; None where there is no BEST yet."""
        return best_so_far(self.task.folder)

    def winner(self) -> Path:
        """The run that it is of; raises SeedRefused where there is none, or it is gone."""
        manifest = self.manifest
        if manifest is None:
            raise SeedRefused(
                f"task {self.task.target} has no BEST yet",
                remedy="a run of the task must have delivered something",
            )
        run = self.task.folder / text(manifest.get("winner_source"))
        if not (run / COMPLETION).is_file():
            raise SeedRefused(
                f"the best run of {self.task.target} is gone: {run}",
                remedy=f"choose another: `burnish experiments best {self.task.target} RUN`",
            )
        return run

    def promote(self, best: Best, session: Session) -> str:
        """Make it BEST where its loss is strictly lower and nobody chose another."""
        there = self.manifest
        if there is not None:
            own = session.session_id in Path(text(there.get("winner_source"))).parts
            if there.get("winner_run_id") == best.run_id:
                return ""
            if there.get("reason") == OVERRIDE:
                return "BEST was chosen by hand and stays"
            loss = loss_of(there)
            if loss is not None and not is_lower(best.loss, loss):
                return "" if own else f"BEST has a loss of {loss:.4f} already"
        self._put(best, "auto_loss")
        return ""

    def offer(self, run: Path) -> str:
        """Make a finished run BEST if it is better; why not, where it is not."""
        best = _as_best(run)
        if best is None or best.signals.status not in DELIVERED:
            return "it delivered nothing"
        nobody = Session(session_id="", seed_run_id="", started_at="")
        return self.promote(best, nobody)

    def choose(self, name: str) -> Path:
        """A person's choice, which no lower loss takes away."""
        for run in self.runs():
            best = _as_best(run)
            if best is not None and name in (best.run_id, str(run), run.name):
                return self._put(best, OVERRIDE)
        known = ", ".join(best.run_id for run in self.runs() if (best := _as_best(run)))
        raise RunNotFound(
            f"task {self.task.target} has no run '{name}' with a deliverable",
            remedy=f"its runs: {known or 'none'}",
        )

    def choose_by_loss(self) -> Path:
        """The run with the lowest loss, whatever was chosen before."""
        found = [best for run in self.runs() if (best := _as_best(run)) is not None]
        ready = [each for each in found if each.signals.status in DELIVERED]
        if not ready:
            raise RunNotFound(f"no run of task {self.task.target} delivered anything")
        return self._put(min(ready, key=lambda each: each.loss), "auto_loss")

    def runs(self) -> Iterator[Path]:
        """Every run of the task that has ended, iterations of refinements too."""
        folder = self.task.folder
        for pattern in ("runs/*", "refinements/*/iter_*/run", "runs/*/refinement_sessions/*/*/run"):
            for path in sorted(folder.glob(f"{pattern}/{COMPLETION}")):
                yield path.parent

    def _put(self, best: Best, reason: Reason) -> Path:
        loss = best.signals.loss
        return put_best(
            self.task.folder,
            best.deliverable,
            {
                "winner_run_id": best.run_id,
                "winner_source": told_from(best.run, self.task.folder),
                "reason": reason,
                "loss": loss.total,
                "loss_breakdown": loss.to_json(),
                "raw_signals": best.signals.to_json(),
                "updated_at": datetime.now(UTC).isoformat(timespec="seconds"),
            },
        )


def _as_best(run: Path) -> Best | None:
    """A finished run as what could be best; None where it has no deliverable."""
    completion = mapping(read_json(run / COMPLETION))
    run_id = run_id_in(completion, run)
    deliverable = deliverable_of(run, run_id)
    signals = run_signals(run)
    if deliverable is None:
        return None
    return Best(run=run, run_id=run_id, signals=signals, deliverable=deliverable)
