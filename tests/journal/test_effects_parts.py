"""Budgets, the meter, limits, retries, failures and the executor."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from urllib.error import URLError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.core.cases import FailureKind
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Effects, Receipt
from burnish.journal.executors import AsyncioExecutor, failure_of, is_infrastructure, status_of
from burnish.journal.limits import Budget, EndpointLimit, Limits, Meter
from burnish.journal.once import DirectEffects
from burnish.testing import check_executor
from tests.journal.journals import Agent, text_call


@pytest.mark.parametrize(
    ("budget", "spent", "need", "code"),
    [
        (Budget(), Spend(calls=10**9), NOTHING, None),
        (Budget(max_calls=10), Spend(calls=9), NOTHING, None),
        (Budget(max_calls=10), Spend(calls=10), NOTHING, "max_calls"),
        (Budget(max_calls=10), Spend(calls=8), Spend(calls=2), None),
        (Budget(max_calls=10), Spend(calls=8), Spend(calls=3), "max_calls"),
        (Budget(max_metric_calls=5), Spend(metric_calls=5), NOTHING, "max_metric_calls"),
        (Budget(max_tokens=100), Spend(tokens_in=60, tokens_out=40), NOTHING, "max_tokens"),
        (Budget(max_usd=0.5), Spend(nano_usd=499_999_999), NOTHING, None),
        (Budget(max_usd=0.5), Spend(nano_usd=500_000_000), NOTHING, "max_usd"),
        (Budget(max_usd=0.5), Spend(unpriced=1), NOTHING, "price_unknown"),
        (Budget(max_calls=5), Spend(unpriced=1), NOTHING, None),
    ],
)
def test_limits_on_spending(budget: Budget, spent: Spend, need: Spend, code: str | None) -> None:
    reason = budget.spend_limit(spent, need)
    assert (reason and reason.code) == code


def test_a_limit_says_what_is_used_and_what_is_needed() -> None:
    reason = Budget(max_usd=1.0).spend_limit(Spend(nano_usd=900_000_000), Spend(nano_usd=2 * 10**8))
    assert reason is not None
    assert reason.detail == "0.9000 of 1.0000 USD spent, and the next step needs 0.2000"


def test_a_limit_within_a_budget_is_only_ever_made_stricter() -> None:
    own = Budget(max_calls=10, max_usd=1.0, patience=3)
    stricter = own.within(max_calls=20, max_usd=0.5, max_tokens=100, max_minutes=None)
    assert stricter == Budget(max_calls=10, max_usd=0.5, max_tokens=100, patience=3)
    assert own.within() == own


def test_rule_03_the_meter_counts_each_distinct_effect_once() -> None:
    meter = Meter()
    one = {"aa": Spend(calls=1), "bb": Spend(calls=1, nano_usd=5)}
    assert meter.use(one) == Spend(calls=2, nano_usd=5)
    assert meter.use({"bb": Spend(calls=1, nano_usd=5), "cc": Spend(calls=1)}) == Spend(calls=1)
    assert meter.spent == Spend(calls=3, nano_usd=5)


def test_runs_are_counted_once_and_also_when_an_earlier_run_paid_for_them() -> None:
    meter = Meter()
    for spend in (Spend(metric_calls=1), Spend()):
        meter.use({"aa": spend, "bb": Spend(calls=1)}, run="aa")
        meter.use({"cc": Spend()}, run="cc")
    assert meter.runs == 2
    assert meter.spent.metric_calls == 1


@given(st.permutations([f"{n:02x}" for n in range(8)]))
@settings(max_examples=20, derandomize=True)
def test_rule_03_the_order_of_use_does_not_change_the_sum(keys: list[str]) -> None:
    meter = Meter()
    for key in keys:
        meter.use({key: Spend(calls=1, nano_usd=int(key, 16))})
    assert meter.spent == Spend(calls=8, nano_usd=28)


@dataclass
class Clock:
    """A clock that only moves when someone sleeps."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list[float])

    def read(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


async def test_rule_12_endpoints_have_limits_of_their_own() -> None:
    limits = Limits({"api": EndpointLimit(concurrency=2)})
    running = most = 0

    async def call() -> None:
        nonlocal running, most
        async with limits.place("api"):
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            running -= 1

    await asyncio.gather(*(call() for _ in range(10)))
    assert most == 2


async def test_rule_12_a_case_that_waits_for_its_endpoint_does_not_deadlock() -> None:
    executor = AsyncioExecutor(1)
    limits = Limits({"api": EndpointLimit(concurrency=1)})

    async def case(n: int) -> int:
        async with limits.place("api"):
            await asyncio.sleep(0)
        return n

    assert [r async for r in executor.map(range(5), case)] == list(range(5))


async def test_calls_a_minute_are_paced() -> None:
    clock = Clock()
    limits = Limits({"api": EndpointLimit(per_minute=30)}, clock=clock.read, sleep=clock.sleep)
    for _ in range(4):
        async with limits.place("api"):
            pass
    assert clock.slept == [2.0, 2.0, 2.0]


class Busy(Exception):
    """As HTTP clients raise it."""

    def __init__(self, status_code: int) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code


class Wrapped(Exception):
    """As other HTTP clients raise it."""

    def __init__(self, status: int) -> None:
        super().__init__("wrapped")
        self.response = Busy(status)


class TransportError(Exception):
    """The name that httpx gives."""


class TemplateMissing(Exception):
    """Something of the user's own."""


@pytest.mark.parametrize(
    ("error", "listed", "infrastructure"),
    [
        (ConnectionResetError("reset"), (), True),
        (Busy(429), (), True),
        (Busy(503), (), True),
        (Wrapped(429), (), True),
        (TransportError("gone"), (), True),
        (Busy(500), (), False),
        (Busy(400), (), False),
        (URLError(ConnectionRefusedError("refused")), (), True),
        (URLError(FileNotFoundError("no such file")), (), False),
        (URLError("unknown url type"), (), False),
        (ValueError("bad JSON"), (), False),
        (TimeoutError("slow"), (), False),
        (TemplateMissing("x"), (), False),
        (TemplateMissing("x"), ("TemplateMissing",), True),
    ],
)
def test_law_4_whose_fault_an_exception_is(
    error: Exception, listed: tuple[str, ...], infrastructure: bool
) -> None:
    assert is_infrastructure(error, listed) is infrastructure
    failure = failure_of(error, listed=listed)
    assert (failure.kind is FailureKind.INFRASTRUCTURE) is infrastructure
    assert failure.message == f"{type(error).__name__}: {error}"


def test_a_status_that_is_no_number_is_no_status() -> None:
    error = ValueError("x")
    error.code = "E_BROKEN"  # pyright: ignore[reportAttributeAccessIssue]
    assert status_of(error) is None


async def test_the_executor_keeps_its_contract() -> None:
    await check_executor(AsyncioExecutor)


async def test_two_maps_share_the_places() -> None:
    executor = AsyncioExecutor(3)
    running = most = 0

    async def work(n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        return n

    async def all_of(results: AsyncIterator[int]) -> list[int]:
        return [result async for result in results]

    first, second = await asyncio.gather(
        all_of(executor.map(range(20), work)), all_of(executor.map(range(20), work))
    )
    assert first == second == list(range(20))
    assert most == 3


async def test_a_slow_first_unit_does_not_idle_the_others() -> None:
    executor = AsyncioExecutor(4)
    gate, started = asyncio.Event(), 0

    async def work(n: int) -> int:
        nonlocal started
        started += 1
        if n == 0:
            await gate.wait()
        return n

    async def read() -> list[int]:
        return [result async for result in executor.map(range(30), work)]

    reading = asyncio.create_task(read())
    async with asyncio.timeout(120):
        while started < 30:  # noqa: ASYNC110 - what would never come ends at the limit
            await asyncio.sleep(0)
    gate.set()
    assert await reading == list(range(30))


async def test_units_are_taken_only_when_there_is_room_for_their_results() -> None:
    executor = AsyncioExecutor(2)
    taken = 0

    def units() -> "AsyncIterator[int] | range":
        return range(1000)

    async def work(n: int) -> int:
        nonlocal taken
        taken += 1
        return n

    async with aclosing(executor.map(units(), work)) as results:  # pyright: ignore[reportArgumentType]
        async for _ in results:
            await asyncio.sleep(0.01)
            break
    assert taken < 40


async def test_direct_effects_perform_every_time() -> None:
    effects, agent = DirectEffects(), Agent()

    async def nested(inner: Effects) -> Receipt[str]:
        return Receipt(value=await inner.once(text_call("inner"), agent))

    assert await effects.once(text_call("a"), nested) == "hello"
    assert await effects.once(text_call("a"), nested) == "hello"
    assert agent.calls == 2
    assert effects.spent.calls == 2


def test_an_executor_needs_a_place() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        AsyncioExecutor(0)
