"""Running the user's code under a limit, and leaving it where it does not end."""

import asyncio
from contextvars import ContextVar

import pytest

from burnish.journal.executors import CallClock, CancelledInside, OutOfTime, timed_call, within

SEEN: ContextVar[str] = ContextVar("seen", default="")


def unlimited() -> CallClock:
    return CallClock(whole=None, each=None)


async def test_what_the_work_gives_or_raises_is_passed_on() -> None:
    async def fine() -> str:
        return SEEN.get()

    async def broken() -> None:
        raise LookupError("no such word")

    SEEN.set("the caller's context")
    assert await within(unlimited(), fine) == "the caller's context"
    with pytest.raises(LookupError, match="no such word"):
        await within(unlimited(), broken)


async def test_a_limit_for_all_of_it() -> None:
    with pytest.raises(OutOfTime, match=r"the case's time limit of 0\.05 s"):
        await within(CallClock(whole=0.05, each=None), asyncio.Event().wait)


def test_a_limit_for_each_call_begins_anew_with_each_call() -> None:
    now = 0.0
    clock = CallClock(whole=None, each=10, clock=lambda: now)
    with clock.call():
        now = 9.75
        assert (clock.wait, clock.expired) == (0.25, False)
    now = 15.0
    assert not clock.expired, "no call is under way"
    with clock.call():
        assert not clock.expired
        now = 24.5
        with clock.call():
            assert clock.wait == 0.5, "that of the call which has to end first"
        now = 25.0
        assert clock.expired


def test_a_call_is_not_charged_for_others_that_block_the_loop() -> None:
    now = 0.0
    clock = CallClock(whole=10, each=None, at_once=3, clock=lambda: now)
    now = 9.0
    clock.held_up(0.5)
    assert clock.wait == 1.0, "a machine may be late"
    now = 17.0
    clock.held_up(8.0)
    assert not clock.expired
    assert clock.overdue, "were it the one that blocks, it would have had its time"
    now = 26.0
    clock.held_up(9.0)
    assert not clock.expired
    now = 30.0
    clock.held_up(100.0)
    assert clock.expired, "all who run at once have had theirs"
    alone = CallClock(whole=10, each=None, clock=lambda: now)
    now = 40.0
    alone.held_up(10.0)
    assert alone.expired


async def test_a_limit_for_each_call_holds_in_timed_calls() -> None:
    async def stuck() -> None:
        with timed_call():
            await asyncio.sleep(0)
        with timed_call():
            await asyncio.Event().wait()

    with pytest.raises(OutOfTime, match=r"the time limit for one call of 0\.2 s"):
        await within(CallClock(whole=None, each=0.2), stuck)


async def test_what_is_not_a_timed_call_has_no_limit_of_its_own() -> None:
    async def around() -> str:
        await asyncio.sleep(0.2)
        return "a model was asked"

    assert await within(CallClock(whole=None, each=0.05), around) == "a model was asked"


async def test_a_limit_for_all_of_it_replaces_that_for_each_call() -> None:
    async def slow() -> str:
        with timed_call():
            await asyncio.sleep(0.2)
        return "done"

    assert await within(CallClock(whole=60, each=0.05), slow) == "done"


async def test_cancelled_by_itself_is_told_from_being_cancelled() -> None:
    async def raises() -> None:
        raise asyncio.CancelledError

    async def cancels_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(60)

    for work in (raises, cancels_itself):
        with pytest.raises(CancelledInside):
            await within(unlimited(), work)

    ended = asyncio.Event()

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    task = asyncio.create_task(within(unlimited(), waits))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set(), "who is cancelled leaves nothing running"


@pytest.mark.slow
async def test_work_that_ignores_its_cancelling_is_left_behind() -> None:
    free = asyncio.Event()
    left: list[asyncio.Task[None] | None] = []

    async def stubborn() -> None:
        left.append(asyncio.current_task())
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue

    with pytest.raises(OutOfTime):
        await within(CallClock(whole=0.05, each=None), stubborn)
    (task,) = left
    assert task is not None
    assert not task.done()
    assert task not in asyncio.all_tasks(), "whoever closes the loop would wait for it"
    free.set()
    await task


async def test_a_clock_knows_whether_a_users_function_is_running() -> None:
    for clock in (CallClock(whole=60, each=None), CallClock(whole=None, each=60)):
        seen: list[bool] = []

        async def work(clock: CallClock = clock, seen: list[bool] = seen) -> None:
            seen.append(clock.calling)
            with timed_call():
                seen.append(clock.calling)
            seen.append(clock.calling)

        await within(clock, work)
        assert seen == [False, True, False]
