"""The budget envelope of a delegation: its limits, and how much of them is used."""

import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.money import Spend
from burnish.core.protocols import Call, Receipt, Scope

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """The limits of one delegation. The manager sees them, so they are part of the run."""

    max_loops: int = 100
    max_total_workers: int = 500
    max_total_tokens: int = 10_000_000
    max_wall_time: float = 3600.0
    """Seconds in which models are asked and commands run; what a resume replays takes none."""
    max_tool_calls: int = 1500
    max_depth: int = 4
    """1 is a manager with workers; more lets a manager delegate to managers below it."""
    max_workers_per_iteration: int = 6
    max_rejected_completions: int = 2
    """The run ends after this many rejections in a row for the same reason."""
    max_parallel_workers: int = 1
    """How many workers of an iteration run at once, each in a copy of the workspace."""

    def __post_init__(self) -> None:
        wrong = [name for name, value in vars(self).items() if not value > 0]
        if wrong:
            raise ConfigError(
                [Problem(where=name, message="a limit must be above 0") for name in wrong]
            )

    def to_json(self) -> dict[str, Json]:
        limits = dict(vars(self))
        if self.max_parallel_workers == 1:
            del limits["max_parallel_workers"]  # Earlier runs had no such limit.
        return limits

    def lines(self) -> list[str]:
        """For people, short enough for a narrow terminal."""
        limits = [
            f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in self.to_json().items()
        ]
        rows = [limits[start : start + 2] for start in range(0, len(limits), 2)]
        return [f"{'' if at else 'budget':<8} {', '.join(row)}" for at, row in enumerate(rows)]


class Stopwatch:
    """How long the effects of a delegation took, over all sessions.

    It runs only while an effect is performed. A replay performs none and uses journaled times,
    and what burnish does in between counts for nobody, however busy the machine is.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._before = self._since = 0.0
        self._effects = 0

    @property
    def seconds(self) -> float:
        return self._before + (self._now() - self._since if self._effects else 0.0)

    @contextmanager
    def running(self) -> Generator[None, None, None]:
        """Count the time until this is left; what happens at the same time counts once."""
        if not self._effects:
            self._since = self._now()
        self._effects += 1
        try:
            yield
        finally:
            self._before, self._since = self.seconds, self._now()
            self._effects -= 1

    def reach(self, seconds: float) -> None:
        """Advance to the time at which a journaled step ended."""
        if seconds > self.seconds:
            self._before, self._since = seconds, self._now()


@dataclass(frozen=True)
class TimedScope:
    """A scope whose effects a stopwatch counts while they are performed."""

    scope: Scope
    clock: Stopwatch

    @property
    def used(self) -> Mapping[str, Spend]:
        return self.scope.used

    async def once(self, call: Call[_T], perform: Callable[[Scope], Awaitable[Receipt[_T]]]) -> _T:
        """The result of `call`, with its time counted if it is performed now."""

        async def timed(nested: Scope) -> Receipt[_T]:
            with self.clock.running():
                return await perform(nested)

        return await self.scope.once(call, timed)


@dataclass(kw_only=True)
class Tally:
    """How much of an envelope was used."""

    envelope: Envelope
    tokens_spent: Callable[[], int]
    loops: int = 0
    workers: int = 0
    tool_calls: int = 0
    tokens_reported: int = 0
    """Tokens that a program reported."""
    seconds: float = field(default=0.0)

    @property
    def tokens(self) -> int:
        return self.tokens_spent() + self.tokens_reported

    def exhausted(self) -> str:
        """The limit that prevents another loop; '' if there is none.

        A manager can still complete without workers or tools, so those limits do not count.
        """
        return self._reached("max_loops", "max_total_tokens", "max_wall_time")

    def no_more_calls(self) -> str:
        """The limit that prevents another model call within a loop."""
        return self._reached("max_total_tokens", "max_wall_time")

    def no_more_tools(self) -> str:
        """The limit that prevents another tool call."""
        return self._reached("max_tool_calls", "max_total_tokens", "max_wall_time")

    def branch(self, place: int, count: int, tokens_spent: Callable[[], int]) -> "Tally | None":
        """The tally of one of `count` workers that run at once, with its share of what is left.

        None if too little is left to be shared.
        """
        most, before = self.envelope, self.tokens
        tools, tokens = most.max_tool_calls - self.tool_calls, most.max_total_tokens - before
        if min(tools, tokens) < count:
            return None
        own = replace(
            most,
            max_tool_calls=self.tool_calls + tools // count + (place < tools % count),
            max_total_tokens=before + tokens // count,
        )
        return replace(
            self, envelope=own, tokens_spent=lambda: before - self.tokens_reported + tokens_spent()
        )

    def join(self, branches: Sequence["Tally"]) -> None:
        """Count what branches of this tally used."""
        tools, reported = self.tool_calls, self.tokens_reported
        self.tool_calls += sum(each.tool_calls - tools for each in branches)
        self.tokens_reported += sum(each.tokens_reported - reported for each in branches)
        self.seconds = max(self.seconds, *(each.seconds for each in branches))

    @property
    def workers_left(self) -> int:
        return self.envelope.max_total_workers - self.workers

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.envelope.max_wall_time - self.seconds)

    @property
    def remaining(self) -> float:
        """The remaining share of the limit that is closest to being reached."""
        return max(0.0, min(1 - used / most for _, used, most in self._limits()))

    def snapshot(self) -> dict[str, Json]:
        """As run_completion.json and the manager see it."""
        most = self.envelope
        return {
            "loops": {"used": self.loops, "max": most.max_loops},
            "workers": {"spawned": self.workers, "max": most.max_total_workers},
            "tokens": {"consumed": self.tokens, "max": most.max_total_tokens},
            "tool_calls": {"used": self.tool_calls, "max": most.max_tool_calls},
            "wall_time": {"elapsed_s": round(self.seconds, 3), "max_s": most.max_wall_time},
            "budget_remaining_pct": round(100 * self.remaining, 1),
        }

    def _reached(self, *names: str) -> str:
        limits = (each for each in self._limits() if each[0] in names)
        return next((name for name, used, most in limits if used >= most), "")

    def _limits(self) -> Iterator[tuple[str, float, float]]:
        most = self.envelope
        yield "max_loops", self.loops, most.max_loops
        yield "max_total_workers", self.workers, most.max_total_workers
        yield "max_total_tokens", self.tokens, most.max_total_tokens
        yield "max_tool_calls", self.tool_calls, most.max_tool_calls
        yield "max_wall_time", self.seconds, most.max_wall_time
