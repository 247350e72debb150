"""AgentOptimizer."""

import asyncio
import os
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

from burnish.compat.callbacks import Callbacks
from burnish.compat.optimizer.base import BaseOptimizer, CallAgent, Reporter, run_custom
from burnish.compat.optimizer.reflective import (
    OPTIMIZER_REGISTRY,
    ReflectiveOptimizer,
    check_arguments,
    read_config,
    warn_of_merge,
)
from burnish.strategies.reflective.result_files import write_files
from burnish.strategies.reflective.results import OptimizeResult
from burnish.targets.prompts import TargetPrompt, write_back

_AnyPath = str | PathLike[str]


class AgentOptimizer:
    """Optimizes the prompts of an agent."""

    @classmethod
    async def optimize(
        cls,
        *,
        config_path: _AnyPath,
        call_agent: CallAgent,
        target_prompt: TargetPrompt,
        train_dataset_path: _AnyPath,
        validation_dataset_path: _AnyPath,
        output_dir: _AnyPath,
        callbacks: Callbacks | None = None,
        update_source: bool = False,
        verbose: int = 1,
        extra_stop_callbacks: Sequence[Callable[..., bool]] | None = None,
        extra_gepa_callbacks: Sequence[Any] | None = None,
    ) -> OptimizeResult:
        """Optimize the prompts of `target_prompt` in the caller's event loop.

        `output_dir` is a new folder, or that of an earlier call with the same inputs, which is
        then resumed. A failed run returns a result that says so; wrong arguments raise ValueError
        or TypeError before anything is written. With `update_source`, a successful run writes the
        best prompts back to their source: all or none, and only if they have not changed meanwhile.
        """
        stoppers = tuple(extra_stop_callbacks or ())
        train, validation = str(train_dataset_path), str(validation_dataset_path)
        check_arguments(
            call_agent=call_agent,
            target_prompt=target_prompt,
            paths=(train, validation),
            output_dir=str(output_dir),
            verbose=verbose,
            stoppers=stoppers,
        )
        config = read_config(str(config_path), OPTIMIZER_REGISTRY.names())
        warn_of_merge(config, target_prompt)
        algorithm = OPTIMIZER_REGISTRY.get(config.optimize.algorithm.name)
        optimizer = algorithm(
            config=config,
            config_path=str(config_path),
            call_agent=call_agent,
            target_prompt=target_prompt,
            train_dataset_path=train,
            validation_dataset_path=validation,
            # The agent may change the working directory.
            output_dir=os.path.join(os.getcwd(), output_dir),  # noqa: PTH109, PTH118
            callbacks=callbacks,
            extra_stop_callbacks=stoppers,
            extra_gepa_callbacks=tuple(extra_gepa_callbacks or ()),
        )
        reporter = Reporter(verbose=verbose)
        if isinstance(optimizer, ReflectiveOptimizer):
            result = await optimizer.run(reporter=reporter)
        else:
            result = await run_custom(optimizer, reporter)
        if update_source and result.status == "SUCCEEDED":
            result = await _written_back(optimizer, result)
        write_files(optimizer.folder, result, update_source=update_source)
        summary = result.format_summary(output_dir=optimizer.folder, update_source=update_source)
        for line in summary.splitlines():
            reporter.say(line)
        return result


async def _written_back(optimizer: BaseOptimizer, result: OptimizeResult) -> OptimizeResult:
    try:
        best = optimizer.best_texts(result)
        if dict(best) == dict(optimizer.baseline):
            return result
        await write_back(optimizer.target_prompt, best, expected=optimizer.baseline)
    except (Exception, asyncio.CancelledError) as error:
        message = f"the best prompts were not written back: {error or type(error).__name__}"
        failed = result.model_copy(update={"error_message": message, "source_updated": False})
        write_files(optimizer.folder, failed, update_source=True)
        raise
    return result.model_copy(update={"source_updated": True})
