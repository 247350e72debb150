"""A workflow as a description: who manages and works, how results are checked, and the task."""

import re
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
from burnish.models.model_block import ModelBlock
from burnish.projects.artifacts.spec import LimitsBlock, Variable
from burnish.runs.spec import StrategySettings, TargetSpec
from burnish.system.sandbox import Mode
from burnish.system.settings import Door, Settings, Text
from burnish.system.workspaces import path_problem
from burnish.targets.agent.blocks import FunctionTool, McpTool

_USUAL, _GATES = Envelope(), GateSettings()

# -- metrics -------------------------------------------------------------------------------


def _inside(path: str) -> str:
    if problem := path_problem(path):
        raise ValueError(f"it must lie in the workspace: {problem}")
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
        re.compile(text)
    except re.error as error:
        raise ValueError(f"this is no regular expression: {error}") from error
    return text


class WorkflowMetricBlock(Settings):
    """What every metric has."""

    name: Text
    weight: AboveZero = 1.0
    threshold: Share | None = None
    """What it should reach; what is missing to it steers a refinement. `thresholds.accept`
    unless said."""


class ExpressionParams(Settings):
    """Of `deterministic_test`."""

    expr: Annotated[str, AfterValidator(_expression)]
    """Such as `result.confidence > 0.6` or `size("report.md") > 500`."""


class ExpressionBlock(WorkflowMetricBlock):
    """An expression over the result, the files and the budget."""

    kind: Literal["deterministic_test"]
    params: ExpressionParams


class AssertionParams(Settings):
    """Of `deterministic_assertion`: all that is said must hold."""

    path: _Inside
    contains: str | None = None
    lacks: str | None = None
    matches: Annotated[str, AfterValidator(_pattern)] | None = None


class AssertionBlock(WorkflowMetricBlock):
    """A file is there, and has or lacks a text."""

    kind: Literal["deterministic_assertion"]
    params: AssertionParams


class JudgeParams(Settings):
    """Of `rubric_judge`."""

    rubric: Text


class JudgeBlock(WorkflowMetricBlock):
    """A model judges the deliverables by a rubric."""

    kind: Literal["rubric_judge"]
    params: JudgeParams


class CommandParams(Settings):
    """Of `command`."""

    command: Text
    """Runs in the workspace and prints `{"score": 0.7}`."""
    timeout_seconds: AboveZero = 300.0


class CommandBlock(WorkflowMetricBlock):
    """A command in the sandbox scores the workspace."""

    kind: Literal["command"]
    params: CommandParams


class PlainBlock(WorkflowMetricBlock):
    """Metrics that need nothing to be said: what is left of the budget, and broken policies."""

    kind: Literal["budget_utility", "policy_score"]


Metric: TypeAlias = Annotated[
    ExpressionBlock | AssertionBlock | JudgeBlock | CommandBlock | PlainBlock,
    Field(discriminator="kind"),
]


class ZonesBlock(Settings):
    """What the total score means."""

    accept: Share = 0.85
    """From here on it is accepted."""
    retry: Share = 0.65
    """Below it a completion is sent back."""
    fail: Share = 0.40
    """Below it the run has failed."""

    @model_validator(mode="after")
    def _in_order(self) -> "ZonesBlock":
        if not self.fail <= self.retry <= self.accept:
            raise ValueError("they rise: fail, retry, accept")
        return self


class EvaluationBlock(Settings):
    """How the result is measured."""

    enabled: bool = True
    """Whether it is measured at all."""
    metrics: list[Metric] = Field(default_factory=list[Metric])
    """What is measured, each with its weight."""
    thresholds: ZonesBlock = Field(default_factory=ZonesBlock)

    @model_validator(mode="after")
    def _named_once(self) -> "EvaluationBlock":
        names = [metric.name for metric in self.metrics]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two metrics are called {', '.join(twice)}")
        return self


# -- the workflow ---------------------------------------------------------------------------


class AboutBlock(Settings):
    """What the workflow is called."""

    name: Text
    """What reports call it."""
    version: str = ""
    """Of the workflow itself."""
    description: str = ""
    """What it is for."""


class RolesBlock(Settings):
    """The models, by role."""

    manager: ModelBlock | None = None
    """Who plans."""
    worker: ModelBlock | None = None
    """Who does the work."""
    critic: ModelBlock | None = None
    """The manager's unless said; better another one than the worker's."""
    judge: ModelBlock | None = None
    """The critic's unless said."""


class BudgetBlock(Settings):
    """The envelope of one run. Whichever limit is reached first ends it."""

    max_loops: AtLeastOne = _USUAL.max_loops
    """Decisions of managers."""
    max_total_workers: AtLeastOne = _USUAL.max_total_workers
    """Workers in all."""
    max_total_tokens: AtLeastOne = _USUAL.max_total_tokens
    """Tokens, both ways."""
    max_wall_time: AboveZero = _USUAL.max_wall_time
    """Seconds of active time, resumes included."""
    max_tool_calls: AtLeastOne = _USUAL.max_tool_calls
    """Uses of tools."""
    max_depth: AtLeastOne = _USUAL.max_depth
    """1 is a manager with workers; more lets a manager delegate to managers."""
    max_workers_per_iteration: AtLeastOne = _USUAL.max_workers_per_iteration
    """Workers at once."""
    max_rejected_completions: AtLeastOne = _USUAL.max_rejected_completions
    """So many times in a row rejected for the same reason, and the run ends as partial."""


class CritiqueBlock(Settings):
    """How workers' results are criticised."""

    enabled: bool = True
    """Whether there is a critic."""
    min_score_to_complete: Share = _GATES.min_score_to_complete
    """What the critic's score must reach before a run is complete."""
    max_repairs: NoneOrMore = 2
    """How often a worker mends critical defects before the manager hears of them."""


