"""From a workflow file to a team that is ready to work."""

import os
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
from burnish.delegation.manager import (
    MANAGER,
    CommandManager,
    Critic,
    Manager,
    ModelManager,
)
from burnish.delegation.manager import (
    ROLE as CRITIC,
)
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
from burnish.models.chat import ModelClient
from burnish.models.factory import Models
from burnish.models.model_block import ModelBlock
from burnish.models.references import ModelRef
from burnish.models.roles import ModelRole, RolePrompt, in_force
from burnish.projects.description import describe
from burnish.projects.dialects import Document
from burnish.projects.file_kinds import WorkflowFile
from burnish.runs.draft import Places, Problems
from burnish.runs.plugins import reached
from burnish.system import read_text
from burnish.system.sandbox import CommandLimits, Mode
from burnish.system.yaml import TreePath


@dataclass(frozen=True, kw_only=True)
class _Deliverable:
    """A file that the workflow always delivers."""

    path: str
    schema: Json = None
    """A JSON schema that it must keep."""
    smoke: bool = False
    """Whether it is a script that must run."""


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """Who works, with what, within which limits, and how the result is checked."""

    name: str
    manager: Manager
    worker: Worker
    critic: Critic | None = None
    metrics: tuple[DelegationMetric, ...] = ()
    zones: Zones = field(default_factory=Zones)
    gates: GateSettings = field(default_factory=GateSettings)
    envelope: Envelope = field(default_factory=Envelope)
    max_repairs: int = 2
    deliverables: tuple[_Deliverable, ...] = ()
    own_instructions: str = ""
    """What this workflow tells its manager beside its prompt."""
    tools: tuple[OwnTool, ...] = ()
    folder: Path = Path()
    """What the tools' files are found from."""
    source: Path | None = None
    """A folder whose copy the workspace starts with."""
    sandbox: Mode = "auto"
    env: tuple[str, ...] = ()
    """Names of variables that commands may see."""
    network: bool = False
    limits: CommandLimits = field(default_factory=CommandLimits)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values that may not be kept anywhere, beside those that the environment calls secret."""

    def within(self, envelope: Envelope | None) -> Self:
        """The same workflow under another envelope."""
        return self if envelope is None else replace(self, envelope=envelope)

    @property
    def models(self) -> dict[str, str]:
        """Who is who, by role."""
        judges = [m.role.client.ref.label for m in self.metrics if isinstance(m, DelegationJudge)]
        labels = {
            "manager": self.manager.label,
            "worker": self.worker.label,
            "critic": self.critic.label if self.critic else "",
            "judge": ", ".join(dict.fromkeys(judges)),
        }
        return {role: label for role, label in labels.items() if label}

    def notes(self) -> list[str]:
        """What a reader of the result should know."""
        lines = [
            f"the {role} is the worker's own model ({label}): it grades its own work"
            for role, label in self.models.items()
            if role in ("critic", "judge") and self.worker.label in label.split(", ")
        ]
        if self.critic is None:
            lines.append("there is no critic: the loss counts the critique as neutral")
        if not self.metrics:
            lines.append("there are no metrics: the loss counts the evaluation as neutral")
        return lines

    def inputs(self) -> Mapping[str, str]:
        """Hashes of all that decides what happens; a resume must find them unchanged."""
        checks: Json = [
            [metric.fingerprint for metric in self.metrics],
            dict(vars(self.zones)),
            dict(vars(self.gates)),
            [[each.path, each.schema, each.smoke] for each in self.deliverables],
            self.max_repairs,
        ]
        tools: Json = [tool.model_dump(mode="json") for tool in self.tools]
        commands: Json = [*self.env, self.network, dict(vars(self.limits))]
        return {
            "manager": short_id([self.manager.fingerprint, self.own_instructions]),
            "worker": self.worker.fingerprint,
            "critic": self.critic.fingerprint if self.critic else "",
            "checks": short_id(checks),
            "tools": short_id([tools, commands]),
            "envelope": short_id(self.envelope.to_json()),
        }


# -- From the description of a workflow to the workflow -------------------------------------------


_NOBODY = "name a model, such as `models: {manager: openai:gpt-4o, worker: openai:gpt-4o-mini}`"
_WRONG = ModelRef(provider="", name="")
"""In the place of a model whose name cannot be read, which is reported already."""
_TIERS = ("low", "mid", "high")
LEAST_SECRET = 8
"""Characters from which on a value may be a key; `1` and `true` are none."""
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Team:
    """Makes one workflow, with its own models or with others."""

    spec: WorkflowSpec
    folder: Path
    """What its paths are relative to."""
    models: Models
    places: Places = field(default_factory=Places)

    def workflow(self, overrides: WorkflowOverrides | None = None) -> Workflow:
        """The workflow; everything that is wrong is raised at once.

        No model is asked, no server and no command started.
        """
        return _Making(self, overrides or WorkflowOverrides()).workflow()

    @property
    def tiers(self) -> Mapping[str, TierBlock]:
        """The default pairs of models for refinement."""
        return {name: getattr(self.spec, f"refinement_tier_{name}") for name in _TIERS}

    @property
    def has_models(self) -> bool:
        """Whether models work here, and not a program."""
        return self.spec.orchestration.command is None

    def secrets(self) -> tuple[str, ...]:
        """Keys of models, and what a program is given by name: that is how it gets its key."""
        loop = self.spec.loop
        names = loop.env if isinstance(loop, CommandEngineBlock) else ()
        values = [os.environ.get(name, "") for name in names]
        return (*self.models.secrets(), *(value for value in values if len(value) >= LEAST_SECRET))


@dataclass(frozen=True, kw_only=True)
class LoadedWorkflow:
    """A workflow file that was read and is sound."""

    path: Path
    team: Team
    overrides: WorkflowOverrides
    workflow: Workflow

    @property
    def models(self) -> Models:
        """To be closed when all is done."""
        return self.team.models

    def with_models(self, *, manager: str = "", worker: str = "") -> Workflow:
        """The same workflow with other models; an empty name leaves what there is."""
        names = {"manager": manager, "worker": worker}
        named = {role: name for role, name in names.items() if name}
        return self.team.workflow(self.overrides.model_copy(update=named))


def load_workflow(
    path: Path, overrides: WorkflowOverrides | None = None, *, models: Models | None = None
) -> LoadedWorkflow:
    """Read a workflow file for a task that somebody else describes."""
    description = describe(workflow_document(path), {}, environ={}, dialect=WorkflowFile())
    spec, stronger = description.spec, overrides or WorkflowOverrides()
    team = Team(
        spec=spec.target,
        folder=Path(spec.source.folder),
        models=models or spec.models.models(),
        places=description.places,
    )
    return LoadedWorkflow(
        path=path, team=team, overrides=stronger, workflow=team.workflow(stronger)
    )


def workflow_document(path: Path) -> Document:
    """A workflow file as it stands."""
    document = Document.read(path)
    if not isinstance(document.tree.data, dict):
        is_empty = document.tree.data is None
        message = "it is empty" if is_empty else "expected keys with values at the top level"
        remedy = f"known keys: {', '.join(WorkflowFile.keys)}"
        raise ConfigError([Problem(where=document.name, message=message, remedy=remedy)])
    return document


class _Making:
    """One workflow on its way."""

    def __init__(self, team: Team, overrides: WorkflowOverrides) -> None:
        self.spec, self.folder, self.models = team.spec, team.folder, team.models
        self.loop: LoopBlock = team.spec.loop
        self.overrides = overrides
        self.problems = Problems(places=team.places)
        self.team = team

    def workflow(self) -> Workflow:
        self._check_folders()
        self._check_tiers()
        manager, worker = self._manager(), self._worker()
        critic = self._critic() if self.loop.critique.enabled else None
        metrics = self._metrics()
        self.problems.settle()
        assert manager is not None
        assert worker is not None
        return self._assembled(manager, worker, critic, metrics)

    def _assembled(
        self,
        manager: Manager,
        worker: Worker,
        critic: Critic | None,
        metrics: tuple[DelegationMetric, ...],
    ) -> Workflow:
        spec, source = self.spec, self.spec.workspace.copy_from
        gates = self.loop.gates.model_dump()
        least = self.loop.critique.min_score_to_complete
        return Workflow(
            name=spec.workflow.name,
            manager=manager,
            worker=worker,
            critic=critic,
            metrics=metrics,
            zones=Zones(**spec.observability.evaluation.thresholds.model_dump()),
            gates=GateSettings(min_score_to_complete=least, **gates),
            envelope=self._envelope(),
            max_repairs=self.loop.critique.max_repairs,
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
            limits=replace(spec.limits.made(), seconds=spec.command_timeout),
            secrets=self.team.secrets(),  # known once its models are made
        )

    def _envelope(self) -> Envelope:
        limits: dict[str, Any] = self.loop.budget.model_dump()
        limits.update({k: v for k, v in self.overrides.to_json().items() if k in limits})
        return Envelope(**limits)

    def _own_instructions(self) -> str:
        """What a folder of the workflow's own tells the manager."""
        if not isinstance(self.loop, DelegationLoopBlock) or self.loop.manager is None:
            return ""
        file = self.folder / self.loop.manager / "system_prompt.md"
        return read_text(file) if file.is_file() else ""

    def _check_tiers(self) -> None:
        """Only refinements use them, which is late to hear of a mistake."""
        for name in _TIERS:
            at, tier = f"refinement_tier_{name}", getattr(self.spec, f"refinement_tier_{name}")
            for side, ref in tier:
                if ref and isinstance(self.loop, CommandEngineBlock):
                    message = "this workflow runs a program: it has no models to change"
                    self.problems.add(("target", at), message)
                elif ref:
                    self.problems.attempt(
                        ("target", at, side), lambda ref=ref: ModelRef.parse(ref), None
                    )

    def _check_folders(self) -> None:
        source = self.spec.workspace.copy_from
        if source is not None and not (self.folder / source).is_dir():
            self.problems.add("target.workspace.copy_from", f"{source} is no folder")
        if not self.spec.tools:
            return
        from burnish.delegation.tools import own_tool_problems

        for problem in own_tool_problems(self.spec.tools, self.folder):
            message = f"{problem.where}: {problem.message}"
            self.problems.add("target.tools", message, problem.remedy)

    # -- roles -------------------------------------------------------------------------------

    def _manager(self) -> Manager | None:
        """Who decides."""
        if isinstance(self.loop, CommandEngineBlock):
            return CommandManager()
        return self._role(MANAGER, (MANAGER,), ModelManager.of)

    def _worker(self) -> Worker | None:
        """Who does the work."""
        loop = self.loop
        if isinstance(loop, CommandEngineBlock):
            return CommandWorker(
                command=loop.command,
                timeout_seconds=loop.timeout_seconds,
                env=tuple(loop.env),
                network=loop.network,
                usd_per_run=loop.usd_per_run,
            )
        assert isinstance(loop, DelegationLoopBlock)
        rounds = loop.max_rounds

        def of(client: ModelClient, prompt: RolePrompt) -> ModelWorker:
            return ModelWorker(client=client, prompt=prompt, max_rounds=rounds)

        return self._role(WORKER, (WORKER,), of)

    def _critic(self) -> Critic | None:
        """Who finds defects; the manager's model unless another is named."""
        return self._role(CRITIC, ("critic", MANAGER, WORKER), Critic.of)

    def _judge(self) -> ModelRole[JudgeRequest, Judgement]:
        """Who judges by rubrics; the critic's model unless another is named."""
        prompt = in_force(JUDGE, self.folder)
        ref = self._named(("judge", "critic", MANAGER, WORKER))
        if ref is None:
            raise ConfigError([Problem(message="there is nobody to judge", remedy=_NOBODY)])
        return judge_role(reached(self.models, ref, prompt), prompt)

    def _role(
        self, name: str, names: Sequence[str], make: Callable[[ModelClient, RolePrompt], T]
    ) -> T | None:
        """A role with its model, seen to be within reach, and the prompt in force."""
        at = self._at(names)
        ref = self.problems.attempt(at, lambda: self._named(names), _WRONG)
        if ref is None:
            self.problems.add(at, f"there is no model for the {names[0]}", _NOBODY)
        if ref is None or ref is _WRONG:
            return None

        def made() -> T:
            prompt = in_force(name, self.folder)
            return make(reached(self.models, ref, prompt), prompt)

        return self.problems.attempt(at, made, None)

    def _at(self, names: Sequence[str]) -> TreePath:
        """Where the model of the first of these roles that has one stands."""
        for name in names:
            if isinstance(getattr(self.overrides, name), str):
                flag: TreePath = ("strategy", "settings", name)
                return flag if self.problems.places.is_flag(flag) else self._models_at
            if self._block(name) is not None:
                break
        return self._models_at

    @property
    def _models_at(self) -> TreePath:
        return (*self.spec.loop_at, "models")

    def _named(self, names: Sequence[str]) -> ModelRef | None:
        """The model of the first of these roles that has one."""
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
        """A model that is named: at the address of the one whose place it takes.

        The file says where the models of a provider are, and how they are asked; another name is
        no reason to go elsewhere.
        """
        ref = ModelRef.parse(label)
        block = next(filter(None, map(self._block, names)), None)
        if block is None or block.reference().provider != ref.provider:
            return ref
        return block.model_copy(update={"name": ref.name}).reference()

    def _block(self, name: str) -> ModelBlock | None:
        return getattr(self.loop.models, name)

    # -- metrics -----------------------------------------------------------------------------

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
                made = {
                    "deterministic_test": Expression,
                    "deterministic_assertion": Assertion,
                    "command": CommandScore,
                }[block.kind]
                return made(**common, **settings)
            case JudgeBlock():
                role = self._judge()
                common["settings"] = {**settings, "role": role.fingerprint}
                return DelegationJudge(**common, rubric=block.params.rubric, role=role)
            case PlainBlock():
                return (BudgetUtility if block.kind == "budget_utility" else PolicyScore)(**common)
