"""Workers, which are a model with tools or a program, and the board where they leave notes."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, cast

from pydantic import BaseModel, ConfigDict

from burnish.core.cases import Message, ToolCall, ToolUse
from burnish.core.content import Json, canonical, from_json, short_id
from burnish.core.errors import FileTrouble
from burnish.core.money import Spend, to_nano
from burnish.core.protocols import Scope
from burnish.delegation.answers import Defect, WorkerResult, bullets, defect_lines, listing
from burnish.delegation.envelope import Tally
from burnish.delegation.policy import PolicyTexts
from burnish.delegation.tools import Commands, Toolkit, ToolRefused, WorkerTool, text_schema
from burnish.delegation.workspace import TeamWorkspace
from burnish.models.answers import UnusableAnswer, read_answer
from burnish.models.chat import ChatReply, ChatRequest, ModelClient, ToolSpec
from burnish.models.errors import ModelRejected, ModelUnavailable
from burnish.models.roles import RolePrompt
from burnish.system.workspaces import read_contents, shown
from burnish.targets.artifacts.task import own_place

POST, READ = "board_post", "board_read"
_MOST_NOTED = 4000
"""Characters of one note."""


@dataclass(frozen=True, kw_only=True)
class BoardNote:
    """What one worker noted."""

    worker_id: str
    iteration: int
    text: str

    @property
    def line(self) -> str:
        return f"{self.worker_id} (iteration {self.iteration}): {self.text}"


@dataclass(kw_only=True)
class Blackboard:
    """The notes of a run, in order.

    Workers that run at once each have a branch of it, and see the notes of the others when all have
    ended: what one of them reads must not depend on which is faster.
    """

    notes: list[BoardNote] = field(default_factory=list[BoardNote])

    def branch(self) -> "Blackboard":
        return Blackboard(notes=list(self.notes))

    def text(self) -> str:
        return bullets([note.line for note in self.notes], empty="")

    def tools(self) -> dict[str, WorkerTool]:
        """The tools by name."""
        post = ToolSpec(
            name=POST,
            description="Leave a note for the other workers and the manager.",
            parameters=text_schema(["text"], text="the note, short"),
        )
        read = ToolSpec(
            name=READ,
            description="Read the notes that workers have left.",
            parameters=text_schema([]),
        )
        return {POST: _BoardTool(spec=post, board=self), READ: _BoardTool(spec=read, board=self)}


@dataclass(frozen=True, kw_only=True)
class _BoardTool:
    """Checks a note, or shows all; a note is added when its step has ended, also on a replay."""

    spec: ToolSpec
    board: Blackboard
    only_looks: bool = True

    async def use(self, arguments: Mapping[str, Json]) -> str:
        if self.spec.name == READ:
            return self.board.text() or "(no notes)"
        text = arguments.get("text")
        if not isinstance(text, str) or not text.strip():
            raise ToolRefused("'text' must be a text that is not empty")
        if len(text) > _MOST_NOTED:
            raise ToolRefused(f"a note has at most {_MOST_NOTED:,} characters: write a file")
        return "noted"


@dataclass(frozen=True, kw_only=True)
class WorkerJob:
    """One piece of work for one worker."""

    worker_id: str
    task: str
    instructions: str
    criteria: tuple[str, ...] = ()
    tools_allowed: tuple[str, ...] = ()
    defects: tuple[Defect, ...] = ()
    """The defects of the earlier attempt that this one repairs."""
    iteration: int
    place: int = 0
    """The position among the iteration's workers."""
    attempt: int = 0
    """0 is the first; repairs follow."""

    @property
    def draw(self) -> int:
        """The number of this sample: the same request may be sent again later."""
        return self.iteration * 10_000 + self.place * 100 + self.attempt


@dataclass(frozen=True, kw_only=True)
class JobOutcome:
    """The outcome of a job."""

    result: WorkerResult
    calls: tuple[ToolCall, ...] = ()
    before: str
    after: str


@dataclass(frozen=True, kw_only=True)
class WorkContext:
    """One run's workspace and everything that works in it."""

    workspace: TeamWorkspace
    commands: Commands
    toolkit: Toolkit
    tally: Tally
    policy: PolicyTexts
    effects: Scope
    board: Blackboard | None = None
    branch: "Callable[[int, int], WorkContext | None] | None" = None
    """For one of several workers that run at once, its place among them: a copy of the workspace,
    and a share of the budget; None if too little is left to be shared."""

    def join(self, branches: "Sequence[WorkContext]") -> None:
        """Count what the branches used, and show their notes to all, in order."""
        self.tally.join([branch.tally for branch in branches])
        if self.board is not None:
            known = len(self.board.notes)
            boards = [branch.board for branch in branches if branch.board is not None]
            self.board.notes += [note for board in boards for note in board.notes[known:]]

    async def use(
        self, use: ToolUse, tools: Mapping[str, WorkerTool], *, job: WorkerJob, number: int
    ) -> ToolCall:
        """Use a tool: journaled, counted, and refused once the budget is used up."""
        if reason := self.tally.no_more_tools():
            error = f"the budget is used up ({reason}): answer now with what you have"
            return _tool_call(use, error=error)
        self.tally.tool_calls += 1
        tool = tools.get(use.name)
        if tool is None:
            names = ", ".join(tools) or "none"
            return _tool_call(use, error=f"there is no tool '{use.name}'; there are: {names}")

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
        answer = await self.workspace.step("tool", request, act, leaves=leaves)
        self.tally.seconds = max(self.tally.seconds, self.workspace.seconds)
        call = _tool_call(use, **cast("dict[str, str]", answer))
        if self.board is not None and use.name == POST and not call.error:
            text = str(use.arguments["text"]).strip()
            note = BoardNote(worker_id=job.worker_id, iteration=job.iteration, text=text)
            self.board.notes.append(note)
        return call


