"""AgentOptimizer: prompts, an agent that is called, two EvalSets and an optimizer.json."""

import asyncio
import os
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

from burnish.compat.callbacks import Callbacks
from burnish.compat.optimizer_base import BaseOptimizer, CallAgent
from burnish.compat.optimizer_checks import check_arguments, read_config, warn_of_merge
from burnish.compat.optimizer_custom import run_custom
from burnish.compat.optimizer_reflective import ReflectiveOptimizer
from burnish.compat.optimizer_registry import OPTIMIZER_REGISTRY
from burnish.compat.optimizer_showing import Reporter
from burnish.strategies.reflective.result import OptimizeResult
from burnish.strategies.reflective.result_files import write_files
from burnish.targets.prompts import TargetPrompt, write_back

AnyPath = str | PathLike[str]


class AgentOptimizer:
    """Makes the prompts of an agent better, and says what came of it."""

    @classmethod
    async def optimize(
        cls,
        *,
        config_path: AnyPath,
        call_agent: CallAgent,
        target_prompt: TargetPrompt,
        train_dataset_path: AnyPath,
        validation_dataset_path: AnyPath,
        output_dir: AnyPath,
        callbacks: Callbacks | None = None,
        update_source: bool = False,
        verbose: int = 1,
        extra_stop_callbacks: Sequence[Callable[..., bool]] | None = None,
        extra_gepa_callbacks: Sequence[Any] | None = None,
    ) -> OptimizeResult:
        """Optimise the prompts of `target_prompt`.

        Everything happens in the caller's event loop. `output_dir` is a new folder, or that of an
        earlier call with the same inputs, which is then gone on with. A run that fails gives a
        result that says so; wrong arguments raise ValueError or TypeError before anything is
        written. With `update_source` the best prompts are written where they came from after
        success, all or none, and only if nobody changed them meanwhile.
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
            # The agent may change the folder that the program stands in.
            output_dir=os.path.join(os.getcwd(), output_dir),  # noqa: PTH109, PTH118
            callbacks=callbacks,
            extra_stop_callbacks=stoppers,
            extra_gepa_callbacks=tuple(extra_gepa_callbacks or ()),
        )
        reporter = Reporter(verbose=verbose)
        result = await _run(optimizer, reporter)
        return await _settled(optimizer, result, reporter, update_source=update_source)


async def _run(optimizer: BaseOptimizer, reporter: Reporter) -> OptimizeResult:
    if isinstance(optimizer, ReflectiveOptimizer):
        return await optimizer.run(reporter=reporter)
    return await run_custom(optimizer, reporter)


async def _settled(
    optimizer: BaseOptimizer, result: OptimizeResult, reporter: Reporter, *, update_source: bool
) -> OptimizeResult:
    """Write back what is to be written back, and say last what came of it all."""
    if update_source and result.status == "SUCCEEDED":
        result = await _written_back(optimizer, result)
    write_files(optimizer.folder, result, update_source=update_source)
    told = result.format_summary(output_dir=optimizer.folder, update_source=update_source)
    for line in told.splitlines():
        reporter.say(line)
    return result


async def _written_back(optimizer: BaseOptimizer, result: OptimizeResult) -> OptimizeResult:
    """The result once its best prompts are in the source; it says so where they are not."""
    try:
        best = optimizer.best_texts(result)
        if dict(best) == dict(optimizer.baseline):
            return result
        await write_back(optimizer.target_prompt, best, expected=optimizer.baseline)
    except (Exception, asyncio.CancelledError) as error:
        told = f"the best prompts were not written back: {error or type(error).__name__}"
        failed = result.model_copy(update={"error_message": told, "source_updated": False})
        write_files(optimizer.folder, failed, update_source=True)
        raise
    return result.model_copy(update={"source_updated": True})
