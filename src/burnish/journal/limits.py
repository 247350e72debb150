"""Budgets, and rate limits of endpoints."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

from burnish.core.content import DigestSet
from burnish.core.money import NOTHING, Spend, to_nano, to_usd
from burnish.core.trials import StopReason


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Every limit that a run can have. None means no limit."""

    max_metric_calls: int | None = None
    max_calls: int | None = None
    max_tokens: int | None = None
    max_usd: float | None = None
    max_minutes: float | None = None
    max_trials: int | None = None
    max_proposals: int | None = None
    max_tracked_candidates: int | None = None
    patience: int | None = None
    """Trials in a row without an accept."""
    score_threshold: float | None = None
    """Stop at this score of the incumbent on the split that decides."""
    pass_rate_threshold: float | None = None
    """Stop when the incumbent passes everything in this share of that split's cases."""
    required_metrics: tuple[str, ...] = ()
    """Stop when the incumbent passes these metrics on every case."""
    metric_thresholds: Mapping[str, float] = field(default_factory=dict[str, float])
    """Stop when the incumbent's mean of each of these metrics reaches its threshold."""

    def within(self, **limits: float | None) -> "Budget":
        """The same budget with these limits where they are stricter."""
        stricter = {
            name: limit
            for name, limit in limits.items()
            if limit is not None and ((own := getattr(self, name)) is None or limit < own)
        }
        return replace(self, **stricter)  # pyright: ignore[reportArgumentType]

    def spend_limit(self, spent: Spend, need: Spend = NOTHING) -> StopReason | None:
        """Why nothing more may be spent; with `need`, why not that much more."""
        if self.max_usd is not None and spent.unpriced:
            return StopReason(
                code="price_unknown",
                detail=f"{spent.unpriced} calls have no known price, so USD cannot be limited",
            )
        for code, unit, limit, used, more in self._limits(spent, need):
            if used >= limit or used + more > limit:
                of, to, next_step = _amounts(unit, used, limit, more)
                detail = f"{of} of {to} {unit} spent"
                if used < limit:
                    detail += f", and the next step needs {next_step}"
                return StopReason(code=code, detail=detail)
        return None

    def exceeded(self, spent: Spend, reserve: Spend = NOTHING) -> StopReason | None:
        """Why more was spent than the limits leave beside a reserve.

        Runs of cases do not count: how many there are is known before, so it is no surprise.
        """
        for code, unit, limit, used, more in self._limits(spent, reserve):
            if code != "max_metric_calls" and used + more > limit:
                of, to, kept_back = _amounts(unit, used, limit, more)
                end = f", and {kept_back} are reserved for the end" if more else ""
                return StopReason(code=code, detail=f"{of} of {to} {unit} spent{end}")
        return None

    def left(self, spent: Spend) -> dict[str, float]:
        """By name, the share that is left of each limit."""
        return {
            code: max(0.0, 1 - used / limit) if limit else 0.0
            for code, _, limit, used, _ in self._limits(spent, NOTHING)
        }

    def _limits(self, spent: Spend, need: Spend) -> list[tuple[str, str, int, int, int]]:
        return [
            (code, unit, limit, getattr(spent, name), getattr(need, name))
            for code, unit, limit, name in self._limited
        ]

    @cached_property
    def _limited(self) -> list[tuple[str, str, int, str]]:
        """The limits of amounts; kept, since they are checked after every case."""
        limits = (
            ("max_metric_calls", "metric calls", self.max_metric_calls, "metric_calls"),
            ("max_calls", "calls", self.max_calls, "calls"),
            ("max_tokens", "tokens", self.max_tokens, "tokens"),
            ("max_usd", "USD", None if self.max_usd is None else to_nano(self.max_usd), "nano_usd"),
        )
        return [
            (code, unit, limit, name) for code, unit, limit, name in limits if limit is not None
        ]


def _amounts(unit: str, *amounts: int) -> tuple[str, ...]:
    return tuple(f"{to_usd(each):.4f}" if unit == "USD" else f"{each:,}" for each in amounts)


class Meter:
    """Counts what is spent: each distinct effect once, when its result is first used."""

    def __init__(self, before: "Meter | None" = None) -> None:
        self.spent: Spend = NOTHING
        self.runs = 0
        """Runs of cases that were used, whoever paid for them: a fork counts what it imports."""
        self._used = DigestSet()
        self._before = before
        """Counts what was used before: those effects cost nothing here."""
        self._measured = NOTHING
        """What those runs cost, with their scores, that were paid here."""
        self._paid_runs = 0

    def use(self, spends: Mapping[str, Spend], *, run: str = "") -> Spend:
        """Count the effects that were not used before; returns what was added.

        `run` is the key of the one that is a run of a case.
        """
        added = NOTHING
        for key, spend in spends.items():
            if key != run and spend.is_nothing:
                continue  # such as a computed score: it adds nothing, however often it is used
            compact = bytes.fromhex(key)
            if (self._before is None or not self._before.has(compact)) and self._used.add(compact):
                self.runs += key == run
                added += spend
        self.spent += added
        if run and added.metric_calls:
            self._measured += added
            self._paid_runs += 1
        return added

    def typical(self, runs: int) -> Spend:
        """What so many runs of cases cost at the mean of those so far, rounded up."""
        if not self._paid_runs:
            return NOTHING
        return Spend.of(-(-amount * runs // self._paid_runs) for amount in self._measured.amounts)

    def has(self, key: bytes) -> bool:
        """Whether this effect was used, here or before."""
        return key in self._used or (self._before is not None and self._before.has(key))


@dataclass(frozen=True, kw_only=True)
class EndpointLimit:
    """The limits of one endpoint."""

    concurrency: int = 16
    per_minute: int | None = None


class Limits:
    """Limits concurrency and rate of calls per endpoint."""

    def __init__(
        self,
        limits: dict[str, EndpointLimit] | None = None,
        *,
        default: EndpointLimit | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._limits = limits or {}
        self._default = default or EndpointLimit()
        self._clock = clock
        self._sleep = sleep
        self._places: dict[str, asyncio.Semaphore] = {}
        self._next: dict[str, float] = {}

    @asynccontextmanager
    async def place(self, endpoint: str) -> AsyncGenerator[None, None]:
        """Wait for a place at an endpoint and hold it for one call."""
        limit = self._limits.get(endpoint, self._default)
        places = self._places.setdefault(endpoint, asyncio.Semaphore(limit.concurrency))
        async with places:
            if limit.per_minute is not None:
                await self._pace(endpoint, 60.0 / limit.per_minute)
            yield

    async def _pace(self, endpoint: str, interval: float) -> None:
        now = self._clock()
        turn = max(now, self._next.get(endpoint, now))
        self._next[endpoint] = turn + interval
        if turn > now:
            await self._sleep(turn - now)
