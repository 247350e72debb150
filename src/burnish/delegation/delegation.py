"""`delegate`: one delegation from its task to its result, or on from where it was killed.

It works in a folder of its own and pays through the journal of the run that it belongs to.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from burnish.core.content import Json, short_id
from burnish.core.errors import ConfigError, Interrupted, Problem
from burnish.core.money import Spend, total
from burnish.core.protocols import Effects, Scope
from burnish.delegation.envelope import Stopwatch, Tally
from burnish.delegation.evaluation import DelegationEvaluation, measure
from burnish.delegation.home import Home, is_delegation, require_same, versions
from burnish.delegation.loop import LoopEnding, ManagerLoop
from burnish.delegation.policy import PolicyTexts
from burnish.delegation.record import Chronicle, Listener, Recording, RunFiles
from burnish.delegation.result import Cost, DelegationResult, finish, ruled
from burnish.delegation.team import Workflow
from burnish.delegation.tools import Commands, CommandTool, Toolkit, WorkerTool, file_tools
from burnish.delegation.workers import WorkContext
from burnish.delegation.workspace import StartingFiles, StateStore, TeamWorkspace
from burnish.journal.once import NamedScope
from burnish.system import ChildProcesses, Redactor
from burnish.system.sandbox import Sandbox
from burnish.targets.artifacts.task import finished

_STOP_FILE = "delegate.stop"
"""Touch it in the run's folder to stop after the current iteration."""


@dataclass(frozen=True, kw_only=True)
class Delegation:
    """What is delegated, to whom, and what it starts from."""

    workflow: Workflow
    task: str
    policy: PolicyTexts = field(default_factory=PolicyTexts.shipped)
    """What prompts are made of; a delegation that goes on keeps what it was started with."""
    steer: str = ""
    """Stands before the manager's first request and nowhere else."""
    seed_deliverable: Path | None = None
    """Copied to input/ in the workspace, as `inputs` are."""
    inputs: tuple[Path, ...] = ()
    parent_run_id: str | None = None
    tags: tuple[str, ...] = ()
    kept: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Data for the manifest."""
    ruler: str | None = None
    """A rubric by which the loss counts the critique where the policy has another one: what grades
    may not be on trial itself."""

    @property
    def starting_files(self) -> StartingFiles:
        """What the workspace begins with."""
        return StartingFiles(
            source=self.workflow.source, inputs=self.inputs, seed_deliverable=self.seed_deliverable
        )

    def check(self, folder: Path, redactor: Redactor) -> None:
        """Raise where it can neither be started nor gone on with in this folder."""
        if not self.task.strip():
            raise ConfigError([Problem(where="task", message="it is empty")])
        if is_delegation(folder):
            require_same(folder, self.redacted(redactor).manifest())
        else:
            self.starting_files.check()

    def redacted(self, redactor: Redactor) -> "Delegation":
        """As it is kept, so that a resume says the same to the same models."""
        return replace(self, task=redactor.text(self.task), steer=redactor.text(self.steer))

    def begin(self, folder: Path, redactor: Redactor, *, name: str) -> None:
        """Put down what it is started with, in a folder that will have this name."""
        Home.make(folder, self.manifest(), policy=self.policy, redactor=redactor, name=name)

    def manifest(self) -> dict[str, Json]:
        """What run_manifest.json says beside its name and time."""
        workflow = self.workflow
        return {
            "workflow": workflow.name,
            "task": self.task,
            "models": dict[str, Json](workflow.models),
            "budget": workflow.envelope.to_json(),
            "parent_run_id": self.parent_run_id,
            "tags": list(self.tags),
            "steer": self.steer,
            "inputs": {
                **workflow.inputs(),
                "task": short_id([self.task, self.steer]),
                **({} if self.ruler is None else {"ruler": short_id(self.ruler)}),
                **versions(),
            },
            "kept": dict(self.kept),
        }


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where a delegation works, and the run that pays for it."""

    folder: Path
    effects: Scope
    """All that it pays for and does goes through here, under its name."""
    children: ChildProcesses
    """Where running commands are on record."""
    redactor: Redactor
    clock: Stopwatch = field(default_factory=Stopwatch)
    billed: Callable[[], Spend] | None = None
    """What it cost with calls that were lost, where the run is about this delegation alone."""
    hidden: tuple[Path, ...] = ()
    """What commands may not see beside its own folder."""
    listen: Listener | None = None
    stop: Callable[[], str] = lambda: ""
    """Asked before each iteration; what it says ends it there with Interrupted."""


