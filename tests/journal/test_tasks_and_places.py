"""Work that outlives those who wait for it, and places that are taken in order."""

import asyncio
import gc

import pytest

from burnish.journal.executors import DetachedTask, FairSemaphore, Turnstile


async def test_everybody_who_waits_gets_the_result() -> None:
    begun, free = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        begun.set()
        await free.wait()
        return "done"

    task = DetachedTask(work)
    waiting = [asyncio.create_task(task.result()) for _ in range(3)]
    await begun.wait()
    free.set()
    assert await asyncio.gather(*waiting) == ["done"] * 3
    assert await task.result() == "done", "also for who asks when it has ended"


async def test_work_goes_on_if_who_waits_is_cancelled() -> None:
    free = asyncio.Event()

    async def work() -> None:
        await free.wait()
        raise LookupError("nobody hears this, and nobody is to be warned of it")

    task = DetachedTask(work)
    waiting = asyncio.create_task(task.result())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not task.task.done()
    free.set()
    await asyncio.wait([task.task])
    reports: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: reports.append(about))
    del task, waiting
    gc.collect()
    assert reports == []


async def test_one_waits_no_longer_than_one_wants_to() -> None:
    task = DetachedTask(asyncio.Event().wait)
    await task.ended(0.01)
    assert not task.task.done()
    task.cancel()
    await task.ended()
    assert task.task.cancelled()


async def test_work_that_is_cancelled_before_it_began_wakes_who_waits() -> None:
    ran: list[str] = []

    async def work() -> None:
        ran.append("ran")

    task = DetachedTask(work)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task.result()
    assert ran == []


async def test_places_are_given_in_order() -> None:
    places, order = FairSemaphore(2), list[int]()

    async def visit(number: int) -> None:
        await places.acquire()
        order.append(number)
        await asyncio.sleep(0)
        places.release()

    await asyncio.gather(*map(visit, range(6)))
    assert order == list(range(6))
    await asyncio.wait_for(places.acquire(), 120)
    await asyncio.wait_for(places.acquire(), 120)


async def test_a_place_of_somebody_who_no_longer_waits_goes_to_the_next() -> None:
    places = FairSemaphore(1)
    await places.acquire()
    first, second = (asyncio.create_task(places.acquire()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    places.release()
    await asyncio.wait_for(second, 120)

    third, fourth = (asyncio.create_task(places.acquire()) for _ in range(2))
    await asyncio.sleep(0)
    places.release()
    third.cancel()  # in the moment between getting the place and hearing of it
    await asyncio.wait([third])
    await asyncio.wait_for(fourth, 120)


async def test_what_starts_meanwhile_does_not_wait_for_everybody_s_turn() -> None:
    turns, order = Turnstile(), list[str]()

    async def finish(number: int) -> None:
        await turns.wait()
        order.append(f"finished {number}")

    async def start() -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        order.append("started")

    finishing = [asyncio.create_task(finish(number)) for number in range(20)]
    starting = asyncio.create_task(start())
    await asyncio.gather(*finishing, starting)
    finished = [each for each in order if each != "started"]
    assert finished == [f"finished {number}" for number in range(20)]
    assert 0 < order.index("started") < 10


async def test_somebody_who_no_longer_waits_for_a_turn_holds_nobody_up() -> None:
    turns = Turnstile()
    waiting = [asyncio.create_task(turns.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.wait_for(asyncio.gather(*waiting[1:]), 120)
    await asyncio.wait_for(turns.wait(), 120)


def test_turns_go_on_in_another_loop() -> None:
    turns = Turnstile()

    async def cut_off() -> None:
        waiting = asyncio.create_task(turns.wait())
        await asyncio.sleep(0)
        waiting.cancel()

    asyncio.run(cut_off())
    asyncio.run(asyncio.wait_for(turns.wait(), 120))
