"""The base class of AgentOptimizer's algorithms, how custom ones are run, and their output."""

import asyncio
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console

from burnish.compat.agent_calls import Callbacks
from burnish.compat.optimizer.callbacks import read_row
from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, Interrupted, Problem
from burnish.core.formatting import visible
from burnish.core.trials import Proposal
from burnish.journal.limits import Budget
from burnish.projects.optimizer_config import AnyOptimizerConfig, as_json
from burnish.reports.progress import LineView, LiveView
from burnish.runs.directory import LOCK
from burnish.runs.directory import NAME as HEADER
from burnish.runs.events import Event, Listener, Tick, TrialRecorded
from burnish.runs.progress import WIDTH
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
from burnish.targets.prompts.target import begin

_ASCII = str.maketrans(
    {
        "✓": "+", "↗": "^", "✗": "x", "▼": "-", "▲": "+", "±": "~", "·": "|", "→": "->", "—": "-",
        "─": "-", "…": "...", "×": "x", "≥": ">=", "≤": "<=", "−": "-", "’": "'", "σ": "s",
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Reporter:
    """Prints progress: nothing (0), a live view (1), or the reflection dialogue too (2)."""

    verbose: int = 1

    def say(self, line: str) -> None:
        """Print a line unless `verbose` is 0."""
        if self.verbose:
            if not sys.stdout.isatty():
                line = line.translate(_ASCII).encode("ascii", "replace").decode()
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()

    @contextmanager
    def watching(self, folder: Path, budget: Budget) -> Generator[list[Listener], None, None]:
        """The views of a run."""
        if not self.verbose:
            yield []
            return
        more: list[Listener] = [_Reflections(folder, self)] if self.verbose > 1 else []
        console = Console()
        if console.is_interactive:
            with LiveView(console, budget) as live:
                yield [live, *more]
            return
        yield [LineView(self.say, width=lambda: WIDTH), *more]


class _Reflections:
    """Prints the prompts and answers of the reflection model."""

    def __init__(self, folder: Path, reporter: Reporter) -> None:
        self._folder = folder
        self._reporter = reporter

    def event(self, event: Event) -> None:
        recorded = event.read(TrialRecorded)
        if recorded is None:
            return
        for proposal in read_row(self._folder, recorded.trial).trial.proposals:
            for line in _dialogue(recorded.trial, proposal):
                self._reporter.say(line)

    def tick(self, tick: Tick) -> None:
        """Cases are not shown."""


def _dialogue(number: int, proposal: Proposal) -> list[str]:
    request = proposal.request
    messages = request.get("messages") if isinstance(request, dict) else None
    lines = [f"   round {number}: prompt of {proposal.role}"]
    for message in messages if isinstance(messages, list) else []:
        lines += _indented(message.get("content") if isinstance(message, dict) else message)
    lines.append(f"   round {number}: answer of {proposal.role}")
    return [*lines, *_indented(proposal.error or proposal.answer)]


def _indented(value: Json) -> list[str]:
    shown = value if isinstance(value, str) else repr(value)
    return [f"     {line}" for line in visible(shown).splitlines()]


# -- Algorithms ------------------------------------------------------------------------------------


CallAgent: TypeAlias = Callable[..., Awaitable[str]]


@dataclass(kw_only=True)
class BaseOptimizer(ABC):
    """An algorithm, created for one optimization and run once.

    However it ends, the prompt fields are restored and its result is written to `output_dir`.
    """

    config: AnyOptimizerConfig
    """The whole optimizer.json; `config.optimize.algorithm` has the algorithm's settings."""
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
    """The prompts at the start; set while the algorithm runs."""

    @abstractmethod
    async def run(self, *, reporter: "Reporter | None" = None) -> OptimizeResult:
        """Optimize, and report progress if there is a reporter."""

    @staticmethod
    def resolve_required_thresholds(
        stop_config: Any, metric_thresholds: Mapping[str, float]
    ) -> dict[str, float]:
        """The thresholds that must be reached: all, those of the list, or none."""
        required = stop_config.required_metrics
        chosen = metric_thresholds if required == "all" else required or ()
        return {name: metric_thresholds[name] for name in chosen if name in metric_thresholds}

    @staticmethod
    def metrics_meet_thresholds(
        metric_breakdown: Mapping[str, float], required_thresholds: Mapping[str, float]
    ) -> bool:
        """Whether every required metric reaches its threshold; False if none is required."""
        return bool(required_thresholds) and all(
            metric_breakdown.get(name, float("-inf")) >= threshold
            for name, threshold in required_thresholds.items()
        )

    @property
    def folder(self) -> Path:
        return Path(self.output_dir)

    def best_texts(self, result: OptimizeResult) -> Mapping[str, str]:
        """The best prompts, as they can be written to the fields."""
        return result.best_prompts


async def surely(work: Coroutine[Any, Any, None]) -> None:
    """Wait until the work is done; a cancellation is raised afterwards."""
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


class WrongInput(ConfigError, ValueError):
    """An argument, or a file that it names, has a wrong value."""


class WrongKind(ConfigError, TypeError):
    """An argument has the wrong type."""


@contextmanager
def as_wrong_input() -> Generator[None, None, None]:
    """Raise a ConfigError as a ValueError, as users of AgentOptimizer expect."""
    try:
        yield
    except (WrongInput, WrongKind):
        raise
    except ConfigError as error:
        raise WrongInput(error.problems, remedy=error.remedy) from error


async def run_custom(optimizer: BaseOptimizer, reporter: Reporter) -> OptimizeResult:
    """Run a custom algorithm; the prompts are always restored afterwards."""
    folder = optimizer.folder
    if (folder / HEADER).exists():
        message = f"{folder} contains a run of another algorithm"
        raise WrongInput(
            [Problem(where="output_dir", message=message, remedy="choose another folder")]
        )
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock.acquire(folder / LOCK, holding=f"the folder {folder}"):
        optimizer.baseline = (await begin(optimizer.target_prompt, state_folder())).values
        config = Redactor.from_environment().json(as_json(optimizer.config))
        text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
        write_atomic(folder / SNAPSHOT, text)
        write_prompts(folder, BASELINE_PROMPTS, optimizer.baseline)
        result, error = await _ended(optimizer, reporter)
        write_files(folder, result, update_source=False)
        if error is not None:
            raise error
        return result


async def _ended(
    optimizer: BaseOptimizer, reporter: Reporter
) -> tuple[OptimizeResult, BaseException | None]:
    """The result of the algorithm or of its failure, and the error to raise."""
    started = datetime.now(UTC)
    try:
        try:
            result: Any = await optimizer.run(reporter=reporter)
            if isinstance(result, OptimizeResult):
                return result, None
            who, kind = type(optimizer).__name__, type(result).__name__
            message = f"{who}.run returned {kind}, not an OptimizeResult"
            raise WrongKind([Problem(message=message)])
        finally:
            await surely(_put_back(optimizer.target_prompt, optimizer.baseline))
    except (asyncio.CancelledError, KeyboardInterrupt, Interrupted) as error:
        return _cut_short(optimizer, "CANCELED", "it was cancelled", started), error
    except BurnishError as error:
        return _cut_short(optimizer, "FAILED", str(error), started), None
    except Exception as error:  # noqa: BLE001 - the border to the user's algorithm: raised once it is on disk
        message = f"{type(error).__name__}: {error}"
        return _cut_short(optimizer, "FAILED", message, started), error


def _cut_short(
    optimizer: BaseOptimizer, status: Status, message: str, started: datetime
) -> OptimizeResult:
    finished = datetime.now(UTC)
    return OptimizeResult(
        algorithm=optimizer.config.optimize.algorithm.name,
        status=status,
        finish_reason="error",
        error_message=Redactor.from_environment().text(message),
        baseline_prompts=dict(optimizer.baseline),
        best_prompts=dict(optimizer.baseline),
        started_at=started.isoformat(timespec="seconds"),
        finished_at=finished.isoformat(timespec="seconds"),
        duration_seconds=round((finished - started).total_seconds(), 3),
    )


async def _put_back(prompts: TargetPrompt, baseline: Mapping[str, str]) -> None:
    if await prompts.read_all() != dict(baseline):
        await prompts.write_all(baseline)
