"""The task file of seed 002: which files may be edited, how they are run, scored and judged."""

from dataclasses import replace
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from burnish.core.gates.strict import Direction
from burnish.core.objectives import Constraint, Operator, TieBreaker
from burnish.effects.budget import Budget
from burnish.models.model_block import ModelBlock
from burnish.models.model_settings import ModelsBlock
from burnish.projects.artifacts.numeric_axes import AxisBlock, CoordinateBlock
from burnish.projects.artifacts.paths_inside import inside
from burnish.projects.artifacts.step_blocks import HoldoutBlock, RunnerBlock, ScorerBlock
from burnish.projects.overrides import Overrides
from burnish.projects.settings import BudgetSettings
from burnish.system.sandbox import Limits, Mode
from burnish.system.settings import AboveZero, AtLeastOne, NotNegative, Places, Repeats, Settings

MIB, KIB = 1024 * 1024, 1024
MAX_ITERATIONS = 50
"""Where no limit is named."""

Text: TypeAlias = Annotated[str, Field(min_length=1)]
Inside: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(inside)]
Suffix: TypeAlias = Annotated[str, Field(pattern=r"^\.[\w.+-]+$")]
Variable: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]


class ArtifactsBlock(Settings):
    """The files that may be edited."""

    include: Annotated[list[Inside], Field(min_length=1)]
    """Paths or patterns, from the folder of the file; `**` goes through folders."""
    exclude: list[Inside] = Field(default_factory=list[str])
    """What is not edited though `include` names it."""
    max_files_per_iteration: AtLeastOne = 2


class MutationBlock(Settings):
    """How files are edited, and how far an edit may go."""

    mode: Literal["direct_edit", "command"] = "direct_edit"
    """`direct_edit` asks a model for an edit; `command` lets a program edit a copy."""
    command: Text | None = None
    """The program of mode `command`, such as the command line of a coding agent."""
    timeout_seconds: AboveZero = 900.0
    """For that program."""
    env: list[Variable] = Field(default_factory=list[str])
    """Names of variables that it may see, such as that of its key."""
    network: bool = True
    """Whether it may use the network, to talk to its model."""
    usd_per_edit: NotNegative | None = None
    """What an edit of it costs; not known unless it is said."""
    allowed_file_types: list[Suffix] = Field(default_factory=list[str])
    """Such as `.md`; none named allows every type that `include` matches."""
    max_changed_lines: AtLeastOne = 120
    """Lines added and lines removed, together, in one edit."""
    editor: ModelBlock | None = None
    """The model that edits."""

    @model_validator(mode="after")
    def _whole(self) -> "MutationBlock":
        if self.mode == "command" and self.command is None:
            raise ValueError("mode: command needs the command that edits")
        own = {"command", "timeout_seconds", "env", "network", "usd_per_edit"}
        if self.mode == "direct_edit" and (said := sorted(own & self.model_fields_set)):
            raise ValueError(f"{', '.join(said)} goes with mode: command")
        if self.mode == "command" and self.editor is not None:
            raise ValueError("mode: command edits by itself, so editor has no meaning")
        return self


class ObjectiveBlock(Settings):
    """The one number that counts."""

    primary_metric: Text | None = None
    """`score` where a scorer prints it; the only metric where metrics score."""
    direction: Direction = "maximize"
    tolerance: NotNegative = 0.0
    """Two numbers that are no further apart are a tie."""
    worst: float | None = None
    """For the strategy `coordinate`, which compares scores from 0 to 1: what counts as 0."""
    best: float | None = None
    """And what counts as 1."""

    @model_validator(mode="after")
    def _scale(self) -> "ObjectiveBlock":
        if (self.worst is None) != (self.best is None) or (
            self.worst is not None and self.worst == self.best
        ):
            raise ValueError("worst and best go together, and differ")
        return self


class ConstraintBlock(Settings):
    """What must hold before anything is compared."""

    metric: Text
    op: Operator
    value: bool | float
    """A number, or true or false."""

    def made(self) -> Constraint:
        """True counts as 1, false as 0, as scorers' booleans do."""
        return Constraint(metric=self.metric, op=self.op, value=float(self.value))


