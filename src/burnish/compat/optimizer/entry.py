"""AgentOptimizer: its checks, and reflective search behind it."""

import asyncio
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from burnish.compat.agent_calls import CallbackDispatcher, Callbacks, WatchedTarget, watched_metrics
from burnish.compat.evaluators import LLM_EVALUATOR_REGISTRY
from burnish.compat.optimizer.base import (
    BaseOptimizer,
    CallAgent,
    Reporter,
    WrongInput,
    WrongKind,
    as_wrong_input,
    run_custom,
    surely,
)
from burnish.compat.optimizer.callbacks import GepaEvents, SearchState, WarningLog, by_label
from burnish.core.errors import BurnishError, ConfigError, Interrupted, Problem
from burnish.projects.description import describe
from burnish.projects.dialects import Document
from burnish.projects.evaluation_setup import trajectory_problems
from burnish.projects.optimizer_config import (
    BUILT_IN,
    AnyOptimizerConfig,
    OptimizerFile,
    ReflectiveAlgorithm,
    as_json,
    read_any_optimizer,
)
from burnish.reports.rendering import write_report
from burnish.runs.build import RunDescription, build
from burnish.runs.directory import NAME as HEADER
from burnish.runs.directory import RunRecord
from burnish.runs.driver import drive
from burnish.runs.events import RunBroken, RunEnded, RunFailed
from burnish.runs.plugins import LiveParts
from burnish.runs.run import Run
from burnish.runs.setup import Setup, resume, start
from burnish.strategies.reflective.result_files import OPTIMIZER, RoundFiles, write_files
from burnish.strategies.reflective.results import OptimizeResult
from burnish.system import YamlTree, read_tree
from burnish.system.redaction import MARKER
from burnish.targets.callables import CallableTarget
from burnish.targets.prompts import PromptsTarget, TargetPrompt, write_back
from burnish.targets.prompts.fields import is_async


def check_arguments(
    *,
    call_agent: Callable[..., Any],
    target_prompt: TargetPrompt,
    paths: tuple[str, str],
    output_dir: str,
    verbose: int,
    stoppers: Sequence[Any],
) -> None:
    """Check everything that needs no file."""
    _check_kinds(call_agent, target_prompt, stoppers)
    problems: list[Problem] = []
    if not str(output_dir).strip():
        problems.append(_wrong("output_dir", "the path is empty", "name a folder"))
    if not target_prompt.names():
        remedy = "add one: add_path(name, path) or add_callback(name, read=…, write=…)"
        problems.append(_wrong("target_prompt", "it has no prompt fields", remedy))
    if _same_file(*paths):
        message = "train and validation are the same file: validation needs cases of its own"
        remedy = "`burnish data split` splits one file into two"
        problems.append(_wrong("validation_dataset_path", message, remedy))
    if verbose not in (0, 1, 2):
        problems.append(_wrong("verbose", f"{verbose} is not a level", "use 0, 1 or 2"))
    if problems:
        raise WrongInput(problems)


def read_config(path: str, algorithms: Sequence[str]) -> AnyOptimizerConfig:
    """Read the optimizer.json; the algorithm may be a registered one."""
    with as_wrong_input():
        file = read_any_optimizer(read_tree(Path(path)), algorithms=algorithms)
    problems = trajectory_problems(file.evaluate.metrics)
    if problems:
        raise WrongInput(problems)
    return file


def warn_of_merge(file: AnyOptimizerConfig, target_prompt: TargetPrompt) -> None:
    """Warn that merging needs at least two prompt fields."""
    algorithm = file.optimize.algorithm
    merging = isinstance(algorithm, ReflectiveAlgorithm) and algorithm.use_merge
    if merging and len(target_prompt.names()) < 2:
        message = "use_merge has no effect with one prompt field: mergeRoundsTotal will be 0"
        warnings.warn(message, UserWarning, stacklevel=3)


def _check_kinds(
    call_agent: Callable[..., Any], target_prompt: object, stoppers: Sequence[Any]
) -> None:
    problems: list[Problem] = []
    if not is_async(call_agent):
        remedy = "write it as `async def call_agent(query: str) -> str`"
        problems.append(_wrong("call_agent", "it is not an async function", remedy))
    if not isinstance(target_prompt, TargetPrompt):
        message = f"expected a TargetPrompt, found {type(target_prompt).__name__}"
        problems.append(_wrong("target_prompt", message))
    for place, stopper in enumerate(stoppers):
        if not callable(stopper) or is_async(stopper):
            remedy = "pass a plain function that returns True to stop"
            where = f"extra_stop_callbacks[{place}]"
            problems.append(_wrong(where, "it is not a plain function", remedy))
    if problems:
        raise WrongKind(problems)


