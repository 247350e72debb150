"""`delegate`: one delegation in its own folder, from its task to its result."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from burnish.core.content import Json, short_id
from burnish.core.errors import ConfigError, Interrupted, Problem
from burnish.core.money import Spend, total
from burnish.core.protocols import Effects, Scope
from burnish.delegation.envelope import Stopwatch, Tally, TimedScope
from burnish.delegation.evaluation import measure
from burnish.delegation.loop import LoopEnding, ManagerLoop
from burnish.delegation.policy import PolicyTexts
from burnish.delegation.record import (
    Home,
    Listener,
    Recording,
    is_delegation,
    require_same,
    versions,
)
from burnish.delegation.result import DelegationResult, finish, graded
from burnish.delegation.team import Workflow
from burnish.delegation.tools import Commands, CommandTool, Toolkit, WorkerTool, file_tools
from burnish.delegation.workers import Blackboard, WorkContext
from burnish.delegation.workspace import STATES, StartingFiles, StateStore, TeamWorkspace
from burnish.journal.once import NamedScope
from burnish.system import ChildProcesses, Redactor
from burnish.system.sandbox import Sandbox
from burnish.targets.artifacts.task import finished


@dataclass(frozen=True, kw_only=True)
class Delegation:
    """What is delegated, to whom, and what it starts from."""

    workflow: Workflow
    task: str
    policy: PolicyTexts = field(default_factory=PolicyTexts.shipped)
    """The texts in prompts; a resumed delegation keeps those it was started with."""
    steer: str = ""
    """Precedes the manager's first request and no other."""
    seed_deliverable: Path | None = None
    """Copied to input/ in the workspace, as `inputs` are."""
    inputs: tuple[Path, ...] = ()
    parent_run_id: str | None = None
    tags: tuple[str, ...] = ()
    kept: Mapping[str, Json] = field(default_factory=dict[str, Json])
    ruler: str | None = None
    """The rubric that counts for the loss, if the policy under trial has another one."""

    @property
    def starting_files(self) -> StartingFiles:
        return StartingFiles(
            source=self.workflow.source, inputs=self.inputs, seed_deliverable=self.seed_deliverable
        )

    def check(self, folder: Path, redactor: Redactor) -> None:
        """Raise if it can neither be started nor resumed in this folder."""
        if not self.task.strip():
            raise ConfigError([Problem(where="task", message="the task is empty")])
        if is_delegation(folder):
            require_same(folder, self.redacted(redactor).manifest())
        else:
            self.starting_files.check()

    def redacted(self, redactor: Redactor) -> "Delegation":
        """As it is stored, so that a resume sends the same texts to the models."""
        return replace(self, task=redactor.text(self.task), steer=redactor.text(self.steer))

    def begin(self, folder: Path, redactor: Redactor, *, name: str) -> None:
        """Write what it is started with to a folder that will have this name."""
        Home.make(folder, self.manifest(), policy=self.policy, redactor=redactor, name=name)

    def manifest(self) -> dict[str, Json]:
        """The content of run_manifest.json except its name and time."""
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
    """Journals everything that it pays for and does, under its name."""
    children: ChildProcesses
    redactor: Redactor
    clock: Stopwatch = field(default_factory=Stopwatch)
    billed: Callable[[], Spend] | None = None
    """The cost including lost calls, if the run is about this delegation alone."""
    hidden: tuple[Path, ...] = ()
    """Folders that commands may not see, besides its own."""
    states: Path | None = None
    """A store of states that it shares with other delegations; None for one of its own."""
    listen: Listener | None = None
    stop: Callable[[], str] = lambda: ""
    """Called before each iteration; a reason ends the run there with Interrupted."""


async def delegate(delegation: Delegation, site: Site) -> DelegationResult:
    """Run a delegation at a site, or resume the one there.

    Every paid call and every step in the workspace is journaled, so a killed delegation resumes
    where it was and pays for nothing twice; a finished one returns its result again. Wrong input
    raises ConfigError before any paid call; what goes wrong later is a result.
    """
    delegation.check(site.folder, site.redactor)
    delegation = delegation.redacted(site.redactor)
    home = Home.open(
        site.folder, delegation.manifest(), policy=delegation.policy, redactor=site.redactor
    )
    scope = NamedScope(TimedScope(site.effects, site.clock), home.run_id)
    async with _own_tools(delegation.workflow, scope) as own:
        context = work_context(delegation.workflow, site, home.policy, scope, own)
        recording = Recording(
            folder=home.folder,
            run_id=home.run_id,
            redactor=site.redactor,
            toolkit=context.toolkit,
            store=context.workspace.store,
            effects=scope,
            clock=site.clock,
            tally=context.tally,
            listen=site.listen,
        )
        return await _drive(delegation, site, home, context, recording)


