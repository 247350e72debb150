"""From a workflow file to a team that is ready to work."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeVar

from burnish.core.content import Json, short_id
from burnish.core.errors import ConfigError, Problem
from burnish.delegation.answers import Judgement
from burnish.delegation.envelope import Envelope
from burnish.delegation.evaluation import (
    JUDGE,
    Assertion,
    BudgetUtility,
    CommandScore,
    DelegationJudge,
    DelegationMetric,
    Expression,
    JudgeRequest,
    PolicyScore,
    Zones,
    judge_role,
)
from burnish.delegation.gates import GateSettings
from burnish.delegation.manager import MANAGER, CommandManager, Critic, Manager, ModelManager
from burnish.delegation.manager import ROLE as CRITIC
from burnish.delegation.tools import OwnTool
from burnish.delegation.workers import ROLE as WORKER
from burnish.delegation.workers import CommandWorker, ModelWorker, Worker
from burnish.delegation.workflow_spec import (
    AssertionBlock,
    CommandBlock,
    CommandEngineBlock,
    DelegationLoopBlock,
    ExpressionBlock,
    JudgeBlock,
    LoopBlock,
    Metric,
    PlainBlock,
    TierBlock,
    WorkflowOverrides,
    WorkflowSpec,
)
from burnish.metrics.document_matching import require_schema_library
from burnish.models.awp_endpoint import at_awp_endpoint, awp_reference
from burnish.models.capabilities import expected_forms
from burnish.models.chat import ModelClient
from burnish.models.factory import JUDGE as OF_JUDGES
from burnish.models.factory import ModelBlock, Models
from burnish.models.references import ModelRef
from burnish.models.roles import ModelRole, RolePrompt, in_force
from burnish.projects.description import describe
from burnish.projects.dialects import Document
from burnish.projects.file_kinds import WorkflowFile
from burnish.runs.build import RunDescription
from burnish.runs.draft import Places, Problems
from burnish.runs.plugins import reached
from burnish.system import read_text
from burnish.system.files import state_folder
from burnish.system.sandbox import CommandLimits, Mode
from burnish.system.variables import expanded_secrets
from burnish.system.yaml import TreePath
from burnish.targets.agent.blocks import tool_secrets


@dataclass(frozen=True, kw_only=True)
class _Deliverable:
    path: str
    schema: Json = None
    smoke: bool = False
    """Whether it is a script that must run successfully."""

    def __post_init__(self) -> None:
        if self.schema:
            require_schema_library()


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """Who works with which tools and limits, and how the result is checked."""

    name: str
    manager: Manager
    worker: Worker
    critic: Critic | None = None
    metrics: tuple[DelegationMetric, ...] = ()
    zones: Zones = field(default_factory=Zones)
    gates: GateSettings = field(default_factory=GateSettings)
    envelope: Envelope = field(default_factory=Envelope)
    max_repairs: int = 2
    blackboard: bool = False
    deliverables: tuple[_Deliverable, ...] = ()
    own_instructions: str = ""
    """The workflow's additions to the manager's prompt."""
    tools: tuple[OwnTool, ...] = ()
    folder: Path = Path()
    """The folder that paths of tools are relative to."""
    source: Path | None = None
    """A folder whose copy the workspace starts with."""
    sandbox: Mode = "auto"
    env: tuple[str, ...] = ()
    network: bool = False
    readable: tuple[Path, ...] = ()
    """Files and folders elsewhere that isolated commands can read."""
    limits: CommandLimits = field(default_factory=CommandLimits)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values to redact, besides the secrets of the environment."""

    def within(self, envelope: Envelope | None) -> Self:
        """The same workflow under another envelope."""
        return self if envelope is None else replace(self, envelope=envelope)

    @property
    def models(self) -> dict[str, str]:
        judges = [m.role.client.ref.label for m in self.metrics if isinstance(m, DelegationJudge)]
        labels = {
            "manager": self.manager.label,
            "worker": self.worker.label,
            "critic": self.critic.label if self.critic else "",
            "judge": ", ".join(dict.fromkeys(judges)),
        }
        return {role: label for role, label in labels.items() if label}

    @property
    def answer_forms(self) -> dict[str, str]:
        """How each model will be asked for structured answers, for plans."""
        judges = (each for each in self.metrics if isinstance(each, DelegationJudge))
        roles = (getattr(each, "role", each) for each in (self.manager, self.critic, *judges))
        clients = (getattr(each, "client", None) for each in (*roles, self.worker))
        return expected_forms(clients, state_folder())

    def notes(self) -> list[str]:
        """Notes for readers of the result."""
        lines = [
            f"the {role} is the worker's own model ({label}): it grades its own work"
            for role, label in self.models.items()
            if role in ("critic", "judge") and self.worker.label in label.split(", ")
        ]
        if self.critic is None:
            lines.append("without a critic, the loss counts the critique as neutral")
        if not self.metrics:
            lines.append("without metrics, the loss counts the evaluation as neutral")
        return lines

    def inputs(self) -> Mapping[str, str]:
        """Hashes of everything that decides what happens; a resume requires the same."""
        checks: Json = [
            [metric.fingerprint for metric in self.metrics],
            dict(vars(self.zones)),
            dict(vars(self.gates)),
            [[each.path, each.schema, each.smoke] for each in self.deliverables],
            self.max_repairs,
        ]
        tools: list[Json] = [tool.model_dump(mode="json") for tool in self.tools]
        tools += ["blackboard"] if self.blackboard else []
        limits = dict(vars(self.limits))
        if self.limits.disk_bytes == CommandLimits().disk_bytes:
            del limits["disk_bytes"]  # Earlier runs had no such limit.
        commands: Json = [*self.env, self.network, limits]
        return {
            "manager": short_id([self.manager.fingerprint, self.own_instructions]),
            "worker": self.worker.fingerprint,
            "critic": self.critic.fingerprint if self.critic else "",
            "checks": short_id(checks),
            "tools": short_id([tools, commands]),
            "envelope": short_id(self.envelope.to_json()),
        }


