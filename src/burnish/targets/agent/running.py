"""One case under one candidate: the conversation, and what came of it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from pydantic_ai import Agent, NativeOutput, StructuredDict
from pydantic_ai.messages import ModelMessage
from pydantic_ai.toolsets import AbstractToolset

from burnish.core.cases import Attachment, Case
from burnish.core.content import Json
from burnish.core.demonstrations import Demonstration
from burnish.core.effects import Effects
from burnish.core.errors import BurnishError, RoleFailed
from burnish.core.outcomes import Failure, FailureKind, Outcome, Step, Trace, Usage
from burnish.core.protocols import Role
from burnish.effects.failures import failure_of
from burnish.evaluation.simulation import NextRemark, TalkSoFar, converse
from burnish.models.chat import ModelClient
from burnish.models.conversation import JournaledModel, ReplyLog, user_content
from burnish.targets.agent.attachments import read_attachments
from burnish.targets.agent.run_log import RunLog
from burnish.targets.agent.speaking import opening, steps

RETRIES = 2
"""How often an agent may mend an answer or a tool's arguments that did not fit."""


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

    def for_case(self, case: Case) -> tuple[Demonstration, ...]:
        """The demonstrations, without the case's own: nobody is examined with the answer."""
        return tuple(demo for demo in self.demonstrations if demo.case != case.id or not demo.case)


@dataclass
class Conversation:
    """A conversation under way, and what is known of it so far."""

    parts: AgentParts
    case: Case
    draw: int
    effects: Effects
    messages: list[ModelMessage] = field(default_factory=list[ModelMessage])
    steps: list[Step] = field(default_factory=list[Step])
    replies: list[str] = field(default_factory=list[str])
    log: ReplyLog = field(default_factory=ReplyLog)
    data: Json = None

    async def say(self, text: str, attachments: Sequence[Attachment] = ()) -> str:
        """One turn: what the agent replies."""
        parts = self.parts
        log, before = RunLog(effects=self.effects), len(self.log.replies)
        model = JournaledModel(parts.client, draw=self.draw, effects=self.effects, log=self.log)
        texts, images = await read_attachments(attachments, parts.folder)
        agent: Agent[RunLog, Any] = Agent(
            model,
            name=parts.name,
            instructions=parts.instructions or None,
            toolsets=parts.toolsets,
            output_type=_output(parts.schema),
            deps_type=RunLog,
            retries=RETRIES,
        )
        heard = len(self.messages)
        try:
            prompt = user_content("\n\n".join([text, *texts]), images)
            result = await agent.run(prompt, message_history=self.messages, deps=log)
            self.messages = result.all_messages()
        finally:
            self._write(heard, log, before)
        return self._reply(result.output)

    def _write(self, heard: int, log: RunLog, before: int) -> None:
        """The steps of this turn; of a turn that failed, the tools it used all the same."""
        new = self.messages[heard:]
        found = steps(
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
                usage=_usage(self.log, before),
            )
            found = (broken,)
        self.steps += found

    def _reply(self, output: Any) -> str:
        if isinstance(output, str):
            self.replies.append(output)
        else:
            self.data = cast("Json", output)
            self.replies.append(json.dumps(output, ensure_ascii=False))
        return self.replies[-1]

    def outcome(self, *, failure: Failure | None = None, talked: Sequence[str] = ()) -> Outcome:
        """What came of it."""
        costs = [priced.nano_usd for priced in self.log.replies]
        return Outcome(
            replies=tuple(self.replies) if failure is None else (),
            asked=tuple(talked),
            data=self.data if failure is None else None,
            trace=Trace(steps=tuple(self.steps)),
            usage=_usage(self.log),
            nano_usd=None if None in costs else sum(cost or 0 for cost in costs),
            seconds=sum(priced.reply.seconds for priced in self.log.replies),
            failure=failure,
        )


async def run_case(parts: AgentParts, case: Case, *, draw: int, effects: Effects) -> Outcome:
    """The conversation of a case. What goes wrong in it is an outcome, not an exception."""
    talk = Conversation(
        parts=parts,
        case=case,
        draw=draw,
        effects=effects,
        messages=opening(parts.for_case(case), case.history),
    )
    asked: tuple[str, ...] = ()
    try:
        if case.scenario is not None:
            asked = await _play(talk)
        else:
            for turn in case.turns:
                await talk.say(turn.input, turn.attachments)
    except RoleFailed as error:
        away = Failure(kind=FailureKind.INFRASTRUCTURE, message=error.message, error="RoleFailed")
        return talk.outcome(failure=away)
    except BurnishError:
        raise
    except Exception as error:  # noqa: BLE001 - the border to the agent and its tools: law 4
        return talk.outcome(failure=failure_of(error))
    return talk.outcome(talked=asked)


async def _play(talk: Conversation) -> tuple[str, ...]:
    assert talk.parts.user is not None, "a scenario was let through without a user to play it"
    files = list(talk.case.turns[0].attachments)

    async def say(remark: str) -> str:
        opening_files, files[:] = list(files), []
        return await talk.say(remark, opening_files)

    had = await converse(talk.case, say, user=talk.parts.user, draw=talk.draw, effects=talk.effects)
    return had.asked


def _output(schema: dict[str, Json] | None) -> Any:
    if schema is None:
        return str
    return NativeOutput(StructuredDict(cast("dict[str, Any]", schema), name="answer"))


def _usage(log: ReplyLog, since: int = 0) -> Usage:
    total = Usage()
    for priced in log.replies[since:]:
        total += priced.reply.usage
    return total
