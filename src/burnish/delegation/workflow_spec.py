"""The description of a workflow: its models, checks and limits, and the task."""

from dataclasses import replace
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import AfterValidator, Field, JsonValue, model_validator

from burnish.core.content import (
    AboveZero,
    AtLeastOne,
    Json,
    NoneOrMore,
    NotNegative,
    Repeats,
    Share,
)
from burnish.delegation.envelope import Envelope
from burnish.delegation.evaluation import BadExpression, parse
from burnish.delegation.gates import GateSettings
from burnish.delegation.tools import BUILT_IN
from burnish.models.factory import ModelBlock
from burnish.projects.artifacts.spec import LimitsBlock, Variable
from burnish.runs.spec import StrategySettings, TargetSpec
from burnish.system.sandbox import Mode
from burnish.system.settings import Door, Settings, Text
from burnish.system.user_code import BadPattern, require_pattern
from burnish.system.workspaces import path_problem
from burnish.targets.agent.blocks import FunctionTool, McpTool

_USUAL, _GATES = Envelope(), GateSettings()


def _inside(path: str) -> str:
    if problem := path_problem(path):
        raise ValueError(f"it must be inside the workspace: {problem}")
    return path


_Inside: TypeAlias = Annotated[str, AfterValidator(_inside)]
"""A path of a file in the workspace."""


def _expression(text: str) -> str:
    try:
        parse(text)
    except BadExpression as error:
        raise ValueError(f"this expression cannot be used: {error}") from error
    return text


def _pattern(text: str) -> str:
    try:
        return require_pattern(text)
    except BadPattern as error:
        raise ValueError(f"not a regular expression: {error}") from error


class WorkflowMetricBlock(Settings):
    """The fields of every metric."""

    name: Text
    weight: AboveZero = 1.0
    threshold: Share | None = None
    """What it should reach; the gap steers a refinement. Without it, there is no gap."""


class ExpressionParams(Settings):
    """Parameters of `deterministic_test`."""

    expr: Annotated[str, AfterValidator(_expression)]
    """Such as `result.confidence > 0.6` or `size("report.md") > 500`."""


class ExpressionBlock(WorkflowMetricBlock):
    """An expression over the result, the files and the budget."""

    kind: Literal["deterministic_test"]
    params: ExpressionParams


class AssertionParams(Settings):
    """Parameters of `deterministic_assertion`; every condition must hold."""

    path: _Inside
    contains: str | None = None
    lacks: str | None = None
    matches: Annotated[str, AfterValidator(_pattern)] | None = None


class AssertionBlock(WorkflowMetricBlock):
    """Whether a file exists and contains, or does not contain, a text."""

    kind: Literal["deterministic_assertion"]
    params: AssertionParams


class JudgeParams(Settings):
    """Parameters of `rubric_judge`."""

    rubric: Text


class JudgeBlock(WorkflowMetricBlock):
    """A model judges the deliverables by a rubric."""

    kind: Literal["rubric_judge"]
    params: JudgeParams


class CommandParams(Settings):
    """Parameters of `command`."""

    command: Text
    """Runs in the workspace and prints `{"score": 0.7}`."""
    timeout_seconds: AboveZero = 300.0


class CommandBlock(WorkflowMetricBlock):
    """A command in the sandbox scores the workspace."""

    kind: Literal["command"]
    params: CommandParams


class PlainBlock(WorkflowMetricBlock):
    """Metrics without parameters: the remaining budget, and policy violations."""

    kind: Literal["budget_utility", "policy_score"]


Metric: TypeAlias = Annotated[
    ExpressionBlock | AssertionBlock | JudgeBlock | CommandBlock | PlainBlock,
    Field(discriminator="kind"),
]


class ZonesBlock(Settings):
    """What the total score means."""

    accept: Share = 0.85
    """From this score on, the result is accepted."""
    retry: Share = 0.65
    """Below this score, a completion is rejected."""
    fail: Share = 0.40
    """Below this score, the run has failed."""

    @model_validator(mode="after")
    def _in_order(self) -> "ZonesBlock":
        if not self.fail <= self.retry <= self.accept:
            raise ValueError("they must rise in the order fail, retry, accept")
        return self


class EvaluationBlock(Settings):
    """How the result is measured."""

    enabled: bool = True
    """Whether the result is measured at all."""
    metrics: list[Metric] = Field(default_factory=list[Metric])
    """The metrics, each with its weight."""
    thresholds: ZonesBlock = Field(default_factory=ZonesBlock)

    @model_validator(mode="after")
    def _named_once(self) -> "EvaluationBlock":
        names = [metric.name for metric in self.metrics]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two metrics have the name {', '.join(twice)}")
        return self


class AboutBlock(Settings):
    """The name of the workflow."""

    name: Text
    """The name in reports."""
    version: str = ""
    """The version of the workflow itself."""
    description: str = ""
    """What it is for."""


class RolesBlock(Settings):
    """The models, by role."""

    manager: ModelBlock | None = None
    """The model that plans."""
    worker: ModelBlock | None = None
    """The model that does the work."""
    critic: ModelBlock | None = None
    """The manager's model by default; better not the worker's."""
    judge: ModelBlock | None = None
    """The critic's model by default."""


