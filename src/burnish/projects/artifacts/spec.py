"""How the files of a task are described, and what is wrong with a description."""

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from burnish.core.content import AboveZero, AtLeastOne
from burnish.core.surfaces import ChoiceSurface, NumberSurface, Scalar, value_key
from burnish.metrics.files import AgentMetric, metric_name
from burnish.models.model_block import ModelBlock
from burnish.runs.draft import Problems
from burnish.runs.spec import ObjectiveSpec, TargetSpec
from burnish.system.sandbox import CommandLimits, Mode
from burnish.system.settings import Settings, Text
from burnish.system.workspaces.paths import covers, matches, pattern_problem
from burnish.system.yaml import TreePath, value_in
from burnish.targets.artifacts.task import RUNTIME, Runner, Scoring

MIB, KIB = 1024 * 1024, 1024
_GIT = ".git"
NumericSurface: TypeAlias = NumberSurface | ChoiceSurface


def _inside(path: str) -> str:
    """The path, if it could lie inside a folder; links are looked at once the folder is known."""
    if problem := pattern_problem(path):
        raise ValueError(f"it must stay in the folder of the task file: {problem}")
    if _GIT in (part.casefold() for part in path.split("/")):
        raise ValueError(".git is never edited: name files of your own")
    return path


def _leads_out(folder: Path, path: str) -> bool:
    """Whether a link on the way leads out of the folder, as far as the path exists."""
    home = Path(os.path.realpath(folder))
    real = Path(os.path.realpath(folder / path))
    return real != home and home not in real.parents


def plain(path: str) -> str:
    """One spelling for one path: no `./`, no slash at the end."""
    return PurePosixPath(path).as_posix()


_Inside: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_inside)]
_Suffix: TypeAlias = Annotated[str, Field(pattern=r"^\.[\w.+-]+$")]
Variable: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]
_Reference: TypeAlias = Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]


class RunnerBlock(Settings):
    """The command that runs a candidate."""

    command: Text
    """What the shell runs."""
    cwd: _Inside = "."
    """From the folder of the file."""
    timeout_seconds: AboveZero = 300.0
    """Seconds that it may take."""

    def runner(self) -> Runner:
        """For the target."""
        return Runner(command=self.command, cwd=self.cwd, timeout_seconds=self.timeout_seconds)


class ParseBlock(Settings):
    """Where in the scorer's JSON the numbers stand."""

    format: Literal["json"] = "json"
    """What the scorer prints."""
    score_field: Text = "score"
    """The key of the score."""
    metrics_field: Text = "metrics"
    """The key of further numbers by name."""


class ScorerBlock(Settings):
    """What turns a run into numbers: a command, a Python function, or metrics of burnish."""

    type: Literal["command", "python_plugin", "python", "metrics"] | None = None
    """What the keys say, unless it is said: `command`, `function` or `metrics`."""
    command: Text | None = None
    """What the shell runs to score; it prints JSON."""
    function: _Reference | None = None
    """`module:function`, importable from the folder of the file."""
    parse: ParseBlock = Field(default_factory=ParseBlock)
    metrics: list[AgentMetric] = Field(default_factory=list[AgentMetric])
    """Judges with rubrics, rules and checks of a format, as agent files list them."""
    judge: ModelBlock | None = None
    """Who judges where a metric names nobody."""
    reads: _Inside | None = None
    """The file whose text metrics score; the only one unless named."""
    timeout_seconds: AboveZero = 300.0
    """Seconds that it may take."""

    @model_validator(mode="after")
    def _one_way(self) -> "ScorerBlock":
        present = {
            "command": self.command is not None,
            "python": self.function is not None,
            "metrics": bool(self.metrics),
        }
        ways = [way for way, there in present.items() if there]
        needed = {"command": "command", "python": "function", "metrics": "metrics"}
        if len(ways) != 1:
            raise ValueError("say how it scores: command, function or metrics, one of them")
        if self.type is not None and self.way != ways[0]:
            raise ValueError(f"type: {self.type} needs {needed[self.way]}, not {needed[ways[0]]}")
        if self.way != "metrics" and (self.judge is not None or self.reads is not None):
            raise ValueError("judge and reads go with metrics")
        return self

    @property
    def way(self) -> Literal["command", "python", "metrics"]:
        """How it scores, by one name; `python` is also spelled `python_plugin`."""
        if self.type is not None:
            return "python" if self.type == "python_plugin" else self.type
        if self.command is not None:
            return "command"
        return "python" if self.function is not None else "metrics"

    @property
    def names(self) -> Sequence[str]:
        """The metrics that score here; a command's numbers are not known before it has run."""
        enabled = [block for block in self.metrics if getattr(block, "enabled", True)]
        return [metric_name(block) for block in enabled]

    def scoring(self) -> Scoring:
        """For the target."""
        return Scoring(
            kind=self.way,
            command=self.command or "",
            function=self.function or "",
            score_field=self.parse.score_field,
            metrics_field=self.parse.metrics_field,
            timeout_seconds=self.timeout_seconds,
            reads=self.reads or "",
        )


class HoldoutBlock(Settings):
    """A second measurement; what it leaves out is as in the task itself."""

    runner: RunnerBlock | None = None
    scorer: ScorerBlock | None = None
    files: list[_Inside] = Field(default_factory=list[str])
    """What only these steps find in their workspace: neither the task's own nor editors see it."""

    @model_validator(mode="after")
    def _something(self) -> "HoldoutBlock":
        if self.runner is None and self.scorer is None:
            raise ValueError("give it a runner, a scorer or both: the same again decides nothing")
        return self


