"""How the files of a task are described: what may be edited, what runs it, what scores it."""

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from burnish.core.surfaces import ChoiceSurface, NumberSurface, Scalar, value_key
from burnish.evaluation.metric_plugins import AgentMetric, metric_name
from burnish.models.model_block import ModelBlock
from burnish.runs.spec import TargetSpec
from burnish.system.sandbox import Limits, Mode
from burnish.system.settings import AboveZero, AtLeastOne, Settings, Text
from burnish.system.workspaces.paths import pattern_problem
from burnish.targets.artifacts.task import Runner, Scoring

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


def leads_out(folder: Path, path: str) -> bool:
    """Whether a link on the way leads out of the folder, as far as the path exists."""
    home = Path(os.path.realpath(folder))
    real = Path(os.path.realpath(folder / path))
    return real != home and home not in real.parents


def plain(path: str) -> str:
    """One spelling for one path: no `./`, no slash at the end."""
    return PurePosixPath(path).as_posix()


Inside: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_inside)]
Suffix: TypeAlias = Annotated[str, Field(pattern=r"^\.[\w.+-]+$")]
Variable: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]
Reference: TypeAlias = Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]


class RunnerBlock(Settings):
    """The command that runs a candidate."""

    command: Text
    """What the shell runs."""
    cwd: Inside = "."
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
    function: Reference | None = None
    """`module:function`, importable from the folder of the file."""
    parse: ParseBlock = Field(default_factory=ParseBlock)
    metrics: list[AgentMetric] = Field(default_factory=list[AgentMetric])
    """Judges with rubrics, rules and checks of a format, as agent files list them."""
    judge: ModelBlock | None = None
    """Who judges where a metric names nobody."""
    reads: Inside | None = None
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
    files: list[Inside] = Field(default_factory=list[str])
    """What only these steps find in their workspace: neither the task's own nor editors see it."""

    @model_validator(mode="after")
    def _something(self) -> "HoldoutBlock":
        if self.runner is None and self.scorer is None:
            raise ValueError("give it a runner, a scorer or both: the same again decides nothing")
        return self


class AxisBlock(Settings):
    """A number in a range, or one of several choices, at a place in a YAML or JSON file."""

    file: Inside
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

    results_file: Inside = "work/results.jsonl"
    """One line of JSON a candidate."""
    candidate_dir: Inside = "work/candidates"
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

    def made(self) -> Limits:
        """In bytes."""
        return Limits(
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
    include: Annotated[list[Inside], Field(min_length=1)]
    """Paths or patterns, from the folder of the file; `**` goes through folders."""
    exclude: list[Inside] = Field(default_factory=list[str])
    """What is not edited though `include` names it."""
    allowed_file_types: list[Suffix] = Field(default_factory=list[str])
    """Such as `.md`; none named allows every type that `include` matches."""
    runner: RunnerBlock | None = None
    scorer: ScorerBlock
    holdout: HoldoutBlock | None = None
    """A second measurement, which decides and which no editor hears of."""
    axes: list[AxisBlock] = Field(default_factory=list[AxisBlock])
    """Numbers and choices inside YAML or JSON files, for strategies that tune numbers."""
    logging: LoggingBlock = Field(default_factory=LoggingBlock)
    protect: list[Inside] = Field(default_factory=list[str])
    """What no candidate may touch, even where it is scratch."""
    scratch: list[Inside] = Field(default_factory=list[str])
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
