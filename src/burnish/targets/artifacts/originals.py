"""The task's folder as it was at the start: what all workspaces of a run are copies of."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from burnish.system.workspaces import DEFAULT_EXCLUDE, Bounds, copy_workspace
from burnish.targets.artifacts.task import Task
from burnish.targets.artifacts.workspace import Workspace, finished, made_workspace, own_place

_GIT = "**/.git"


class Original:
    """Copied once, when it is first needed: who goes on working in the folder disturbs nothing."""

    def __init__(self, *, task: Task) -> None:
        self._task = task
        self._making = asyncio.Lock()
        self._held = AsyncExitStack()
        self._place: Path | None = None

    @asynccontextmanager
    async def workspace(
        self, bounds: Bounds, texts: Mapping[str, str], *, held_out: bool
    ) -> AsyncGenerator[Workspace, None]:
        """A workspace with these files; what only holdout finds is there if it is `held_out`."""
        task, place = self._task, await self._copied()
        leave_out = () if held_out else task.holdout_files
        rooms = [room for room in map(_folder, task.scratch) if (task.folder / room).is_dir()]
        made = made_workspace(place, bounds, texts, leave_out=leave_out, rooms=rooms)
        async with made as workspace:
            yield workspace

    async def close(self) -> None:
        """Remove the copy."""
        self._place = None
        await self._held.aclose()

    async def _copied(self) -> Path:
        async with self._making:
            if self._place is None:
                place = await self._held.enter_async_context(own_place(make=False))
                await finished(copy_workspace, self._task.folder, place, exclude=self._left_out())
                self._place = place
            return self._place

    def _left_out(self) -> list[str]:
        task = self._task
        usual = [name for name in DEFAULT_EXCLUDE if not (task.copy_git and name == _GIT)]
        return [*usual, *task.scratch]


def _folder(pattern: str) -> str:
    """The folder that a pattern of scratch files lies in, where it names one."""
    plain = pattern.removesuffix("**").removesuffix("/")
    return plain if plain and not set("*?[") & set(plain) else "."