def _same_file(one: str, other: str) -> bool:
    if os.path.normpath(Path(one).absolute()) == os.path.normpath(Path(other).absolute()):
        return True
    return os.path.realpath(one) == os.path.realpath(other)


def _wrong(where: str, message: str, remedy: str = "") -> Problem:
    return Problem(where=where, message=message, remedy=remedy)


@dataclass(kw_only=True)
class _SetDispatcher(CallbackDispatcher):
    """Passes callbacks the split of each case as its eval set."""

    sets: Mapping[str, str] = field(default_factory=dict[str, str])
    """By case id."""

    async def dispatch(self, point: str, **fields: Any) -> None:
        named = self.sets.get(str(fields.get("eval_case_id")))
        for each in [named] if named else dict.fromkeys(self.sets.values()):
            self.eval_set_id = each
            await super().dispatch(point, **fields)


async def _prepared(
    optimizer: BaseOptimizer, stop_callbacks: Mapping[str, Callable[[], bool]]
) -> Setup:
    """Set up the run without writing files or calling models."""
    with as_wrong_input():
        description = _described(optimizer)
    try:
        agent = CallableTarget(agent=optimizer.call_agent)
    except ConfigError as error:
        raise WrongKind(error.problems, remedy=error.remedy) from error
    target = await PromptsTarget.load(
        agent, optimizer.target_prompt, mode=description.spec.target.isolation
    )
    with as_wrong_input():
        setup = build(description, live=LiveParts(target=target))
    config = {OPTIMIZER: as_json(optimizer.config), **setup.project.config}
    return replace(
        setup,
        metrics=LLM_EVALUATOR_REGISTRY.with_tools(setup.metrics),
        stop_callbacks=stop_callbacks,
        project=replace(setup.project, config=config),
    )


def _described(optimizer: BaseOptimizer) -> RunDescription:
    """The run of an optimizer.json, with the program's cases and without the environment."""
    path = Path(optimizer.config_path)
    tree = YamlTree(path=path, data=as_json(optimizer.config), text="")
    cases = {"train": optimizer.train_dataset_path, "holdout": optimizer.validation_dataset_path}
    return describe(
        Document(path=path, tree=tree),
        {split: str(Path(name).absolute()) for split, name in cases.items()},
        environ={},
        dialect=OptimizerFile(),
    )


def _dispatcher(setup: Setup, callbacks: Callbacks | None) -> CallbackDispatcher:
    dataset = setup.dataset
    named = {"train": dataset.train, "validation": dataset.holdout, "test": dataset.test}
    return _SetDispatcher(
        callbacks=callbacks or Callbacks(),
        eval_set_id="",
        sets={case.id: name for name, cases in named.items() for case in cases},
    )


