"""Optimise a prompt that lies in a store behind HTTP: `python run_optimization.py`."""

# ruff: noqa: T201

import asyncio
import sys
from datetime import datetime
from pathlib import Path

import offline
from agent import reminder
from store.prompt_client import RemotePrompt
from store.server import OPTIMISER, Store, serving

from burnish import AgentOptimizer, TargetPrompt
from burnish.compat import OptimizeResult
from burnish.testing.standin import model_or_standin

HERE = Path(__file__).parent


async def optimize(store: Store) -> OptimizeResult:
    """Search in the sandbox; what is in production is only read."""
    prompt = RemotePrompt(address=store.address, key="sandbox/reminder", token=OPTIMISER)
    live = RemotePrompt(address=store.address, key="production/reminder", token=OPTIMISER)
    await prompt.write(await live.read())

    async def call_agent(query: str) -> str:
        return reminder(query, await prompt.read())  # fetched now: a candidate counts at once

    async with model_or_standin(offline.rewrite):
        return await AgentOptimizer.optimize(
            config_path=HERE / "optimizer.json",
            call_agent=call_agent,
            target_prompt=TargetPrompt().add_callback(
                "reminder", read=prompt.read, write=prompt.write
            ),
            train_dataset_path=HERE / "train.jsonl",
            validation_dataset_path=HERE / "val.jsonl",
            output_dir=HERE / "results" / f"{datetime.now():%Y-%m-%dT%H-%M-%S}",
            update_source=False,
        )


def main() -> int:
    """Start the store, optimise, and say what it holds afterwards."""
    text = (HERE / "prompt.md").read_text(encoding="utf-8")
    with serving({"production/reminder": text}) as store:
        result = asyncio.run(optimize(store))
        for key, value in sorted(store.kept.items()):
            same = "as before" if value == text else "CHANGED"
            print(f"{key}: {same}, written {store.writes[key]} times")
    return result.status != "SUCCEEDED"


if __name__ == "__main__":
    sys.exit(main())
