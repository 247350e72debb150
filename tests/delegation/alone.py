"""A workflow on one task in a folder, without a file that describes the run."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from burnish.core.cases import Dataset
from burnish.core.content import Json, short_id
from burnish.core.evaluations import Objective
from burnish.delegation.delegation import Delegation
from burnish.delegation.envelope import Envelope
from burnish.delegation.plugin import Delegate
from burnish.delegation.policy import NAMES, PolicyTexts
from burnish.delegation.record import Listener, is_of_burnish, kept_policy
from burnish.delegation.result import DelegationResult
from burnish.delegation.runs import run_delegation
from burnish.delegation.target import NAME, DelegationLoss, DelegationTarget, SuiteTask
from burnish.delegation.team import Workflow
from burnish.runs.setup import Setup
from burnish.system import Redactor


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
    return await run_delegation(_setup(strategy, folder), folder)


def _setup(strategy: Delegate, folder: Path) -> Setup:
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