@dataclass(kw_only=True)
class ReflectiveOptimizer(BaseOptimizer):
    """Reflective search: with racing as `reflective`, without as `gepa_reflective`.

    A run that is already in `output_dir` is resumed without paying for anything twice; a finished
    one returns its result again.
    """

    unredacted: Mapping[str, str] = field(default_factory=dict[str, str], init=False)
    """The best texts before redaction."""

    async def run(self, *, reporter: Reporter | None = None) -> OptimizeResult:
        folder = self.folder
        if folder.is_dir() and any(folder.iterdir()) and not (folder / HEADER).exists():
            message = f"{folder} contains other files and no run to resume"
            raise WrongInput([_wrong("output_dir", message, "choose a new or empty folder")])
        state, log = SearchState(), WarningLog()
        setup = await _prepared(self, by_label(self.extra_stop_callbacks, state, log))
        dispatcher = _dispatcher(setup, self.callbacks)
        if dispatcher.callbacks.named:
            target = WatchedTarget(target=setup.target, dispatcher=dispatcher)
            metrics = watched_metrics(setup.metrics, dispatcher)
            setup = replace(setup, target=target, metrics=metrics)
        self.baseline = {name: str(v) for name, v in setup.target.baseline.values.items()}
        log.run = run = await _opened(setup, folder)
        files = RoundFiles(folder, baseline=self.baseline, redactor=run.directory.redactor)
        for row in RunRecord.read(folder).rows:
            state.take(row)
        events = GepaEvents(
            callbacks=self.extra_gepa_callbacks,
            run=run,
            state=state,
            log=log,
            baseline=self.baseline,
            limit=setup.budget.max_metric_calls,
        )
        shown = reporter or Reporter(verbose=0)
        try:
            with shown.watching(folder, setup.budget) as views:
                for listener in (files, events, *views):
                    run.listen(listener)
                await self._drive(run, dispatcher)
        finally:
            result = await self._close(run, files)
        return result

    async def _close(self, run: Run, files: RoundFiles) -> OptimizeResult:
        """Restore the prompts, then write the result, even if restoring failed."""
        trouble = ""
        try:
            await surely(run.close())
        except BurnishError as error:
            trouble = str(error)
            raise
        finally:
            result = files.finish(trouble=trouble)
            write_report(self.folder)
        return result

    async def _drive(self, run: Run, dispatcher: CallbackDispatcher) -> None:
        """Failures become part of the result; bugs and interruptions are raised."""
        try:
            await dispatcher.dispatch("before_inference_set")
            await dispatcher.dispatch("before_evaluate_set")
            ending = await drive(run)
            await dispatcher.dispatch("after_inference_set")
            await dispatcher.dispatch("after_evaluate_set")
            self.unredacted = {name: str(value) for name, value in ending.best.values.items()}
        except Interrupted:
            raise
        except BurnishError as error:
            # The run itself does not record errors such as that of a callback.
            _record_end(run, RunFailed(reason=str(error)))
        except (asyncio.CancelledError, KeyboardInterrupt):
            _record_end(run, RunBroken(reason="it was cancelled"))
            raise
        except Exception as error:  # the run's record says how it ended
            _record_end(run, RunFailed(reason=f"{type(error).__name__}: {error}"))
            raise

    def best_texts(self, result: OptimizeResult) -> Mapping[str, str]:
        """The best texts as they were measured; raises if a secret was redacted from one."""
        spoiled = [
            name
            for name, text in self.unredacted.items()
            if MARKER in text and MARKER not in self.baseline[name]
        ]
        if spoiled:
            message = "a secret was redacted from the best text: writing back would lose it"
            remedy = "use `${VAR}` in its place, or copy best_prompts by hand"
            raise ConfigError([_wrong(name, message, remedy) for name in spoiled])
        return self.unredacted or result.best_prompts


def _record_end(run: Run, ended: RunEnded) -> None:
    run.tell(ended, f"session:{run.directory.journal.session}:failed")


async def _opened(setup: Setup, folder: Path) -> Run:
    """Resume the run in the folder or start a new one; on errors, close all resources."""
    try:
        with as_wrong_input():
            is_run = (folder / HEADER).exists()
            return resume(setup, folder) if is_run else start(setup, folder=folder)
    except BaseException:  # cancelled or failed, resources are closed
        for resource in setup.resources:
            await resource.close()
        raise


class _OptimizerRegistry:
    """Algorithms by name: built-in ones and registered ones."""

    def __init__(self) -> None:
        self._added: dict[str, type[BaseOptimizer]] = {}

    def register(self, name: str, algorithm: type[BaseOptimizer]) -> None:
        """Register an algorithm for `optimize.algorithm.name`, or replace a registered one."""
        if not (isinstance(algorithm, type) and issubclass(algorithm, BaseOptimizer)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the algorithm '{name}' must be a subclass of BaseOptimizer")
        if not name or name in BUILT_IN:
            taken = f"'{name}' is a built-in algorithm" if name else "an algorithm needs a name"
            raise WrongInput([_wrong("name", taken, "choose another name")])
        self._added[name] = algorithm

    def get(self, name: str) -> type[BaseOptimizer]:
        algorithm = ReflectiveOptimizer if name in BUILT_IN else self._added.get(name)
        if algorithm is None:
            remedy = f"there are: {', '.join(self.names())}"
            raise WrongInput([_wrong("optimize.algorithm.name", f"no algorithm '{name}'", remedy)])
        return algorithm

    def names(self) -> list[str]:
        return sorted({*BUILT_IN, *self._added})

    def list_registered(self) -> list[str]:
        """The same, under its name in tRPC-Agent."""
        return self.names()


OPTIMIZER_REGISTRY = _OptimizerRegistry()
"""The registry of algorithms."""

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
