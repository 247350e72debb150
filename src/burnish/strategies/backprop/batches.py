"""Asking a role many things, so many at a time."""

from collections.abc import Sequence
from contextlib import aclosing
from typing import TypeVar

from burnish.core.protocols import Role
from burnish.core.trials import Proposal
from burnish.effects.executors import AsyncioExecutor
from burnish.runs.asking import Asked
from burnish.runs.run import Run

Request = TypeVar("Request")
Answer = TypeVar("Answer")


async def ask_each(
    run: Run, role: Role[Request, Answer], requests: Sequence[Request], *, draw: int, size: int
) -> list[Asked[Answer]]:
    """The replies, in order; each request has a draw of its own, however many go at once."""

    async def ask(place: int) -> Asked[Answer]:
        return await ask_one(run, role, requests[place], draw=draw + place)

    async with aclosing(AsyncioExecutor(size).map(range(len(requests)), ask)) as replies:
        return [reply async for reply in replies]


async def ask_one(
    run: Run, role: Role[Request, Answer], request: Request, *, draw: int
) -> Asked[Answer]:
    """The reply. A request that would show held out text is not sent, and has no answer.

    An agent may say on a train case what a held out case expects, and so may a role.
    """
    if (case := run.secrets.leaked(role.encode(request))) is not None:
        why = f"not asked: it would show text of case '{case}', which no proposer may see"
        return Asked(answer=None, proposal=Proposal(role=role.name, error=why))
    (reply,) = await run.ask_together(role, [request], draw=draw)
    return reply
