"""What an algorithm of AgentOptimizer is, and running one that is not ours."""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from burnish.compat.callbacks import Callbacks
from burnish.compat.optimizer.display import Reporter
from burnish.core.errors import BurnishError, ConfigError, Interrupted, Problem
from burnish.projects.prompts.optimizer_config import AnyOptimizerConfig, as_json
from burnish.runs.directory import LOCK
from burnish.runs.directory import NAME as HEADER
from burnish.strategies.reflective.result_files import (
    BASELINE_PROMPTS,
    SNAPSHOT,
    write_files,
    write_prompts,
)
from burnish.strategies.reflective.results import OptimizeResult, Status
from burnish.system import FileLock, Redactor, write_atomic
from burnish.system.files import state_folder
from burnish.targets.prompts import TargetPrompt
from burnish.targets.prompts.sources import begin

CallAgent: TypeAlias = Callable[..., Awaitable[str]]


@dataclass(kw_only=True)
class BaseOptimizer(ABC):
    """An algorithm: made for one optimisation, run once.

    What it writes into the prompt fields is put back after it, and what it gives back is written
    to `output_dir`, however it ends.
    """

    config: AnyOptimizerConfig
    """Both sections of the optimizer.json; `config.optimize.algorithm` is the algorithm's own."""
    config_path: str
    call_agent: CallAgent
    target_prompt: TargetPrompt
    train_dataset_path: str
    validation_dataset_path: str
    output_dir: str
    callbacks: Callbacks | None = None
    extra_stop_callbacks: Sequence[Callable[..., bool]] = ()
    extra_gepa_callbacks: Sequence[Any] = ()
    baseline: Mapping[str, str] = field(default_factory=dict[str, str], init=False)
    """What the fields said at the start; known while it runs."""

    @abstractmethod
    async def run(self, *, reporter: "Reporter | None" = None) -> OptimizeResult:
        """Optimise. The reporter, where there is one, has a line to say now and then."""

    @property
    def folder(self) -> Path:
        """`output_dir`."""
        return Path(self.output_dir)

    def best_texts(self, result: OptimizeResult) -> Mapping[str, str]:
        """The best prompts as they may be written into the fields."""
        return result.best_prompts


# -- Ending something for sure, though whoever waits for it is told to leave ----------------------


async def surely(work: Coroutine[Any, Any, None]) -> None:
    """Wait until it is done; being cancelled meanwhile is put off, not ignored."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
        except Exception:  # noqa: BLE001 - told below, by the task itself
            break
    task.result()
    if cancelled:
        raise asyncio.CancelledError


# -- Optimizer errors -----------------------------------------------------------------------------


class WrongInput(ConfigError, ValueError):
    """An argument, or a file that one names, has a wrong value."""


class WrongKind(ConfigError, TypeError):
    """An argument is of the wrong kind."""


@contextmanager
def as_wrong_input() -> Generator[None, None, None]:
    """What is wrong with a file is a ValueError too, as programs for AgentOptimizer expect."""
    try:
        yield
    except (WrongInput, WrongKind):
        raise
    except ConfigError as error:
        raise WrongInput(error.problems, remedy=error.remedy) from error


# -- Algorithms of others under AgentOptimizer ----------------------------------------------------


async def run_custom(optimizer: BaseOptimizer, reporter: Reporter) -> OptimizeResult:
    """Run an algorithm; the fields say again what they said, however it ends."""
    folder = optimizer.folder
    if (folder / HEADER).exists():
        message = f"{folder} is a run of another algorithm"
        raise WrongInput(
            [Problem(where="output_dir", message=message, remedy="name another folder")]
        )
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
        message = f"{type(error).__name__}: {error}"
        return _cut_short(optimizer, "FAILED", message, started), error


def _required(value: object, optimizer: BaseOptimizer) -> OptimizeResult:
    if isinstance(value, OptimizeResult):
        return value
    message = f"{type(optimizer).__name__}.run gave {type(value).__name__}, not an OptimizeResult"
    raise WrongKind([Problem(message=message)])


def _cut_short(
    optimizer: BaseOptimizer, status: Status, message: str, started: datetime
) -> OptimizeResult:
    ended = datetime.now(UTC)
    return OptimizeResult(
        algorithm=optimizer.config.optimize.algorithm.name,
        status=status,
        finish_reason="error",
        error_message=Redactor.from_environment().text(message),
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
