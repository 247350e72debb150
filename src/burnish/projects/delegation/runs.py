"""A delegation as a run: started in a folder, or gone on with."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

from burnish.core.cases import Case, Dataset
from burnish.core.content import Json, short_id
from burnish.core.errors import RunNotFound
from burnish.core.objectives import Objective
from burnish.projects.delegation.loading import LoadedWorkflow, load_workflow
from burnish.projects.delegation.overrides import WorkflowOverrides
from burnish.projects.experiments.attaching import offer
from burnish.projects.launching import launched
from burnish.runs.conditions import Closable
from burnish.runs.events import Listener as RunListener
from burnish.runs.header import NAME as HEADER
from burnish.runs.header import Project
from burnish.runs.opening import resume, start
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.runs.strategy import Strategy
from burnish.strategies.delegate import Delegate
from burnish.system import Redactor
from burnish.targets.delegation.chronicle import Listener
from burnish.targets.delegation.delegating import Delegation
from burnish.targets.delegation.envelope import Envelope
from burnish.targets.delegation.home import is_of_burnish, kept_policy, read_manifest
from burnish.targets.delegation.loss_metric import NAME, DelegationLoss
from burnish.targets.delegation.policy import NAMES, PolicyTexts
from burnish.targets.delegation.result import DelegationResult
from burnish.targets.delegation.target import DelegationTarget, SuiteTask
from burnish.targets.delegation.workflow import Workflow

KIND = "delegation"
"""The kind of project that run.json names."""
Loading: TypeAlias = Callable[[Path, WorkflowOverrides], LoadedWorkflow]


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
    """Run a workflow on a task in `folder`, or go on with the run that is there.

    The fields of `Delegation` say what is delegated; `envelope` is stronger than the workflow's.
    `listen` is told what happens, on a replay too. What `stop` says before an iteration ends the
    run there with Interrupted, to be resumed.
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
    return await driven(Delegate(delegation, listen=listen, stop=stop), folder)


async def driven(
    strategy: Delegate, folder: Path, *, listeners: Sequence[RunListener] = ()
) -> DelegationResult:
    """The same for a strategy that knows what is delegated."""

    def opened() -> Run:
        return open_delegation(strategy, folder)

    await launched(opened, listeners)
    assert strategy.result is not None
    return strategy.result


def open_delegation(strategy: Delegate, folder: Path) -> Run:
    """The run in a folder, new or to go on with; refused before anything is made or paid."""
    delegation = strategy.delegation
    setup = delegation_setup(strategy, folder)
    redactor = Redactor.from_environment(extra=setup.secrets())
    delegation.check(folder, redactor)
    if (folder / HEADER).exists():
        return resume(setup, folder)

    def furnish(spare: Path) -> None:
        # With its header, so that a run that was killed at once can be set up again.
        delegation.redacted(redactor).begin(spare, redactor, name=folder.name)

    return start(setup, folder=folder, furnish=furnish)


def delegation_setup(
    strategy: Delegate, folder: Path, resources: tuple[Closable, ...] = ()
) -> Setup:
    """A delegation as a run of one case, whose texts are fixed."""
    delegation = strategy.delegation
    policy = kept_policy(folder) if is_of_burnish(folder) else delegation.policy
    # As the manifest has it, which is where a resume reads it.
    text = Redactor.from_environment(extra=delegation.workflow.secrets).text(delegation.task)
    task = SuiteTask(name=short_id(text), task=text, workflow=delegation.workflow)
    target = DelegationTarget(policy, (task,), frozen=NAMES)
    file = delegation.kept.get("file")
    return task_setup(
        strategy,
        target,
        task.case,
        project=Project(kind=KIND, file=file) if isinstance(file, str) else Project(),
        resources=resources,
    )


def task_setup(
    strategy: Strategy,
    target: DelegationTarget,
    case: Case,
    *,
    project: Project,
    resources: tuple[Closable, ...],
) -> Setup:
    """A run about one task, measured by the loss of delegations."""
    return Setup(
        target=target,
        metrics=(DelegationLoss(),),
        objective=Objective(weights={NAME: 1.0}),
        dataset=Dataset(train=(case,)),
        strategy=strategy,
        # A single call takes minutes; who will not wait for its end asks once more.
        grace_seconds=math.inf,
        project=project,
        resources=(target, *resources),
    )


def reload_delegation(folder: Path) -> Setup:
    """Set a delegation up again from its folder; one of an experiment is offered to its task."""
    delegation, loaded = kept_delegation(folder)
    strategy = Delegate(delegation, ended=lambda run: offer(delegation.kept, run.run_dir))
    setup = delegation_setup(strategy, folder, (loaded.models,))
    delegation.check(folder, Redactor.from_environment(extra=setup.secrets()))
    return setup


def kept_delegation(
    folder: Path, *, file: Path | None = None, load: Loading = load_workflow
) -> tuple[Delegation, LoadedWorkflow]:
    """What was delegated in a folder; `file` says where its workflow file lies now."""
    manifest = read_manifest(folder)
    kept = cast("dict[str, Any]", manifest.get("kept") or {})
    path = file or Path(str(kept.get("file", "")))
    if not path.is_file():
        raise RunNotFound(
            f"the workflow file of this run is not known or gone: {path}",
            remedy="name it: `burnish delegate FILE --resume RUN`",
        )
    loaded = load(path, WorkflowOverrides.model_validate(kept.get("overrides") or {}))
    seed = kept.get("seed_deliverable")
    delegation = Delegation(
        workflow=loaded.workflow,
        task=str(manifest["task"]),
        policy=kept_policy(folder),
        steer=str(manifest.get("steer", "")),
        seed_deliverable=Path(str(seed)) if seed else None,
        inputs=tuple(Path(str(each)) for each in kept.get("inputs") or ()),
        kept=kept,
    )
    return delegation, loaded