class Worker(Protocol):
    """Does jobs."""

    @property
    def fingerprint(self) -> str: ...

    @property
    def label(self) -> str: ...

    async def work(self, job: WorkerJob, context: WorkContext) -> JobOutcome:
        """Do the job. What goes wrong is a result, not an exception."""
        ...


def _tool_call(use: ToolUse, *, answer: str = "", error: str = "") -> ToolCall:
    return ToolCall(name=use.name, arguments=use.arguments, result=answer, error=error, id=use.id)


_TASK, _USAGE = "TASK.md", "usage.json"


@dataclass(frozen=True, kw_only=True)
class CommandWorker:
    """Runs a program of the user for every job."""

    command: str
    timeout_seconds: float = 900.0
    env: tuple[str, ...] = ()
    """Names of variables that it may see, such as the one with its key."""
    network: bool = True
    """Whether it may use the network, to talk to its model."""
    usd_per_run: float | None = None
    """The cost of a run; None if unknown, which is not 0."""

    @property
    def fingerprint(self) -> str:
        return short_id([self.command, self.timeout_seconds, [*self.env], self.network])

    @property
    def label(self) -> str:
        return self.command

    @property
    def price(self) -> Spend:
        if self.usd_per_run is None:
            return Spend(calls=1, unpriced=1)
        return Spend(calls=1, nano_usd=to_nano(self.usd_per_run))

    async def work(self, job: WorkerJob, context: WorkContext) -> JobOutcome:
        before = context.workspace.state
        if reason := context.tally.no_more_calls():
            refusal = WorkerResult(summary=f"the budget is used up: {reason}", status="failed")
            return JobOutcome(result=refusal, before=before, after=before)
        request: dict[str, Json] = {
            "command": self.fingerprint,
            "instructions": _brief(job),
            "by": [job.worker_id, job.iteration, job.attempt],
        }
        workspace, tally = context.workspace, context.tally
        answer = await workspace.step(
            "worker", request, lambda: self._run(job, context), price=self.price
        )
        report = cast("dict[str, Any]", answer)
        tally.seconds = max(tally.seconds, workspace.seconds)
        tally.tokens_reported += int(report["tokens"])
        tally.tool_calls += int(report["tool_calls"])
        result = WorkerResult(
            summary=report["summary"],
            outputs=[shown(path) for path in workspace.changed_since(before)],
            status="failed" if report["failed"] else "done",
        )
        return JobOutcome(result=result, before=before, after=workspace.state)

    async def _run(self, job: WorkerJob, context: WorkContext) -> Json:
        commands = context.commands
        allow = (*commands.sandbox.allow, *self.env)
        sandbox = replace(commands.sandbox, allow=allow, network=self.network)
        async with own_place() as place:
            (place / _TASK).write_text(_brief(job), encoding="utf-8")
            env = {
                "BURNISH_TASK_FILE": str(place / _TASK),
                "BURNISH_USAGE_FILE": str(place / _USAGE),
            }
            own = replace(commands, sandbox=sandbox)
            usage: dict[str, int] = {"tokens": 0, "tool_calls": 0}
            try:
                ran = await own.run(
                    self.command, seconds=self.timeout_seconds, env=env, also=place, own=True
                )
            except FileTrouble as error:
                return {"summary": error.message, "failed": True, **usage}
            usage |= _usage(place)
        summary = f"the program failed: {own.why(ran)}"
        if ran.ok:
            summary = own.plain(ran.stdout.strip(), 4000) or "(the program said nothing)"
        return {"summary": summary, "failed": not ran.ok, **usage}


def _brief(job: WorkerJob) -> str:
    if not job.defects:
        return job.instructions
    defects = bullets(defect_lines(job.defects))
    return f"{job.instructions}\n\n## Defects of the last attempt, to be mended now\n\n{defects}\n"


def _usage(place: Path) -> dict[str, int]:
    """The usage that the program reports; invalid numbers are ignored."""
    try:
        usage = from_json(read_contents(place, [_USAGE]).get(_USAGE, b"{}"))
    except ValueError:
        return {}
    if not isinstance(usage, dict):
        return {}
    numbers = cast("dict[str, Any]", usage)
    return {
        name: int(value)
        for name in ("tokens", "tool_calls")
        if isinstance(value := numbers.get(name), int | float)
        and math.isfinite(value)
        and value >= 0
    }


