"""What a worker sits at: the workspace, the tools, the budget and the policy texts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, cast

from burnish.core.content import Json
from burnish.core.effects import Effects
from burnish.core.messages import ToolUse
from burnish.core.outcomes import ToolCall
from burnish.targets.delegation.command_tool import Commands
from burnish.targets.delegation.envelope import Tally
from burnish.targets.delegation.policy import PolicyTexts
from burnish.targets.delegation.tools import Toolkit, ToolRefused, WorkerTool
from burnish.targets.delegation.words import Defect, WorkerResult
from burnish.targets.delegation.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class Job:
    """One piece of work for one worker."""

    worker_id: str
    task: str
    instructions: str
    criteria: tuple[str, ...] = ()
    tools_allowed: tuple[str, ...] = ()
    defects: tuple[Defect, ...] = ()
    """Of the earlier attempt that this one repairs."""
    iteration: int
    place: int = 0
    """Which of the iteration's workers it is for."""
    attempt: int = 0
    """0 is the first; repairs follow."""

    @property
    def draw(self) -> int:
        """Which sample of the worker's model this is: the same words may be said again later."""
        return self.iteration * 10_000 + self.place * 100 + self.attempt


@dataclass(frozen=True, kw_only=True)
class Worked:
    """What came of a job."""

    result: WorkerResult
    calls: tuple[ToolCall, ...] = ()
    before: str
    """The workspace's state when it began."""
    after: str


@dataclass(frozen=True, kw_only=True)
class Desk:
    """One run's workspace with all that works in it."""

    workspace: Workspace
    commands: Commands
    toolkit: Toolkit
    tally: Tally
    policy: PolicyTexts
    effects: Effects

    async def use(
        self, use: ToolUse, tools: Mapping[str, WorkerTool], *, job: Job, number: int
    ) -> ToolCall:
        """One use of a tool: journaled, counted, and refused where the budget has no room."""
        if reason := self.tally.no_more_tools():
            error = f"the budget is used up ({reason}): answer now with what you have"
            return _told(use, error=error)
        self.tally.tool_calls += 1
        tool = tools.get(use.name)
        if tool is None:
            known = ", ".join(tools) or "none"
            return _told(use, error=f"there is no tool '{use.name}'; there are: {known}")

        async def act() -> Json:
            try:
                return {"answer": await tool.use(use.arguments)}
            except ToolRefused as refused:
                return {"error": str(refused)}

        request: dict[str, Json] = {
            "tool": use.name,
            "arguments": dict(use.arguments),
            "by": [job.worker_id, job.iteration, job.attempt, number],
        }
        leaves = "nothing" if tool.only_looks else "changes"
        answered = await self.workspace.step("tool", request, act, leaves=leaves)
        said = cast("dict[str, str]", answered)
        self.tally.seconds = max(self.tally.seconds, self.workspace.seconds)
        return _told(use, answer=said.get("answer", ""), error=said.get("error", ""))


class Worker(Protocol):
    """Does jobs."""

    @property
    def fingerprint(self) -> str:
        """A hash of what makes it work as it does."""
        ...

    @property
    def label(self) -> str:
        """The model or the program."""
        ...

    async def work(self, job: Job, desk: Desk) -> Worked:
        """Do the job. What goes wrong is a result, not an exception."""
        ...


def _told(use: ToolUse, *, answer: str = "", error: str = "") -> ToolCall:
    return ToolCall(name=use.name, arguments=use.arguments, result=answer, error=error, id=use.id)
