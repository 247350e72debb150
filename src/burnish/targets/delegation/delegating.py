"""`delegate`: one delegation from its task to its result, or on from where it was killed."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from burnish.core.content import Json, short_id
from burnish.core.errors import ConfigError, Interrupted, Problem
from burnish.core.money import total
from burnish.system import Redactor
from burnish.system.sandbox import Sandbox
from burnish.targets.artifacts.workspace import finished
from burnish.targets.delegation.beginning import Given
from burnish.targets.delegation.chronicle import Chronicle, Listener
from burnish.targets.delegation.command_tool import Commands, CommandTool
from burnish.targets.delegation.desk import Desk
from burnish.targets.delegation.envelope import Envelope, Tally
from burnish.targets.delegation.evaluating import Evaluated, measure
from burnish.targets.delegation.file_tools import file_tools
from burnish.targets.delegation.finishing import finish
from burnish.targets.delegation.home import Home, is_delegation, versions
from burnish.targets.delegation.loop import Ending, ManagerLoop
from burnish.targets.delegation.policy import PolicyTexts
from burnish.targets.delegation.record import Record
from burnish.targets.delegation.result import DelegationResult
from burnish.targets.delegation.ruling import ruled
from burnish.targets.delegation.states import StateStore
from burnish.targets.delegation.telling import Telling
from burnish.targets.delegation.tools import Toolkit, WorkerTool
from burnish.targets.delegation.workflow import Workflow
from burnish.targets.delegation.workspace import Workspace

STOP_FILE = "delegate.stop"
"""Touch it in the run's folder to stop after the current iteration."""


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

    Every paid call and every step in the workspace is journaled, so that a run that was killed
    goes on where it was and pays for nothing twice; one that had ended gives its result again.

    `policy` is what prompts are made of; a run that goes on keeps what it was started with.
    `steer` stands before the manager's first request and nowhere else. `seed_deliverable` and
    `inputs` are copied to input/ in the workspace. `envelope` is stronger than the workflow's.
    `kept` is data for the manifest. `ruler` is a rubric by which the loss counts the critique where
    the policy has another one: what grades may not be on trial itself. `stop` is asked before each
    iteration; what it says ends the run there with Interrupted, to be resumed. Wrong input raises
    ConfigError before anything is paid; whatever goes wrong in the run itself is a result.
    """
    workflow = workflow.within(envelope)
    given = Given(source=workflow.source, inputs=tuple(inputs), seed_deliverable=seed_deliverable)
    if not task.strip():
        raise ConfigError([Problem(where="task", message="it is empty")])
    if not is_delegation(folder):
        given.check()
    redactor = Redactor.from_environment(extra=workflow.secrets)
    # As it is kept, so that a resume says the same to the same models.
    task, steer = redactor.text(task), redactor.text(steer)
    texts = policy or PolicyTexts.shipped()
    manifest: dict[str, Json] = {
        "workflow": workflow.name,
        "task": task,
        "models": dict[str, Json](workflow.models),
        "budget": workflow.envelope.to_json(),
        "parent_run_id": parent_run_id,
        "tags": list(tags),
        "steer": steer,
        "inputs": {
            **workflow.inputs(),
            "task": short_id([task, steer]),
            **({} if ruler is None else {"ruler": short_id(ruler)}),
            **versions(),
        },
        "kept": dict(kept or {}),
    }
    home = Home.open(folder, manifest, policy=texts, redactor=redactor)
    try:
        async with _own_tools(workflow, home) as own:
            driving = _Driving(
                workflow=workflow, home=home, own=own, given=given, ruler=ruler, listen=listen
            )
            return await driving.run(task, steer, stop)
    finally:
        await home.close()


@asynccontextmanager
async def _own_tools(
    workflow: Workflow, home: Home
) -> AsyncGenerator[Mapping[str, WorkerTool], None]:
    """The user's own tools, whose servers are stopped in the end."""
    if not workflow.tools:
        yield {}
        return
    from burnish.targets.delegation.own_tools import OwnTools

    own = OwnTools(blocks=workflow.tools, folder=workflow.folder)
    try:
        yield await own.tools(home.scope)
    finally:
        await own.close()


