"""Trying again: how often a request is repeated, and how long a run waits while nobody answers.

A request that fails while others are answered is tried a few times: it may be one that its endpoint
cannot take. One that fails because nobody is answered is tried for minutes: an outage ends, and the
run goes on.
"""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar

from burnish.core.comparisons import one_line
from burnish.core.formatting import duration
from burnish.journal.executors import not_timed

T = TypeVar("T")

_DAY = 24 * 3600.0
"""Who asks to wait for longer than so many seconds is not believed."""


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How often to try and how long to wait in between."""

    attempts: int = 4
    first_wait: float = 0.5
    factor: float = 2.0  # never set, but part of the case policy's hash in every run.json
    longest_wait: float = 60.0

    def wait(self, attempt: int, *, jitter: float, requested: float | None = None) -> float:
        """Seconds before the next attempt, at least those that the server requested, if it is sane.

        `jitter` in [0, 1] spreads clients that failed together over half to the whole wait.
        """
        # No wait is longer than the longest, however often it was doubled.
        doubled = self.first_wait * self.factor ** min(attempt - 1, 100)
        backoff = min(self.longest_wait, doubled)
        asked = requested if requested is not None and 0 <= requested <= _DAY else 0.0
        return max(backoff * (0.5 + 0.5 * jitter), asked)


ONCE = RetryPolicy(attempts=1)
WAIT_MINUTES = 5.0
"""Minutes for which a run waits while nobody answers, unless its file says otherwise."""

Cause: TypeAlias = Literal["away", "busy", "rate limited", "refused", "unknown host", "unusable"]
"""Why an attempt may be repeated: nobody answered, perhaps because of what was asked; the answer is
to come back later, or that these are too many requests; nothing listens there, or the name has no
address; or there was an answer, which is billed, but of no use."""
_FOR_ALL = {"busy", "rate limited", "refused", "unknown host"}
"""Causes that have nothing to do with what was asked, unless others are answered meanwhile."""


@dataclass(frozen=True, kw_only=True)
class Setback:
    """A failed attempt that may be repeated."""

    cause: Cause = "away"
    requested: float | None = None
    """Seconds that the other side asked to wait."""


async def retry(
    attempt: Callable[[int], Awaitable[T]],
    *,
    policy: RetryPolicy,
    again: Callable[[Exception], Setback | None],
    answers: Callable[[T], bool] = lambda _: True,
    endpoint: str = "",
) -> T:
    """Call `attempt(1)`, `attempt(2)`, … until one succeeds or there is no sense in another.

    `again` is what may be repeated after an error, `answers` whether a result shows that somebody
    is there. With the name of an endpoint, a run waits for it for as long as its `Waits` say. The
    last error is raised as it is.
    """
    call = _Call(policy, _WAITS.get() or Waits(seconds=0), endpoint)
    try:
        while True:
            call.number += 1
            try:
                result = await attempt(call.number)
            except Exception as error:  # `again` knows which errors are worth another attempt
                setback = again(error)
                if setback is None:
                    call.answered()
                    raise
                pause = call.pause_after(setback, str(error) or type(error).__name__)
                if pause is None:
                    raise
            else:
                if answers(result):
                    call.answered()
                return result
            await call.waits.pause(pause)
    finally:
        call.end()


# -- What a run knows of the endpoints that it asks ------------------------------------------------

_STARTING = 30.0
"""Seconds for a server that may be starting: nothing has ever answered at its address."""
_FORGOTTEN = 120.0
"""Seconds after which an outage may be over without anybody having noticed."""
_SEVERAL = 3
"""So many calls that fail while nobody is answered do not fail because of what they ask."""
_LEAST_PAUSE = 0.25
"""Seconds between two attempts in an outage, however short the pauses of the policy are."""
_TELL_AFTER = 3.0
"""Seconds after which people are told of an outage: shorter ones are nothing to know of."""
_TELL_OF_ONE_AFTER = 15.0
"""The same for one call while others are answered: under a rate limit, a few seconds are usual."""


@dataclass
class _Endpoint:
    answered: float = -math.inf
    """When somebody was last answered; never, if nobody was."""
    away_since: float | None = None
    """Since when nobody is answered."""
    failed: float = -math.inf
    """When a request last failed."""
    calls: set[object] = field(default_factory=set[object])
    """The calls that have failed since then."""
    announced: bool = False
    """Whether people know of this outage."""
    trying: int = 0
    """How many calls have failed and try again: as long as there are any, it is the same outage."""
    told_of_one: bool = False
    """Whether people know that some wait here while others are answered."""
    picky: set[Cause] = field(default_factory=set[Cause])
    """Why calls waited in vain that perhaps failed because of what they asked: others were answered
    meanwhile, or after them."""
    given_up: tuple[Cause, str, float] | None = None
    """Why it does not answer, the last error, and for how long it was tried, once that was long
    enough."""

    def fail(self, call: object, *, since: float, now: float) -> float:
        """Note a failure of a call; since when nobody is answered."""
        forgotten = not self.trying and now - self.failed > _FORGOTTEN
        if self.away_since is None or forgotten:
            self.away_since, self.announced, self.calls = since, False, set()
        self.failed = now
        self.calls.add(call)
        return self.away_since

    def answer(self, now: float) -> None:
        """Note that somebody was answered: an outage is over, if there was one."""
        if self.given_up is not None and self.given_up[0] == "away":
            self.picky.add("away")
        self.answered = now
        self.away_since, self.calls, self.announced, self.given_up = None, set(), False, None


class Waits:
    """How long a run waits for endpoints that answer nobody.

    `tell` hears of an outage that takes a while, and of its end; `redact` takes secrets out of what
    a failure says.
    """

    def __init__(
        self,
        *,
        seconds: float,
        tell: Callable[[str], None] = lambda _: None,
        redact: Callable[[str], str] = str,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.seconds = seconds
        self.tell = tell
        self._redact = redact
        self.clock = clock
        self._sleep = sleep
        self._endpoints: dict[str, _Endpoint] = {}

    @contextmanager
    def apply(self) -> Generator[None, None, None]:
        """A context in which requests wait in this way."""
        before = _WAITS.set(self)
        try:
            yield
        finally:
            _WAITS.reset(before)

    def tell_why(self, reason: str, note: str) -> None:
        """Tell of a failure in one line, which is cut last: half a key is in no list."""
        self.tell(f"{one_line(self._redact(reason))} ({note})")

    @property
    def waiting(self) -> bool:
        """Whether an endpoint is waited for, and people know of it."""
        endpoints = [*self._endpoints.values()]  # copied: the watch of a run asks in its own thread
        return any(each.announced and each.given_up is None for each in endpoints)

    def in_vain(self, reason: str) -> float:
        """Seconds for which an endpoint was waited for that a failure is about, until it was given
        up; 0 if it was not, has answered since, or may answer others."""
        given_up = (each.given_up for each in self._endpoints.values() if each.given_up)
        return max(
            (
                seconds
                for cause, error, seconds in given_up
                if cause in _FOR_ALL and error in reason
            ),
            default=0.0,
        )

    def endpoint(self, name: str) -> _Endpoint:
        """An endpoint by its name, as this run has seen it."""
        return self._endpoints.setdefault(name, _Endpoint())

    async def pause(self, seconds: float) -> None:
        """Wait before the next attempt; this is not the time of the agent that asks."""
        with not_timed():
            await self._sleep(seconds)


_WAITS: ContextVar[Waits | None] = ContextVar("burnish_waits", default=None)


async def tell_of_outage(message: str) -> None:
    """Tell the people of the current run what a worker elsewhere waits for."""
    if (waits := _WAITS.get()) is not None:
        waits.tell(message)


class _Call:
    """The attempts at one request."""

    def __init__(self, policy: RetryPolicy, waits: Waits, endpoint: str) -> None:
        self.number = 0
        self.waits = waits
        self._policy = policy
        self._name = endpoint
        self._endpoint = waits.endpoint(endpoint)
        self._failing_since = self._failed = math.inf

    def answered(self) -> None:
        """Somebody answered, be it with a refusal."""
        endpoint, now = self._endpoint, self.waits.clock()
        if endpoint.announced and endpoint.away_since is not None:
            away = duration(now - endpoint.away_since)
            self.waits.tell(f"{self._name} answers again, after {away}")
        endpoint.answer(now)

    def end(self) -> None:
        """There is no other attempt."""
        self._endpoint.trying -= self._failing_since < math.inf

    def pause_after(self, setback: Setback, reason: str) -> float | None:
        """Seconds before the next attempt; None if this was the last one."""
        # Waiting decides nothing, so this randomness needs no named stream.
        jitter, cause = random.random(), setback.cause  # noqa: S311
        pause = self._policy.wait(self.number, jitter=jitter, requested=setback.requested)
        if not (self._name and self.waits.seconds) or cause == "unusable":
            return self._counted(pause, self._policy.attempts)
        endpoint, now = self._endpoint, self.waits.clock()
        is_first = self._failed == math.inf
        # Since its last failure: what was answered before that says nothing of an outage now.
        others_are_answered = endpoint.answered > self._failed
        self._failing_since, self._failed = min(self._failing_since, now), now
        since = now if others_are_answered else max(self._failing_since, endpoint.answered)
        since = endpoint.fail(self, since=since, now=now)
        endpoint.trying += is_first
        own_fault = others_are_answered and cause in endpoint.picky
        if cause not in _FOR_ALL:
            few = len(endpoint.calls) < _SEVERAL
            own_fault = others_are_answered or few or cause in endpoint.picky
        if own_fault:
            # The second attempt shows whether others fail too.
            return self._counted(pause, max(2, self._policy.attempts))
        limit = self._limit(cause)
        waited = now - (self._failing_since if others_are_answered else since)
        if waited > limit - 0.001:  # the last pause ends there, but for what is rounded
            alone = others_are_answered and now - since < limit / 2
            if not alone:
                endpoint.given_up = (cause, reason, waited)
            elif cause != "rate limited":  # there, somebody always waits longest
                endpoint.picky.add(cause)
            return None
        note = f"trying again for up to {duration(limit)}"
        if others_are_answered:
            if not endpoint.told_of_one and waited + pause > _TELL_OF_ONE_AFTER:
                endpoint.told_of_one = True
                self.waits.tell_why(reason, f"others are answered; {note}")
        elif not endpoint.announced and waited + pause > _TELL_AFTER:
            endpoint.announced = True
            self.waits.tell_why(reason, note)
        return min(max(pause, _LEAST_PAUSE), limit - waited)

    def _counted(self, pause: float, attempts: int) -> float | None:
        """Seconds before the next of so many attempts: never long, since nobody is told of them."""
        return min(pause, self._policy.longest_wait) if self.number < attempts else None

    def _limit(self, cause: Cause) -> float:
        """Seconds for which an outage of this kind is waited for."""
        if self._endpoint.answered > -math.inf or cause not in ("refused", "unknown host"):
            return self.waits.seconds
        return 0.0 if cause == "unknown host" else min(_STARTING, self.waits.seconds)