class TieBreakerBlock(Settings):
    """`{lower: length_tokens}` or `{higher: clarity}`."""

    lower: Text | None = None
    higher: Text | None = None

    @model_validator(mode="after")
    def _one(self) -> "TieBreakerBlock":
        if (self.lower is None) == (self.higher is None):
            raise ValueError("say lower or higher, one of them, and of which number")
        return self

    def made(self) -> TieBreaker:
        """What decides at a tie."""
        if self.lower is not None:
            return TieBreaker(metric=self.lower, prefer="lower")
        return TieBreaker(metric=str(self.higher), prefer="higher")


class PolicyBlock(Settings):
    """What is kept."""

    keep_if: Literal["better_primary"] = "better_primary"
    tie_breakers: list[TieBreakerBlock] = Field(default_factory=list[TieBreakerBlock])
    """Asked in their order, and only at a tie."""
    on_failure: Literal["discard", "stop"] = "discard"
    """What a crash does beside losing the candidate: nothing, or ending the run."""


class TaskBudget(BudgetSettings):
    """Limits. Whichever is reached first ends the run."""

    max_iterations: AtLeastOne | None = None
    """50 where neither this nor max_trials is named."""
    max_failures: AtLeastOne | None = 10
    """Crashes after which the run ends."""

    def limits(
        self, flags: Overrides, environment: Overrides, *, together: int, usual: int | None
    ) -> Budget:
        """The limits after flags and environment; `together` candidates make an iteration."""
        plain = {name: getattr(self, name) for name in BudgetSettings.model_fields}
        made = BudgetSettings(**plain).budget(flags, environment)
        if flags.max_trials is not None:
            return made
        iterations = None if self.max_iterations is None else self.max_iterations * together
        said = [each for each in (self.max_trials, iterations) if each is not None]
        most = min(said) if said else environment.max_trials or usual
        return replace(made, max_trials=most)


class LoggingBlock(Settings):
    """Where results are written beside the run's own folder."""

    results_file: Inside = "work/results.jsonl"
    candidate_dir: Inside = "work/candidates"


class LimitsBlock(Settings):
    """What one command may use, with all the processes that it starts."""

    memory_mb: AtLeastOne = 4096
    file_size_mb: AtLeastOne = 1024
    processes: AtLeastOne = 256
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


class TaskFile(Settings):
    """A task: files, a runner, a scorer, and the rule by which an edit is kept."""

    id: Text | None = None
    """The name of the folder unless said."""
    description: str = ""
    """What the files are for; whoever edits reads it."""
    artifacts: ArtifactsBlock
    mutation: MutationBlock = Field(default_factory=MutationBlock)
    runner: RunnerBlock | None = None
    scorer: ScorerBlock
    holdout: HoldoutBlock | None = None
    """A second measurement, which decides and which no editor hears of."""
    objective: ObjectiveBlock = Field(default_factory=ObjectiveBlock)
    constraints: list[ConstraintBlock] = Field(default_factory=list[ConstraintBlock])
    policy: PolicyBlock = Field(default_factory=PolicyBlock)
    budget: TaskBudget = Field(default_factory=TaskBudget)
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
    repeats: Repeats | None = None
    """Runs of every candidate; more than one shows the noise."""
    accept_sigma: NotNegative | None = None
    """Within so many times its noise a difference is a tie."""
    candidates_per_iteration: AtLeastOne = 1
    """Edits made and run side by side."""
    strategy: Literal["edits", "coordinate"] | None = None
    axes: list[AxisBlock] = Field(default_factory=list[AxisBlock])
    """Numbers and choices inside YAML or JSON files, for the strategy `coordinate`."""
    coordinate: CoordinateBlock = Field(default_factory=CoordinateBlock)
    editor: ModelBlock | None = None
    """The model that edits; the same as mutation.editor."""
    seed: int | None = None
    concurrency: Places | None = None
    models: ModelsBlock = Field(default_factory=ModelsBlock)

    @model_validator(mode="after")
    def _once(self) -> "TaskFile":
        if self.editor is not None and self.mutation.editor is not None:
            raise ValueError("editor and mutation.editor say the same: keep one of them")
        if self.editor is not None and self.mutation.mode == "command":
            raise ValueError("mutation.mode: command edits by itself, so editor has no meaning")
        return self

    @property
    def editing_model(self) -> ModelBlock | None:
        """The model that edits, wherever it is named."""
        return self.mutation.editor or self.editor
