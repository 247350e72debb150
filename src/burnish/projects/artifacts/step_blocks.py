"""The steps of a task file: what runs a candidate, and what scores it."""

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from burnish.evaluation.configs.agent_metrics import AgentMetric, metric_name
from burnish.models.model_block import ModelBlock
from burnish.projects.artifacts.paths_inside import inside
from burnish.system.settings import AboveZero, Settings
from burnish.targets.artifacts.task import Runner, Scoring

Text: TypeAlias = Annotated[str, Field(min_length=1)]
Inside: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(inside)]
Reference: TypeAlias = Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]


class RunnerBlock(Settings):
    """The command that runs a candidate."""

    command: Text
    cwd: Inside = "."
    """From the folder of the file."""
    timeout_seconds: AboveZero = 300.0

    def made(self) -> Runner:
        """For the target."""
        return Runner(command=self.command, cwd=self.cwd, timeout_seconds=self.timeout_seconds)


class ParseBlock(Settings):
    """Where in the scorer's JSON the numbers stand."""

    format: Literal["json"] = "json"
    score_field: Text = "score"
    metrics_field: Text = "metrics"


class ScorerBlock(Settings):
    """What turns a run into numbers: a command, a Python function, or metrics of burnish."""

    type: Literal["command", "python_plugin", "python", "metrics"] | None = None
    """What the keys say, unless it is said: `command`, `function` or `metrics`."""
    command: Text | None = None
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

    @model_validator(mode="after")
    def _one_way(self) -> "ScorerBlock":
        given = {
            "command": self.command is not None,
            "python": self.function is not None,
            "metrics": bool(self.metrics),
        }
        ways = [way for way, there in given.items() if there]
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
        """How it scores, by one name; the seed calls `python` also `python_plugin`."""
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

    def made(self) -> Scoring:
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
