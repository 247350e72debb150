"""One way to run every config: the same agent, prompts and cases; only the config differs."""

# ruff: noqa: T201

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import offline
from agent import FIELDS, PROMPTS, call_agent

from burnish import AgentOptimizer, TargetPrompt
from burnish.compat import OptimizeResult
from burnish.testing.standin import model_or_standin

HERE = Path(__file__).parent


class Ticker:
    """Listens to the search; a method that is not here is not called."""

    def on_candidate_accepted(self, event: Mapping[str, Any]) -> None:
        """Told when a candidate enters the pool."""
        parents = " and ".join(map(str, event["parent_ids"]))
        told = (
            f"candidate {event['new_candidate_idx']} of {parents}, score {event['new_score']:.3f}"
        )
        print(f"  round {event['iteration']}: {told}")

    def on_merge_attempted(self, event: Mapping[str, Any]) -> None:
        """Told when two candidates are made into one."""
        print(f"  round {event['iteration']}: merging {event['parent_ids']}")


async def run(name: str) -> OptimizeResult:
    """Optimise by `optimizer_<name>.json` into `results/<name>_<time>`."""
    target = TargetPrompt()
    for field in FIELDS:
        target.add_path(field, PROMPTS / f"{field}.md")
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S")
    async with model_or_standin(offline.rewrite):
        result = await AgentOptimizer.optimize(
            config_path=HERE / f"optimizer_{name}.json",
            call_agent=call_agent,
            target_prompt=target,
            train_dataset_path=HERE / "train.evalset.json",
            validation_dataset_path=HERE / "val.evalset.json",
            output_dir=HERE / "results" / f"{name}_{started}",
            verbose=0,
            extra_gepa_callbacks=[Ticker()],
        )
    print(f"{name}: pass rate {result.baseline_pass_rate:.2f} -> {result.best_pass_rate:.2f}")
    return result
