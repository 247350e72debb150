"""The tasks of a suite with their workflows, each workflow read once for each pair of models."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.core.content import Json, canonical
from burnish.core.errors import ConfigError, Problem
from burnish.models.factory import Models
from burnish.models.model_block import ModelBlock
from burnish.projects.delegation.team import LoadedWorkflow, load_workflow
from burnish.projects.delegation.workflow_spec import WorkflowOverrides
from burnish.projects.suites.suite_spec import PolicySpec, TaskBlock
from burnish.runs.parts import Building
from burnish.strategies.refine.tiers import reference_of
from burnish.system.yaml import TreePath
from burnish.targets.delegation.manager import CommandManager
from burnish.targets.delegation.target import SuiteTask

USUAL = "workflow.yaml"
PLAIN = Path(__file__).with_name("plain_workflow.yaml")


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
        told = [note for each in self.loaded.values() for note in each.workflow.notes()]
        programs = [e.workflow.name for e in self.loaded.values() if _is_program(e)]
        told += [f"{name} runs a program, which reads no text but the rubric" for name in programs]
        return tuple(dict.fromkeys(told))

    def _task(self, block: TaskBlock, at: TreePath) -> SuiteTask | None:
        loaded = self.building.problems.attempt(at, lambda: self._workflow(block), None)
        if loaded is None:
            return None
        extra: dict[str, Json] = {"suite": self.spec.name, "file": str(loaded.path.resolve())}
        if block.extra:
            extra["extra"] = dict(block.extra)
        told = loaded.overrides.to_json()
        return SuiteTask(
            name=block.name,
            task=block.task,
            workflow=loaded.workflow,
            weights=block.weights,
            kept={**extra, "overrides": told},
        )

    def _workflow(self, block: TaskBlock) -> LoadedWorkflow:
        path = self._file(block)
        told = _overrides(block, plain=path == PLAIN)
        key = canonical([str(path.resolve()), told.to_json()])
        if key not in self.loaded:
            self.loaded[key] = load_workflow(
                path, told, models=self.building.given_models or self._shared(path)
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
        usual = self.building.path(USUAL)
        if not usual.is_file() and block.model is None:
            message = "it names neither a workflow nor a model"
            remedy = f"name one, for the task or the suite, or put {USUAL} beside the suite"
            raise ConfigError([Problem(message=message, remedy=remedy)])
        return usual if usual.is_file() else PLAIN


def _is_program(loaded: LoadedWorkflow) -> bool:
    return isinstance(loaded.workflow.manager, CommandManager)


def _overrides(block: TaskBlock, *, plain: bool) -> WorkflowOverrides:
    worker = block.worker_model or (block.model if plain else None)
    named: Mapping[str, str | ModelBlock | None] = {"manager": block.model, "worker": worker}
    models: dict[str, Any] = {role: _model(told) for role, told in named.items() if told}
    return WorkflowOverrides(**models, **block.budget.model_dump(exclude_none=True))


def _model(named: str | ModelBlock) -> str | ModelBlock:
    return named if isinstance(named, ModelBlock) else reference_of(named) or named