class AxisBlock(Settings):
    """A number in a range, or one of several choices, at a place in a YAML or JSON file."""

    file: _Inside
    path: Text
    """Keys with dots between them, and numbers for places in a list: `retry.waits.0`."""
    low: float | None = None
    high: float | None = None
    integer: bool = False
    log: bool = False
    """Search it on a logarithmic scale."""
    choices: list[Scalar] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "AxisBlock":
        if self.choices is not None:
            return self._choosing(self.choices)
        if self.low is None or self.high is None or not self.low < self.high:
            raise ValueError("give low and high, the lower number first, or choices")
        if self.integer and not (self.low.is_integer() and self.high.is_integer()):
            raise ValueError("integer: true needs whole numbers for low and high")
        if self.log and self.low <= 0:
            raise ValueError("log: true needs a low above 0")
        return self

    def _choosing(self, choices: list[Scalar]) -> "AxisBlock":
        if self.low is not None or self.high is not None or self.integer or self.log:
            raise ValueError("choices do not go with low, high, integer and log")
        if len(choices) < 2 or len({value_key(each) for each in choices}) < len(choices):
            raise ValueError("give two or more choices, each once")
        return self

    @property
    def id(self) -> str:
        """The surface's: the file, and the place in it."""
        return f"{self.file}#{self.path}"

    def surface(self) -> NumericSurface:
        """What is tuned."""
        if self.choices is not None:
            return ChoiceSurface(id=self.id, choices=tuple(self.choices))
        assert self.low is not None
        assert self.high is not None
        return NumberSurface(
            id=self.id, low=self.low, high=self.high, integer=self.integer, log=self.log
        )


class LoggingBlock(Settings):
    """Where results are written beside the run's own folder."""

    results_file: _Inside = "work/results.jsonl"
    """One line of JSON a candidate."""
    candidate_dir: _Inside = "work/candidates"
    """The files of every candidate."""


class LimitsBlock(Settings):
    """What one command may use, with all the processes that it starts."""

    memory_mb: AtLeastOne = 4096
    """Memory in MiB."""
    file_size_mb: AtLeastOne = 1024
    """MiB that one file may have."""
    processes: AtLeastOne = 256
    """Processes at once."""
    output_kb: AtLeastOne = 1024
    """What is kept of stdout, and of stderr."""

    def made(self) -> CommandLimits:
        """In bytes."""
        return CommandLimits(
            memory_bytes=self.memory_mb * MIB,
            file_bytes=self.file_size_mb * MIB,
            processes=self.processes,
            output_bytes=self.output_kb * KIB,
        )


class ArtifactsSpec(TargetSpec):
    """Files that may be edited, a runner and a scorer."""

    kind: str = "artifacts"
    id: Text | None = None
    """The name of the folder unless said."""
    description: str = ""
    """What the files are for; whoever edits reads it."""
    include: Annotated[list[_Inside], Field(min_length=1)]
    """Paths or patterns, from the folder of the file; `**` goes through folders."""
    exclude: list[_Inside] = Field(default_factory=list[str])
    """What is not edited though `include` names it."""
    allowed_file_types: list[_Suffix] = Field(default_factory=list[str])
    """Such as `.md`; none named allows every type that `include` matches."""
    runner: RunnerBlock | None = None
    scorer: ScorerBlock
    holdout: HoldoutBlock | None = None
    """A second measurement, which decides and which no editor hears of."""
    axes: list[AxisBlock] = Field(default_factory=list[AxisBlock])
    """Numbers and choices inside YAML or JSON files, for strategies that tune numbers."""
    logging: LoggingBlock = Field(default_factory=LoggingBlock)
    protect: list[_Inside] = Field(default_factory=list[str])
    """What no candidate may touch, even where it is scratch."""
    scratch: list[_Inside] = Field(default_factory=list[str])
    """What a run writes as it likes. Every workspace starts without it."""
    sandbox: Mode = "auto"
    """`bwrap` insists on isolation, `none` goes without; `auto` takes what works here."""
    env: list[Variable] = Field(default_factory=list[str])
    """Names of variables that commands may see; all others are hidden from them."""
    limits: LimitsBlock = Field(default_factory=LimitsBlock)
    copy_git: bool = False
    """Whether commands find a copy of `.git` in their workspace."""

    def name(self, folder: Path) -> str:
        """What the task is called."""
        return self.id or folder.name

    def purpose(self, folder: Path) -> str:
        """What the files are for, in words."""
        return self.description.strip() or self.name(folder)

    @property
    def held_scorer(self) -> ScorerBlock | None:
        """The scorer that only the holdout has."""
        return self.holdout.scorer if self.holdout else None

    @property
    def metric_primary(self) -> str:
        """The number that counts where none is named: the only metric, or the score."""
        names = self.scorer.names
        return names[0] if self.scorer.way == "metrics" and len(names) == 1 else "score"


# -- What pydantic cannot see in a task -----------------------------------------------------------


_ALWAYS = ("loss", "pass_rate", "cost_usd", "latency_sec", "failed_cases", RUNTIME)
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
        if _leads_out(folder, path):
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
        measured = [*scorer.names, *_ALWAYS]
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
