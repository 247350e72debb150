"""The workspace of one candidate: a copy of the task's folder with the candidate's files in it."""

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ParamSpec, TypeVar

from burnish.core.errors import FileTrouble
from burnish.system.files import spare_beside
from burnish.system.workspaces import (
    Bounds,
    Snapshot,
    Violation,
    copy_workspace,
    remove_tree,
    run_violations,
    snapshot,
    write_files,
)
from burnish.system.workspaces.paths import covers

CACHES = ("**/__pycache__", "**/*.pyc", "**/.pytest_cache", "**/.ruff_cache", "**/.mypy_cache")
"""What programs write beside the files they run."""
_CODE = frozenset((
    ".py", ".pth", ".so", ".pyd", ".dylib", ".js", ".cjs", ".mjs", ".ts", ".rb", ".pl", ".sh",
    ".class", ".jar", ".ini", ".cfg", ".toml",
))  # fmt: skip
_NAMES = frozenset(("Makefile", "makefile", "GNUmakefile", "package.json", ".npmrc", ".env"))
"""New files of these kinds may run, or steer what runs, in the place of what was there."""

Given = ParamSpec("Given")
Found = TypeVar("Found")


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """A folder that belongs to one candidate, and how it was before anything ran in it."""

    folder: Path
    bounds: Bounds
    before: Snapshot

    async def tampering(self) -> list[Violation]:
        """What a run touched that it must leave alone; what it made beside that is its own."""
        try:
            after = await finished(snapshot, self.folder)
        except FileTrouble:
            return [_gone()]
        found = run_violations(self.bounds, self.before, after)
        return [each for each in found if each.kind == "tampering" or self._counts(each.path)]

    async def without_caches(self) -> None:
        """Remove what programs keep for later: planted there, it would run as somebody else."""
        await finished(self._remove_caches)

    def _counts(self, path: str) -> bool:
        """A candidate that rewrites itself is not measured; new code may speak for the scorer."""
        if path in self.before.entries:
            return self.bounds.is_artifact(path)
        name = PurePosixPath(path)
        return name.suffix in _CODE or name.name in _NAMES

    def _remove_caches(self) -> None:
        for inside, folders, files in os.walk(self.folder):
            here = Path(inside)
            for name in (*folders, *files):
                path = (here / name).relative_to(self.folder).as_posix()
                if covers(CACHES, path) and path not in self.before.entries:
                    remove_tree(here / name)
                    folders[:] = [folder for folder in folders if folder != name]


@asynccontextmanager
async def made_workspace(
    folder: Path,
    bounds: Bounds,
    texts: Mapping[str, str],
    *,
    leave_out: Sequence[str],
    rooms: Sequence[str] = (),
) -> AsyncGenerator[Workspace, None]:
    """A workspace with these files, gone when it is left; a killed burnish's is cleared later.

    `rooms` are folders that are there, and empty.
    """
    async with own_place(make=False) as place:
        await finished(copy_workspace, folder, place, exclude=leave_out)
        for room in rooms:
            (place / room).mkdir(parents=True, exist_ok=True)
        await finished(write_files, place, dict(texts))
        before = await finished(snapshot, place)
        yield Workspace(folder=place, bounds=bounds, before=before)


@asynccontextmanager
async def own_place(*, make: bool = True) -> AsyncGenerator[Path, None]:
    """A folder outside of every workspace, gone when it is left, whatever was put there."""
    place = _new_place()
    try:
        if make:
            place.mkdir(mode=0o700)
        yield place
    finally:
        await finished(remove_tree, place)


async def finished(
    work: Callable[Given, Found], /, *given: Given.args, **named: Given.kwargs
) -> Found:
    """Work done in a thread. Who is cancelled waits for its end: a thread cannot be stopped."""
    working = asyncio.create_task(asyncio.to_thread(work, *given, **named))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        raise


def bounds_of(
    include: Sequence[str],
    exclude: Sequence[str],
    *,
    protect: Sequence[str] = (),
    scratch: Sequence[str] = (),
    file_types: Sequence[str] = (),
) -> Bounds:
    """What may be edited, what may be written, and what must be left alone."""
    return Bounds(
        include=tuple(include),
        exclude=(*exclude, *scratch),
        protect=tuple(protect),
        scratch=(*scratch, *CACHES),
        file_types=tuple(file_types),
    )


def _new_place() -> Path:
    """Named so that a later burnish clears it away, should this one be killed."""
    return spare_beside(Path(tempfile.gettempdir()).resolve() / "workspace")


def _gone() -> Violation:
    remedy = "leave the workspace where it is"
    return Violation(kind="tampering", message="a run removed the workspace", remedy=remedy)
