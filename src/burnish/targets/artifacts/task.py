"""What a task is made of: files to edit, a runner, a scorer, and what must be left alone."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from burnish.core.content import Json, short_id
from burnish.system.sandbox import Limits

TASK, HOLDOUT = "task", "holdout"
"""The names of the two cases that a task can have."""

ScoringKind: TypeAlias = Literal["command", "python", "metrics"]


@dataclass(frozen=True, kw_only=True)
class Runner:
    """A command that runs the files."""

    command: str
    cwd: str = "."
    """From the task's folder."""
    timeout_seconds: float = 300.0

    def described(self) -> Json:
        """Everything that its result depends on."""
        return [self.command, self.cwd, self.timeout_seconds]


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How a run becomes numbers."""

    kind: ScoringKind = "command"
    command: str = ""
    function: str = ""
    """`module:function`, importable from the task's folder."""
    score_field: str = "score"
    metrics_field: str = "metrics"
    timeout_seconds: float = 300.0
    reads: str = ""
    """Of a scorer of kind `metrics`: the file whose text is scored."""

    def described(self) -> Json:
        """Everything that its result depends on."""
        fields = (self.score_field, self.metrics_field, self.reads)
        return [self.kind, self.command, self.function, self.timeout_seconds, *fields]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task, as the target needs it."""

    folder: Path
    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    """What is not edited though `include` names it; it is looked after like everything else."""
    scratch: tuple[str, ...] = ()
    """What a run writes as it likes. Workspaces start with it empty: nothing in it counts."""
    allowed_file_types: tuple[str, ...] = ()
    """Such as `.md`; none named allows all."""
    protect: tuple[str, ...] = ()
    runner: Runner | None = None
    scoring: Scoring = field(default_factory=Scoring)
    holdout_runner: Runner | None = None
    holdout_scoring: Scoring | None = None
    holdout_files: tuple[str, ...] = ()
    """What only the holdout's steps find in their workspace: neither runs nor editors see it."""
    primary: str = "score"
    env: tuple[str, ...] = ()
    """Names of variables that commands may see."""
    limits: Limits = field(default_factory=Limits)
    copy_git: bool = False
    """Whether commands find a copy of `.git`."""

    @property
    def has_holdout(self) -> bool:
        """Whether something decides that the editor never hears of."""
        return self.holdout_runner is not None or self.holdout_scoring is not None

    def runner_of(self, case: str) -> Runner | None:
        """What runs the files for a case."""
        return self.holdout_runner or self.runner if case == HOLDOUT else self.runner

    def scoring_of(self, case: str) -> Scoring:
        """What scores them."""
        return self.holdout_scoring or self.scoring if case == HOLDOUT else self.scoring

    def described(self, others: Sequence[tuple[str, str]]) -> dict[str, Json]:
        """Everything that a result depends on beside the candidate; `others` are hashes."""
        parts = (self.runner, self.holdout_runner, self.scoring, self.holdout_scoring)
        return {
            "steps": [None if part is None else part.described() for part in parts],
            "env": [*self.env],
            "folders": [[*self.scratch], [*self.holdout_files], self.copy_git],
            "files": short_id([list(pair) for pair in others]),
        }
