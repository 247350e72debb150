"""How often a request is repeated, and how long a run waits while nobody answers."""

import asyncio
import math
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field

import pytest

from burnish.journal.executors import CallClock, OutOfTime, within
from burnish.journal.outages import ONCE, Cause, RetryPolicy, Setback, Waits, retry

MODEL = "openai:clerk"


class Failed(Exception):
    """A failed attempt, with why it may be repeated; None if it may not."""

    def __init__(self, cause: Cause | None, requested: float | None = None) -> None:
        super().__init__(cause or "no")
        self.setback = None if cause is None else Setback(cause=cause, requested=requested)


def again(error: Exception) -> Setback | None:
    assert isinstance(error, Failed)
    return error.setback


@dataclass
class World:
    """A clock that only moves when somebody sleeps, and an endpoint that has a script."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list[float])
    told: list[str] = field(default_factory=list[str])

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def waits(self, seconds: float = 300) -> Waits:
        tell, clock = self.told.append, lambda: self.now
        return Waits(seconds=seconds, tell=tell, clock=clock, sleep=self.sleep)


POLICY = RetryPolicy(attempts=3, longest_wait=30.0)


async def ask(
    script: Sequence[Failed | str],
    *,
    policy: RetryPolicy = POLICY,
    endpoint: str = MODEL,
) -> tuple[str, int]:
    """The answer, and the number of attempts; the last part of the script is repeated."""
    tries = 0

    async def attempt(number: int) -> str:
        nonlocal tries
        tries = number
        part = script[min(number, len(script)) - 1]
        if isinstance(part, Failed):
            raise part
        return part

    answer = await retry(attempt, policy=policy, again=again, endpoint=endpoint)
    return answer, tries


AWAY, BUSY, LIMITED = Failed("away"), Failed("busy"), Failed("rate limited")


async def test_pauses_grow_and_are_as_long_as_the_other_side_asks() -> None:
    world = World()
    script = [AWAY, AWAY, Failed("busy", 10.0), "there"]
    with world.waits(0).apply():
        found, _ = await ask(script, policy=RetryPolicy(attempts=5, first_wait=1.0))
    assert found == "there"
    assert 0.5 <= world.slept[0] <= 1.0
    assert 1.0 <= world.slept[1] <= 2.0
    assert world.slept[2] == 10.0
    assert world.told == []


@pytest.mark.parametrize(
    ("seconds", "cause"),
    [(0, "away"), (0, "busy"), (0, "unusable"), (300, "away"), (300, "unusable")],
)
async def test_where_attempts_are_counted_no_pause_is_long(seconds: float, cause: Cause) -> None:
    world = World()
    with world.waits(seconds).apply(), pytest.raises(Failed):
        await ask([Failed(cause, 1_000.0)])
    assert world.slept == [30.0, 30.0]


@pytest.mark.parametrize("requested", [1e7, math.inf, -math.inf, math.nan, -1.0])
async def test_nobody_waits_for_as_long_as_no_sane_server_asks(requested: float) -> None:
    world = World()
    with world.waits(0).apply(), pytest.raises(Failed):
        await ask([Failed("busy", requested)])
    assert sum(world.slept) <= 0.5 + 1.0
    with world.waits().apply():
        await ask([Failed("busy", requested)] * 3 + ["there"])
    assert sum(world.slept) < 10


@pytest.mark.parametrize("endpoint", [MODEL, ""])
async def test_without_time_to_wait_attempts_are_counted(endpoint: str) -> None:
    world = World()
    with world.waits(0 if endpoint else 300).apply(), pytest.raises(Failed):
        await ask([AWAY], endpoint=endpoint)
    assert len(world.slept) == 2


async def test_what_cannot_be_repeated_is_raised_at_once() -> None:
    world = World()
    with world.waits().apply(), pytest.raises(Failed):
        await ask([Failed(None)])
    assert world.slept == []


async def test_an_outage_is_waited_for_by_time_and_people_are_told() -> None:
    world = World()
    with world.waits().apply():
        found, tries = await ask([BUSY] * 8 + ["there"], policy=ONCE)
    assert (found, tries) == ("there", 9)
    assert world.told[0] == "busy (trying again for up to 5m 00s)"
    assert world.told[1].startswith(f"{MODEL} answers again, after ")
    assert len(world.told) == 2


async def test_a_run_is_waiting_until_somebody_is_answered() -> None:
    world = World()
    waits = world.waits()
    with waits.apply():
        lost = asyncio.create_task(ask([BUSY]))
        while not world.told:
            assert not waits.waiting
            await asyncio.sleep(0)
        assert waits.waiting
        await ask(["there"])
        assert not waits.waiting
        lost.cancel()


async def test_a_short_trouble_is_not_told() -> None:
    world = World()
    with world.waits().apply():
        await ask([AWAY, "there"])
    assert world.told == []


async def test_an_outage_ends_the_wait_after_its_time_and_later_calls_fail_at_once() -> None:
    world = World()
    waits = world.waits()
    with waits.apply():
        with pytest.raises(Failed):
            await ask([BUSY])
        assert sum(world.slept) == pytest.approx(300)
        assert not waits.waiting, "it was given up"
        assert waits.in_vain("the reflector: busy") == pytest.approx(300)
        assert not waits.in_vain("another trouble")
        before = len(world.slept)
        with pytest.raises(Failed):
            await ask([BUSY])
        assert len(world.slept) == before, "somebody has waited for it already"
        assert await ask(["there"]) == ("there", 1)
        assert not waits.in_vain("busy")
        await ask([BUSY] * 6 + ["there"])
        assert len(world.slept) == before + 6, "another outage has time of its own"


async def test_an_outage_is_no_storm_of_requests_where_pauses_are_none() -> None:
    world = World()
    with world.waits().apply(), pytest.raises(Failed):
        await ask([BUSY], policy=RetryPolicy(first_wait=0.0))
    assert len(world.slept) <= 1200


async def test_many_calls_wait_for_one_outage_together() -> None:
    world = World()
    with world.waits().apply():
        results = await asyncio.gather(*(ask([AWAY]) for _ in range(5)), return_exceptions=True)
    assert all(isinstance(each, Failed) for each in results)
    assert world.now < 300 + 5 * 30
    assert len([line for line in world.told if "trying again" in line]) == 1


async def test_while_others_are_answered_a_call_is_tried_a_few_times() -> None:
    """A request that an endpoint cannot take must not hold up a run for minutes."""
    world = World()
    waits = world.waits()

    async def others() -> None:
        world.now += 1
        await ask(["there"])

    with waits.apply():
        poison = asyncio.create_task(ask([AWAY]))
        await asyncio.sleep(0)
        for _ in range(20):
            await others()
        with pytest.raises(Failed):
            await poison
    assert len(world.slept) <= 3
    assert not waits.in_vain("away")


async def test_one_call_that_fails_often_is_not_several() -> None:
    world = World()
    with world.waits().apply():
        poison = asyncio.create_task(ask([AWAY], policy=RetryPolicy(attempts=6)))
        await asyncio.sleep(0)
        world.now += 0.1
        await ask(["there"])
        with pytest.raises(Failed):
            await poison
        world.slept.clear()
        with pytest.raises(Failed):
            await ask([AWAY])
    assert len(world.slept) == 2, "the next one is the second, and waits for nobody"


async def test_a_call_that_fails_alone_holds_up_nobody() -> None:
    """A case that its endpoint cannot take, where nothing else is asked meanwhile."""
    world = World()
    with world.waits().apply():
        await ask(["there"])
        for _ in range(2):
            with pytest.raises(Failed):
                await ask([AWAY])
            assert len(world.slept) == 2
            world.slept.clear()
            await ask(["there"])
        with pytest.raises(Failed):
            await ask([AWAY], policy=ONCE)
    assert len(world.slept) == 1, "the second attempt shows whether others fail too"


async def test_several_that_fail_alone_hold_up_a_run_once() -> None:
    world = World()
    waits = world.waits()
    with waits.apply():
        await ask(["there"])
        await asyncio.gather(ask([AWAY]), ask([AWAY]), return_exceptions=True)
        assert world.now < 10
        await ask(["there"])
        await asyncio.gather(*(ask([AWAY]) for _ in range(3)), return_exceptions=True)
        assert world.now >= 300
        assert not waits.in_vain("away"), "the endpoint may answer others, and does"
        await ask(["there"])
        world.slept.clear()
        await asyncio.gather(*(ask([AWAY]) for _ in range(3)), return_exceptions=True)
        assert len(world.slept) == 6
        world.slept.clear()
        with pytest.raises(Failed):
            await ask([BUSY])
    assert sum(world.slept) > 290, "this is not about what was asked"


async def crowded(world: World, script: Sequence[Failed | str]) -> asyncio.Task[tuple[str, int]]:
    """A call while others are answered all the time, when it has ended."""
    call = asyncio.create_task(ask(script, policy=ONCE))
    while not call.done():
        world.now += 0.1
        await ask(["there"])
        await asyncio.sleep(0)
    return call


@pytest.mark.parametrize("failure", [BUSY, LIMITED])
async def test_who_is_told_to_come_back_waits_by_time_also_while_others_are_answered(
    failure: Failed,
) -> None:
    world = World()
    waits = world.waits()
    with waits.apply():
        for _ in range(2):
            call = await crowded(world, [failure] * 12 + ["there"])
            assert call.result() == ("there", 13)
            assert not waits.waiting
    assert world.told == [f"{failure} (others are answered; trying again for up to 5m 00s)"]


async def test_a_request_that_alone_is_told_to_come_back_costs_its_time_once() -> None:
    world = World()
    waits = world.waits()
    with waits.apply():
        assert (await crowded(world, [BUSY])).exception()
        assert world.now > 300
        assert not waits.in_vain("busy"), "the endpoint answers others"
        began = world.now
        for _ in range(10):
            assert (await crowded(world, [BUSY])).exception()
        assert world.now - began < 30
        world.slept.clear()
        with pytest.raises(Failed):
            await ask([BUSY])
    assert sum(world.slept) > 290, "an outage is still waited for"


async def test_a_rate_limit_may_make_a_call_wait_in_vain_and_loses_no_other() -> None:
    world = World()
    with world.waits().apply():
        assert (await crowded(world, [LIMITED])).exception()
        assert (await crowded(world, [LIMITED] * 12 + ["there"])).result() == ("there", 13)


async def test_an_outage_is_not_taken_for_a_request_that_fails_alone() -> None:
    """A call failed just before the last answer, and nobody was answered from then on."""
    world = World()
    waits = world.waits()
    with waits.apply():
        first = asyncio.create_task(ask([BUSY]))
        await asyncio.sleep(0)
        await ask(["there"])
        with pytest.raises(Failed):
            await first
        assert waits.in_vain("busy")
        await ask(["there"])
        assert (await crowded(world, [BUSY] * 12 + ["there"])).result() == ("there", 13)


async def test_an_outage_with_long_pauses_is_told_once() -> None:
    world = World()
    with world.waits(900).apply():
        await ask([Failed("busy", 150.0)] * 4 + ["there"])
        assert len(world.told) == 2, "its beginning and its end"


async def test_an_outage_in_which_a_call_sleeps_is_told_once() -> None:
    world, over = World(), asyncio.Event()

    async def sleep(seconds: float) -> None:
        await (over.wait() if seconds == 400 else world.sleep(seconds))

    waits = Waits(seconds=900, tell=world.told.append, clock=lambda: world.now, sleep=sleep)
    with waits.apply():
        sleeper = asyncio.create_task(ask([Failed("busy", 400.0), "there"]))
        await asyncio.sleep(0)
        world.now += 200
        await ask([BUSY] * 6 + ["there"])
        over.set()
        await sleeper
    assert len(world.told) == 2, "its beginning and its end"


async def test_a_warning_is_one_line_that_is_cut_after_it_was_redacted() -> None:
    world, key = World(), "hunter2-" * 5

    class Verbose(Failed):
        def __str__(self) -> str:
            return "x" * 390 + f"\n{key}" + "\nmore" * 200_000

    waits = Waits(
        seconds=300,
        tell=world.told.append,
        redact=lambda text: text.replace(key, "[redacted]"),
        clock=lambda: world.now,
        sleep=world.sleep,
    )
    with waits.apply():
        await ask([Verbose("busy")] * 6 + ["there"])
    assert world.told[0].endswith("… (trying again for up to 5m 00s)")
    assert "\n" not in world.told[0]
    assert len(world.told[0]) < 450
    assert "hunter2" not in world.told[0]


async def test_answers_of_no_use_are_billed_and_so_they_are_counted() -> None:
    world = World()
    with world.waits().apply(), pytest.raises(Failed):
        await ask([Failed("unusable")])
    assert len(world.slept) == 2


@pytest.mark.parametrize(("cause", "seconds"), [("refused", 30), ("unknown host", 0)])
async def test_an_address_that_never_answered_may_be_wrong(cause: Cause, seconds: float) -> None:
    world = World()
    with world.waits().apply():
        with pytest.raises(Failed):
            await ask([Failed(cause)])
        assert sum(world.slept) == pytest.approx(seconds)
        await ask(["there"])
        world.slept.clear()
        with pytest.raises(Failed):
            await ask([Failed(cause)])
    assert sum(world.slept) == pytest.approx(300), "it is known to be right"


async def test_a_call_that_was_cancelled_leaves_no_outage_behind() -> None:
    world = World()
    with world.waits().apply():
        lost = asyncio.create_task(ask([BUSY]))
        for _ in range(9):
            await asyncio.sleep(0)
        assert world.slept
        lost.cancel()
        with pytest.raises(asyncio.CancelledError):
            await lost
        world.now += 3600
        assert await ask([BUSY, BUSY, "there"]) == ("there", 3)


async def test_a_slow_call_is_not_over_before_its_time() -> None:
    """Attempts that each take longer than an outage is remembered for still come to an end."""
    world, tries = World(), 0

    async def hang(number: int) -> str:
        nonlocal tries
        tries = number
        world.now += 200
        raise BUSY

    with world.waits().apply(), pytest.raises(Failed):
        await retry(hang, policy=ONCE, again=again, endpoint=MODEL)
    assert tries == 3


async def test_waiting_is_not_the_time_of_the_agent() -> None:
    world, slept = World(), asyncio.Event()

    async def sleep(seconds: float) -> None:
        world.now += seconds
        slept.set()
        await asyncio.sleep(0)

    waits = Waits(seconds=300, clock=lambda: world.now, sleep=sleep)
    clock = CallClock(whole=10.0, each=None, clock=lambda: world.now)
    with waits.apply():
        assert await within(clock, lambda: ask([BUSY] * 9 + ["there"])) == ("there", 10)
        assert world.now > 10

        async def slow() -> None:
            world.now += 11
            await asyncio.Event().wait()

        with pytest.raises(OutOfTime):
            await within(CallClock(whole=10.0, each=None, clock=lambda: world.now), slow)


async def test_a_call_that_failed_before_the_last_answer_waits_for_the_outage_too() -> None:
    world = World()

    async def attempt(number: int) -> str:
        del number
        if world.now < 60:
            raise AWAY
        return "there"

    def call() -> Awaitable[str]:
        return retry(attempt, policy=POLICY, again=again, endpoint=MODEL)

    with world.waits().apply():
        early = asyncio.ensure_future(call())
        await asyncio.sleep(0)  # its first attempt has failed
        await ask(["there"])  # the last answer before the outage
        results = await asyncio.gather(early, *(call() for _ in range(4)))
    assert results == ["there"] * 5
