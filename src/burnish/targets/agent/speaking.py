"""Messages to and from pydantic-ai: what a case says, and the steps its answers were made in."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from burnish.core.content import Json
from burnish.core.demonstrations import Demonstration
from burnish.core.messages import Message, ToolUse
from burnish.core.outcomes import Step, ToolCall
from burnish.models.chat import Priced
from burnish.models.conversation import model_message


def opening(
    demonstrations: Sequence[Demonstration], history: Sequence[Message]
) -> list[ModelMessage]:
    """What stands before the first turn: worked examples, then what was said already."""
    shown = [
        said for number, demo in enumerate(demonstrations, start=1) for said in _shown(demo, number)
    ]
    # Of what was said before, only the words are shown.
    spoken = (replace(said, images=(), verbatim=None) for said in (*shown, *history))
    return [model_message(said) for said in spoken]


def _shown(demo: Demonstration, number: int) -> Iterator[Message]:
    """A worked example as if it had just happened: the question, each tool used, the answer."""
    yield Message(role="user", content=demo.input)
    for place, call in enumerate(demo.calls, start=1):
        # The same at every asking: a request is what its answer is kept under.
        name = f"demo-{number}-{place}"
        use = ToolUse(id=name, name=call.tool, arguments=call.given)
        yield Message(role="assistant", content="", uses=(use,))
        yield Message(role="tool", content=call.result, answers=name, tool=call.tool)
    yield Message(role="assistant", content=demo.output)


def steps(
    messages: Sequence[ModelMessage],
    replies: Sequence[Priced],
    calls: Sequence[ToolCall],
    *,
    node: str,
    turn: int,
    surfaces: tuple[str, ...],
    first: int,
) -> tuple[Step, ...]:
    """One step for each answer of the model, with the tools it asked for."""
    used = {call.id: call for call in calls}
    found: list[Step] = []
    answers = iter(replies)
    for before, message in _answers(messages):
        priced = next(answers, None)
        asked = [p.tool_call_id for p in message.parts if isinstance(p, ToolCallPart)]
        number = first + len(found)
        found.append(
            Step(
                id=f"step-{number}",
                node=node,
                turn=turn,
                predecessors=(f"step-{number - 1}",) if number else (),
                surfaces=surfaces,
                input=before,
                output="".join(p.content for p in message.parts if isinstance(p, TextPart)),
                tools=tuple(used[name] for name in asked if name in used),
                usage=priced.reply.usage if priced else Step(id="", node="").usage,
                seconds=priced.reply.seconds if priced else 0.0,
            )
        )
    return tuple(found)


def _answers(messages: Sequence[ModelMessage]) -> Iterator[tuple[Json, ModelResponse]]:
    """Each answer, with what was said to the model right before it."""
    said: Json = None
    for message in messages:
        if isinstance(message, ModelResponse):
            yield said, message
        else:
            said = "\n".join(filter(None, map(_words, message.parts)))


def _words(part: Any) -> str:
    if isinstance(part, ToolReturnPart):
        told: str = part.model_response_str()
        return f"{part.tool_name}: {told}"
    if isinstance(part, UserPromptPart):
        pieces = [part.content] if isinstance(part.content, str) else part.content
        return "\n".join(piece for piece in pieces if isinstance(piece, str))
    return ""
