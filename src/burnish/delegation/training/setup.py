"""What a training is set up with: its suite of tasks, its settings, and the policy registry."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, JsonValue, model_validator

from burnish.core.content import AboveZero, AtLeastOne, Json, NotNegative, Repeats, Share, canonical
from burnish.core.errors import ConfigError, Problem
from burnish.delegation.experiments import Experiment
from burnish.delegation.manager import CommandManager
from burnish.delegation.policy import NAME, NAMES, PolicyRegistry, PolicyTexts, registry_path
from burnish.delegation.record import POLICY, kept_policy
from burnish.delegation.result import RUBRIC, WEIGHTS
from burnish.delegation.target import SuiteTask
from burnish.delegation.team import LoadedWorkflow, load_workflow
from burnish.delegation.workflow_spec import WorkflowOverrides
from burnish.models.awp_endpoint import awp_reference
from burnish.models.factory import ModelBlock
from burnish.runs.plugins import Building
from burnish.runs.spec import StrategySettings, TargetSpec
from burnish.system.settings import Access, Door, Settings, Text
from burnish.system.yaml import TreePath


def find_registry(db: str | Path | None = None, experiment: str | None = None) -> PolicyRegistry:
    """The registry to train: `--db`, the experiment's own, a variable, or the user's."""
    if db is not None and experiment is not None:
        message = "an experiment has its own registry"
        raise ConfigError(
            [Problem(where="--db, --target", message=message, remedy="use only one of them")]
        )
    if experiment is not None:
        return PolicyRegistry(Experiment.find(experiment).folder.absolute() / NAME)
    return PolicyRegistry(registry_path(db))


def texts_to_read(db: str | Path | None = None, experiment: str | None = None) -> PolicyTexts:
    """The texts that a delegation reads: the experiment's, or those of the default registry."""
    if db is None and experiment is not None:
        own = find_registry(None, experiment)
        if own.path.exists():
            return own.texts()
    return PolicyRegistry(registry_path(db)).texts()


def texts_for_refining(seed: Path, experiment: str | None = None) -> PolicyTexts:
    """The texts that an iteration reads: those in force, with the rubric that graded its seed.

    Losses are only comparable under one rubric; a run of another system has none.
    """
    texts = texts_to_read(None, experiment)
    if not (seed / POLICY).is_file():
        return texts
    graded = kept_policy(seed)
    rubric = graded.versions.get(RUBRIC, 0)
    return texts.replaced({RUBRIC: graded[RUBRIC]}, {RUBRIC: rubric})


_PANEL = "Suites of tasks to delegate"


class EpochSettings(StrategySettings):
    """How the training works."""

    epochs: Annotated[AtLeastOne, Door(flag="*", panel=_PANEL)] = 1
    """Passes over the suite, including the first, which measures the start."""
    learning_rate: Annotated[float, Field(gt=0, le=1), Door(flag="*", panel=_PANEL)] = 0.5
    """How large a step may be, from a few words to the whole text; halved after a regression."""
    with_textgrad: Annotated[bool, Door(flag="*", panel=_PANEL)] = False
    """Propose better policy texts; without it the suite is only measured."""
    rollback: Annotated[
        bool,
        Door(
            flag="*",
            panel=_PANEL,
            environment=False,
            off="Keep updates that are not better, too.",
        ),
    ] = True
    """Roll back an update that is not better, if it could be measured."""
    repeats: Annotated[Repeats, Door(flag="*", http=Access.CLIENT)] = 2
    """Runs of every task in an epoch; they show the noise."""
    accept_sigma: Annotated[NotNegative, Door(flag="*", http=Access.CLIENT)] = 1.0
    """How many times its noise a gain must be."""
    max_errored_fraction: Share = 0.25
    """An update is rejected if a larger share of tasks fails."""


def step_words(rate: float) -> str:
    """The step size that a learning rate allows, in words."""
    if rate >= 0.75:
        return "the text may be rewritten as a whole"
    if rate >= 0.4:
        return "up to about half of the lines may change"
    if rate >= 0.15:
        return "a few lines may change or be added; all others stay word for word"
    return "one line may change or be added; all others stay word for word"


class EnvelopeBlock(Settings):
    """Limits of one delegation, which override those of its workflow."""

    max_loops: AtLeastOne | None = None
    max_total_workers: AtLeastOne | None = None
    max_total_tokens: AtLeastOne | None = None
    max_wall_time: AboveZero | None = None
    max_tool_calls: AtLeastOne | None = None
    max_depth: AtLeastOne | None = None


class TaskBlock(Settings):
    """One task."""

    name: Text
    task: Text
    workflow: Text | None = None
    """A workflow file, relative to the suite; by default the workflow of the suite."""
    model: Text | ModelBlock | None = None
    """The manager's model: `provider:name`, or a block."""
    worker_model: Text | ModelBlock | None = None
    budget: EnvelopeBlock = Field(default_factory=EnvelopeBlock)
    weights: dict[str, NotNegative] = Field(default_factory=dict[str, float])
    """Weights of parts of the loss; the others keep their usual weights."""
    extra: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    """Stored in the manifests of its runs."""

    @model_validator(mode="after")
    def _sound(self) -> "TaskBlock":
        if unknown := sorted(set(self.weights) - set(WEIGHTS)):
            raise ValueError(f"weights: unknown {', '.join(unknown)}; known: {', '.join(WEIGHTS)}")
        if sum({**WEIGHTS, **self.weights}.values()) > 1 + 1e-9:
            raise ValueError(
                "weights: together with the default weights they add up to more than 1"
            )
        return self


