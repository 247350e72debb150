"""What tests of called agents share: a scripted user, runs of one case, a loopback endpoint."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from burnish.core.cases import Case, Outcome, Scenario, Turn
from burnish.core.protocols import Receipt, Target
from burnish.journal.once import DirectEffects
from burnish.metrics.turns import NextRemark, TalkSoFar
from burnish.testing import ScriptedRole
from burnish.testing.servers import HttpRequest, head, read_request

TWO_TURNS = Case(name="two", turns=(Turn(input="My name is Ana."), Turn(input="Who am I?")))
SCENARIO = Case(
    name="flight",
    turns=(Turn(input="I need a flight."),),
    scenario=Scenario(plan="To Oslo, on Friday.", max_turns=4),
)


async def receipt(target: Target, case: Case, *, draw: int = 0) -> Receipt[Outcome]:
    """What a case gives."""
    return await target.run(target.baseline, case, draw=draw, effects=DirectEffects())


async def outcome(target: Target, asked: str | Case) -> Outcome:
    """The same without the bill."""
    case = asked if isinstance(asked, Case) else Case.single(asked)
    return (await receipt(target, case)).value


def user(*remarks: str) -> ScriptedRole[TalkSoFar, NextRemark]:
    """Plays a user who says these remarks after the opening, then is done."""

    def respond(request: TalkSoFar, draw: int) -> NextRemark:
        said = sum(line.startswith("user: ") for line in request.conversation.splitlines())
        left = remarks[said - 1 :]
        return NextRemark(thought="…", done=not left, remark=left[0] if left else "")

    return ScriptedRole(
        name="user_simulator", respond=respond, answer_type=NextRemark, request_type=TalkSoFar
    )


@dataclass
class Endpoint:
    """An HTTP endpoint on loopback, and what it was asked."""

    url: str
    asked: list[HttpRequest] = field(default_factory=list[HttpRequest])


Answer = str | tuple[int, Any] | Callable[[HttpRequest], Any]


@asynccontextmanager
async def endpoint(
    *answers: Answer, location: str = "", cut: bool = False, seconds: float = 0
) -> AsyncGenerator[Endpoint, None]:
    """Serve these answers in order, the last one for ever: a text, (status, JSON), a function."""
    here = Endpoint(url="")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (asked := await read_request(reader)) is not None:
                here.asked.append(asked)
                await asyncio.sleep(seconds)
                sent = _bytes(answers[min(len(here.asked), len(answers)) - 1], asked, location)
                writer.write(sent[: len(sent) // 2] if cut else sent)
                await writer.drain()
                if cut:
                    break
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    here.url = f"http://{host}:{port}/chat"
    try:
        yield here
    finally:
        server.close()


def _bytes(answer: Answer, asked: HttpRequest, location: str) -> bytes:
    given = answer(asked) if callable(answer) else answer
    pair: tuple[int, Any] = (200, given)
    status, body = cast("tuple[int, Any]", given) if isinstance(given, tuple) else pair
    content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    more = {"Location": location} if location else None
    return head(status, len(content), more=more) + content


def said(asked: Sequence[HttpRequest]) -> list[Any]:
    """The bodies that came in."""
    return [each.json for each in asked]
