"""A worker that is a model: it uses tools until it answers, within its rounds and the budget."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from pydantic import BaseModel, ConfigDict, ValidationError

from burnish.core.content import Json, canonical, short_id
from burnish.core.messages import Message
from burnish.core.outcomes import ToolCall
from burnish.models.answers import NotAnObject, read_object
from burnish.models.chat import ChatReply, ChatRequest, ModelClient
from burnish.models.errors import ModelRejected, ModelUnavailable
from burnish.models.roles import RolePrompt
from burnish.targets.delegation.desk import Desk, Job, Worked
from burnish.targets.delegation.showing import bullets, defect_lines, listing
from burnish.targets.delegation.tools import WorkerTool
from burnish.targets.delegation.words import WorkerResult

ROLE = "worker"
_SAME = 3
"""Equal uses of a tool in a row that end a worker."""
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
    """Times that it may use tools before it must answer."""

    def __post_init__(self) -> None:
        self.prompt.require_fields(WorkerRequest.model_fields)

    @property
    def fingerprint(self) -> str:
        """Of prompt, model and rounds."""
        return short_id([self.prompt.fingerprint, self.client.fingerprint, self.max_rounds])

    @property
    def label(self) -> str:
        """The model."""
        return self.client.ref.label

    async def work(self, job: Job, desk: Desk) -> Worked:
        """Do the job."""
        before = desk.workspace.state
        tools = desk.toolkit.allowed(job.tools_allowed)
        talk = _Talk(self, job, desk, tools, messages=self._opening(job, desk))
        try:
            result = await talk.result()
        except ModelUnavailable as error:
            result = WorkerResult(summary=f"the model could not be reached: {error}",
                                  status="missing")  # fmt: skip
        except ModelRejected as error:
            result = WorkerResult(summary=f"the model refused the request: {error}",
                                  status="failed")  # fmt: skip
        after = desk.workspace.state
        return Worked(result=result, calls=tuple(talk.calls), before=before, after=after)

    def _opening(self, job: Job, desk: Desk) -> tuple[Message, ...]:
        request = WorkerRequest(
            task=job.task,
            instructions=job.instructions,
            criteria=bullets(job.criteria),
            defects=bullets(defect_lines(job.defects)),
            files=listing(desk.workspace),
            pitfalls=desk.policy["worker_pitfalls"],
            tool_notes=desk.policy["tool_description_templates"],
        )
        return self.prompt.messages(cast("dict[str, Json]", request.model_dump()))


@dataclass
class _Talk:
    """The conversation of one job."""

    worker: ModelWorker
    job: Job
    desk: Desk
    tools: Mapping[str, WorkerTool]
    messages: tuple[Message, ...]
    calls: list[ToolCall] = field(default_factory=list[ToolCall])

    async def result(self) -> WorkerResult:
        for _ in range(self.worker.max_rounds):
            if reason := self.desk.tally.no_more_calls():
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
        """The answer; one that cannot be read is asked for once more."""
        if (result := self._read(reply)) is not None:
            return result
        self.messages = (*self.messages, reply.message)
        self._say(f"That is not a valid answer. {_ANSWER_NOW}")
        again = self._read(await self._ask())
        return again or _failed("it answered twice without a valid result")

    async def _use(self, reply: ChatReply) -> bool:
        """Use the tools it asks for, one after the other; False when it turns in circles."""
        self.messages = (*self.messages, reply.message)
        for use in reply.uses:
            number = len(self.calls)
            call = await self.desk.use(use, self.tools, job=self.job, number=number)
            self.calls.append(call)
            said = f"error: {call.error}" if call.error else str(call.result)
            answer = Message(role="tool", content=said, answers=use.id, tool=use.name)
            self.messages = (*self.messages, answer)
        last = [canonical([call.name, dict(call.arguments)]) for call in self.calls[-_SAME:]]
        return len(last) < _SAME or len(set(last)) > 1

    async def _ask(self) -> ChatReply:
        schema = cast("dict[str, Json]", WorkerResult.model_json_schema())
        specs = tuple(tool.spec for tool in self.tools.values())
        request = ChatRequest(messages=self.messages, schema=schema, schema_name=ROLE, tools=specs)
        asked = self.worker.client.ask(request, draw=self.job.draw, effects=self.desk.effects)
        return (await asked).reply

    def _say(self, text: str) -> None:
        self.messages = (*self.messages, Message(role="user", content=text))

    def _read(self, reply: ChatReply) -> WorkerResult | None:
        if reply.uses or reply.finish == "length":
            return None
        try:
            return WorkerResult.model_validate_json(read_object(reply.text).text)
        except (NotAnObject, ValidationError):
            return None


def _failed(reason: str) -> WorkerResult:
    return WorkerResult(summary=reason, status="failed")