class GatesBlock(Settings):
    """How strict the completion gates are."""

    min_prose_bytes: NoneOrMore = _GATES.min_prose_bytes
    """The least that a text must hold to be delivered."""
    strict_criteria: bool = _GATES.strict_criteria
    """Whether every criterion of the plan must be met."""
    smoke_seconds: AboveZero = _GATES.smoke_seconds
    """How long a file that is tried may run."""


class PlanningBlock(Settings):
    """Managers always plan here."""

    enabled: Literal[True] = True
    """It cannot be switched off."""


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
    """How long it may run."""
    env: list[Variable] = Field(default_factory=list[str])
    """Names of variables that only it may see, such as that of its key."""
    network: bool = True
    """Whether it may use the network."""
    usd_per_run: NotNegative | None = None
    """What one run of it costs."""


class OrchestrationBlock(Settings):
    """Which engine runs the task."""

    engine: Literal["delegation_loop", "command"] = "delegation_loop"
    """Models that manage and work, or a program."""
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
    path: _Inside
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
    """Who plans."""
    worker: str = ""
    """Who does the work."""


class WorkflowSpec(TargetSpec):
    """A workflow, and the task that is delegated to it."""

    kind: str = "delegation"
    awp: str | None = None
    """The version of the format, as other systems write it."""
    workflow: AboutBlock
    orchestration: OrchestrationBlock = Field(default_factory=OrchestrationBlock)
    observability: ObservabilityBlock = Field(default_factory=ObservabilityBlock)
    deliverables: list[DeliverableBlock] = Field(default_factory=list[DeliverableBlock])
    """Files that must be there in the end."""
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
    """Seconds that one command may run."""
    limits: LimitsBlock = Field(default_factory=LimitsBlock)
    refinement_tier_low: TierBlock = Field(default_factory=TierBlock)
    refinement_tier_mid: TierBlock = Field(default_factory=TierBlock)
    refinement_tier_high: TierBlock = Field(default_factory=TierBlock)
    task: Annotated[str, Door(flag="*", panel="Options", environment=False)] = ""
    """What is to be done."""
    inputs: Annotated[
        tuple[Text, ...],
        Door(flag="input", panel="Options", metavar="FILE", paths=True, environment=False),
    ] = ()
    """Put a file under input/ in the workspace; again for more."""
    db: Annotated[Text | None, Door(file=False)] = None
    """The registry of policy texts; else the usual one."""
    experiment: Annotated[Text | None, Door(file=False)] = None
    """The experiment whose policy texts are read, where it has its own."""
    experiment_task: Annotated[Text | None, Door(file=False)] = None
    """The folder of the experiment's task that the result is offered to."""
    steer: Annotated[str, Door(file=False)] = ""
    """Stands before the manager's first request."""
    seed_deliverable: Annotated[Text | None, Door(file=False)] = None
    """A folder whose files the workspace begins with."""
    graded_by: Annotated[Text | None, Door(file=False)] = None
    """A run whose rubric is used again, so that losses can be compared."""

    @model_validator(mode="after")
    def _once(self) -> "WorkflowSpec":
        names = [tool.name for tool in self.tools]
        if taken := sorted({*BUILT_IN} & {*names}):
            raise ValueError(f"burnish has tools called {', '.join(taken)}: rename yours")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two tools are called {', '.join(twice)}")
        return self

    @property
    def loop(self) -> LoopBlock:
        """The block of the engine that is used."""
        return self.orchestration.loop

    @property
    def loop_at(self) -> tuple[str, ...]:
        """Where that block stands in the description."""
        return ("target", "orchestration", self.orchestration.engine)


# -- what is stronger than the file ----------------------------------------------------------

_WHO = Door(flag="*", panel="Who", metavar="MODEL", environment=False)
_LIMIT = Door(flag="*", panel="Limits", environment=False)


class TaskSettings(StrategySettings):
    """Of strategies that do one task: it is done once, and nothing is held out."""

    repeats: Annotated[Repeats, Door(file=False)] = 1

    @property
    def uses_holdout(self) -> bool:
        """There is one task."""
        return False


class WorkflowOverrides(Settings):
    """What may be said of one delegation that is stronger than the workflow file."""

    manager: Annotated[str | ModelBlock | None, _WHO] = None
    """Who plans: provider:name."""
    worker: Annotated[str | ModelBlock | None, _WHO] = None
    """Who does the work."""
    critic: Annotated[str | ModelBlock | None, _WHO] = None
    """Who finds defects."""
    judge: Annotated[str | ModelBlock | None, _WHO] = None
    """Who judges by rubrics."""
    max_loops: Annotated[AtLeastOne | None, _LIMIT] = None
    """Decisions of managers."""
    max_total_workers: Annotated[AtLeastOne | None, replace(_LIMIT, flag="max_workers")] = None
    """Workers in all."""
    max_total_tokens: Annotated[AtLeastOne | None, replace(_LIMIT, flag="max_tokens")] = None
    """Tokens, both ways."""
    max_tool_calls: Annotated[AtLeastOne | None, _LIMIT] = None
    """Uses of tools."""
    max_wall_time: Annotated[AboveZero | None, _LIMIT] = None
    """Seconds of active time, resumes included."""
    max_depth: Annotated[AtLeastOne | None, _LIMIT] = None
    """Managers below managers; 1 is one manager."""

    def to_json(self) -> dict[str, Json]:
        """What was said."""
        names = set(WorkflowOverrides.model_fields)
        return self.model_dump(mode="json", include=names, exclude_none=True)


class DelegateSettings(WorkflowOverrides, TaskSettings):
    """Who does the task, and within which limits, where that is not as the workflow says."""
