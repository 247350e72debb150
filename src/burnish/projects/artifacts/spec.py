"""The description of a task and its validation, and a task to start from that runs right away."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from burnish.core.content import AboveZero, AtLeastOne
from burnish.core.surfaces import ChoiceSurface, NumberSurface, Scalar, value_key
from burnish.metrics.files import AgentMetric, metric_name
from burnish.models.factory import ModelBlock
from burnish.projects.dialects import likely_of
from burnish.projects.file_structure import schema_file, schema_text
from burnish.runs.draft import Problems
from burnish.runs.spec import ObjectiveSpec, TargetSpec
from burnish.system import read_bytes
from burnish.system.sandbox import CommandLimits, Mode
from burnish.system.settings import Settings, Text
from burnish.system.workspaces.snapshots import covers, matches, pattern_problem
from burnish.system.yaml import TreePath, value_in
from burnish.targets.artifacts.safeguards import function_problem, missing_script
from burnish.targets.artifacts.task import HOLDOUT, RUNTIME, TASK, TEST, HeldOut, Runner, Scoring

TASK_FILE = "task.yaml"
_SCHEMA = schema_file("task")
_NAMES = (
    TASK_FILE,
    _SCHEMA,
    "SKILL.md",
    "rubric.md",
    "README.md",
    "scripts/run_task.py",
    "scripts/score_task.py",
    "scripts/edit_task.py",
)


def starter_files() -> dict[str, bytes]:
    """The files by name."""
    shipped = Path(str(files("burnish.projects.artifacts") / "starter"))
    content = {name: read_bytes(shipped / name) for name in _NAMES if name != _SCHEMA}
    return {**content, _SCHEMA: schema_text("task").encode()}


NumericSurface: TypeAlias = NumberSurface | ChoiceSurface


def _inside(path: str) -> str:
    """A path that stays inside a folder; links are checked once the folder is known."""
    if problem := pattern_problem(path):
        raise ValueError(f"the path must stay inside the folder of the task file: {problem}")
    if ".git" in (part.casefold() for part in path.split("/")):
        raise ValueError(".git is never edited: name other files")
    return path


def _leads_out(folder: Path, path: str) -> bool:
    """Whether an existing part of the path leaves the folder through a link."""
    home = Path(os.path.realpath(folder))
    real = Path(os.path.realpath(folder / path))
    return real != home and home not in real.parents


def plain(path: str) -> str:
    """The path without `./` and without a slash at the end."""
    return PurePosixPath(path).as_posix()


_Inside: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_inside)]
Variable: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]


class RunnerBlock(Settings):
    """The command that runs a candidate."""

    command: Text
    """The shell command to run."""
    cwd: _Inside = "."
    """Relative to the folder of the file."""
    timeout_seconds: AboveZero = 300.0
    """The time limit in seconds."""

    def runner(self) -> Runner:
        return Runner(command=self.command, cwd=self.cwd, timeout_seconds=self.timeout_seconds)


class ParseBlock(Settings):
    """Where the numbers are in the scorer's JSON."""

    format: Literal["json"] = "json"
    """The output format of the scorer."""
    score_field: Text = "score"
    """The key of the score."""
    metrics_field: Text = "metrics"
    """The key of further numbers by name."""


class ScorerBlock(Settings):
    """What turns a run into numbers: a command, a Python function, or metrics of burnish."""

    type: Literal["command", "python_plugin", "python", "metrics"] | None = None
    """By default what the other keys imply: `command`, `function` or `metrics`."""
    command: Text | None = None
    """The shell command that scores; it prints JSON."""
    function: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")] | None = None
    """`module:function`, importable from the folder of the file."""
    parse: ParseBlock = Field(default_factory=ParseBlock)
    metrics: list[AgentMetric] = Field(default_factory=list[AgentMetric])
    """Judges with rubrics, rules and format checks, as in agent files."""
    judge: ModelBlock | None = None
    """The judge for metrics that do not name one."""
    reads: _Inside | None = None
    """The file whose text the metrics score; by default the only one."""
    files: list[_Inside] = Field(default_factory=list[str])
    """Files that only this scorer sees, such as right answers; runners and editors do not."""
    timeout_seconds: AboveZero = 300.0
    """The time limit in seconds."""

    @model_validator(mode="after")
    def _one_way(self) -> "ScorerBlock":
        present = {
            "command": self.command is not None,
            "function": self.function is not None,
            "metrics": bool(self.metrics),
        }
        keys = [key for key, is_set in present.items() if is_set]
        if len(keys) != 1:
            raise ValueError("give exactly one of command, function or metrics")
        needed = "function" if self.way == "python" else self.way
        if needed != keys[0]:
            raise ValueError(f"type: {self.type} needs {needed}, not {keys[0]}")
        if self.way != "metrics" and (self.judge is not None or self.reads is not None):
            raise ValueError("judge and reads only go with metrics")
        if self.way == "metrics" and self.files:
            raise ValueError("files only go with command or function: metrics read no files")
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
        return Scoring(
            kind=self.way,
            command=self.command or "",
            function=self.function or "",
            score_field=self.parse.score_field,
            metrics_field=self.parse.metrics_field,
            timeout_seconds=self.timeout_seconds,
            reads=self.reads or "",
            files=tuple(self.files),
        )


