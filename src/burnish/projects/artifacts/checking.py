"""What pydantic cannot see in a task: links that lead out, names that nothing measures."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from burnish.projects.artifacts.spec import (
    ArtifactsSpec,
    NumericSurface,
    ScorerBlock,
    leads_out,
    plain,
)
from burnish.runs.draft import Problems
from burnish.runs.spec import ObjectiveSpec
from burnish.system.workspaces.paths import covers, matches
from burnish.system.yaml import TreePath, value_in
from burnish.targets.artifacts.numbers import RUNTIME

ALWAYS = ("loss", "pass_rate", "cost_usd", "latency_sec", "failed_cases", RUNTIME)
"""Numbers that every evaluation has beside those of its scorer."""


def check_task(
    spec: ArtifactsSpec, objective: ObjectiveSpec, folder: Path, problems: Problems
) -> None:
    """Keep everything that is wrong."""
    _check_places(spec, folder, problems)
    _check_logging(spec, problems)
    _check_holdout(spec, problems)
    _check_names(spec, objective, problems)
    _check_axes(spec, problems)


def checked_axes(
    spec: ArtifactsSpec, texts: Mapping[str, str], problems: Problems
) -> tuple[NumericSurface, ...]:
    """The axes that start within their bounds; what is wrong with the others is kept."""
    surfaces: list[NumericSurface] = []
    for number, block in enumerate(spec.axes):
        at: TreePath = ("target", "axes", number)
        text = texts.get(block.file)
        if text is None:
            continue
        now = problems.attempt(at, partial(value_in, text, block.file, block.path), None)
        outside = [] if now is None else block.surface().problems(now)
        for problem in outside:
            message = f"the value of the file is outside: {problem.message}"
            problems.add(at, message, "widen the axis, or change the value in the file")
        if now is not None and not outside:
            surfaces.append(block.surface())
    return tuple(surfaces)


def _check_places(spec: ArtifactsSpec, folder: Path, problems: Problems) -> None:
    """Folders in which commands run, or in which burnish writes."""
    places: dict[TreePath, str] = {
        ("target", "logging", "results_file"): spec.logging.results_file,
        ("target", "logging", "candidate_dir"): spec.logging.candidate_dir,
    }
    if spec.runner is not None:
        places["target", "runner", "cwd"] = spec.runner.cwd
    if spec.holdout is not None and spec.holdout.runner is not None:
        places["target", "holdout", "runner", "cwd"] = spec.holdout.runner.cwd
    for at, path in places.items():
        if leads_out(folder, path):
            message = f"'{path}' leads out of the folder of the task file, through a link"
            problems.add(at, message, "name a folder that lies there itself")
        elif at[-1] == "cwd" and not (folder / path).is_dir():
            remedy = "it starts from the task file's folder"
            problems.add(at, f"there is no folder '{path}'", remedy)


def _check_logging(spec: ArtifactsSpec, problems: Problems) -> None:
    """What burnish writes may not be what is edited."""
    results, folder = plain(spec.logging.results_file), plain(spec.logging.candidate_dir)
    remedy = "write it elsewhere, such as into work/"
    for key, path in (("results_file", results), ("candidate_dir", f"{folder}/iter-01/x.md")):
        if covers(spec.include, path) and not covers(spec.exclude, path):
            message = "artifacts.include matches it, and results are not edited"
            problems.add(f"target.logging.{key}", message, remedy)
    if results == folder or results.startswith(f"{folder}/"):
        message = "it lies in candidate_dir"
        problems.add("target.logging.results_file", message, "write it beside it")
    if matches(folder, spec.include):
        message = "artifacts.include names this folder"
        problems.add("target.logging.candidate_dir", message, remedy)


def _check_holdout(spec: ArtifactsSpec, problems: Problems) -> None:
    held = spec.holdout
    if held is not None and held.scorer is None and spec.scorer.way == "metrics":
        message = "metrics read the file itself, so another runner changes nothing"
        problems.add("target.holdout", message, "give it a scorer of its own")


def _check_names(spec: ArtifactsSpec, objective: ObjectiveSpec, problems: Problems) -> None:
    """A command's numbers are known when it has run; what metrics score is known before."""
    names: dict[TreePath, str] = {
        ("objective", "primary_metric"): objective.primary_metric or spec.metric_primary
    }
    for number, block in enumerate(objective.constraints):
        names["objective", "constraints", number, "metric"] = block.metric
    for number, breaker in enumerate(objective.tie_breakers):
        names["objective", "tie_breakers", number] = str(breaker.lower or breaker.higher)
    for place, scorer in _scorers(spec):
        if scorer.way != "metrics":
            continue
        measured = [*scorer.names, *ALWAYS]
        for at, name in names.items():
            if name not in measured:
                _refuse_name(at, name, measured, place, problems)


def _refuse_name(
    at: TreePath, name: str, measured: Sequence[str], place: str, problems: Problems
) -> None:
    near = difflib.get_close_matches(name, measured, n=1)
    meant = f"did you mean '{near[0]}'? " if near else ""
    message = f"no metric of {place} is called '{name}'"
    problems.add(at, message, f"{meant}there are: {', '.join(measured)}")


def _scorers(spec: ArtifactsSpec) -> Iterator[tuple[str, ScorerBlock]]:
    yield "scorer", spec.scorer
    if spec.held_scorer is not None:
        yield "holdout.scorer", spec.held_scorer


def _check_axes(spec: ArtifactsSpec, problems: Problems) -> None:
    seen: set[str] = set()
    for number, axis in enumerate(spec.axes):
        at: TreePath = ("target", "axes", number)
        if not matches(axis.file, spec.include):
            message = f"'{axis.file}' is not one of the files that artifacts.include names"
            problems.add((*at, "file"), message, "add it there")
        if not axis.file.lower().endswith((".yaml", ".yml", ".json")):
            problems.add((*at, "file"), "numbers are tuned in YAML and JSON files only")
        if axis.id in seen:
            message = f"'{axis.path}' has an axis already"
            problems.add((*at, "path"), message, "keep one of them")
        seen.add(axis.id)