@asynccontextmanager
async def _own_tools(
    workflow: Workflow, effects: Effects
) -> AsyncGenerator[Mapping[str, WorkerTool], None]:
    if not workflow.tools:
        yield {}
        return
    from burnish.delegation.tools import OwnTools

    own = OwnTools(blocks=workflow.tools, folder=workflow.folder)
    try:
        yield await own.tools(effects)
    finally:
        await own.close()


def work_context(
    workflow: Workflow,
    site: Site,
    policy: PolicyTexts,
    scope: NamedScope,
    own: Mapping[str, WorkerTool],
) -> WorkContext:
    """A workspace at a site, with the tools and limits of a workflow."""
    tally = Tally(
        envelope=workflow.envelope, tokens_spent=lambda: total(scope.used.values()).tokens
    )
    board = Blackboard() if workflow.blackboard else None
    whole = _context(workflow, site, policy, scope, own, "workspace", tally, board)

    def branch(place: int, count: int) -> WorkContext | None:
        beside = scope.branch()
        share = tally.branch(place, count, lambda: total(beside.used.values()).tokens)
        if share is None:
            return None
        notes = None if board is None else board.branch()
        folder = f"workers/{place + 1}"
        made = _context(workflow, site, policy, beside, own, folder, share, notes)
        made.workspace.state = whole.workspace.state
        return made

    return replace(whole, branch=branch)


def _context(
    workflow: Workflow,
    site: Site,
    policy: PolicyTexts,
    scope: NamedScope,
    own: Mapping[str, WorkerTool],
    place: str,
    tally: Tally,
    board: Blackboard | None,
) -> WorkContext:
    home = site.folder.resolve()
    folder = home / place
    sandbox = Sandbox.open(
        workflow.sandbox,
        children=site.children,
        allow=workflow.env,
        network=workflow.network,
        hidden=[home, *site.hidden],
        readable=workflow.readable,
    )
    commands = Commands(
        sandbox=sandbox,
        folder=folder,
        limits=workflow.limits,
        seconds_left=lambda: tally.seconds_left,
    )
    tools = {**file_tools(folder), "run_command": CommandTool(commands=commands), **own}
    tools |= {} if board is None else board.tools()
    return WorkContext(
        workspace=TeamWorkspace(
            folder=folder,
            store=StateStore(site.states or home / STATES, shared=site.states is not None),
            effects=scope,
            clock=site.clock,
        ),
        commands=commands,
        toolkit=Toolkit(tools=tools),
        tally=tally,
        policy=policy,
        effects=scope,
        board=board,
    )


async def _drive(
    delegation: Delegation, site: Site, home: Home, context: WorkContext, recording: Recording
) -> DelegationResult:
    """Run from the first iteration to the result; journaled steps are only replayed."""
    workflow, workspace = delegation.workflow, context.workspace
    recording.begin()
    await recording.tick("run")

    async def fill() -> Json:
        await finished(delegation.starting_files.fill, workspace.folder)
        return None

    await workspace.step("begin", {"run": home.run_id}, fill)
    loop = ManagerLoop(
        workflow=workflow,
        context=context,
        recording=recording,
        task=delegation.task,
        origin=workspace.state,
        stop=lambda: site.stop() or _stop_file(home.folder),
        steer=delegation.steer,
    )
    recording.event("run", f"started: {workflow.name}", run_id=home.run_id)

    try:
        ending = await loop.run()
    except (Interrupted, asyncio.CancelledError):
        await workspace.abandon()
        aborted = LoopEnding(status="aborted", reason="interrupted")
        finish(
            loop,
            home,
            aborted,
            critique=loop.memory.score,
            spent=total(context.effects.used.values()),
            billed=site.billed,
        )
        raise
    await recording.tick("end")
    ending = await _evaluated(loop, ending)
    recording.event("completion", f"{ending.status}: {ending.reason}", status=ending.status)
    critique = await graded(loop, delegation.ruler)
    result = finish(
        loop,
        home,
        ending,
        critique=critique,
        spent=total(context.effects.used.values()),
        billed=site.billed,
    )
    await workspace.settle()
    return result


def _stop_file(folder: Path) -> str:
    path = folder / "delegate.stop"
    if not path.exists():
        return ""
    path.unlink(missing_ok=True)
    return "stopped by delegate.stop"


async def _evaluated(loop: ManagerLoop, ending: LoopEnding) -> LoopEnding:
    """The ending with its evaluation; a run without a completion is measured as it is now."""
    workflow, context = loop.workflow, loop.context
    if ending.evaluation is not None or not workflow.metrics:
        return ending
    final = loop.completion_check().final(ending.result, ending.confidence, context.tally.loops + 1)
    evaluated = await measure(workflow.metrics, final, context, workflow.zones)
    loop.recording.evaluation(context.tally.loops, evaluated)
    return replace(ending, evaluation=evaluated)
