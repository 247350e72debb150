"""Reflective search behind AgentOptimizer: checks, setup, run."""

import asyncio
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from burnish.compat.callbacks import CallbackDispatcher, Callbacks, ScoringCallbacks, WatchedTarget
from burnish.compat.optimizer.base import (
    BaseOptimizer,
    WrongInput,
    WrongKind,
    as_wrong_input,
    surely,
)
from burnish.compat.optimizer.callbacks import GepaEvents, SearchState, WarningLog, by_label
from burnish.compat.optimizer.display import Reporter
from burnish.core.cases import Dataset
from burnish.core.errors import BurnishError, ConfigError, Interrupted, Problem
from burnish.projects.description import describe
from burnish.projects.dialects import Document
from burnish.projects.measures import trajectory_problems
from burnish.projects.prompts.optimizer_config import (
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
from burnish.runs.driver import drive
from burnish.runs.events import RunBroken, RunEnded, RunFailed
from burnish.runs.run import Run
from burnish.runs.setup import Setup, resume, start
from burnish.strategies.reflective.result_files import OPTIMIZER, RoundFiles
from burnish.strategies.reflective.results import OptimizeResult
from burnish.system import YamlTree, read_tree
from burnish.system.redaction import MARKER
from burnish.targets.callables import CallableTarget
from burnish.targets.prompts import PromptsTarget, TargetPrompt
from burnish.targets.prompts.fields import is_async

_VERBOSITIES = (0, 1, 2)


def check_arguments(
    *,
    call_agent: Callable[..., Any],
    target_prompt: TargetPrompt,
    paths: tuple[str, str],
    output_dir: str,
    verbose: int,
    stoppers: Sequence[Any],
) -> None:
    """What can be told of the arguments alone."""
    _check_kinds(call_agent, target_prompt, stoppers)
    problems: list[Problem] = []
    if not str(output_dir).strip():
        problems.append(_wrong("output_dir", "it is empty", "name a folder"))
    if not target_prompt.names():
        remedy = "add one: add_path(name, path) or add_callback(name, read=…, write=…)"
        problems.append(_wrong("target_prompt", "it has no prompt field", remedy))
    if _same_file(*paths):
        message = "train and validation are the same file: the score would be that of a known exam"
        remedy = "`burnish data split` makes two files of one"
        problems.append(_wrong("validation_dataset_path", message, remedy))
    if verbose not in _VERBOSITIES:
        problems.append(_wrong("verbose", f"it is {verbose}", "say 0, 1 or 2"))
    if problems:
        raise WrongInput(problems)


def read_config(path: str, algorithms: Sequence[str]) -> AnyOptimizerConfig:
    """The optimizer.json; the algorithm may be one that was registered."""
    with as_wrong_input():
        file = read_any_optimizer(read_tree(Path(path)), algorithms=algorithms)
    problems = trajectory_problems(file.evaluate.metrics)
    if problems:
        raise WrongInput(problems)
    return file


def warn_of_merge(file: AnyOptimizerConfig, target_prompt: TargetPrompt) -> None:
    """Merging takes two fields; with one it never happens."""
    algorithm = file.optimize.algorithm
    merging = isinstance(algorithm, ReflectiveAlgorithm) and algorithm.use_merge
    if merging and len(target_prompt.names()) < 2:
        message = "use_merge has no effect with one prompt field: mergeRoundsTotal will be 0"
        warnings.warn(message, UserWarning, stacklevel=3)


def _check_folder(folder: Path) -> None:
    """The folder is new, empty, or that of a run to go on with."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / HEADER).exists():
        message = f"{folder} holds other files, and no run to go on with"
        raise WrongInput([_wrong("output_dir", message, "name a folder that is new or empty")])


def _check_kinds(
    call_agent: Callable[..., Any], target_prompt: object, stoppers: Sequence[Any]
) -> None:
    problems: list[Problem] = []
    if not is_async(call_agent):
        remedy = "write it as `async def call_agent(query: str) -> str`"
        problems.append(_wrong("call_agent", "it is not an async function", remedy))
    if not isinstance(target_prompt, TargetPrompt):
        message = f"it is {type(target_prompt).__name__}, not a TargetPrompt"
        problems.append(_wrong("target_prompt", message))
    for place, stopper in enumerate(stoppers):
        if not callable(stopper) or is_async(stopper):
            remedy = "give a plain function that says True to stop"
            where = f"extra_stop_callbacks[{place}]"
            problems.append(_wrong(where, "it cannot be called and answer at once", remedy))
    if problems:
        raise WrongKind(problems)


def _same_file(one: str, other: str) -> bool:
    """The same path, or the same file by another one."""
    if os.path.normpath(Path(one).absolute()) == os.path.normpath(Path(other).absolute()):
        return True
    return os.path.realpath(one) == os.path.realpath(other)


def _wrong(where: str, message: str, remedy: str = "") -> Problem:
    return Problem(where=where, message=message, remedy=remedy)


# -- From what a program gives AgentOptimizer to the Setup of a run -------------------------------


_BEGIN = ("before_inference_set", "before_evaluate_set")
_END = ("after_inference_set", "after_evaluate_set")


@dataclass(kw_only=True)
class SetDispatcher(CallbackDispatcher):
    """Calls callbacks with the set that a case is of."""

    sets: Mapping[str, str] = field(default_factory=dict[str, str])
    """By case."""

    async def dispatch(self, point: str, **fields: Any) -> None:
        """Call what is registered for this point, for the case's set or for each."""
        named = self.sets.get(str(fields.get("eval_case_id")))
        for each in [named] if named else dict.fromkeys(self.sets.values()):
            self.eval_set_id = each
            await super().dispatch(point, **fields)


@dataclass(frozen=True, kw_only=True)
class _Prepared:
    """A run that is ready to be opened, and whom to tell about its sets."""

    setup: Setup
    dispatcher: CallbackDispatcher | None = None

    async def dispatch_begin(self) -> None:
        """The sets are about to be run."""
        await self._dispatch(_BEGIN)

    async def dispatch_end(self) -> None:
        """They will not be run any more."""
        await self._dispatch(_END)

    async def _dispatch(self, points: tuple[str, ...]) -> None:
        if self.dispatcher is not None:
            for point in points:
                await self.dispatcher.dispatch(point)


async def _prepared(
    optimizer: BaseOptimizer, stop_callbacks: Mapping[str, Callable[[], bool]]
) -> _Prepared:
    """Everything that a run is made of; nothing is written, and nobody is called."""
    with as_wrong_input():
        description = _described(optimizer)
    target = await PromptsTarget.load(
        _agent(optimizer), optimizer.target_prompt, mode=description.spec.target.isolation
    )
    with as_wrong_input():
        setup = build(description, live=target)
    config = {OPTIMIZER: as_json(optimizer.config), **setup.project.config}
    setup = replace(
        setup, stop_callbacks=stop_callbacks, project=replace(setup.project, config=config)
    )
    return _watched(setup, optimizer.callbacks)


def _described(optimizer: BaseOptimizer) -> RunDescription:
    """The run as its optimizer.json describes it; the program says which cases.

    The environment has no say: a program does the same wherever it is started.
    """
    path = Path(optimizer.config_path)
    tree = YamlTree(path=path, data=as_json(optimizer.config), text="")
    cases = {"train": optimizer.train_dataset_path, "holdout": optimizer.validation_dataset_path}
    return describe(
        Document(path=path, tree=tree),
        {split: str(Path(name).absolute()) for split, name in cases.items()},
        environ={},
        dialect=OptimizerFile(),
    )


def _agent(optimizer: BaseOptimizer) -> CallableTarget:
    try:
        return CallableTarget(agent=optimizer.call_agent)
    except ConfigError as error:
        raise WrongKind(error.problems, remedy=error.remedy) from error


def _watched(setup: Setup, callbacks: Callbacks | None) -> _Prepared:
    """With callbacks around each run of a case and each scoring of it."""
    if callbacks is None or not callbacks.named:
        return _Prepared(setup=setup)
    dispatcher = SetDispatcher(callbacks=callbacks, eval_set_id="", sets=_sets(setup.dataset))
    scoring = ScoringCallbacks(dispatcher=dispatcher, metrics=len(setup.metrics))
    target = WatchedTarget(target=setup.target, dispatcher=dispatcher)
    watched = replace(setup, target=target, metrics=scoring.watch(setup.metrics))
    return _Prepared(setup=watched, dispatcher=dispatcher)


def _sets(dataset: Dataset) -> dict[str, str]:
    named = {"train": dataset.train, "validation": dataset.holdout, "test": dataset.test}
    return {case.id: name for name, cases in named.items() for case in cases}


# -- The algorithms of burnish behind AgentOptimizer ----------------------------------------------


@dataclass(kw_only=True)
class ReflectiveOptimizer(BaseOptimizer):
    """Reflective search: with racing as `reflective`, without as `gepa_reflective`.

    A run that is in `output_dir` already is gone on with: what it paid for is not paid again, and
    one that had finished gives its result again.
    """

    unredacted: Mapping[str, str] = field(default_factory=dict[str, str], init=False)
    """The best texts, with nothing taken out of them."""

    async def run(self, *, reporter: Reporter | None = None) -> OptimizeResult:
        """Optimise; the prompts are back as they were before this returns or raises."""
        _check_folder(self.folder)
        state, log = SearchState(), WarningLog()
        ready = await _prepared(self, by_label(self.extra_stop_callbacks, state, log))
        self.baseline = {name: str(v) for name, v in ready.setup.target.baseline.values.items()}
        run = await _opened(ready.setup, self.folder)
        log.run = run
        redactor = run.directory.redactor
        files = RoundFiles(self.folder, baseline=self.baseline, redactor=redactor)
        state.catch_up(self.folder)
        events = GepaEvents(
            callbacks=self.extra_gepa_callbacks,
            folder=self.folder,
            state=state,
            log=log,
            baseline=self.baseline,
            limit=ready.setup.budget.max_metric_calls,
        )
        shown = reporter or Reporter(verbose=0)
        try:
            with shown.watching(self.folder, ready.setup.budget) as views:
                for listener in (files, events, *views):
                    run.listen(listener)
                await self._driven(run, ready)
        finally:
            result = await self._closed(run, files)
        return result

    async def _closed(self, run: Run, files: RoundFiles) -> OptimizeResult:
        """Put the prompts back, then write what is known, also where that went wrong."""
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

    async def _driven(self, run: Run, ready: _Prepared) -> None:
        """Search. What a run fails of is in its result; what is a bug, or an end, is raised."""
        try:
            await ready.dispatch_begin()
            ending = await drive(run)
            await ready.dispatch_end()
            self.unredacted = {name: str(value) for name, value in ending.best.values.items()}
        except Interrupted:
            raise
        except BurnishError as error:
            # One that the run did not tell by itself, such as that of a callback.
            _record_end(run, RunFailed(reason=str(error)))
        except (asyncio.CancelledError, KeyboardInterrupt):
            _record_end(run, RunBroken(reason="it was cancelled"))
            raise
        except Exception as error:
            _record_end(run, RunFailed(reason=f"{type(error).__name__}: {error}"))
            raise

    def best_texts(self, result: OptimizeResult) -> Mapping[str, str]:
        """The best texts as they were measured; refused where a secret was taken out of one."""
        spoiled = [
            name
            for name, text in self.unredacted.items()
            if MARKER in text and MARKER not in self.baseline[name]
        ]
        if spoiled:
            message = "a secret was taken out of its best text, which would be lost in the source"
            remedy = "put `${VAR}` in its place, or copy best_prompts by hand"
            raise ConfigError([Problem(where=n, message=message, remedy=remedy) for n in spoiled])
        return self.unredacted or result.best_prompts


def _record_end(run: Run, ended: RunEnded) -> None:
    """Say how the session ended, unless the run itself has."""
    run.tell(ended, f"session:{run.directory.journal.session}:failed")


async def _opened(setup: Setup, folder: Path) -> Run:
    """The run to go on with, or a new one; where there is none, nothing is left open."""
    try:
        with as_wrong_input():
            is_run = (folder / HEADER).exists()
            return resume(setup, folder) if is_run else start(setup, folder=folder)
    except BaseException:
        for resource in setup.resources:
            await resource.close()
        raise


# -- The algorithms that an optimizer.json can name -----------------------------------------------


class OptimizerRegistry:
    """Algorithms by name: those of burnish, and those that programs add."""

    def __init__(self, built_in: Mapping[str, type[BaseOptimizer]]) -> None:
        self._built_in = dict(built_in)
        self._added: dict[str, type[BaseOptimizer]] = {}

    def register(self, name: str, algorithm: type[BaseOptimizer]) -> None:
        """Let `optimize.algorithm.name` be `name`; the same name again replaces what it was."""
        if not (isinstance(algorithm, type) and issubclass(algorithm, BaseOptimizer)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the algorithm '{name}' must be a subclass of BaseOptimizer")
        if not name or name in self._built_in:
            remedy = "choose another name"
            taken = f"'{name}' is an algorithm of burnish" if name else "an algorithm needs a name"
            raise WrongInput([Problem(where="name", message=taken, remedy=remedy)])
        self._added[name] = algorithm

    def get(self, name: str) -> type[BaseOptimizer]:
        """The algorithm of a name."""
        algorithm = self._built_in.get(name) or self._added.get(name)
        if algorithm is None:
            remedy = f"there are: {', '.join(self.names())}"
            message = f"no algorithm '{name}'"
            raise WrongInput(
                [Problem(where="optimize.algorithm.name", message=message, remedy=remedy)]
            )
        return algorithm

    def names(self) -> list[str]:
        """All names."""
        return sorted({*self._built_in, *self._added})


OPTIMIZER_REGISTRY = OptimizerRegistry(dict.fromkeys(BUILT_IN, ReflectiveOptimizer))
"""Where programs add algorithms of their own."""
