"""One case under one candidate: the conversation by pydantic-ai, tool calls and outcome.

A rehearsal is a case once more from the journal, without the user's tools.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from pydantic_ai import Agent, NativeOutput, RunContext, StructuredDict
from pydantic_ai.exceptions import CallDeferred, ModelRetry, ToolFailed
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_core import to_jsonable_python

from burnish.core.cases import (
    Attachment,
    Case,
    Failure,
    FailureKind,
    Message,
    Outcome,
    Step,
    ToolCall,
    ToolUse,
    Trace,
    Usage,
)
from burnish.core.content import Json, codec
from burnish.core.errors import BurnishError, RoleFailed
from burnish.core.protocols import Call, Effects, Receipt, Role
from burnish.core.surfaces import Demonstration
from burnish.journal.executors import failure_of
from burnish.metrics.turns import NextRemark, TalkSoFar, play
from burnish.models.chat import ModelClient, Priced
from burnish.models.conversation import JournaledModel, ReplyLog, model_message, user_content
from burnish.targets.agent.attachments import read_attachments
from burnish.targets.agent.blocks import AgentTool, FunctionTool


@dataclass
class RunLog:
    """The effects of one run of a case, and its tool calls."""

    effects: Effects
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    seconds: float = 0.0


@dataclass
class LoggedToolset(WrapperToolset[RunLog]):
    """Logs every tool call; a tool that raises reports the error to the model."""

    retrieves: bool = False
    """Whether its results are passages."""

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[RunLog],
        tool: ToolsetTool[RunLog],
    ) -> Any:
        started = time.perf_counter()
        try:
            result = await super().call_tool(name, tool_args, ctx, tool)
        except (BurnishError, CallDeferred):
            raise
        except (ModelRetry, ToolFailed) as error:
            self._write(ctx, name, tool_args, error=str(error))
            raise
        except Exception as error:  # noqa: BLE001 - the border to the user's tools: the model may mend it
            message = f"{type(error).__name__}: {error}"
            self._write(ctx, name, tool_args, error=message)
            return f"the tool failed: {message}"
        finally:
            ctx.deps.seconds += time.perf_counter() - started
        self._write(ctx, name, tool_args, result=result)
        return result

    def _write(
        self,
        ctx: RunContext[RunLog],
        name: str,
        args: dict[str, Any],
        *,
        result: Any = None,
        error: str = "",
    ) -> None:
        value: Any = result.return_value if isinstance(result, ToolReturn) else result
        plain = _plain(value)
        passages: tuple[str, ...] = ()
        if isinstance(result, ToolReturn) and isinstance(result.metadata, tuple):
            passages = cast("tuple[str, ...]", result.metadata)
        elif self.retrieves and result is not None:
            passages = (plain if isinstance(plain, str) else str(plain),)
        ctx.deps.calls.append(
            ToolCall(
                name=name,
                arguments=cast("dict[str, Json]", _plain(args)),
                result=plain,
                error=error,
                id=ctx.tool_call_id or "",
                passages=passages,
            )
        )


def _plain(value: Any) -> Json:
    return cast("Json", to_jsonable_python(value, fallback=repr, inf_nan_mode="strings"))


def _opening(
    demonstrations: Sequence[Demonstration], history: Sequence[Message]
) -> list[ModelMessage]:
    """The messages before the first turn: demonstrations, then the history."""
    demos = enumerate(demonstrations, start=1)
    shown = [message for number, demo in demos for message in _shown(demo, number)]
    # Of earlier messages, only the words are shown.
    texts = (replace(message, images=(), verbatim=None) for message in (*shown, *history))
    return [model_message(message) for message in texts]


def _shown(demo: Demonstration, number: int) -> Iterator[Message]:
    """A demonstration as messages: the question, each tool call, the answer."""
    yield Message(role="user", content=demo.input)
    for place, call in enumerate(demo.calls, start=1):
        # The same at every asking: a request is what its answer is kept under.
        name = f"demo-{number}-{place}"
        use = ToolUse(id=name, name=call.tool, arguments=call.given)
        yield Message(role="assistant", content="", uses=(use,))
        yield Message(role="tool", content=call.result, answers=name, tool=call.tool)
    yield Message(role="assistant", content=demo.output)


def _steps(
    messages: Sequence[ModelMessage],
    replies: Sequence[Priced],
    calls: Sequence[ToolCall],
    *,
    node: str,
    turn: int,
    surfaces: tuple[str, ...],
    first: int,
) -> tuple[Step, ...]:
    """One step for each answer of the model, with its tool calls."""
    used = {call.id: call for call in calls}
    steps: list[Step] = []
    answers = iter(replies)
    for before, message in _answers(messages):
        priced = next(answers, None)
        call_ids = [p.tool_call_id for p in message.parts if isinstance(p, ToolCallPart)]
        number = first + len(steps)
        steps.append(
            Step(
                id=f"step-{number}",
                node=node,
                turn=turn,
                predecessors=(f"step-{number - 1}",) if number else (),
                surfaces=surfaces,
                input=before,
                output="".join(p.content for p in message.parts if isinstance(p, TextPart)),
                tools=tuple(used[name] for name in call_ids if name in used),
                usage=priced.reply.usage if priced else Usage(),
                seconds=priced.reply.seconds if priced else 0.0,
            )
        )
    return tuple(steps)


def _answers(messages: Sequence[ModelMessage]) -> Iterator[tuple[Json, ModelResponse]]:
    """Each answer, with the messages right before it."""
    before: Json = None
    for message in messages:
        if isinstance(message, ModelResponse):
            yield before, message
        else:
            before = "\n".join(filter(None, map(_words, message.parts)))


def _words(part: Any) -> str:
    if isinstance(part, ToolReturnPart):
        text: str = part.model_response_str()
        return f"{part.tool_name}: {text}"
    if isinstance(part, UserPromptPart):
        pieces = [part.content] if isinstance(part.content, str) else part.content
        return "\n".join(piece for piece in pieces if isinstance(piece, str))
    return ""


@dataclass(frozen=True, kw_only=True)
class AgentParts:
    """An agent under one candidate, ready to run cases."""

    name: str
    instructions: str
    client: ModelClient
    toolsets: tuple[AbstractToolset[RunLog], ...]
    folder: Path
    surfaces: tuple[str, ...] = ()
    schema: dict[str, Json] | None = None
    demonstrations: tuple[Demonstration, ...] = ()
    user: Role[TalkSoFar, NextRemark] | None = None

    async def run(self, case: Case, *, draw: int, effects: Effects) -> Outcome:
        """Run one case."""
        return await run_case(self, case, draw=draw, effects=effects)


@dataclass
class _Conversation:
    """A running conversation."""

    parts: AgentParts
    draw: int
    effects: Effects
    messages: list[ModelMessage] = field(default_factory=list[ModelMessage])
    steps: list[Step] = field(default_factory=list[Step])
    replies: list[str] = field(default_factory=list[str])
    log: ReplyLog = field(default_factory=ReplyLog)
    data: Json = None

    async def say(self, text: str, attachments: Sequence[Attachment] = ()) -> str:
        """Run one turn and return the reply."""
        parts = self.parts
        log, before = RunLog(effects=self.effects), len(self.log.replies)
        model = JournaledModel(parts.client, draw=self.draw, effects=self.effects, log=self.log)
        texts, images = await read_attachments(attachments, parts.folder)
        schema = cast("dict[str, Any] | None", parts.schema)
        output = str if schema is None else NativeOutput(StructuredDict(schema, name="answer"))
        agent: Agent[RunLog, Any] = Agent(
            model,
            name=parts.name,
            instructions=parts.instructions or None,
            toolsets=parts.toolsets,
            output_type=output,
            deps_type=RunLog,
            retries=2,  # to fix an answer, or arguments of a tool, that did not fit
        )
        heard = len(self.messages)
        try:
            prompt = user_content("\n\n".join([text, *texts]), images)
            result = await agent.run(prompt, message_history=self.messages, deps=log)
            self.messages = result.all_messages()
        finally:
            self._write(heard, log, before)
        output = result.output
        if not isinstance(output, str):
            self.data = cast("Json", output)
            output = json.dumps(output, ensure_ascii=False)
        self.replies.append(output)
        return output

    def _write(self, heard: int, log: RunLog, before: int) -> None:
        """Record the steps of this turn; of a failed turn, at least its tool calls."""
        new = self.messages[heard:]
        steps = _steps(
            new,
            self.log.replies[before:],
            log.calls,
            node=self.parts.name,
            turn=len(self.replies),
            surfaces=self.parts.surfaces,
            first=len(self.steps),
        )
        if not new and (log.calls or len(self.log.replies) > before):
            broken = Step(
                id=f"step-{len(self.steps)}",
                node=self.parts.name,
                turn=len(self.replies),
                surfaces=self.parts.surfaces,
                tools=tuple(log.calls),
                usage=_usage(self.log.replies[before:]),
            )
            steps = (broken,)
        self.steps += steps

    def outcome(self, *, failure: Failure | None = None, talked: Sequence[str] = ()) -> Outcome:
        costs = [priced.nano_usd for priced in self.log.replies]
        return Outcome(
            replies=tuple(self.replies) if failure is None else (),
            asked=tuple(talked),
            data=self.data if failure is None else None,
            trace=Trace(steps=tuple(self.steps)),
            usage=_usage(self.log.replies),
            nano_usd=None if None in costs else sum(cost or 0 for cost in costs),
            seconds=sum(priced.reply.seconds for priced in self.log.replies),
            failure=failure,
        )


async def run_case(parts: AgentParts, case: Case, *, draw: int, effects: Effects) -> Outcome:
    """Run the conversation of a case; what goes wrong in it is part of the outcome."""
    # Without the case's own demonstration, which holds the answer.
    demos = [demo for demo in parts.demonstrations if demo.case != case.id or not demo.case]
    messages = _opening(demos, case.history)
    talk = _Conversation(parts=parts, draw=draw, effects=effects, messages=messages)
    try:
        remarks = await play(case, talk.say, user=parts.user, draw=draw, effects=effects)
    except RoleFailed as error:
        away = Failure(kind=FailureKind.INFRASTRUCTURE, message=error.message, error="RoleFailed")
        return talk.outcome(failure=away)
    except BurnishError:
        raise
    except Exception as error:  # noqa: BLE001 - the border to the agent and its tools: what they raise is the case's failure
        return talk.outcome(failure=failure_of(error))
    return talk.outcome(talked=remarks)


def _usage(replies: Sequence[Priced]) -> Usage:
    return sum((priced.reply.usage for priced in replies), Usage())


# -- Rehearsals ------------------------------------------------------------------------------------


async def rehearse_case(
    parts: AgentParts,
    case: Case,
    tools: Sequence[AgentTool],
    *,
    draw: int,
    effects: Effects,
    past: Outcome,
) -> Outcome:
    """Run a case without calling the user's functions or downloading anything."""
    for turn in case.turns:
        for attachment in turn.attachments:
            if attachment.url:
                await beyond(effects, "download", attachment.url)
    own = frozenset(tool.name for tool in tools if isinstance(tool, FunctionTool))
    calls = tuple(call for step in past.trace.steps for call in step.tools)
    toolsets: list[AbstractToolset[RunLog]] = []
    for toolset in parts.toolsets:
        wrapped = toolset.wrapped if isinstance(toolset, LoggedToolset) else toolset
        # Searches and prompts are burnish's own; functions and all tools of a server are not.
        acting = own if isinstance(wrapped, FunctionToolset) else None
        toolsets.append(_RememberedToolset(toolset, calls=calls, acting=acting))
    parts = replace(parts, toolsets=tuple(toolsets))
    return await parts.run(case, draw=draw, effects=effects)


@dataclass
class _RememberedToolset(WrapperToolset[RunLog]):
    """Repeats the recorded results of tools that act in the user's world."""

    calls: tuple[ToolCall, ...] = ()
    acting: frozenset[str] | None = None
    """The tools that act; None for all of them."""

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[RunLog],
        tool: ToolsetTool[RunLog],
    ) -> Any:
        if self.acting is not None and name not in self.acting:
            return await super().call_tool(name, tool_args, ctx, tool)
        for call in self.calls:
            same = (call.name, call.id, dict(call.arguments)) == (name, ctx.tool_call_id, tool_args)
            if same and not call.error:
                ctx.deps.calls.append(call)
                return call.result
        return await beyond(ctx.deps.effects, "tool", name)


async def beyond(effects: Effects, kind: str, what: str) -> bool:
    """Request an effect that no journal has, which ends a rehearsal."""

    async def perform(nested: Effects) -> Receipt[bool]:
        del nested
        return Receipt(value=False)

    return await effects.once(Call(kind=kind, request=what, codec=codec(bool)), perform)
