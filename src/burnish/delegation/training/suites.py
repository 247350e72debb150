"""Suites: tasks on which the policy texts are trained."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, JsonValue, model_validator

from burnish.core.content import AboveZero, AtLeastOne, Json, NotNegative, canonical
from burnish.core.errors import ConfigError, Problem
from burnish.delegation.manager import CommandManager
from burnish.delegation.policy import NAMES
from burnish.delegation.refine.seeds import reference_of
from burnish.delegation.result import WEIGHTS
from burnish.delegation.target import SuiteTask
from burnish.delegation.team import LoadedWorkflow, load_workflow
from burnish.delegation.workflow_spec import WorkflowOverrides
from burnish.models.factory import Models
from burnish.models.model_block import ModelBlock
from burnish.runs.plugins import Building
from burnish.runs.spec import TargetSpec
from burnish.system.settings import Door, Settings, Text
from burnish.system.yaml import TreePath

_PANEL = "Suites of tasks to delegate"


class EnvelopeBlock(Settings):
    """Limits of one delegation, stronger than those of its workflow."""

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
    """A workflow file, from the folder of the suite; that of the suite unless said."""
    model: Text | ModelBlock | None = None
    """The manager's: `provider:name`, or a block."""
    worker_model: Text | ModelBlock | None = None
    budget: EnvelopeBlock = Field(default_factory=EnvelopeBlock)
    weights: dict[str, NotNegative] = Field(default_factory=dict[str, float])
    """By part of the loss; the others weigh as always."""
    extra: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    """Kept in the manifests of its runs."""

    @model_validator(mode="after")
    def _sound(self) -> "TaskBlock":
        if unknown := sorted(set(self.weights) - set(WEIGHTS)):
            raise ValueError(f"weights: there is no {', '.join(unknown)}, but {', '.join(WEIGHTS)}")
        if sum({**WEIGHTS, **self.weights}.values()) > 1 + 1e-9:
            raise ValueError("weights: with those that are not named they add up to more than 1")
        return self


class PolicySpec(TargetSpec):
    """A suite: tasks that are delegated, and the policy texts that are trained on them."""

    kind: str = "policy"
    name: Text
    """What reports call the suite."""
    description: str = ""
    """What it is for."""
    baseline_artifacts: dict[str, Annotated[int, Field(ge=0)]] = Field(
        default_factory=dict[str, int]
    )
    """By policy text, the version that the training starts from; else the one in force."""
    tasks: Annotated[list[TaskBlock], Field(min_length=1)]
    """Tasks that are delegated, and learned from."""
    holdout: list[TaskBlock] = Field(default_factory=list[TaskBlock])
    """Tasks that decide, and that no proposer sees."""
    workflow: Text | None = None
    """For tasks that name none; workflow.yaml beside the suite where it is there."""
    db: Annotated[
        Text | None,
        Door(flag="*", panel=_PANEL, metavar="FILE", paths=True, environment=False),
    ] = None
    """The registry of policy texts; $BURNISH_POLICY_DB, or the user's own."""
    experiment: Annotated[
        Text | None,
        Door(flag="*", aliases=("--target",), panel=_PANEL, metavar="EXP", environment=False),
    ] = None
    """Train the registry of this experiment."""
    policy_versions: Annotated[dict[str, int] | None, Door(file=False)] = None
    """Where a run that goes on had started."""

    @model_validator(mode="after")
    def _sound(self) -> "PolicySpec":
        names = Counter(task.name for task in (*self.tasks, *self.holdout))
        if twice := sorted(name for name, count in names.items() if count > 1):
            raise ValueError(f"two tasks are called {', '.join(twice)}")
        if unknown := sorted(set(self.baseline_artifacts) - set(NAMES)):
            texts = ", ".join(NAMES)
            raise ValueError(f"baseline_artifacts: no text {', '.join(unknown)}; there are {texts}")
        return self


# -- Tasks ----------------------------------------------------------------------------------------


_USUAL = "workflow.yaml"
_PLAIN = Path(__file__).with_name("plain_workflow.yaml")


@dataclass(frozen=True, kw_only=True)
class SuiteTasks:
    """Reads the workflows of a suite; what is wrong is kept."""

    spec: PolicySpec
    building: Building
    loaded: dict[bytes, LoadedWorkflow] = field(default_factory=dict[bytes, LoadedWorkflow])

    def read(self, key: str) -> tuple[SuiteTask, ...]:
        """The tasks under a key of the suite; those that cannot be had are left out."""
        blocks: list[TaskBlock] = getattr(self.spec, key)
        made = (self._task(block, ("target", key, place)) for place, block in enumerate(blocks))
        return tuple(task for task in made if task is not None)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the result should know of the workflows."""
        workflows = [each.workflow for each in self.loaded.values()]
        programs = [each.name for each in workflows if isinstance(each.manager, CommandManager)]
        lines = [note for each in workflows for note in each.notes()]
        lines += [f"{name} runs a program, which reads no text but the rubric" for name in programs]
        return tuple(dict.fromkeys(lines))

    def _task(self, block: TaskBlock, at: TreePath) -> SuiteTask | None:
        loaded = self.building.problems.attempt(at, lambda: self._workflow(block), None)
        if loaded is None:
            return None
        extra: dict[str, Json] = {"suite": self.spec.name, "file": str(loaded.path.resolve())}
        if block.extra:
            extra["extra"] = dict(block.extra)
        overrides = loaded.overrides.to_json()
        return SuiteTask(
            name=block.name,
            task=block.task,
            workflow=loaded.workflow,
            weights=block.weights,
            kept={**extra, "overrides": overrides},
        )

    def _workflow(self, block: TaskBlock) -> LoadedWorkflow:
        path = self._file(block)
        overrides = _overrides(block, plain=path == _PLAIN)
        key = canonical([str(path.resolve()), overrides.to_json()])
        if key not in self.loaded:
            self.loaded[key] = load_workflow(
                path, overrides, models=self.building.given_models or self._shared(path)
            )
        return self.loaded[key]

    def _shared(self, path: Path) -> Models | None:
        """One file's models are shared, so that its limits hold for all tasks together."""
        there = (each for each in self.loaded.values() if each.path == path)
        return next((each.models for each in there), None)

    def _file(self, block: TaskBlock) -> Path:
        named = block.workflow or self.spec.workflow
        if named is not None:
            return self.building.path(named)
        usual = self.building.path(_USUAL)
        if not usual.is_file() and block.model is None:
            message = "it names neither a workflow nor a model"
            remedy = f"name one, for the task or the suite, or put {_USUAL} beside the suite"
            raise ConfigError([Problem(message=message, remedy=remedy)])
        return usual if usual.is_file() else _PLAIN


def _overrides(block: TaskBlock, *, plain: bool) -> WorkflowOverrides:
    worker = block.worker_model or (block.model if plain else None)
    named: Mapping[str, str | ModelBlock | None] = {"manager": block.model, "worker": worker}
    models: dict[str, Any] = {role: _model(model) for role, model in named.items() if model}
    return WorkflowOverrides(**models, **block.budget.model_dump(exclude_none=True))


def _model(named: str | ModelBlock) -> str | ModelBlock:
    return named if isinstance(named, ModelBlock) else reference_of(named) or named
