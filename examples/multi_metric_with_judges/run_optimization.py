"""Optimise one prompt against metrics that want different things: `python run_optimization.py`."""

# ruff: noqa: T201

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from agent import PROMPT, call_agent
from offline import models

from burnish import AgentOptimizer, TargetPrompt
from burnish.compat import OptimizeResult

HERE = Path(__file__).parent


async def main() -> None:
    """The entry is that of one metric: only optimizer.json knows that there are more."""
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S")
    async with models():
        result = await AgentOptimizer.optimize(
            config_path=HERE / "optimizer.json",
            call_agent=call_agent,
            target_prompt=TargetPrompt().add_path("system", PROMPT),
            train_dataset_path=HERE / "train.evalset.json",
            validation_dataset_path=HERE / "val.evalset.json",
            output_dir=HERE / "results" / started,
            verbose=0,
        )
    show(result)


def show(result: OptimizeResult) -> None:
    """What each metric came to, and which candidates are best at it."""
    for each in result.rounds:
        scores = ", ".join(f"{name} {value:.2f}" for name, value in each.metric_breakdown.items())
        mark = "+" if each.accepted else " "
        print(f"{mark} round {each.round}: {scores or each.acceptance_reason}")
    for name, bar in result.metric_thresholds.items():
        before, after = result.baseline_metric_breakdown[name], result.best_metric_breakdown[name]
        best = ", ".join(map(str, result.per_metric_best_candidates[name]))
        print(f"{name}: {before:.2f} -> {after:.2f}, {bar:g} wanted; best: candidate {best}")
    print(f"pass rate {result.baseline_pass_rate:.2f} -> {result.best_pass_rate:.2f}")
    print(f"judge calls {result.judge_usage.calls}, ended by {result.stop_reason}")


if __name__ == "__main__":
    asyncio.run(main())
