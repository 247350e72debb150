"""A delegation as a run: described, started in a folder, or resumed."""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from burnish.core.cases import Dataset
from burnish.core.content import Json, short_id
from burnish.core.evaluations import Objective
from burnish.delegation.delegation import Delegation
from burnish.delegation.envelope import Envelope
from burnish.delegation.home import is_of_burnish, kept_policy
from burnish.delegation.plugin import Delegate
from burnish.delegation.policy import NAMES, PolicyTexts
from burnish.delegation.record import Listener
from burnish.delegation.result import DelegationResult
from burnish.delegation.target import NAME, DelegationLoss, DelegationTarget, SuiteTask
from burnish.delegation.team import LEAST_SECRET, Workflow
from burnish.delegation.workflow_spec import CommandEngineBlock, WorkflowSpec
from burnish.projects.description import describe
from burnish.projects.dialects import Document, Flags
from burnish.projects.file_kinds import WorkflowFile
from burnish.projects.launch import launched
from burnish.runs.build import RunDescription
from burnish.runs.directory import NAME as HEADER
from burnish.runs.events import Listener as RunListener
from burnish.runs.run import Run
from burnish.runs.setup import Setup, resume, start
from burnish.system import Redactor
from burnish.system.config import variables_in


def describe_task(
    document: Document,
    flags: Flags,
    *,
    target: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> RunDescription:
    """Describe a task for the workflow of a file; flags override it, the environment does not.

    `target` and `settings` are fields of the target and the strategy that no file or flag sets.
    """
    description = describe(document, flags, environ={}, dialect=WorkflowFile())
    spec: WorkflowSpec = description.spec.target
    # As the manifest has it: a run that goes on says the same to the same models.
    redactor = Redactor.from_environment(extra=_values(document, spec))
    fields = {"task": redactor.text(spec.task), **(target or {})}
    strategy = description.spec.strategy
    changed = strategy.settings.model_copy(update=dict(settings or {}))
    update = {
        "target": spec.model_copy(update=fields),
        "strategy": strategy.model_copy(update={"settings": changed}),
    }
    return replace(description, spec=description.spec.model_copy(update=update))


def _values(document: Document, spec: WorkflowSpec) -> Iterator[str]:
    loop = spec.loop
    names = loop.env if isinstance(loop, CommandEngineBlock) else ()
    for name in (*variables_in(document.tree.text), *names):
        value = os.environ.get(name, "")
        if len(value) >= LEAST_SECRET:
            yield value


def _open_delegation(setup: Setup, folder: Path) -> Run:
    """The run in a folder, new or resumed; errors are raised before anything is created."""
    strategy = setup.strategy
    assert isinstance(strategy, Delegate)
    delegation = strategy.delegation
    redactor = Redactor.from_environment(extra=setup.secrets())
    delegation.check(folder, redactor)
    if (folder / HEADER).exists():
        return resume(setup, folder)

    def furnish(spare: Path) -> None:
        # With its header, so that a run that was killed at once goes on with the same texts.
        delegation.redacted(redactor).begin(spare, redactor, name=folder.name)

    return start(setup, folder=folder, furnish=furnish)


async def run_delegation(
    setup: Setup, folder: Path, *, listeners: Sequence[RunListener] = ()
) -> DelegationResult:
    """Start a delegation in a folder, or resume the one there."""
    strategy = setup.strategy
    assert isinstance(strategy, Delegate)
    await launched(lambda: _open_delegation(setup, folder), listeners)
    assert strategy.result is not None
    return strategy.result


async def delegate(
    workflow: Workflow,
    task: str,
    *,
    folder: Path,
    policy: PolicyTexts | None = None,
    steer: str = "",
    seed_deliverable: Path | None = None,
    inputs: Sequence[Path] = (),
    envelope: Envelope | None = None,
    parent_run_id: str | None = None,
    tags: Sequence[str] = (),
    kept: Mapping[str, Json] | None = None,
    ruler: str | None = None,
    listen: Listener | None = None,
    stop: Callable[[], str] = lambda: "",
) -> DelegationResult:
    """Run a workflow on a task in `folder`, or resume the run there.

    See `Delegation` for most parameters; `envelope` overrides the workflow's. `listen` receives
    every event, also on a replay. A reason from `stop` before an iteration raises Interrupted.
    """
    delegation = Delegation(
        workflow=workflow.within(envelope),
        task=task,
        policy=policy or PolicyTexts.shipped(),
        steer=steer,
        seed_deliverable=seed_deliverable,
        inputs=tuple(inputs),
        parent_run_id=parent_run_id,
        tags=tuple(tags),
        kept=kept or {},
        ruler=ruler,
    )
    strategy = Delegate(delegation, listen=listen, stop=stop)
    return await run_delegation(_live_setup(strategy, folder), folder)


def _live_setup(strategy: Delegate, folder: Path) -> Setup:
    """A delegation as a run of one case, which only the same program can resume."""
    delegation = strategy.delegation
    policy = kept_policy(folder) if is_of_burnish(folder) else delegation.policy
    # As the manifest has it, which is where a resume reads it.
    text = Redactor.from_environment(extra=delegation.workflow.secrets).text(delegation.task)
    task = SuiteTask(name=short_id(text), task=text, workflow=delegation.workflow)
    target = DelegationTarget(policy, (task,), frozen=NAMES)
    return Setup(
        target=target,
        metrics=(DelegationLoss(),),
        objective=Objective(weights={NAME: 1.0}),
        dataset=Dataset(train=(task.case,)),
        strategy=strategy,
        grace_seconds=math.inf,
        resources=(target,),
    )