ROLE = "worker"
_SAME = 3
"""Identical tool calls in a row that end a worker."""
_ANSWER_NOW = "Use no more tools. Answer now with the JSON object alone, complete and corrected."


class WorkerRequest(BaseModel):
    """What a worker is shown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str
    instructions: str
    criteria: str
    defects: str
    files: str
    pitfalls: str
    tool_notes: str


@dataclass(frozen=True, kw_only=True)
class ModelWorker:
    """The role `worker`."""

    client: ModelClient
    prompt: RolePrompt
    max_rounds: int = 15

    def __post_init__(self) -> None:
        self.prompt.require_fields(WorkerRequest.model_fields)

    @property
    def fingerprint(self) -> str:
        return short_id([self.prompt.fingerprint, self.client.fingerprint, self.max_rounds])

    @property
    def label(self) -> str:
        return self.client.ref.label

    async def work(self, job: WorkerJob, context: WorkContext) -> JobOutcome:
        before = context.workspace.state
        tools = context.toolkit.allowed(job.tools_allowed)
        talk = _Talk(self, job, context, tools, messages=self._opening(job, context))
        try:
            result = await talk.result()
        except ModelUnavailable as error:
            result = WorkerResult(summary=f"the model could not be reached: {error}",
                                  status="missing")  # fmt: skip
        except ModelRejected as error:
            result = WorkerResult(summary=f"the model refused the request: {error}",
                                  status="failed")  # fmt: skip
        after = context.workspace.state
        return JobOutcome(result=result, calls=tuple(talk.calls), before=before, after=after)

    def _opening(self, job: WorkerJob, context: WorkContext) -> tuple[Message, ...]:
        request = WorkerRequest(
            task=job.task,
            instructions=job.instructions,
            criteria=bullets(job.criteria, empty=""),
            defects=bullets(defect_lines(job.defects), empty=""),
            files=listing(context.workspace),
            pitfalls=context.policy["worker_pitfalls"],
            tool_notes=context.policy["tool_description_templates"],
        )
        return self.prompt.messages(cast("dict[str, Json]", request.model_dump()))


@dataclass
class _Talk:
    worker: ModelWorker
    job: WorkerJob
    context: WorkContext
    tools: Mapping[str, WorkerTool]
    messages: tuple[Message, ...]
    calls: list[ToolCall] = field(default_factory=list[ToolCall])

    async def result(self) -> WorkerResult:
        for _ in range(self.worker.max_rounds):
            if reason := self.context.tally.no_more_calls():
                return _failed(f"the budget was used up before it ended: {reason}")
            reply = await self._ask()
            if not reply.uses:
                return await self._answered(reply)
            if not await self._use(reply):
                return _failed(f"it used the tool {reply.uses[-1].name} {_SAME} times in a row "
                               "in the same way")  # fmt: skip
        self._say(_ANSWER_NOW)
        return self._read(await self._ask()) or _failed("it never answered with a result")

    async def _answered(self, reply: ChatReply) -> WorkerResult:
        """The answer; an invalid one is requested once more."""
        if (result := self._read(reply)) is not None:
            return result
        self.messages = (*self.messages, reply.message)
        self._say(f"That is not a valid answer. {_ANSWER_NOW}")
        again = self._read(await self._ask())
        return again or _failed("it answered twice without a valid result")

    async def _use(self, reply: ChatReply) -> bool:
        """Use the requested tools in turn; False if it repeats itself."""
        self.messages = (*self.messages, reply.message)
        for use in reply.uses:
            number = len(self.calls)
            call = await self.context.use(use, self.tools, job=self.job, number=number)
            self.calls.append(call)
            content = f"error: {call.error}" if call.error else str(call.result)
            answer = Message(role="tool", content=content, answers=use.id, tool=use.name)
            self.messages = (*self.messages, answer)
        last = [canonical([call.name, dict(call.arguments)]) for call in self.calls[-_SAME:]]
        return len(last) < _SAME or len(set(last)) > 1

    async def _ask(self) -> ChatReply:
        schema = cast("dict[str, Json]", WorkerResult.model_json_schema())
        specs = tuple(tool.spec for tool in self.tools.values())
        request = ChatRequest(messages=self.messages, schema=schema, schema_name=ROLE, tools=specs)
        answer = self.worker.client.ask(request, draw=self.job.draw, effects=self.context.effects)
        return (await answer).reply

    def _say(self, text: str) -> None:
        self.messages = (*self.messages, Message(role="user", content=text))

    def _read(self, reply: ChatReply) -> WorkerResult | None:
        if reply.uses or reply.finish == "length":
            return None
        try:
            return read_answer(reply.text, WorkerResult).value
        except UnusableAnswer:
            return None


def _failed(reason: str) -> WorkerResult:
    return WorkerResult(summary=reason, status="failed")
