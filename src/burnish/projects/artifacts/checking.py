"""What pydantic cannot see in a task file: links that lead out, names that nothing measures."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from burnish.projects.artifacts.numeric_axes import NumericSurface
from burnish.projects.artifacts.paths_inside import leads_out, plain
from burnish.projects.artifacts.step_blocks import ScorerBlock
from burnish.projects.artifacts.task_file import TaskFile
from burnish.projects.gathering import Gathering, Keys
from burnish.system.workspaces.paths import covers, matches
from burnish.targets.artifacts.axes import value_in
from burnish.targets.artifacts.numbers import RUNTIME

ALWAYS = ("loss", "pass_rate", "cost_usd", "latency_sec", "failed_cases", RUNTIME)
"""Numbers that every evaluation has beside those of its scorer."""


def check_task(file: TaskFile, folder: Path, wrong: Gathering) -> None:
    """Keep everything that is wrong."""
    _check_places(file, folder, wrong)
    _check_logging(file, wrong)
    _check_holdout(file, wrong)
    _check_names(file, wrong)
    _check_axes(file, wrong)


def primary_of(file: TaskFile) -> str:
    """The number that counts: as it is named, or the only one there is."""
    if file.objective.primary_metric is not None:
        return file.objective.primary_metric
    names = file.scorer.names
    return names[0] if file.scorer.way == "metrics" and len(names) == 1 else "score"


def checked_axes(
    file: TaskFile, texts: Mapping[str, str], wrong: Gathering
) -> tuple[NumericSurface, ...]:
    """The axes that start within their bounds; what is wrong with the others is kept."""
    found: list[NumericSurface] = []
    for number, block in enumerate(file.axes):
        at: Keys = ("axes", number)
        text = texts.get(block.file)
        if text is None:
            continue
        now = wrong.of(at, partial(value_in, text, block.file, block.path), None)
        problems = [] if now is None else block.surface().problems(now)
        for problem in problems:
            told = f"the value of the file is outside: {problem.message}"
            wrong.add(at, told, "widen the axis, or change the value in the file")
        if now is not None and not problems:
            found.append(block.surface())
    return tuple(found)


def _check_places(file: TaskFile, folder: Path, wrong: Gathering) -> None:
    """Folders in which commands run, or in which burnish writes."""
    named: dict[Keys, str] = {
        ("logging", "results_file"): file.logging.results_file,
        ("logging", "candidate_dir"): file.logging.candidate_dir,
    }
    if file.runner is not None:
        named[("runner", "cwd")] = file.runner.cwd
    if file.holdout is not None and file.holdout.runner is not None:
        named[("holdout", "runner", "cwd")] = file.holdout.runner.cwd
    for at, path in named.items():
        if leads_out(folder, path):
            told = f"'{path}' leads out of the folder of the task file, through a link"
            wrong.add(at, told, "name a folder that lies there itself")
        elif at[-1] == "cwd" and not (folder / path).is_dir():
            wrong.add(at, f"there is no folder '{path}'", "it starts from the task file's folder")


def _check_logging(file: TaskFile, wrong: Gathering) -> None:
    """What burnish writes may not be what is edited."""
    include = file.artifacts.include
    results, folder = plain(file.logging.results_file), plain(file.logging.candidate_dir)
    remedy = "write it elsewhere, such as into work/"
    excluded = file.artifacts.exclude
    for key, path in (("results_file", results), ("candidate_dir", f"{folder}/iter-01/x.md")):
        if covers(include, path) and not covers(excluded, path):
            told = "artifacts.include matches it, and results are not edited"
            wrong.add(("logging", key), told, remedy)
    if results == folder or results.startswith(f"{folder}/"):
        wrong.add(("logging", "results_file"), "it lies in candidate_dir", "write it beside it")
    if matches(folder, include):
        wrong.add(("logging", "candidate_dir"), "artifacts.include names this folder", remedy)


def _check_holdout(file: TaskFile, wrong: Gathering) -> None:
    held = file.holdout
    if held is not None and held.scorer is None and file.scorer.way == "metrics":
        told = "metrics read the file itself, so another runner changes nothing"
        wrong.add(("holdout",), told, "give it a scorer of its own")


def _check_names(file: TaskFile, wrong: Gathering) -> None:
    """A command's numbers are known when it has run; what metrics score is known before."""
    primary = primary_of(file)
    speaking: dict[Keys, str] = {("objective", "primary_metric"): primary}
    for number, block in enumerate(file.constraints):
        speaking[("constraints", number, "metric")] = block.metric
    for number, breaker in enumerate(file.policy.tie_breakers):
        speaking[("policy", "tie_breakers", number)] = breaker.made().metric
    for at, scorer in _scorers(file):
        if scorer.way != "metrics":
            continue
        known = [*scorer.names, *ALWAYS]
        for keys, name in speaking.items():
            if name not in known:
                _unknown(keys, name, scorer.names, at, wrong)


def _unknown(keys: Keys, name: str, names: Sequence[str], at: str, wrong: Gathering) -> None:
    near = difflib.get_close_matches(name, [*names, *ALWAYS], n=1)
    meant = f"did you mean '{near[0]}'? " if near else ""
    told = f"no metric of {at} is called '{name}'"
    wrong.add(keys, told, f"{meant}there are: {', '.join([*names, *ALWAYS])}")


def _scorers(file: TaskFile) -> Iterator[tuple[str, ScorerBlock]]:
    yield "scorer", file.scorer
    if file.holdout is not None and file.holdout.scorer is not None:
        yield "holdout.scorer", file.holdout.scorer


def _check_axes(file: TaskFile, wrong: Gathering) -> None:
    seen: set[str] = set()
    for number, axis in enumerate(file.axes):
        at: Keys = ("axes", number)
        if not matches(axis.file, file.artifacts.include):
            told = f"'{axis.file}' is not one of the files that artifacts.include names"
            wrong.add((*at, "file"), told, "add it there")
        if not axis.file.lower().endswith((".yaml", ".yml", ".json")):
            wrong.add((*at, "file"), "numbers are tuned in YAML and JSON files only")
        if axis.id in seen:
            wrong.add((*at, "path"), f"'{axis.path}' has an axis already", "keep one of them")
        seen.add(axis.id)
