"""Short runs, each with one limit that is tighter than the others, and what ended each of them.

`python run_optimization.py` makes all of them; with names, only those.
"""

# ruff: noqa: T201

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import offline
from agent import NOTES, QUOTA, call_agent

from burnish import AgentOptimizer, TargetPrompt
from burnish.compat import LabeledStopper, OptimizeResult
from burnish.testing.standin import model_or_standin

HERE = Path(__file__).parent

TIGHT: Mapping[str, Mapping[str, Any]] = {
    "as it stands": {},
    "little time": {"timeout_seconds": 0.2},
    "few runs of cases": {"max_metric_calls": 26},
    "few proposals": {"max_candidate_proposals": 2},
    "little patience": {"max_iterations_without_improvement": 1},
    "half will do": {"score_threshold": 0.5},
    "a small pool": {"max_tracked_candidates": 3},
    "quota runs low": {},
    "somebody stops it": {},
}
"""By name of the run, what its optimizer.json says instead."""


class StopAfter:
    """Makes the stop file after a round, as a person at another keyboard would."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder = folder
        self.number = number

    def on_iteration_end(self, event: Mapping[str, Any]) -> None:
        """Told by burnish when a round is on disk."""
        if event["iteration"] == self.number:
            (self.folder / "optimize.stop").touch()


def quota_below(reserve: int) -> Callable[[], bool]:
    """A monitor of the outside world: what production needs is not ours to spend."""
    return lambda: QUOTA.left < reserve


async def one_run(name: str, folder: Path) -> OptimizeResult:
    """One optimisation under the limits of its name."""
    config = json.loads((HERE / "optimizer.json").read_text(encoding="utf-8"))
    config["optimize"]["algorithm"] |= TIGHT[name]
    file = folder.parent / f"{folder.name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(config, indent=2), encoding="utf-8")
    reserve = QUOTA.left - 20 if name == "quota runs low" else 0
    hand = [StopAfter(folder, 2)] if name == "somebody stops it" else []
    return await AgentOptimizer.optimize(
        config_path=file,
        call_agent=call_agent,
        target_prompt=TargetPrompt().add_path("notes", NOTES),
        train_dataset_path=HERE / "train.evalset.json",
        validation_dataset_path=HERE / "val.evalset.json",
        output_dir=folder,
        verbose=0,
        extra_stop_callbacks=[LabeledStopper(quota_below(reserve), "quota_low")],
        extra_gepa_callbacks=hand,
    )


async def main(names: list[str]) -> None:
    """Make the runs and say what ended each."""
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S")
    async with model_or_standin(offline.rewrite):
        for name in names or TIGHT:
            folder = HERE / "results" / started / name.replace(" ", "_")
            result = await one_run(name, folder)
            rate = "unknown" if result.best_pass_rate is None else f"{result.best_pass_rate:.2f}"
            spent = f"{result.total_rounds} rounds, {result.total_metric_calls} metric calls"
            print(f"{name:<18} {result.stop_reason:<24} pass rate {rate} in {spent}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