class BudgetBlock(Settings):
    """The limits of one run. The first limit that is reached ends it."""

    max_loops: AtLeastOne = _USUAL.max_loops
    """Maximum number of manager decisions."""
    max_total_workers: AtLeastOne = _USUAL.max_total_workers
    """Maximum number of workers in total."""
    max_total_tokens: AtLeastOne = _USUAL.max_total_tokens
    """Maximum number of input and output tokens."""
    max_wall_time: AboveZero = _USUAL.max_wall_time
    """Maximum seconds in which models are asked and commands run; a replay takes none."""
    max_tool_calls: AtLeastOne = _USUAL.max_tool_calls
    """Maximum number of tool calls."""
    max_depth: AtLeastOne = _USUAL.max_depth
    """Levels of managers: with 1, managers cannot delegate to managers."""
    max_workers_per_iteration: AtLeastOne = _USUAL.max_workers_per_iteration
    """Maximum number of workers per iteration."""
    max_rejected_completions: AtLeastOne = _USUAL.max_rejected_completions
    """After this many rejections in a row for the same reason, the run ends as partial."""
    max_parallel_workers: AtLeastOne = _USUAL.max_parallel_workers
    """How many workers of an iteration run at once, each in a copy of the workspace."""


class CritiqueBlock(Settings):
    """How workers' results are criticised."""

    enabled: bool = True
    """Whether there is a critic."""
    min_score_to_complete: Share = _GATES.min_score_to_complete
    """The critic's score that a run needs to be complete."""
    max_repairs: NoneOrMore = 2
    """How often a worker may repair critical defects before the manager sees them."""


class GatesBlock(Settings):
    """How strict the completion gates are."""

    min_prose_bytes: NoneOrMore = _GATES.min_prose_bytes
    """The minimum size in bytes of a document that the task asks for."""
    strict_criteria: bool = _GATES.strict_criteria
    """Whether a completion is rejected while subtasks with criteria are open."""
    smoke_seconds: AboveZero = _GATES.smoke_seconds
    """Seconds that a script under `smoke` may run."""


class PlanningBlock(Settings):
    """Planning; managers always plan."""

    enabled: Literal[True] = True
    """It cannot be switched off."""


class LoopBlock(Settings):
    """The fields of both engines."""

    models: RolesBlock = Field(default_factory=RolesBlock)
    budget: BudgetBlock = Field(default_factory=BudgetBlock)
    critique: CritiqueBlock = Field(default_factory=CritiqueBlock)
    gates: GatesBlock = Field(default_factory=GatesBlock)


class DelegationLoopBlock(LoopBlock):
    """A manager and workers, all of them models."""

    manager: str | None = None
    """A folder whose system_prompt.md is added to the manager's prompt."""
    planning: PlanningBlock = Field(default_factory=PlanningBlock)
    max_rounds: AtLeastOne = 15
    """How many times a worker may use tools before it must answer."""
    blackboard: bool = False
    """Whether workers have the tools board_post and board_read, for notes to each other."""


class CommandEngineBlock(LoopBlock):
    """A program instead of models, such as the command line of a coding agent."""

    command: Text
    """Reads $BURNISH_TASK_FILE, works in the current folder, and may write its use of tokens and
    tools as JSON to $BURNISH_USAGE_FILE."""
    timeout_seconds: AboveZero = 900.0
    """Seconds that it may run."""
    env: list[Variable] = Field(default_factory=list[str])
    """Names of variables that only the program may see, such as the one with its key."""
    network: bool = True
    """Whether it may use the network."""
    usd_per_run: NotNegative | None = None
    """The cost of one run."""


class OrchestrationBlock(Settings):
    """Which engine runs the task."""

    engine: Literal["delegation_loop", "command"] = "delegation_loop"
    """Whether models or a program do the work."""
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
        return self.delegation_loop if self.command is None else self.command


class ObservabilityBlock(Settings):
    """How the result is measured."""

    evaluation: EvaluationBlock = Field(default_factory=EvaluationBlock)


class DeliverableBlock(Settings):
    """A file that is always delivered; its path alone is short for `{path: …}`."""

    short: ClassVar[str] = "path"
    path: _Inside
    output_schema: dict[str, JsonValue] | None = Field(default=None, alias="schema")
    """A JSON schema, for JSON and YAML files."""
    smoke: bool = False
    """Whether it is a .py or .sh file that must run successfully."""


class WorkspaceBlock(Settings):
    """What the workspace starts with."""

    copy_from: str | None = None
    """A folder, relative to the file; the work is done in a copy."""


class TierBlock(Settings):
    """A pair of models for refinement; an empty name means the seed's model."""

    manager: str = ""
    """The model that plans."""
    worker: str = ""
    """The model that does the work."""


