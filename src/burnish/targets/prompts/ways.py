"""The two ways in which a candidate's texts reach the agent."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from burnish.system.restoration import PutBack
from burnish.targets.prompts.folders import CandidateFolders
from burnish.targets.prompts.sources import Sources
from burnish.targets.prompts.target_prompt import TargetPrompt
from burnish.targets.prompts.turns import Turns

Mode: TypeAlias = Literal["source", "isolated"]

_TURN: ContextVar[str] = ContextVar("burnish_turn", default="")
"""The candidate whose turn whoever runs here has already."""


class Way(Protocol):
    """How texts reach the agent."""

    def held(self, candidate: str, texts: Mapping[str, str]) -> AbstractAsyncContextManager[None]:
        """While entered, the agent finds these texts."""
        ...

    def folder(self, candidate: str, texts: Mapping[str, str]) -> Path:
        """The folder in which it finds them as files."""
        ...

    async def close(self) -> list[PutBack]:
        """Leave nothing behind; what was left alone since somebody else changed it."""
        ...


class SourceWay:
    """The texts are written where the agent reads them: one candidate at a time."""

    def __init__(
        self, prompts: TargetPrompt, values: Mapping[str, str], *, root: Path, home: Path
    ) -> None:
        self._sources = Sources(prompts, values, home)
        self._turns = Turns()
        self._root = root

    @asynccontextmanager
    async def held(self, candidate: str, texts: Mapping[str, str]) -> AsyncGenerator[None, None]:
        """Wait for the candidate's turn and write its texts; inside of that, go ahead."""
        if _TURN.get() == candidate:
            yield
            return
        async with self._turns.turn(candidate) as preparing:
            async with preparing:
                await self._sources.hold(texts)
            token = _TURN.set(candidate)
            try:
                yield
            finally:
                _TURN.reset(token)

    def folder(self, candidate: str, texts: Mapping[str, str]) -> Path:
        """Where the user's own files lie: they hold the texts."""
        del candidate, texts
        return self._root

    async def close(self) -> list[PutBack]:
        """Put everything back."""
        return await self._sources.close()


class IsolatedWay:
    """The agent asks for the texts; nothing of the user's is written, and candidates overlap."""

    def __init__(self, prompts: TargetPrompt, *, root: Path, home: Path) -> None:
        self._folders = CandidateFolders(prompts, root, home)

    @asynccontextmanager
    async def held(self, candidate: str, texts: Mapping[str, str]) -> AsyncGenerator[None, None]:
        """There is nobody to wait for."""
        del candidate, texts
        yield

    def folder(self, candidate: str, texts: Mapping[str, str]) -> Path:
        """A folder of the candidate's own."""
        return self._folders.of(candidate, texts)

    async def close(self) -> list[PutBack]:
        """Remove the folders."""
        self._folders.close()
        return []