class HeldOutBlock(Settings):
    """Another measurement; what is not set is the same as in the task."""

    runner: RunnerBlock | None = None
    scorer: ScorerBlock | None = None
    files: list[_Inside] = Field(default_factory=list[str])
    """Files that only its scorer sees; its runner those that its command names."""

    @model_validator(mode="after")
    def _something(self) -> "HeldOutBlock":
        if self.runner is None and self.scorer is None:
            raise ValueError("it needs its own runner, scorer or both to measure anything else")
        return self

    def part(self) -> HeldOut:
        return HeldOut(
            runner=self.runner.runner() if self.runner else None,
            scoring=self.scorer.scoring() if self.scorer else None,
            files=tuple(self.files),
        )


class AxisBlock(Settings):
    """A number in a range, or one of several choices, at a place in a YAML or JSON file."""

    file: _Inside
    path: Text
    """Keys separated by dots, and numbers for list positions: `retry.waits.0`."""
    low: float | None = None
    high: float | None = None
    integer: bool = False
    log: bool = False
    """Search it on a logarithmic scale."""
    choices: list[Scalar] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "AxisBlock":
        if self.choices is not None:
            if self.low is not None or self.high is not None or self.integer or self.log:
                raise ValueError("choices cannot be combined with low, high, integer or log")
            if len({value_key(each) for each in self.choices}) < max(2, len(self.choices)):
                raise ValueError("give two or more choices, each once")
            return self
        if self.low is None or self.high is None or not self.low < self.high:
            raise ValueError("give low and high, the lower number first, or choices")
        if self.integer and not (self.low.is_integer() and self.high.is_integer()):
            raise ValueError("integer: true needs whole numbers for low and high")
        if self.log and self.low <= 0:
            raise ValueError("log: true needs a low above 0")
        return self

    @property
    def id(self) -> str:
        return f"{self.file}#{self.path}"

    def surface(self) -> NumericSurface:
        if self.choices is not None:
            return ChoiceSurface(id=self.id, choices=tuple(self.choices))
        assert self.low is not None
        assert self.high is not None
        return NumberSurface(
            id=self.id, low=self.low, high=self.high, integer=self.integer, log=self.log
        )


class LoggingBlock(Settings):
    """Where results are written in addition to the run's own folder."""

    results_file: _Inside = "work/results.jsonl"
    """One line of JSON per candidate."""
    candidate_dir: _Inside = "work/candidates"
    """The files of every candidate."""


class LimitsBlock(Settings):
    """What one command may use, including all processes that it starts."""

    memory_mb: AtLeastOne = 4096
    """Memory in MiB."""
    file_size_mb: AtLeastOne = 1024
    """The maximum size of one file in MiB."""
    disk_mb: AtLeastOne = 8192
    """How much a command may write in total, in MiB."""
    processes: AtLeastOne = 256
    """The maximum number of processes at once."""
    output_kb: AtLeastOne = 1024
    """How much of stdout and of stderr is kept, in KiB."""

    def made(self) -> CommandLimits:
        return CommandLimits(
            memory_bytes=self.memory_mb * 1024 * 1024,
            file_bytes=self.file_size_mb * 1024 * 1024,
            disk_bytes=self.disk_mb * 1024 * 1024,
            processes=self.processes,
            output_bytes=self.output_kb * 1024,
        )