_NOBODY = "name a model, such as `models: {manager: openai:gpt-4o, worker: openai:gpt-4o-mini}`"
_WRONG = ModelRef(provider="", name="")
"""Stands for a model whose name is invalid and already reported."""
_TIERS = ("low", "mid", "high")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Team:
    """Builds a workflow, with its own models or with others."""

    spec: WorkflowSpec
    folder: Path
    models: Models
    places: Places = field(default_factory=Places)

    @classmethod
    def of(cls, description: RunDescription, models: Models | None) -> Self:
        """The team of a described workflow, with these models or its own."""
        spec = description.spec
        return cls(
            spec=spec.target,
            folder=Path(spec.source.folder),
            models=(models or spec.models.models()).for_run(),
            places=description.places,
        )

    def workflow(self, overrides: WorkflowOverrides | None = None) -> Workflow:
        """The workflow; all problems are raised at once, and nothing is called or started."""
        return _WorkflowBuilder(self, overrides or WorkflowOverrides()).workflow()

    @property
    def tiers(self) -> Mapping[str, TierBlock]:
        return {name: getattr(self.spec, f"refinement_tier_{name}") for name in _TIERS}

    def secrets(self) -> tuple[str, ...]:
        """Keys of models, and what tools and a program get in variables: it may be a key."""
        passed = expanded_secrets([*self.spec.program_variables])
        tools: list[Json] = [tool.model_dump(mode="json") for tool in self.spec.tools]
        return (*self.models.secrets(), *passed, *tool_secrets(tools, self.folder))


@dataclass(frozen=True, kw_only=True)
class LoadedWorkflow:
    """A workflow file that was read and is valid."""

    path: Path
    team: Team
    overrides: WorkflowOverrides
    workflow: Workflow


def load_workflow(
    path: Path, overrides: WorkflowOverrides | None = None, *, models: Models | None = None
) -> LoadedWorkflow:
    """Read a workflow file for a task that is described elsewhere."""
    description = describe(workflow_document(path), {}, environ={}, dialect=WorkflowFile())
    team, stronger = Team.of(description, models), overrides or WorkflowOverrides()
    return LoadedWorkflow(
        path=path, team=team, overrides=stronger, workflow=team.workflow(stronger)
    )


