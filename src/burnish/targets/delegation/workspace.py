"""The workspace of a delegation: every step in it is journaled with the state it leaves behind."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.core.effects import Call, Effects, Receipt
from burnish.core.money import NOTHING, Spend
from burnish.system.workspaces import remove_tree
from burnish.targets.artifacts.workspace import finished
from burnish.targets.delegation.envelope import Stopwatch
from burnish.targets.delegation.states import StateStore

Leaves: TypeAlias = Literal["changes", "nothing", "litter"]
"""What a step leaves in the folder: changes that are kept, nothing, or what is to be undone."""
INPUT = "input"
"""Where given files lie in the workspace: to be read, and no part of what is delivered."""


@dataclass(frozen=True, kw_only=True)
class Stepped:
    """What a step gave, as the journal keeps it."""

    value: Json
    state: str
    """The workspace after it."""
    seconds: float
    """The run's active time when it ended."""


@dataclass(kw_only=True)
class Workspace:
    """The folder that workers share, and the state that the story so far says it is in.

    On a replay nothing is done in the folder. As soon as a step is not in the journal, the folder
    is first put into the state that the step before it left, whatever a killed run did there.
    """

    folder: Path
    store: StateStore
    effects: Effects
    clock: Stopwatch
    state: str = ""
    seconds: float = 0.0
    """The active time at the end of the last step."""
    _actual: str = field(default="?", init=False)
    """The state that the folder is really in, where that is known."""
    _steps: "set[asyncio.Task[Any]]" = field(default_factory=set["asyncio.Task[Any]"], init=False)

    async def step(
        self,
        kind: str,
        request: dict[str, Json],
        act: Callable[[], Awaitable[Json]],
        *,
        leaves: Leaves = "changes",
        price: Spend = NOTHING,
    ) -> Json:
        """Do something in the folder, once."""
        before = self.state

        async def perform(_: Effects) -> Receipt[Stepped]:
            with self._under_way():
                return await stepped()

        async def stepped() -> Receipt[Stepped]:
            await self._bring_to(before)
            self._actual = "?"
            value = await act()
            after = await self._kept() if leaves == "changes" else before
            self._actual = "?" if leaves == "litter" else after
            made = Stepped(value=value, state=after, seconds=self.clock.seconds)
            return Receipt(value=made, spend=price)

        call = Call(
            kind=kind,
            request={"state": before, **request},
            codec=codec(Stepped),
            estimate=price,
        )
        done = await self.effects.once(call, perform)
        self.clock.reach(done.seconds)
        self.state, self.seconds = done.state, max(self.seconds, done.seconds)
        return done.value

    async def settle(self) -> None:
        """Leave the folder as the story says it is, for whoever looks at it after the end."""
        await self._bring_to(self.state)

    async def abandon(self) -> None:
        """Break off the step under way: whoever waited for it has left, and the run goes on."""
        steps = list(self._steps)
        for step in steps:
            step.cancel()
        await asyncio.gather(*steps, return_exceptions=True)

    @contextmanager
    def _under_way(self) -> Generator[None, None, None]:
        step = asyncio.current_task()
        assert step is not None
        self._steps.add(step)
        try:
            yield
        finally:
            self._steps.discard(step)

    async def _kept(self) -> str:
        """The state that a step left behind; a folder that it took away is an empty one."""
        if self.folder.is_symlink() or not self.folder.is_dir():
            await finished(remove_tree, self.folder)
            self.folder.mkdir(parents=True)
        return await finished(self.store.keep, self.folder)

    async def _bring_to(self, state: str) -> None:
        if state and self._actual != state:
            await finished(self.store.restore, state, self.folder)
            self._actual = state

    # -- looking: at the state, so that a replay sees the same -----------------------------

    @property
    def files(self) -> list[str]:
        """The files of the present state."""
        return self.store.files(self.state)

    def made(self, since: str) -> list[str]:
        """Files that are new or changed since a state; what was given is not among them."""
        old = self.store.entries(since)
        new = self.store.entries(self.state)
        return [
            path
            for path in self.files
            if not path.startswith(f"{INPUT}/")
            and (path not in old or old[path].content != new[path].content)
        ]

    def read(self, path: str) -> bytes:
        """What a file of the present state holds."""
        return self.store.read(self.state, path)