@dataclass(frozen=True, kw_only=True)
class _Driving:
    """One run on its way."""

    workflow: Workflow
    home: Home
    own: Mapping[str, WorkerTool]
    given: Given
    ruler: str | None
    listen: Listener | None

    async def run(self, task: str, steer: str, stop: Callable[[], str]) -> DelegationResult:
        """From the first iteration to the result; all that is journaled is only told again."""
        desk = self._desk()
        record = Record(
            folder=self.home.folder, run_id=self.home.run_id, redactor=self.home.redactor
        )
        chronicle = self._chronicle(desk.tally)
        chronicle.begin()
        await chronicle.tick("run")
        origin = await self._begin(desk.workspace)
        loop = ManagerLoop(
            workflow=self.workflow,
            desk=desk,
            telling=Telling(chronicle=chronicle, record=record, toolkit=desk.toolkit),
            task=task,
            origin=origin,
            stop=lambda: stop() or self._stop_file(),
            steer=steer,
        )
        chronicle.event("run", f"started: {self.workflow.name}", run_id=self.home.run_id)
        try:
            ending = await loop.run()
        except (Interrupted, asyncio.CancelledError):
            finish(loop, self.home, Ending(status="aborted", reason="interrupted"), None)
            raise
        await chronicle.tick("end")
        evaluated = ending.evaluation or await self._evaluated(loop, ending)
        chronicle.event("completion", f"{ending.status}: {ending.reason}", status=ending.status)
        fixed = self.ruler and await ruled(self.workflow, loop.memory, desk, self.ruler)
        result = finish(loop, self.home, ending, evaluated, fixed or None)
        await desk.workspace.settle()
        return result

    def _desk(self) -> Desk:
        home, workflow = self.home, self.workflow
        scope, folder = home.scope, home.folder / "workspace"
        tally = Tally(
            envelope=workflow.envelope, tokens_spent=lambda: total(scope.used.values()).tokens
        )
        workspace = Workspace(
            folder=folder,
            store=StateStore(home.folder / "states"),
            effects=scope,
            active=lambda: home.journal.active_seconds,
        )
        commands = Commands(
            sandbox=Sandbox.open(
                workflow.sandbox,
                children=home.children,
                allow=workflow.env,
                network=workflow.network,
                hidden=[home.folder],
            ),
            folder=folder,
            limits=workflow.limits,
            seconds_left=lambda: tally.seconds_left,
        )
        tools = {
            **file_tools(folder),
            "run_command": CommandTool(commands=commands),
            **self.own,
        }
        return Desk(
            workspace=workspace,
            commands=commands,
            toolkit=Toolkit(tools=tools),
            tally=tally,
            policy=home.policy,
            effects=scope,
        )

    def _chronicle(self, tally: Tally) -> Chronicle:
        home = self.home
        return Chronicle(
            events=home.folder / "logs" / home.run_id / "events.jsonl",
            metrics=home.folder / "metrics.jsonl",
            effects=home.scope,
            active=lambda: home.journal.active_seconds,
            tally=tally,
            redactor=home.redactor,
            listen=self.listen,
        )

    async def _begin(self, workspace: Workspace) -> str:
        async def act() -> Json:
            await finished(self.given.fill, workspace.folder)
            return None

        await workspace.step("begin", {"run": self.home.run_id}, act)
        return workspace.state

    def _stop_file(self) -> str:
        path = self.home.folder / STOP_FILE
        if not path.exists():
            return ""
        path.unlink(missing_ok=True)
        return f"stopped by {STOP_FILE}"

    async def _evaluated(self, loop: ManagerLoop, ending: Ending) -> Evaluated | None:
        """What there is, measured, where no completion came so far."""
        if not self.workflow.metrics:
            return None
        number = loop.desk.tally.loops + 1
        final = loop.completing().final(ending.result, ending.confidence, number)
        evaluated = await measure(self.workflow.metrics, final, loop.desk, self.workflow.zones)
        loop.telling.evaluation(loop.desk.tally.loops, evaluated)
        return evaluated