def workflow_document(path: Path) -> Document:
    """The document of a workflow file."""
    document = Document.read(path)
    if not isinstance(document.tree.data, dict):
        is_empty = document.tree.data is None
        message = "the file is empty" if is_empty else "expected keys with values at the top level"
        remedy = f"known keys: {', '.join(WorkflowFile.keys)}"
        raise ConfigError([Problem(where=document.name, message=message, remedy=remedy)])
    return document


def _flagged(name: str) -> ModelRef:
    """A model that a flag, a tier or a suite names."""
    return at_awp_endpoint(ModelRef.parse(awp_reference(name) or name))


class _WorkflowBuilder:
    def __init__(self, team: Team, overrides: WorkflowOverrides) -> None:
        self.spec, self.folder, self.models = team.spec, team.folder, team.models
        self.loop: LoopBlock = team.spec.loop
        self.overrides = overrides
        self.problems = Problems(places=team.places)
        self.team = team

    def workflow(self) -> Workflow:
        self._check_folders()
        self._check_tiers()
        spec, loop, source = self.spec, self.loop, self.spec.workspace.copy_from
        manager, worker = self._manager_and_worker()
        critic: Critic | None = None
        if loop.critique.enabled:
            critic = self._role(CRITIC, ("critic", MANAGER, WORKER), Critic.of)
        metrics = self._metrics()
        self.problems.settle()
        assert manager is not None
        assert worker is not None
        limits = loop.budget.model_dump()
        limits |= {k: v for k, v in self.overrides.to_json().items() if k in limits}
        return Workflow(
            name=spec.workflow.name,
            manager=manager,
            worker=worker,
            critic=critic,
            metrics=metrics,
            zones=Zones(**spec.observability.evaluation.thresholds.model_dump()),
            gates=GateSettings(
                min_score_to_complete=loop.critique.min_score_to_complete,
                **loop.gates.model_dump(),
            ),
            envelope=Envelope(**limits),
            max_repairs=loop.critique.max_repairs,
            blackboard=isinstance(loop, DelegationLoopBlock) and loop.blackboard,
            deliverables=tuple(
                _Deliverable(path=each.path, schema=each.output_schema, smoke=each.smoke)
                for each in spec.deliverables
            ),
            own_instructions=self._own_instructions(),
            tools=tuple(spec.tools),
            folder=self.folder,
            source=None if source is None else self.folder / source,
            sandbox=spec.sandbox,
            env=tuple(spec.env),
            network=spec.network,
            readable=tuple(self.folder / Path(each).expanduser() for each in spec.readable),
            limits=replace(spec.limits.made(), seconds=spec.command_timeout),
            secrets=self.team.secrets(),  # known once its models are made
        )

    def _own_instructions(self) -> str:
        if not isinstance(self.loop, DelegationLoopBlock) or self.loop.manager is None:
            return ""
        file = self.folder / self.loop.manager / "system_prompt.md"
        return read_text(file) if file.is_file() else ""

    def _check_tiers(self) -> None:
        """Check the tiers early, though only refinements use them."""
        for name in _TIERS:
            at = ("target", f"refinement_tier_{name}")
            for side, ref in getattr(self.spec, at[1]):
                if ref and isinstance(self.loop, CommandEngineBlock):
                    message = "this workflow runs a program: it has no models to change"
                    self.problems.add(at, message)
                elif ref:
                    self.problems.attempt((*at, side), lambda ref=ref: _flagged(ref), None)

    def _check_folders(self) -> None:
        source = self.spec.workspace.copy_from
        if source is not None and not (self.folder / source).is_dir():
            self.problems.add("target.workspace.copy_from", f"{source} is not a folder")
        if not self.spec.tools:
            return
        from burnish.delegation.tools import own_tool_problems

        for problem in own_tool_problems(self.spec.tools, self.folder):
            message = f"{problem.where}: {problem.message}"
            self.problems.add("target.tools", message, problem.remedy)

    def _manager_and_worker(self) -> tuple[Manager | None, Worker | None]:
        loop = self.loop
        if isinstance(loop, CommandEngineBlock):
            return CommandManager(), CommandWorker(
                command=loop.command,
                timeout_seconds=loop.timeout_seconds,
                env=tuple(loop.env),
                network=loop.network,
                usd_per_run=loop.usd_per_run,
            )
        assert isinstance(loop, DelegationLoopBlock)

        def worker(client: ModelClient, prompt: RolePrompt) -> ModelWorker:
            return ModelWorker(client=client, prompt=prompt, max_rounds=loop.max_rounds)

        manager = self._role(MANAGER, (MANAGER,), ModelManager.of)
        return manager, self._role(WORKER, (WORKER,), worker)

    def _judge(self) -> ModelRole[JudgeRequest, Judgement]:
        prompt = in_force(JUDGE, self.folder)
        ref = self._named(("judge", "critic", MANAGER, WORKER))
        if ref is None:
            raise ConfigError([Problem(message="there is no model for the judge", remedy=_NOBODY)])
        return judge_role(reached(self.models, ref, prompt, role=OF_JUDGES), prompt)

    def _role(
        self, name: str, names: Sequence[str], make: Callable[[ModelClient, RolePrompt], T]
    ) -> T | None:
        at = self._at(names)
        ref = self.problems.attempt(at, lambda: self._named(names), _WRONG)
        if ref is None:
            self.problems.add(at, f"there is no model for the {names[0]}", _NOBODY)
        if ref is None or ref is _WRONG:
            return None

        def build() -> T:
            prompt = in_force(name, self.folder)
            offered = name == WORKER  # the others only answer
            return make(reached(self.models, ref, prompt, role=names[0], tools=offered), prompt)

        return self.problems.attempt(at, build, None)

    def _at(self, names: Sequence[str]) -> TreePath:
        for name in names:
            flag: TreePath = ("strategy", "settings", name)
            named = isinstance(getattr(self.overrides, name), str)
            if named and self.problems.places.is_flag(flag):
                return flag
            if named or self._block(name) is not None:
                break
        return ("target", "orchestration", self.spec.orchestration.engine, "models")

    def _named(self, names: Sequence[str]) -> ModelRef | None:
        for place, name in enumerate(names):
            stronger: str | ModelBlock | None = getattr(self.overrides, name)
            if isinstance(stronger, ModelBlock):
                return stronger.reference()
            if stronger is not None:
                return self._instead(stronger, names[place:])
            if (block := self._block(name)) is not None:
                return block.reference()
        return None

    def _instead(self, label: str, names: Sequence[str]) -> ModelRef:
        """The named model, with the address and settings of its provider in the file."""
        ref = _flagged(label)
        block = next(filter(None, map(self._block, names)), None)
        if block is None or block.reference().provider != ref.provider:
            return ref
        return at_awp_endpoint(block.model_copy(update={"name": ref.name}).reference())

    def _block(self, name: str) -> ModelBlock | None:
        return getattr(self.loop.models, name)

    def _metrics(self) -> tuple[DelegationMetric, ...]:
        evaluation = self.spec.observability.evaluation
        if not evaluation.enabled:
            return ()
        metrics: list[DelegationMetric] = []
        for number, each in enumerate(evaluation.metrics):
            at = ("target", "observability", "evaluation", "metrics", number)
            metric = self.problems.attempt(at, lambda each=each: self._metric(each), None)
            metrics += [] if metric is None else [metric]
        return tuple(metrics)

    def _metric(self, block: Metric) -> DelegationMetric:
        settings = {} if isinstance(block, PlainBlock) else block.params.model_dump(mode="json")
        common: dict[str, Any] = {
            "name": block.name,
            "kind": block.kind,
            "weight": block.weight,
            "threshold": block.threshold,
            "settings": settings,
        }
        match block:
            case ExpressionBlock() | AssertionBlock() | CommandBlock():
                metric = {
                    "deterministic_test": Expression,
                    "deterministic_assertion": Assertion,
                    "command": CommandScore,
                }[block.kind]
                return metric(**common, **settings)
            case JudgeBlock():
                role = self._judge()
                common["settings"] = {**settings, "role": role.fingerprint}
                return DelegationJudge(**common, rubric=block.params.rubric, role=role)
            case PlainBlock():
                return (BudgetUtility if block.kind == "budget_utility" else PolicyScore)(**common)