class ArtifactsSpec(TargetSpec):
    """Files that may be edited, a runner and a scorer."""

    kind: str = "artifacts"
    id: Text | None = None
    """By default the name of the folder."""
    description: str = ""
    """What the files are for; editors read it."""
    include: Annotated[list[_Inside], Field(min_length=1)]
    """Paths or patterns, relative to the folder of the file; `**` matches any folders."""
    exclude: list[_Inside] = Field(default_factory=list[str])
    """Files that are not edited even if `include` matches them."""
    new_files: list[_Inside] = Field(default_factory=list[str])
    """Paths or patterns of files that edits may add; by default none."""
    context: list[_Inside] = Field(default_factory=list[str])
    """Paths or patterns of files that a model that edits reads, and may not change."""
    allowed_file_types: list[Annotated[str, Field(pattern=r"^\.[\w.+-]+$")]] = Field(
        default_factory=list[str]
    )
    """Such as `.md`; by default every type that `include` matches."""
    runner: RunnerBlock | None = None
    scorer: ScorerBlock
    holdout: HeldOutBlock | None = None
    """A second measurement that decides and that no editor sees."""
    test: HeldOutBlock | None = None
    """The sealed test: measured once, at the end, with the files of the start beside the best."""
    axes: list[AxisBlock] = Field(default_factory=list[AxisBlock])
    """Numbers and choices inside YAML or JSON files, for strategies that tune numbers."""
    logging: LoggingBlock = Field(default_factory=LoggingBlock)
    protect: list[_Inside] = Field(default_factory=list[str])
    """Files that no candidate may change, even if they are scratch."""
    scratch: list[_Inside] = Field(default_factory=list[str])
    """Files that a run may write freely, such as its outputs. Every workspace starts without them,
    and of what a run adds only they reach the scorer."""
    sandbox: Mode = "auto"
    """`auto` uses the isolation that works here, `required` refuses to do without, `bwrap` and
    `landlock` name one, `none` does without."""
    network: bool = False
    """Whether runners and scorers may use the network; without isolation they always can."""
    readable: list[Text] = Field(default_factory=list[str])
    """Files and folders elsewhere that isolated commands can read, such as data."""
    env: list[Variable] = Field(default_factory=list[str])
    """Names of variables that commands may see; all others are hidden from them."""
    limits: LimitsBlock = Field(default_factory=LimitsBlock)
    copy_git: bool = False
    """Whether commands find a copy of `.git` in their workspace."""

    def name(self, folder: Path) -> str:
        return self.id or folder.name

    def purpose(self, folder: Path) -> str:
        return self.description.strip() or self.name(folder)

    @property
    def held(self) -> Mapping[str, HeldOutBlock]:
        """The measurements that no editor sees, by the name of their case."""
        parts = {HOLDOUT: self.holdout, TEST: self.test}
        return {case: part for case, part in parts.items() if part is not None}

    @property
    def scorers(self) -> Mapping[str, ScorerBlock]:
        """Every scorer by the case that it is named for."""
        own = {case: part.scorer for case, part in self.held.items()}
        return {TASK: self.scorer} | {case: each for case, each in own.items() if each is not None}

    @property
    def metric_primary(self) -> str:
        names = self.scorer.names
        return names[0] if self.scorer.way == "metrics" and len(names) == 1 else "score"


_ALWAYS = ("loss", "pass_rate", "cost_usd", "latency_sec", "failed_cases", RUNTIME)
"""Numbers that every evaluation has beside those of its scorer."""


def check_task(
    spec: ArtifactsSpec, objective: ObjectiveSpec, folder: Path, problems: Problems
) -> None:
    """Record all problems."""
    _check_places(spec, folder, problems)
    _check_logging(spec, problems)
    for case, part in spec.held.items():
        if part.scorer is None and spec.scorer.way == "metrics":
            message = "metrics read the file itself, so another runner changes nothing"
            problems.add(f"target.{case}", message, f"give the {case} its own scorer")
    _check_names(spec, objective, problems)
    _check_steps(spec, folder, problems)
    _check_axes(spec, problems)


def checked_axes(
    spec: ArtifactsSpec, texts: Mapping[str, str], problems: Problems
) -> tuple[NumericSurface, ...]:
    """The axes that start within their bounds; problems with the others are recorded."""
    surfaces: list[NumericSurface] = []
    for number, block in enumerate(spec.axes):
        at: TreePath = ("target", "axes", number)
        text = texts.get(block.file)
        if text is None:
            continue
        now = problems.attempt(at, partial(value_in, text, block.file, block.path), None)
        outside = [] if now is None else block.surface().problems(now)
        for problem in outside:
            message = f"the current value is out of range: {problem.message}"
            problems.add(at, message, "widen the axis, or change the value in the file")
        if now is not None and not outside:
            surfaces.append(block.surface())
    return tuple(surfaces)


