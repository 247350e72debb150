"""Optimise the two prompts of the kitchen assistant: `python run_optimization.py`."""

import asyncio
import sys
from datetime import datetime
from pathlib import Path

import offline
from agent.agent import PROMPTS, call_agent

from burnish import AgentOptimizer, TargetPrompt
from burnish.compat import OptimizeResult
from burnish.testing.standin import model_or_standin

HERE = Path(__file__).parent


async def main() -> OptimizeResult:
    """Search for better prompts; the files in `agent/prompts` stay as they are."""
    target = (
        TargetPrompt()
        .add_path("system_prompt", PROMPTS / "system.md")
        .add_path("skill", PROMPTS / "skill.md")
    )
    async with model_or_standin(offline.rewrite, offline.judge):
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