class WorkflowSpec(TargetSpec):
    """A workflow and the task that is delegated to it."""

    kind: str = "delegation"
    awp: str | None = None
    """The version of the format, as other systems write it."""
    workflow: AboutBlock
    orchestration: OrchestrationBlock = Field(default_factory=OrchestrationBlock)
    observability: ObservabilityBlock = Field(default_factory=ObservabilityBlock)
    deliverables: list[DeliverableBlock] = Field(default_factory=list[DeliverableBlock])
    """Files that must exist at the end."""
    tools: list[Annotated[FunctionTool | McpTool, Field(discriminator="type")]] = Field(
        default_factory=list[FunctionTool | McpTool]
    )
    """Tools besides files and commands."""
    workspace: WorkspaceBlock = Field(default_factory=WorkspaceBlock)
    sandbox: Mode = "auto"
    """`auto` uses the isolation that works here, `required` refuses to do without, `bwrap` and
    `landlock` name one, `none` does without."""
    readable: list[Text] = Field(default_factory=list[str])
    """Files and folders elsewhere that isolated commands can read."""
    env: list[Variable] = Field(default_factory=list[str])
    """Names of variables that commands may see; all others are hidden."""
    network: bool = False
    """Whether commands of workers may use the network; without isolation they always can."""
    command_timeout: AboveZero = 300.0
    """Seconds that one command may run."""
    limits: LimitsBlock = Field(default_factory=LimitsBlock)
    refinement_tier_low: TierBlock = Field(default_factory=TierBlock)
    refinement_tier_mid: TierBlock = Field(default_factory=TierBlock)
    refinement_tier_high: TierBlock = Field(default_factory=TierBlock)
    task: Annotated[str, Door(flag="*", panel="Options", environment=False)] = ""
    """The task."""
    inputs: Annotated[
        tuple[Text, ...],
        Door(flag="input", panel="Options", metavar="FILE", paths=True, environment=False),
    ] = ()
    """Copy a file to input/ in the workspace; repeat for more files."""
    db: Annotated[Text | None, Door(file=False)] = None
    """The registry of policy texts; the default one if not set."""
    experiment: Annotated[Text | None, Door(file=False)] = None
    """The experiment whose policy texts are read, if it has its own."""
    experiment_task: Annotated[Text | None, Door(file=False)] = None
    """The folder of the experiment's task that the result is offered to."""
    steer: Annotated[str, Door(file=False)] = ""
    """Precedes the manager's first request."""
    seed_deliverable: Annotated[Text | None, Door(file=False)] = None
    """A folder whose files are copied to input/."""
    graded_by: Annotated[Text | None, Door(file=False)] = None
    """A run whose rubric is reused, so that losses are comparable."""

    @model_validator(mode="after")
    def _once(self) -> "WorkflowSpec":
        names = [tool.name for tool in self.tools]
        if taken := sorted({*BUILT_IN} & {*names}):
            raise ValueError(
                f"burnish already has tools with these names: {', '.join(taken)}; rename yours"
            )
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two tools have the name {', '.join(twice)}")
        return self

    @property
    def loop(self) -> LoopBlock:
        return self.orchestration.loop

    @property
    def program_variables(self) -> list[str]:
        """What a program gets from the environment, as `${NAME}`: its key may be there."""
        command = self.orchestration.command
        return [] if command is None else [f"${{{name}}}" for name in command.env]


_WHO = Door(flag="*", panel="Who", metavar="MODEL", environment=False)
_LIMIT = Door(flag="*", panel="Limits", environment=False)


class TaskSettings(StrategySettings):
    """Settings of strategies that do one task once, without a holdout."""

    repeats: Annotated[Repeats, Door(file=False)] = 1

    @property
    def uses_holdout(self) -> bool:
        return False


class WorkflowOverrides(Settings):
    """What overrides the workflow file for one delegation."""

    manager: Annotated[str | ModelBlock | None, _WHO] = None
    """The model that plans, as provider:name."""
    worker: Annotated[str | ModelBlock | None, _WHO] = None
    """The model that does the work."""
    critic: Annotated[str | ModelBlock | None, _WHO] = None
    """The model that finds defects."""
    judge: Annotated[str | ModelBlock | None, _WHO] = None
    """The model that judges by rubrics."""
    max_loops: Annotated[AtLeastOne | None, _LIMIT] = None
    """Maximum number of manager decisions."""
    max_total_workers: Annotated[AtLeastOne | None, replace(_LIMIT, flag="max_workers")] = None
    """Maximum number of workers in total."""
    max_total_tokens: Annotated[AtLeastOne | None, replace(_LIMIT, flag="max_tokens")] = None
    """Maximum number of input and output tokens."""
    max_tool_calls: Annotated[AtLeastOne | None, _LIMIT] = None
    """Maximum number of tool calls."""
    max_wall_time: Annotated[AboveZero | None, _LIMIT] = None
    """Maximum seconds in which models are asked and commands run; a replay takes none."""
    max_depth: Annotated[AtLeastOne | None, _LIMIT] = None
    """Levels of managers: with 1, managers cannot delegate to managers."""

    def to_json(self) -> dict[str, Json]:
        names = set(WorkflowOverrides.model_fields)
        return self.model_dump(mode="json", include=names, exclude_none=True)


class DelegateSettings(WorkflowOverrides, TaskSettings):
    """Models and limits that override the workflow's."""
