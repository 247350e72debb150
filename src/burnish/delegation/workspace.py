"""The workspace of a delegation, its states kept by content."""

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import quote_from_bytes, unquote_to_bytes

from burnish.core.content import Json, canonical, codec
from burnish.core.errors import ConfigError, JournalTrouble, Problem
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Call, Effects, Receipt
from burnish.delegation.envelope import Stopwatch
from burnish.system import read_bytes, write_atomic
from burnish.system.files import file_trouble, put_in_place
from burnish.system.workspaces import copy_workspace, remove_tree, snapshot
from burnish.system.workspaces.paths import covers
from burnish.targets.artifacts.task import CACHES, finished


@dataclass(frozen=True, kw_only=True)
class _StateEntry:
    """One entry of a state."""

    kind: Literal["file", "folder", "link"]
    mode: int = 0
    content: str = ""
    """The digest of a file, the target of a link, quoted as paths are."""
    size: int = 0


@dataclass(frozen=True)
class StateStore:
    """Keeps states of one workspace in a folder beside it, and puts them back.

    Caches that programs leave behind are not part of a state; neither are pipes and sockets.
    """

    home: Path
    _cached: dict[str, Mapping[str, _StateEntry]] = field(
        default_factory=dict[str, Mapping[str, _StateEntry]], compare=False, repr=False
    )

    def keep(self, folder: Path) -> str:
        """Keep what the folder holds now; the name of the state, which is a hash of it."""
        _make_readable(folder)
        entries = dict(self._entries(folder))
        listed = canonical({_quoted(p): codec(_StateEntry).encode(k) for p, k in entries.items()})
        name = hashlib.sha256(listed).hexdigest()
        path = self.home / f"{name}.json"
        if not path.exists():
            for file, entry in entries.items():
                self._keep_blob(folder / file, entry)
            self.home.mkdir(parents=True, exist_ok=True)
            write_atomic(path, listed)
        self._cached[name] = entries
        return name

    def entries(self, state: str) -> Mapping[str, _StateEntry]:
        """What a state holds, by path."""
        if state not in self._cached:
            try:
                listed = json.loads(read_bytes(self.home / f"{state}.json"))
                decoded = {
                    _plain(p): codec(_StateEntry).decode(entry) for p, entry in listed.items()
                }
            except ValueError as error:
                raise self._lost(state) from error
            self._cached[state] = decoded
        return self._cached[state]

    def files(self, state: str) -> list[str]:
        """The paths of its files."""
        return [path for path, entry in self.entries(state).items() if entry.kind == "file"]

    def read(self, state: str, path: str) -> bytes:
        """What a file of a state holds."""
        entry = self.entries(state)[path]
        content = read_bytes(self.home / "blobs" / entry.content)
        if hashlib.sha256(content).hexdigest() != entry.content:
            raise self._lost(state)
        return content

    def restore(self, state: str, folder: Path) -> None:
        """Make the folder hold exactly this state."""
        entries = self.entries(state)
        if folder.is_dir() and dict(self._entries(folder, whole=True)) == dict(entries):
            return
        if os.path.lexists(folder) and not remove_tree(folder):
            raise JournalTrouble(f"the workspace {folder} cannot be cleared")
        try:
            folder.mkdir(parents=True)
            for path, entry in entries.items():
                self._put(state, folder, path, entry)
            # Last, and the deepest first: a folder that may not be written could not be filled.
            for path, entry in sorted(entries.items(), reverse=True):
                if entry.kind == "folder":
                    (folder / path).chmod(entry.mode)
        except OSError as error:
            raise file_trouble("put back", folder, error) from error

    def _put(self, state: str, folder: Path, path: str, entry: _StateEntry) -> None:
        place = folder / path
        if entry.kind == "folder":
            place.mkdir(parents=True, exist_ok=True)
        elif entry.kind == "link":
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(_plain(entry.content))
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(self.read(state, path))
            place.chmod(entry.mode)

    def _entries(self, folder: Path, *, whole: bool = False) -> Iterator[tuple[str, _StateEntry]]:
        seen = snapshot(folder, leave_out=None if whole else lambda path: covers(CACHES, path))
        for path, entry in seen.entries.items():
            if entry.kind == "link":
                target = _quoted(str((folder / path).readlink()))
                yield path, _StateEntry(kind="link", content=target)
            elif entry.kind == "file":
                digest = entry.digest
                yield (
                    path,
                    _StateEntry(kind="file", mode=entry.mode, content=digest, size=entry.size),
                )
            elif entry.kind == "folder":
                yield path, _StateEntry(kind="folder", mode=entry.mode)

    def _keep_blob(self, file: Path, entry: _StateEntry) -> None:
        if entry.kind != "file" or (blob := self.home / "blobs" / entry.content).exists():
            return
        blob.parent.mkdir(parents=True, exist_ok=True)
        put_in_place(blob, lambda spare: _copied(file, spare))

    def _lost(self, state: str) -> JournalTrouble:
        return JournalTrouble(
            f"the workspace's state {state[:12]} in {self.home} is damaged",
            remedy="restore the run's folder from a backup, or start a new run",
        )


