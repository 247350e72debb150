"""Algorithms of others under AgentOptimizer: their prompts put back, their results on disk."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime

from burnish.compat.optimizer_base import BaseOptimizer
from burnish.compat.optimizer_closing import surely
from burnish.compat.optimizer_errors import WrongInput, WrongKind
from burnish.compat.optimizer_showing import Reporter
from burnish.core.errors import BurnishError, Interrupted, Problem
from burnish.projects.prompts.optimizer_config import as_json
from burnish.runs.directory import LOCK
from burnish.runs.header import NAME as HEADER
from burnish.strategies.reflective.result import OptimizeResult, Status
from burnish.strategies.reflective.result_files import (
    BASELINE_PROMPTS,
    SNAPSHOT,
    write_files,
    write_prompts,
)
from burnish.system import FileLock, Redactor, write_atomic
from burnish.system.files import state_folder
from burnish.targets.prompts import TargetPrompt
from burnish.targets.prompts.reading import begin


async def run_custom(optimizer: BaseOptimizer, reporter: Reporter) -> OptimizeResult:
    """Run an algorithm; the fields say again what they said, however it ends."""
    folder = optimizer.folder
    if (folder / HEADER).exists():
        told = f"{folder} is a run of another algorithm"
        raise WrongInput([Problem(where="output_dir", message=told, remedy="name another folder")])
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock.acquire(folder / LOCK, holding=f"the folder {folder}"):
        optimizer.baseline = (await begin(optimizer.target_prompt, state_folder())).values
        _write_beginning(optimizer)
        result, error = await _ended(optimizer, reporter)
        write_files(folder, result, update_source=False)
        if error is not None:
            raise error
        return result


async def _ended(
    optimizer: BaseOptimizer, reporter: Reporter
) -> tuple[OptimizeResult, BaseException | None]:
    """What it gave; or what is known of its failure, and the error unless that says it all."""
    started = datetime.now(UTC)
    try:
        try:
            return _required(await optimizer.run(reporter=reporter), optimizer), None
        finally:
            await surely(_put_back(optimizer.target_prompt, optimizer.baseline))
    except (asyncio.CancelledError, KeyboardInterrupt, Interrupted) as error:
        return _cut_short(optimizer, "CANCELED", "it was cancelled", started), error
    except BurnishError as error:
        return _cut_short(optimizer, "FAILED", str(error), started), None
    except Exception as error:  # noqa: BLE001 - the border to the user's algorithm: raised once it is on disk
        told = f"{type(error).__name__}: {error}"
        return _cut_short(optimizer, "FAILED", told, started), error


def _required(given: object, optimizer: BaseOptimizer) -> OptimizeResult:
    if isinstance(given, OptimizeResult):
        return given
    told = f"{type(optimizer).__name__}.run gave {type(given).__name__}, not an OptimizeResult"
    raise WrongKind([Problem(message=told)])


def _cut_short(
    optimizer: BaseOptimizer, status: Status, told: str, started: datetime
) -> OptimizeResult:
    ended = datetime.now(UTC)
    return OptimizeResult(
        algorithm=optimizer.config.optimize.algorithm.name,
        status=status,
        finish_reason="error",
        error_message=Redactor.from_environment().text(told),
        baseline_prompts=dict(optimizer.baseline),
        best_prompts=dict(optimizer.baseline),
        started_at=started.isoformat(timespec="seconds"),
        finished_at=ended.isoformat(timespec="seconds"),
        duration_seconds=round((ended - started).total_seconds(), 3),
    )


async def _put_back(prompts: TargetPrompt, baseline: Mapping[str, str]) -> None:
    if await prompts.read_all() != dict(baseline):
        await prompts.write_all(baseline)


def _write_beginning(optimizer: BaseOptimizer) -> None:
    config = Redactor.from_environment().json(as_json(optimizer.config))
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    write_atomic(optimizer.folder / SNAPSHOT, text)
    write_prompts(optimizer.folder / BASELINE_PROMPTS, optimizer.baseline)