def _check_places(spec: ArtifactsSpec, folder: Path, problems: Problems) -> None:
    places: dict[TreePath, str] = {
        ("target", "logging", "results_file"): spec.logging.results_file,
        ("target", "logging", "candidate_dir"): spec.logging.candidate_dir,
    }
    places |= {(*at, "cwd"): runner.cwd for at, runner in _runners(spec).items()}
    for at, path in places.items():
        if _leads_out(folder, path):
            message = f"'{path}' leaves the folder of the task file through a link"
            problems.add(at, message, "name a folder that is really inside it")
        elif at[-1] == "cwd" and not (folder / path).is_dir():
            remedy = "the path is relative to the folder of the task file"
            problems.add(at, f"there is no folder '{path}'", remedy)


def _check_logging(spec: ArtifactsSpec, problems: Problems) -> None:
    results, folder = plain(spec.logging.results_file), plain(spec.logging.candidate_dir)
    remedy = "write it somewhere else, such as work/"
    for key, path in (("results_file", results), ("candidate_dir", f"{folder}/iter-01/x.md")):
        if covers(spec.include, path) and not covers(spec.exclude, path):
            message = "artifacts.include matches this path, but results must not be edited"
            problems.add(f"target.logging.{key}", message, remedy)
    if results == folder or results.startswith(f"{folder}/"):
        message = "the file is inside candidate_dir"
        problems.add("target.logging.results_file", message, "move it out of that folder")
    if matches(folder, spec.include):
        message = "artifacts.include names this folder"
        problems.add("target.logging.candidate_dir", message, remedy)


def _check_names(spec: ArtifactsSpec, objective: ObjectiveSpec, problems: Problems) -> None:
    """Only the names of metrics are known before a command has run."""
    names: dict[TreePath, str] = {
        ("objective", "primary_metric"): objective.primary_metric or spec.metric_primary
    }
    for number, block in enumerate(objective.constraints):
        names["objective", "constraints", number, "metric"] = block.metric
    for number, breaker in enumerate(objective.tie_breakers):
        names["objective", "tie_breakers", number] = str(breaker.lower or breaker.higher)
    for case, scorer in spec.scorers.items():
        if scorer.way != "metrics":
            continue
        place = "scorer" if case == TASK else f"{case}.scorer"
        measured = [*scorer.names, *_ALWAYS]
        for at, name in names.items():
            if name not in measured:
                message = f"{place} has no metric '{name}'"
                problems.add(at, message, likely_of(name, measured))


def _check_steps(spec: ArtifactsSpec, folder: Path, problems: Problems) -> None:
    """Whether runners and scorers are there, before anything is paid."""
    remedy = "name a file of the task; paths are relative to the folder of the task file"
    for at, runner in _runners(spec).items():
        if word := missing_script(runner.command, folder / runner.cwd):
            problems.add((*at, "command"), f"there is no file '{word}'", remedy)
    for case, scorer in spec.scorers.items():
        at = _place(case, "scorer")
        missing = missing_script(scorer.command or "", folder)
        # What a runner writes is not there yet.
        if missing and not covers([*spec.scratch, *spec.exclude], plain(missing)):
            problems.add((*at, "command"), f"there is no file '{missing}'", remedy)
        message = function_problem(scorer.function, folder) if scorer.function else ""
        if message:
            problems.add((*at, "function"), message, remedy)


def _place(case: str, key: str) -> TreePath:
    return ("target", key) if case == TASK else ("target", case, key)


def _runners(spec: ArtifactsSpec) -> dict[TreePath, RunnerBlock]:
    """Every runner by its place in the file."""
    runners = {TASK: spec.runner} | {case: part.runner for case, part in spec.held.items()}
    return {_place(case, "runner"): each for case, each in runners.items() if each is not None}


def _check_axes(spec: ArtifactsSpec, problems: Problems) -> None:
    seen: set[str] = set()
    for number, axis in enumerate(spec.axes):
        at: TreePath = ("target", "axes", number)
        if not matches(axis.file, spec.include):
            message = f"'{axis.file}' is not one of the files that artifacts.include names"
            problems.add((*at, "file"), message, "add it there")
        if not axis.file.lower().endswith((".yaml", ".yml", ".json")):
            problems.add((*at, "file"), "numbers can only be tuned in YAML and JSON files")
        if axis.id in seen:
            message = f"'{axis.path}' already has an axis"
            problems.add((*at, "path"), message, "keep one of them")
        seen.add(axis.id)
