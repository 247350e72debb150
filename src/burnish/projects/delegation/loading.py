"""Reading a workflow file: everything that is wrong with it is said at once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from burnish.models.factory import Models
from burnish.models.keys import load_dotenv
from burnish.models.references import ModelRef
from burnish.projects.delegation.crew import Crew
from burnish.projects.delegation.making_metrics import make_metric
from burnish.projects.delegation.overrides import WorkflowOverrides
from burnish.projects.delegation.workflow_file import (
    CommandEngineBlock,
    DelegationLoopBlock,
    TierBlock,
    WorkflowFile,
)
from burnish.projects.gathering import Gathering
from burnish.system import read_text, read_tree, validate_config
from burnish.targets.delegation.critic import Critic
from burnish.targets.delegation.desk import Worker
from burnish.targets.delegation.envelope import Envelope
from burnish.targets.delegation.evaluating import DelegationMetric, Zones
from burnish.targets.delegation.gates.completion import GateSettings
from burnish.targets.delegation.manager import Manager
from burnish.targets.delegation.workflow import Deliverable, Workflow

_TIERS = ("refinement_tier_low", "refinement_tier_mid", "refinement_tier_high")
_SECRET = 8
"""Characters from which on a value may be a key; `1` and `true` are none."""


@dataclass(frozen=True, kw_only=True)
class LoadedWorkflow:
    """A workflow file that was read and found sound."""

    path: Path
    block: WorkflowFile
    overrides: WorkflowOverrides
    workflow: Workflow
    models: Models
    """To be closed when all is done."""

    @property
    def tiers(self) -> Mapping[str, TierBlock]:
        """The default pairs of models for refinement."""
        return {
            "low": self.block.refinement_tier_low,
            "mid": self.block.refinement_tier_mid,
            "high": self.block.refinement_tier_high,
        }

    def with_models(self, *, manager: str = "", worker: str = "") -> Workflow:
        """The same workflow with other models; an empty name keeps what there is."""
        said = {"manager": manager or None, "worker": worker or None}
        told = self.overrides.model_copy(update={k: v for k, v in said.items() if v})
        return load_workflow(self.path, told, models=self.models).workflow


def load_workflow(
    path: Path, overrides: WorkflowOverrides | None = None, *, models: Models | None = None
) -> LoadedWorkflow:
    """Read a workflow file. No model is asked, no server and no command started."""
    load_dotenv(path.resolve().parent, os.environ)
    tree = read_tree(path)
    block = validate_config(tree.data, WorkflowFile, source=path.name, tree=tree)
    told = overrides or WorkflowOverrides()
    making = _Making(path, block, told, models or block.models.models(), Gathering(tree=tree))
    return LoadedWorkflow(
        path=path, block=block, overrides=told, workflow=making.made(), models=making.models
    )


class _Making:
    """One workflow on its way."""

    def __init__(
        self,
        path: Path,
        block: WorkflowFile,
        told: WorkflowOverrides,
        models: Models,
        wrong: Gathering,
    ) -> None:
        self.folder = path.resolve().parent
        self.block, self.told, self.models, self.wrong = block, told, models, wrong
        self.loop = block.orchestration.loop
        self.crew = Crew(
            folder=self.folder,
            loop=self.loop,
            at=("orchestration", block.orchestration.engine),
            told=told,
            models=models,
            wrong=wrong,
        )

    def made(self) -> Workflow:
        self._check_folders()
        self._check_tiers()
        manager, worker = self.crew.manager(), self.crew.worker()
        critic = self.crew.critic() if self.loop.critique.enabled else None
        metrics = self._metrics()
        self.wrong.settle()
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
        block, source = self.block, self.block.workspace.copy_from
        gates = self.loop.gates.model_dump()
        least = self.loop.critique.min_score_to_complete
        return Workflow(
            name=block.workflow.name,
            manager=manager,
            worker=worker,
            critic=critic,
            metrics=metrics,
            zones=Zones(**block.observability.evaluation.thresholds.model_dump()),
            gates=GateSettings(min_score_to_complete=least, **gates),
            envelope=self._envelope(),
            max_repairs=self.loop.critique.max_repairs,
            deliverables=tuple(
                Deliverable(path=each.path, schema=each.output_schema, smoke=each.smoke)
                for each in block.deliverables
            ),
            own_instructions=self._own_instructions(),
            tools=tuple(block.tools),
            folder=self.folder,
            source=None if source is None else self.folder / source,
            sandbox=block.sandbox,
            env=tuple(block.env),
            network=block.network,
            limits=replace(block.limits.made(), seconds=block.command_timeout),
            secrets=self._secrets(),
        )

    def _metrics(self) -> tuple[DelegationMetric, ...]:
        evaluation = self.block.observability.evaluation
        if not evaluation.enabled:
            return ()
        found: list[DelegationMetric] = []
        for number, each in enumerate(evaluation.metrics):
            at = ("observability", "evaluation", "metrics", number)
            metric = self.wrong.of(at, lambda each=each: make_metric(each, self.crew.judge), None)
            found += [] if metric is None else [metric]
        return tuple(found)

    def _envelope(self) -> Envelope:
        limits: dict[str, Any] = self.loop.budget.model_dump()
        limits.update({k: v for k, v in self.told.to_json().items() if k in limits})
        return Envelope(**limits)

    def _secrets(self) -> tuple[str, ...]:
        """Keys of models, and what a program is given by name: that is how it gets its key."""
        loop = self.loop
        names = loop.env if isinstance(loop, CommandEngineBlock) else ()
        given = [os.environ.get(name, "") for name in names]
        return (*self.models.secrets(), *(value for value in given if len(value) >= _SECRET))

    def _own_instructions(self) -> str:
        """What a folder of the workflow's own tells the manager."""
        if not isinstance(self.loop, DelegationLoopBlock) or self.loop.manager is None:
            return ""
        file = self.folder / self.loop.manager / "system_prompt.md"
        return read_text(file) if file.is_file() else ""

    def _check_tiers(self) -> None:
        """They are used by refinements only, which is late to hear of a slip."""
        tiers = ((name, getattr(self.block, name)) for name in _TIERS)
        told = [(name, side, ref) for name, tier in tiers for side, ref in tier if ref]
        for name, side, ref in told:
            if isinstance(self.loop, CommandEngineBlock):
                self.wrong.add((name,), "this workflow runs a program: it has no models to change")
            else:
                self.wrong.of((name, side), lambda ref=ref: ModelRef.parse(ref), None)

    def _check_folders(self) -> None:
        source = self.block.workspace.copy_from
        if source is not None and not (self.folder / source).is_dir():
            self.wrong.add(("workspace", "copy_from"), f"{source} is no folder")
        if not self.block.tools:
            return
        from burnish.targets.delegation.own_tools import own_tool_problems

        for problem in own_tool_problems(self.block.tools, self.folder):
            told = f"{problem.where}: {problem.message}"
            self.wrong.add(("tools",), told, problem.remedy)
