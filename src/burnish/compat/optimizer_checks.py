"""What AgentOptimizer refuses before anything is written or paid."""

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from burnish.compat.optimizer_errors import WrongInput, WrongKind, as_wrong_input
from burnish.core.errors import Problem
from burnish.projects.black_box import trajectory_problems
from burnish.projects.prompts.optimizer_config import (
    AnyOptimizerConfig,
    ReflectiveAlgorithm,
    read_any_optimizer,
)
from burnish.runs.header import NAME as HEADER
from burnish.system import read_tree
from burnish.targets.prompts import TargetPrompt
from burnish.targets.prompts.fields import is_async

VERBOSITIES = (0, 1, 2)


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
        told = "train and validation are the same file: the score would be that of a known exam"
        remedy = "`burnish data split` makes two files of one"
        problems.append(_wrong("validation_dataset_path", told, remedy))
    if verbose not in VERBOSITIES:
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
        told = "use_merge has no effect with one prompt field: mergeRoundsTotal will be 0"
        warnings.warn(told, UserWarning, stacklevel=3)


def check_folder(folder: Path) -> None:
    """The folder is new, empty, or that of a run to go on with."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / HEADER).exists():
        told = f"{folder} holds other files, and no run to go on with"
        raise WrongInput([_wrong("output_dir", told, "name a folder that is new or empty")])


def _check_kinds(
    call_agent: Callable[..., Any], target_prompt: object, stoppers: Sequence[Any]
) -> None:
    problems: list[Problem] = []
    if not is_async(call_agent):
        remedy = "write it as `async def call_agent(query: str) -> str`"
        problems.append(_wrong("call_agent", "it is not an async function", remedy))
    if not isinstance(target_prompt, TargetPrompt):
        told = f"it is {type(target_prompt).__name__}, not a TargetPrompt"
        problems.append(_wrong("target_prompt", told))
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
