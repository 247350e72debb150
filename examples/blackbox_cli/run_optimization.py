"""Optimise the files that a command line tool reads: `python run_optimization.py`."""

import asyncio
import sys
from datetime import datetime

import offline
from calling import HERE, WORKSPACE, call_agent

from burnish import AgentOptimizer, TargetPrompt
from burnish.compat import OptimizeResult
from burnish.testing.standin import model_or_standin


async def main() -> OptimizeResult:
    """Search for better files; those in `workspace` stay as they are."""
    target = (
        TargetPrompt()
        .add_path("house", WORKSPACE / "HOUSE.md")
        .add_path("skill", WORKSPACE / "skills" / "release-notes" / "SKILL.md")
    )
    async with model_or_standin(offline.rewrite):
        return await AgentOptimizer.optimize(
            config_path=HERE / "optimizer.json",
            call_agent=call_agent,
            target_prompt=target,
            train_dataset_path=HERE / "train.jsonl",
            validation_dataset_path=HERE / "val.jsonl",
            output_dir=HERE / "results" / f"{datetime.now():%Y-%m-%dT%H-%M-%S}",
            update_source=False,
        )


if __name__ == "__main__":
    sys.exit(asyncio.run(main()).status != "SUCCEEDED")