class PolicySpec(TargetSpec):
    """A suite: tasks to delegate, and the policy texts to train on them."""

    kind: str = "policy"
    name: Text
    """The name of the suite in reports."""
    description: str = ""
    """What it is for."""
    baseline_artifacts: dict[str, Annotated[int, Field(ge=0)]] = Field(
        default_factory=dict[str, int]
    )
    """The version of each policy text to start from; by default the one in force."""
    tasks: Annotated[list[TaskBlock], Field(min_length=1)]
    """Tasks to delegate and learn from."""
    holdout: list[TaskBlock] = Field(default_factory=list[TaskBlock])
    """Tasks that decide; no proposer sees them."""
    test: list[TaskBlock] = Field(default_factory=list[TaskBlock])
    """The sealed test: tasks that are run once, at the end, with the first and the best texts."""
    workflow: Text | None = None
    """For tasks without one; by default workflow.yaml beside the suite, if it exists."""
    db: Annotated[
        Text | None,
        Door(flag="*", panel=_PANEL, metavar="FILE", paths=True, environment=False),
    ] = None
    """The registry of policy texts; by default $BURNISH_POLICY_DB or the user's registry."""
    experiment: Annotated[
        Text | None,
        Door(flag="*", aliases=("--target",), panel=_PANEL, metavar="EXP", environment=False),
    ] = None
    """Train the registry of this experiment."""
    policy_versions: Annotated[dict[str, int] | None, Door(file=False)] = None
    """The versions that a resumed run had started from."""

    @model_validator(mode="after")
    def _sound(self) -> "PolicySpec":
        names = Counter(task.name for task in (*self.tasks, *self.holdout, *self.test))
        if twice := sorted(name for name, count in names.items() if count > 1):
            raise ValueError(f"two tasks have the name {', '.join(twice)}")
        if unknown := sorted(set(self.baseline_artifacts) - set(NAMES)):
            texts = ", ".join(NAMES)
            raise ValueError(
                f"baseline_artifacts: unknown text {', '.join(unknown)}; known: {texts}"
            )
        return self


_USUAL = "workflow.yaml"
_PLAIN = Path(__file__).with_name("plain_workflow.yaml")


@dataclass(frozen=True, kw_only=True)
class SuiteTasks:
    """Reads the workflows of a suite and collects problems."""

    spec: PolicySpec
    building: Building
    loaded: dict[bytes, LoadedWorkflow] = field(default_factory=dict[bytes, LoadedWorkflow])

    def read(self, key: str) -> tuple[SuiteTask, ...]:
        """The tasks under a key of the suite, without those that have problems."""
        blocks: list[TaskBlock] = getattr(self.spec, key)
        tasks = (self._task(block, ("target", key, place)) for place, block in enumerate(blocks))
        return tuple(task for task in tasks if task is not None)

    @property
    def notes(self) -> tuple[str, ...]:
        workflows = [each.workflow for each in self.loaded.values()]
        programs = [each.name for each in workflows if isinstance(each.manager, CommandManager)]
        lines = [note for each in workflows for note in each.notes()]
        lines += [
            f"{name} runs a program, which reads no policy text except the rubric"
            for name in programs
        ]
        return tuple(dict.fromkeys(lines))

    def _task(self, block: TaskBlock, at: TreePath) -> SuiteTask | None:
        loaded = self.building.problems.attempt(at, lambda: self._workflow(block), None)
        if loaded is None:
            return None
        kept: dict[str, Json] = {"suite": self.spec.name, "file": str(loaded.path.resolve())}
        if block.extra:
            kept["extra"] = dict(block.extra)
        return SuiteTask(
            name=block.name,
            task=block.task,
            workflow=loaded.workflow,
            weights=block.weights,
            kept={**kept, "overrides": loaded.overrides.to_json()},
        )

    def _workflow(self, block: TaskBlock) -> LoadedWorkflow:
        path = self._file(block)
        worker = block.worker_model or (block.model if path == _PLAIN else None)
        models: dict[str, Any] = {
            role: model if isinstance(model, ModelBlock) else awp_reference(model) or model
            for role, model in (("manager", block.model), ("worker", worker))
            if model
        }
        overrides = WorkflowOverrides(**models, **block.budget.model_dump(exclude_none=True))
        key = canonical([str(path.resolve()), overrides.to_json()])
        if key not in self.loaded:
            # One file's models are shared, so that its limits hold for all tasks together.
            there = (each.team.models for each in self.loaded.values() if each.path == path)
            shared = self.building.given_models or next(there, None)
            self.loaded[key] = load_workflow(path, overrides, models=shared)
        return self.loaded[key]

    def _file(self, block: TaskBlock) -> Path:
        named = block.workflow or self.spec.workflow
        if named is not None:
            return self.building.path(named)
        usual = self.building.path(_USUAL)
        if not usual.is_file() and block.model is None:
            message = "the task has neither a workflow nor a model"
            remedy = f"name one, for the task or the suite, or put {_USUAL} beside the suite"
            raise ConfigError([Problem(message=message, remedy=remedy)])
        return usual if usual.is_file() else _PLAIN
