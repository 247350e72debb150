"""Optimise the prompt of a service that is up, as its client: `python run_optimization.py`."""

import asyncio
import sys
from datetime import datetime
from pathlib import Path

import offline
from serving import ask, service

from burnish import AgentOptimizer, TargetPrompt
from burnish.compat import OptimizeResult
from burnish.testing.standin import model_or_standin

HERE = Path(__file__).parent


async def optimize(address: str) -> OptimizeResult:
    """All that is known of the service: where it listens, and which file it reads."""

    async def call_agent(query: str) -> str:
        told = await asyncio.to_thread(ask, f"{address}/chat", {"query": query})
        return told["final_text"]

    where = await asyncio.to_thread(ask, f"{address}/health")
    return await AgentOptimizer.optimize(
        config_path=HERE / "optimizer.json",
        call_agent=call_agent,
        target_prompt=TargetPrompt().add_path("system_prompt", where["prompt"]),
        train_dataset_path=HERE / "train.evalset.json",
        validation_dataset_path=HERE / "val.evalset.json",
        output_dir=HERE / "results" / f"{datetime.now():%Y-%m-%dT%H-%M-%S}",
        update_source=False,
    )


async def main() -> OptimizeResult:
    """Start the service, optimise, stop it again."""
    async with service() as address, model_or_standin(offline.rewrite):
        return await optimize(address)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()).status != "SUCCEEDED")
