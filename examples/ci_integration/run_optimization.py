"""The nightly run: better prompts, written back where the agent reads them."""

# ruff: noqa: T201

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

import offline
from agent.agent import PROMPTS, call_agent

from burnish import AgentOptimizer, TargetPrompt
from burnish.testing.standin import model_or_standin

HERE = Path(__file__).parent


async def main() -> int:
    """Optimise; 0 unless the run failed."""
    target = TargetPrompt()
    for name in ("system", "skill"):
        target.add_path(name, PROMPTS / f"{name}.md")
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S")
    async with model_or_standin(offline.rewrite):
        result = await AgentOptimizer.optimize(
            config_path=HERE / "optimizer.json",
            call_agent=call_agent,
            target_prompt=target,
            train_dataset_path=HERE / "data" / "train.evalset.json",
            validation_dataset_path=HERE / "data" / "val.evalset.json",
            output_dir=HERE / "results" / f"optimize_{started}",
            update_source=True,
            verbose=0,
        )
    print(f"pass rate {result.baseline_pass_rate:.2f} -> {result.best_pass_rate:.2f}")
    print(f"ended by {result.stop_reason}, prompts written back: {result.source_updated}")
    return 0 if result.status == "SUCCEEDED" else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
