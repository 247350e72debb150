"""Optimise the prompts of three agents together: `python run_optimization.py`."""

import asyncio
import sys
from datetime import datetime
from pathlib import Path

import offline
from pipeline.orchestrator import PROMPTS, call_agent

from burnish import AgentOptimizer, TargetPrompt
from burnish.compat import OptimizeResult
from burnish.testing.standin import model_or_standin

HERE = Path(__file__).parent


async def main() -> OptimizeResult:
    """Search for better prompts; the files in `pipeline/prompts` stay as they are."""
    target = TargetPrompt()
    for name in ("reader", "pricer", "clerk"):
        target.add_path(name, PROMPTS / f"{name}.md")
    async with model_or_standin(offline.rewrite):
        return await AgentOptimizer.optimize(
            config_path=HERE / "optimizer.json",
            call_agent=call_agent,
            target_prompt=target,
            train_dataset_path=HERE / "train.evalset.json",
            validation_dataset_path=HERE / "val.evalset.json",
            output_dir=HERE / "results" / f"{datetime.now():%Y-%m-%dT%H-%M-%S}",
            update_source=False,
        )


if __name__ == "__main__":
    sys.exit(asyncio.run(main()).status != "SUCCEEDED")