def _copied(file: Path, spare: Path) -> None:
    """On disk when this returns: the journal is about to rely on it."""
    with file.open("rb") as origin, spare.open("xb") as copy:
        shutil.copyfileobj(origin, copy, 1024 * 1024)
        copy.flush()
        os.fsync(copy.fileno())


def _make_readable(folder: Path) -> None:
    """A command may have taken all rights from its files; here they are the run's own."""
    for inside, folders, files in os.walk(folder):
        for name in folders:
            _allow(Path(inside) / name, 0o700)
        for name in files:
            _allow(Path(inside) / name, 0o400)


def _allow(path: Path, rights: int) -> None:
    with contextlib.suppress(OSError):
        mode = path.lstat().st_mode
        if not path.is_symlink() and mode & rights != rights:
            path.chmod((mode | rights) & 0o777)


def _quoted(path: str) -> str:
    """A path in letters that JSON and every file system know, whatever bytes it is made of."""
    return quote_from_bytes(os.fsencode(path), safe="/ ")


def _plain(path: str) -> str:
    return os.fsdecode(unquote_to_bytes(path))


# -- The workspace of a delegation ----------------------------------------------------------------


_Leaves: TypeAlias = Literal["changes", "nothing", "litter"]
"""What a step leaves in the folder: changes that are kept, nothing, or what is to be undone."""
INPUT = "input"
"""Where given files lie in the workspace: to be read, and no part of what is delivered."""


@dataclass(frozen=True, kw_only=True)
class _Stepped:
    """What a step gave, as the journal keeps it."""

    value: Json
    state: str
    """The workspace after it."""
    seconds: float
    """The run's active time when it ended."""


@dataclass(kw_only=True)
class TeamWorkspace:
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
        leaves: _Leaves = "changes",
        price: Spend = NOTHING,
    ) -> Json:
        """Do something in the folder, once."""
        before = self.state

        async def perform(_: Effects) -> Receipt[_Stepped]:
            with self._under_way():
                return await stepped()

        async def stepped() -> Receipt[_Stepped]:
            await self._bring_to(before)
            self._actual = "?"
            value = await act()
            after = await self._saved_state() if leaves == "changes" else before
            self._actual = "?" if leaves == "litter" else after
            made = _Stepped(value=value, state=after, seconds=self.clock.seconds)
            return Receipt(value=made, spend=price)

        call = Call(
            kind=kind,
            request={"state": before, **request},
            codec=codec(_Stepped),
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

    async def _saved_state(self) -> str:
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


@dataclass(frozen=True, kw_only=True)
class StartingFiles:
    """What a run is given to start from. Everything is copied; no link leads back."""

    source: Path | None = None
    """The workspace starts as a copy of this folder."""
    inputs: tuple[Path, ...] = ()
    """Files and folders that lie under input/ by their names."""
    seed_deliverable: Path | None = None
    """A folder whose files lie under input/, or one file."""

    def check(self) -> None:
        """Raise with everything that cannot be given."""
        problems = [
            Problem(where=str(path), message="there is no such file or folder")
            for path in (*self.inputs, self.seed_deliverable, self.source)
            if path is not None and not path.exists()
        ]
        names = [path.name for path in self.inputs]
        problems += [
            Problem(where=str(path), message="two inputs have this name", remedy="rename one")
            for path in self.inputs
            if names.count(path.name) > 1
        ]
        if problems:
            raise ConfigError(list(dict.fromkeys(problems)))

    def fill(self, folder: Path) -> None:
        """Make the folder, with all that was given in it."""
        remove_tree(folder)
        try:
            if self.source is None:
                folder.mkdir(parents=True)
            else:
                copy_workspace(self.source, folder)
            self._fill_input(folder / INPUT)
        except OSError as error:
            raise file_trouble("fill", folder, error) from error

    def _fill_input(self, place: Path) -> None:
        seed = self.seed_deliverable
        if seed is not None and seed.is_dir():
            remove_tree(place)
            copy_workspace(seed, place, exclude=())
        for path in (*self.inputs, *_file(seed)):
            place.mkdir(exist_ok=True)
            if path.is_dir():
                copy_workspace(path, place / path.name)
            else:
                shutil.copyfile(path, place / path.name)


# -- How a workspace begins -----------------------------------------------------------------------


def _file(seed: Path | None) -> Sequence[Path]:
    return () if seed is None or seed.is_dir() else (seed,)
