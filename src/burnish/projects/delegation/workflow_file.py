"""The workflow file: who manages and works, within which budget, and how results are checked."""

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field, JsonValue, model_validator

from burnish.models.factory import ModelsBlock
from burnish.models.model_block import ModelBlock
from burnish.projects.artifacts.spec import LimitsBlock, Variable
from burnish.projects.delegation.metric_blocks import EvaluationBlock, Inside
from burnish.system.sandbox import Mode
from burnish.system.settings import AboveZero, AtLeastOne, NoneOrMore, NotNegative, Settings, Share
from burnish.targets.agent.tool_blocks import FunctionTool, McpTool
from burnish.targets.delegation.envelope import Envelope
from burnish.targets.delegation.gates.completion import GateSettings
from burnish.targets.delegation.tools import BUILT_IN

Text: TypeAlias = Annotated[str, Field(min_length=1)]
_USUAL, _GATES = Envelope(), GateSettings()


class AboutBlock(Settings):
    """What the workflow is called."""

    name: Text
    version: str = ""
    description: str = ""


class RolesBlock(Settings):
    """The models, by role."""

    manager: ModelBlock | None = None
    worker: ModelBlock | None = None
    critic: ModelBlock | None = None
    """The manager's unless said; better another one than the worker's."""
    judge: ModelBlock | None = None
    """The critic's unless said."""


class BudgetBlock(Settings):
    """The envelope of one run. Whichever limit is reached first ends it."""

    max_loops: AtLeastOne = _USUAL.max_loops
    max_total_workers: AtLeastOne = _USUAL.max_total_workers
    max_total_tokens: AtLeastOne = _USUAL.max_total_tokens
    max_wall_time: AboveZero = _USUAL.max_wall_time
    """Seconds of active time, resumes included."""
    max_tool_calls: AtLeastOne = _USUAL.max_tool_calls
    max_depth: AtLeastOne = _USUAL.max_depth
    """1 is a manager with workers; more lets a manager delegate to managers."""
    max_workers_per_iteration: AtLeastOne = _USUAL.max_workers_per_iteration
    max_rejected_completions: AtLeastOne = _USUAL.max_rejected_completions
    """So many times in a row rejected for the same reason, and the run ends as partial."""


class CritiqueBlock(Settings):
    """How workers' results are criticised."""

    enabled: bool = True
    min_score_to_complete: Share = _GATES.min_score_to_complete
    max_repairs: NoneOrMore = 2
    """How often a worker mends critical defects before the manager hears of them."""


class GatesBlock(Settings):
    """How strict the completion gates are."""

    min_prose_bytes: NoneOrMore = _GATES.min_prose_bytes
    strict_criteria: bool = _GATES.strict_criteria
    smoke_seconds: AboveZero = _GATES.smoke_seconds


class PlanningBlock(Settings):
    """Managers always plan here."""

    enabled: Literal[True] = True


class LoopBlock(Settings):
    """What both engines have."""

    models: RolesBlock = Field(default_factory=RolesBlock)
    budget: BudgetBlock = Field(default_factory=BudgetBlock)
    critique: CritiqueBlock = Field(default_factory=CritiqueBlock)
    gates: GatesBlock = Field(default_factory=GatesBlock)


class DelegationLoopBlock(LoopBlock):
    """A manager and workers that are models."""

    manager: str | None = None
    """A folder whose system_prompt.md is added to the manager's prompt."""
    planning: PlanningBlock = Field(default_factory=PlanningBlock)
    max_rounds: AtLeastOne = 15
    """Times that a worker may use tools before it must answer."""


class CommandEngineBlock(LoopBlock):
    """A program of the user's own instead, such as the command line of a coding agent."""

    command: Text
    """Reads $BURNISH_TASK_FILE, works in the current folder, may write its use of tokens and
    tools as JSON to $BURNISH_USAGE_FILE."""
    timeout_seconds: AboveZero = 900.0
    env: list[Variable] = Field(default_factory=list[str])
    """Names of variables that only it may see, such as that of its key."""
    network: bool = True
    usd_per_run: NotNegative | None = None


class OrchestrationBlock(Settings):
    """Which engine runs the task."""

    engine: Literal["delegation_loop", "command"] = "delegation_loop"
    delegation_loop: DelegationLoopBlock = Field(default_factory=DelegationLoopBlock)
    command: CommandEngineBlock | None = None

    @model_validator(mode="after")
    def _whole(self) -> "OrchestrationBlock":
        if self.engine == "command" and self.command is None:
            raise ValueError("engine: command needs a block `command` with the command to run")
        if self.engine == "delegation_loop" and self.command is not None:
            raise ValueError("the block `command` goes with engine: command")
        return self

    @property
    def loop(self) -> LoopBlock:
        """The block of the engine that is used."""
        return self.delegation_loop if self.command is None else self.command


class ObservabilityBlock(Settings):
    """How the result is measured."""

    evaluation: EvaluationBlock = Field(default_factory=EvaluationBlock)


class DeliverableBlock(Settings):
    """A file that is always delivered; its path alone is short for `{path: …}`."""

    short: ClassVar[str] = "path"
    path: Inside
    output_schema: dict[str, JsonValue] | None = Field(default=None, alias="schema")
    """A JSON schema, for JSON and YAML files."""
    smoke: bool = False
    """A .py or .sh file that must run to its end."""


class WorkspaceBlock(Settings):
    """What the workspace starts with."""

    copy_from: str | None = None
    """A folder, from the file's own; a copy of it is worked in, it stays as it is."""


class TierBlock(Settings):
    """A pair of models for refinement; empty falls back to the seed's."""

    manager: str = ""
    worker: str = ""


class WorkflowFile(Settings):
    """A workflow."""

    awp: str | None = None
    """The version of the format, as other systems write it."""
    workflow: AboutBlock
    orchestration: OrchestrationBlock = Field(default_factory=OrchestrationBlock)
    observability: ObservabilityBlock = Field(default_factory=ObservabilityBlock)
    deliverables: list[DeliverableBlock] = Field(default_factory=list[DeliverableBlock])
    tools: list[Annotated[FunctionTool | McpTool, Field(discriminator="type")]] = Field(
        default_factory=list[FunctionTool | McpTool]
    )
    """Beside files and commands."""
    workspace: WorkspaceBlock = Field(default_factory=WorkspaceBlock)
    sandbox: Mode = "auto"
    """`bwrap` insists on isolation, `none` goes without; `auto` takes what works here."""
    env: list[Variable] = Field(default_factory=list[str])
    """Names of variables that commands may see; all others are hidden from them."""
    network: bool = False
    """Whether commands of workers may use the network; without isolation they always may."""
    command_timeout: AboveZero = 300.0
    limits: LimitsBlock = Field(default_factory=LimitsBlock)
    models: ModelsBlock = Field(default_factory=ModelsBlock)
    refinement_tier_low: TierBlock = Field(default_factory=TierBlock)
    refinement_tier_mid: TierBlock = Field(default_factory=TierBlock)
    refinement_tier_high: TierBlock = Field(default_factory=TierBlock)

    @model_validator(mode="after")
    def _once(self) -> "WorkflowFile":
        names = [tool.name for tool in self.tools]
        if taken := sorted({*BUILT_IN} & {*names}):
            raise ValueError(f"burnish has tools called {', '.join(taken)}: rename yours")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two tools are called {', '.join(twice)}")
        return self
