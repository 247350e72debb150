"""Asking a role many things, so many at a time."""

from collections.abc import Sequence
from typing import TypeVar

from burnish.core.protocols import Role
from burnish.runs.asking import Asked
from burnish.runs.run import Run

Request = TypeVar("Request")
Answer = TypeVar("Answer")


async def asked_in_batches(
    run: Run, role: Role[Request, Answer], requests: Sequence[Request], *, draw: int, size: int
) -> list[Asked[Answer]]:
    """The replies, in order; each request has a draw of its own, whatever the batches."""
    replies: list[Asked[Answer]] = []
    for start in range(0, len(requests), size):
        part = requests[start : start + size]
        replies += await run.ask_together(role, part, draw=draw + start)
    return replies
