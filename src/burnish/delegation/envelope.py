"""The budget envelope of a delegation: its limits, what was used of them, and what is left."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """How far one delegation may go. The manager is shown it, so it is part of the run."""

    max_loops: int = 100
    max_total_workers: int = 500
    max_total_tokens: int = 10_000_000
    max_wall_time: float = 3600.0
    """Seconds of active time."""
    max_tool_calls: int = 1500
    max_depth: int = 4
    """1 is a manager with workers; more lets a manager delegate to managers below it."""
    max_workers_per_iteration: int = 6
    max_rejected_completions: int = 2
    """So many times in a row rejected for the same reason, and the run ends."""

    def __post_init__(self) -> None:
        wrong = [name for name, value in vars(self).items() if not value > 0]
        if wrong:
            raise ConfigError(
                [Problem(where=name, message="a limit must be above 0") for name in wrong]
            )

    def to_json(self) -> dict[str, Json]:
        """By name."""
        return dict(vars(self))

    def lines(self) -> list[str]:
        """For people, few enough in a line for a narrow terminal."""
        limits = [
            f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in vars(self).items()
        ]
        rows = [limits[start : start + 2] for start in range(0, len(limits), 2)]
        return [f"{'' if at else 'budget':<8} {', '.join(row)}" for at, row in enumerate(rows)]


class Stopwatch:
    """The active time of a delegation, all sessions together.

    On a replay every step tells the time at which it was done, and time goes on from there.
    """

    def __init__(self, before: float = 0.0) -> None:
        self._before = before
        self._since = time.monotonic()

    @property
    def seconds(self) -> float:
        """The active time now."""
        return self._before + time.monotonic() - self._since

    def reach(self, seconds: float) -> None:
        """So much time went by at a step that is journaled."""
        if seconds > self.seconds:
            self._before, self._since = seconds, time.monotonic()


@dataclass(kw_only=True)
class Tally:
    """What was used of an envelope, counted in the order in which it was used."""

    envelope: Envelope
    tokens_spent: Callable[[], int]
    """Tokens of everything that was journaled for this run so far."""
    loops: int = 0
    workers: int = 0
    tool_calls: int = 0
    tokens_told: int = 0
    """Tokens that a program said it used."""
    seconds: float = field(default=0.0)
    """The active time when it was last looked at."""

    @property
    def tokens(self) -> int:
        """Tokens in both directions."""
        return self.tokens_spent() + self.tokens_told

    def exhausted(self) -> str:
        """The limit that leaves no room for another loop; '' where there is room.

        Without workers or tools a manager can still complete, so those limits are not among them.
        """
        return self._reached("max_loops", "max_total_tokens", "max_wall_time")

    def no_more_calls(self) -> str:
        """The limit that forbids to ask a model again in the middle of a loop."""
        return self._reached("max_total_tokens", "max_wall_time")

    def no_more_tools(self) -> str:
        """The limit that forbids to use a tool again."""
        return self._reached("max_tool_calls", "max_total_tokens", "max_wall_time")

    @property
    def workers_left(self) -> int:
        """How many workers may still be set to work."""
        return self.envelope.max_total_workers - self.workers

    @property
    def seconds_left(self) -> float:
        """What is left of the active time."""
        return max(0.0, self.envelope.max_wall_time - self.seconds)

    @property
    def remaining(self) -> float:
        """The share that is left of the limit that is nearest."""
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
