"""Whose turn it is: one candidate at a time, many runs of it, nobody forgotten."""

import asyncio

from burnish.targets.prompts.target import Turns


class Watch:
    """Runs that say when they have their turn."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.order: list[str] = []
        self.inside: dict[str, asyncio.Event] = {}

    def run(self, name: str) -> asyncio.Task[None]:
        return asyncio.create_task(self._run(name))

    async def _run(self, name: str) -> None:
        async with self.turns.turn(name[0]):
            self.order.append(name)
            self.inside[name] = asyncio.Event()
            await self.inside[name].wait()

    def end(self, *names: str) -> None:
        for name in names:
            self.inside[name].set()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_runs_of_one_candidate_join_and_others_wait_their_turn() -> None:
    watch = Watch()
    tasks = [watch.run(name) for name in ("a1", "a2", "b1", "c1", "b2", "a3")]
    await settle()
    assert watch.order == ["a1", "a2"]
    watch.end("a1")
    await settle()
    assert watch.order == ["a1", "a2"]
    watch.end("a2")
    await settle()
    assert watch.order[2:] == ["b1", "b2"]
    watch.end("b1", "b2")
    await settle()
    assert watch.order[4:] == ["c1"]
    watch.end("c1")
    await settle()
    assert watch.order[5:] == ["a3"]
    watch.end("a3")
    await asyncio.gather(*tasks)


async def test_a_cancelled_waiter_leaves_nothing_behind() -> None:
    watch = Watch()
    first, waiting = watch.run("a1"), watch.run("b1")
    await settle()
    waiting.cancel()
    await settle()
    joined = watch.run("a2")
    await settle()
    assert watch.order == ["a1", "a2"]
    watch.end("a1", "a2")
    await asyncio.gather(first, joined)


async def test_cancelled_in_the_moment_it_is_called() -> None:
    watch = Watch()
    async with watch.turns.turn("a"):
        second, third = watch.run("b1"), watch.run("c1")
        await settle()
    second.cancel()  # b1 was called, and has not run yet
    await settle()
    assert watch.order == ["c1"]
    watch.end("c1")
    await third


async def test_cancelled_in_the_moment_before_it_would_be_called() -> None:
    watch = Watch()
    first, second, third = watch.run("a1"), watch.run("b1"), watch.run("c1")
    await settle()
    second.cancel()
    watch.end("a1")
    await settle()
    assert watch.order == ["a1", "c1"]
    watch.end("c1")
    await asyncio.gather(first, third)


async def test_a_run_that_raises_gives_its_turn_away() -> None:
    turns = Turns()
    for _ in range(2):
        try:
            async with turns.turn("a"):
                raise LookupError
        except LookupError:
            pass
        async with asyncio.timeout(120), turns.turn("b"):
            pass