async def delegate(delegation: Delegation, site: Site) -> DelegationResult:
    """Do what is delegated at a site, or go on with what was begun there.

    Every paid call and every step in the workspace is journaled, so that one that was killed
    goes on where it was and pays for nothing twice; one that had ended gives its result again.
    Wrong input raises ConfigError before anything is paid; whatever goes wrong in the delegation
    itself is a result.
    """
    delegation.check(site.folder, site.redactor)
    delegation = delegation.redacted(site.redactor)
    home = Home.open(
        site.folder, delegation.manifest(), policy=delegation.policy, redactor=site.redactor
    )
    scope = NamedScope(site.effects, home.run_id)
    async with _own_tools(delegation.workflow, scope) as own:
        return await _Driving(
            delegation=delegation, site=site, home=home, scope=scope, own=own
        ).run()


@asynccontextmanager
async def _own_tools(
    workflow: Workflow, effects: Effects
) -> AsyncGenerator[Mapping[str, WorkerTool], None]:
    """The user's own tools, whose servers are stopped in the end."""
    if not workflow.tools:
        yield {}
        return
    from burnish.delegation.tools import OwnTools

    own = OwnTools(blocks=workflow.tools, folder=workflow.folder)
    try:
        yield await own.tools(effects)
    finally:
        await own.close()


@dataclass(frozen=True, kw_only=True)
class _Driving:
    """One delegation on its way."""

    delegation: Delegation
    site: Site
    home: Home
    scope: Scope
    own: Mapping[str, WorkerTool]

    async def run(self) -> DelegationResult:
        """From the first iteration to the result; all that is journaled is only told again."""
        workflow, home = self.delegation.workflow, self.home
        context = self._desk()
        record = RunFiles(folder=home.folder, run_id=home.run_id, redactor=self.site.redactor)
        chronicle = self._chronicle(context.tally)
        chronicle.begin()
        await chronicle.tick("run")
        origin = await self._begin(context.workspace)
        loop = ManagerLoop(
            workflow=workflow,
            context=context,
            recording=Recording(chronicle=chronicle, record=record, toolkit=context.toolkit),
            task=self.delegation.task,
            origin=origin,
            stop=lambda: self.site.stop() or self._stop_file(),
            steer=self.delegation.steer,
        )
        chronicle.event("run", f"started: {workflow.name}", run_id=home.run_id)
        try:
            ending = await loop.run()
        except (Interrupted, asyncio.CancelledError):
            await context.workspace.abandon()
            aborted = LoopEnding(status="aborted", reason="interrupted")
            finish(loop, home, aborted, None, cost=self._cost())
            raise
        await chronicle.tick("end")
        evaluated = ending.evaluation or await self._evaluated(loop, ending)
        chronicle.event("completion", f"{ending.status}: {ending.reason}", status=ending.status)
        ruler = self.delegation.ruler
        fixed = ruler and await ruled(workflow, loop.memory, context, ruler)
        result = finish(loop, home, ending, evaluated, fixed or None, cost=self._cost())
        await context.workspace.settle()
        return result

    def _cost(self) -> Cost:
        spent, billed = total(self.scope.used.values()), self.site.billed
        return Cost(spent=spent, billed=spent if billed is None else billed())

    def _desk(self) -> WorkContext:
        home, workflow, scope = self.home, self.delegation.workflow, self.scope
        folder = home.folder / "workspace"
        tally = Tally(
            envelope=workflow.envelope, tokens_spent=lambda: total(scope.used.values()).tokens
        )
        workspace = TeamWorkspace(
            folder=folder,
            store=StateStore(home.folder / "states"),
            effects=scope,
            clock=self.site.clock,
        )
        commands = Commands(
            sandbox=Sandbox.open(
                workflow.sandbox,
                children=self.site.children,
                allow=workflow.env,
                network=workflow.network,
                hidden=[home.folder, *self.site.hidden],
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
        return WorkContext(
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
            effects=self.scope,
            clock=self.site.clock,
            tally=tally,
            redactor=self.site.redactor,
            listen=self.site.listen,
        )

    async def _begin(self, workspace: TeamWorkspace) -> str:
        async def act() -> Json:
            await finished(self.delegation.starting_files.fill, workspace.folder)
            return None

        await workspace.step("begin", {"run": self.home.run_id}, act)
        return workspace.state

    def _stop_file(self) -> str:
        path = self.home.folder / _STOP_FILE
        if not path.exists():
            return ""
        path.unlink(missing_ok=True)
        return f"stopped by {_STOP_FILE}"

    async def _evaluated(
        self, loop: ManagerLoop, ending: LoopEnding
    ) -> DelegationEvaluation | None:
        """What there is, measured, where no completion came so far."""
        workflow = self.delegation.workflow
        if not workflow.metrics:
            return None
        number = loop.context.tally.loops + 1
        final = loop.completing().final(ending.result, ending.confidence, number)
        evaluated = await measure(workflow.metrics, final, loop.context, workflow.zones)
        loop.recording.evaluation(loop.context.tally.loops, evaluated)
        return evaluated
