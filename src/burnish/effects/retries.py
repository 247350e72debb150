"""Retries with backoff and jitter, honouring what the other side asks for."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How often to try, and how long to wait in between."""

    attempts: int = 4
    first_wait: float = 0.5
    factor: float = 2.0
    longest_wait: float = 60.0

    def wait(self, attempt: int, *, jitter: float, asked: float | None = None) -> float:
        """Seconds before the next attempt: at least what the other side asked for.

        `jitter` in [0, 1] spreads clients that failed together over half to the whole wait.
        """
        backoff = min(self.longest_wait, self.first_wait * self.factor ** (attempt - 1))
        return max(backoff * (0.5 + 0.5 * jitter), asked or 0.0)


ONCE = RetryPolicy(attempts=1)


async def retry(
    attempt: Callable[[int], Awaitable[T]],
    *,
    policy: RetryPolicy,
    again: Callable[[Exception], bool],
    asked: Callable[[Exception], float | None] = lambda _: None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """Call `attempt(1)`, `attempt(2)`, … until one succeeds or `again` says no.

    The last error is raised as it is. Whichever error it was, `again` has seen it.
    """
    number = 1
    while True:
        try:
            return await attempt(number)
        except Exception as error:
            if number >= policy.attempts or not again(error):
                raise
            # Waiting does not decide anything, so this randomness needs no named stream.
            await sleep(policy.wait(number, jitter=random.random(), asked=asked(error)))  # noqa: S311
            number += 1
