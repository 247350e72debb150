"""A run's events as gepa's callbacks know them.

A round is told when it is on record, in the order in which it went, and not again on a resume.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.compat.optimizer_moments import proposed, settled, validated
from burnish.compat.optimizer_state import SearchState, Voice, read_row
from burnish.core.errors import BurnishError
from burnish.core.trials import TrialRow
from burnish.runs.events import Event, RunEnded, RunFailed, SessionBegun, Tick, TrialRecorded
from burnish.runs.standing import BASELINE


@dataclass(kw_only=True)
class GepaEvents:
    """Listens to a run, keeps the state of its search, and tells callbacks."""

    callbacks: Sequence[Any]
    folder: Path
    state: SearchState
    voice: Voice
    baseline: Mapping[str, str]
    limit: int | None = None
    """Of metric calls."""
    sizes: dict[str, int] = field(default_factory=dict[str, int])

    def event(self, event: Event) -> None:
        """Tell what an event means."""
        if begun := event.read(SessionBegun):
            self._begin(begun)
        elif trial := event.read(TrialRecorded):
            self._round(read_row(self.folder, trial.trial))
        elif event.read(RunEnded):
            self._end(event)

    def tick(self, tick: Tick) -> None:
        """Nothing: gepa has no word for a case."""

    def _begin(self, begun: SessionBegun) -> None:
        self.sizes = {**begun.cases}
        self._tell(
            "optimization_start",
            {
                "seed_candidate": dict(self.baseline),
                "trainset_size": self.sizes.get("train", 0),
                "valset_size": self.sizes.get("holdout", 0),
                "config": {**begun.budget},
            },
        )

    def _round(self, row: TrialRow) -> None:
        state, valset = self.state, self.sizes.get("holdout", 0)
        baseline, now = row.trial.phase == BASELINE, {"iteration": row.number}
        if not baseline:
            self._tell("iteration_start", now | {"state": state, "trainset_loader": None})
            for moment in proposed(row, state, self.sizes.get("train", 0)):
                self._tell(*moment)
        state.take(row)
        for moment in validated(row, state, valset, best=baseline or row.trial.accepted):
            self._tell(*moment)
        if not baseline:
            for moment in settled(row, state):
                self._tell(*moment)
        self._tell("budget_updated", now | self._budget(row))
        self._tell("state_saved", now | {"run_dir": str(self.folder)})
        if not baseline:
            kept = row.trial.accepted or row.trial.kept
            self._tell("iteration_end", now | {"state": state, "proposal_accepted": kept})

    def _budget(self, row: TrialRow) -> dict[str, Any]:
        used = self.state.total_num_evals
        return {
            "metric_calls_used": used,
            "metric_calls_delta": row.spend.metric_calls,
            "metric_calls_remaining": None if self.limit is None else max(0, self.limit - used),
        }

    def _end(self, event: Event) -> None:
        last = {"iteration": self.state.i}
        if failed := event.read(RunFailed):
            error = BurnishError(failed.reason)
            self._tell("error", last | {"exception": error, "will_continue": False})
        self._tell(
            "optimization_end",
            {
                "best_candidate_idx": self.state.best,
                "total_iterations": max(0, self.state.i),
                "total_metric_calls": self.state.total_num_evals,
                "final_state": self.state,
            },
        )

    def _tell(self, moment: str, event: dict[str, Any]) -> None:
        """Call whoever has a method for this moment."""
        for callback in self.callbacks:
            method: Callable[[dict[str, Any]], object] | None
            method = getattr(callback, f"on_{moment}", None)
            if method is None:
                continue
            try:
                method(event)
            except Exception as error:  # noqa: BLE001 - the user's own: a dashboard may be down
                who = f"on_{moment} of {type(callback).__name__}"
                told = f"{who} raised {type(error).__name__}: {error}; the run goes on"
                self.voice.warn(f"callback:{who}", told)
