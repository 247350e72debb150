"""The workspace of a delegation, with its states stored by content."""

import asyncio
import contextlib
import hashlib
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import quote_from_bytes, unquote_to_bytes

from burnish.core.content import Json, canonical, codec, from_json
from burnish.core.errors import ConfigError, JournalTrouble, Problem
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Call, Effects, Receipt
from burnish.delegation.envelope import Stopwatch
from burnish.system import read_bytes, write_atomic
from burnish.system.files import file_trouble, put_in_place
from burnish.system.workspaces import copy_workspace, remove_tree, snapshot
from burnish.system.workspaces.snapshots import covers
from burnish.targets.artifacts.task import CACHES, finished


@dataclass(frozen=True, kw_only=True)
class _StateEntry:
    kind: Literal["file", "folder", "link"]
    mode: int = 0
    content: str = ""
    """The digest of a file, the target of a link, quoted as paths are."""
    size: int = 0


@dataclass(frozen=True)
class StateStore:
    """Stores states of workspaces in a folder, each content once, and restores them.

    Caches of programs, pipes and sockets are not part of a state.
    """

    home: Path
    shared: bool = False
    """Whether several delegations share it: then their finished files are links to its contents."""
    _cached: dict[str, Mapping[str, _StateEntry]] = field(
        default_factory=dict[str, Mapping[str, _StateEntry]], compare=False, repr=False
    )

    def keep(self, folder: Path) -> str:
        """Store what the folder holds now; returns the name of the state, a hash."""
        _make_readable(folder)
        entries = dict(self._entries(folder))
        listed = canonical({_quoted(p): codec(_StateEntry).encode(k) for p, k in entries.items()})
        name = hashlib.sha256(listed).hexdigest()
        path = self.home / f"{name}.json"
        if not path.exists():
            for file, entry in entries.items():
                blob = self._blob(entry.content)
                if entry.kind == "file" and not blob.exists():
                    blob.parent.mkdir(parents=True, exist_ok=True)
                    put_in_place(blob, partial(_copied, folder / file))
            self.home.mkdir(parents=True, exist_ok=True)
            write_atomic(path, listed)
        self._cached[name] = entries
        return name

    def entries(self, state: str) -> Mapping[str, _StateEntry]:
        """The entries of a state, by path."""
        if state not in self._cached:
            try:
                listed = cast("Any", from_json(read_bytes(self.home / f"{state}.json")))
                decode = codec(_StateEntry).decode
                self._cached[state] = {_plain(p): decode(entry) for p, entry in listed.items()}
            except (ValueError, AttributeError) as error:
                raise self._lost(state) from error
        return self._cached[state]

    def files(self, state: str) -> list[str]:
        """The paths of its files."""
        return [path for path, entry in self.entries(state).items() if entry.kind == "file"]

    def changed(self, before: str, after: str) -> list[str]:
        """The files that are new or different in a later state."""
        old, new = self.entries(before), self.entries(after)
        return [
            path
            for path in self.files(after)
            if path not in old or old[path].content != new[path].content
        ]

    def read(self, state: str, path: str) -> bytes:
        """The content of a file in a state."""
        entry = self.entries(state)[path]
        content = read_bytes(self._blob(entry.content))
        if hashlib.sha256(content).hexdigest() != entry.content:
            raise self._lost(state)
        return content

    def restore(self, state: str, folder: Path, *, to_read: bool = False) -> None:
        """Make the folder hold exactly this state; `to_read` links files if the store is shared."""
        entries, linked = self.entries(state), to_read and self.shared
        if not linked and self._holds(folder, entries):
            return
        if os.path.lexists(folder) and not remove_tree(folder):
            raise JournalTrouble(f"the workspace {folder} cannot be cleared")
        try:
            folder.mkdir(parents=True)
            for path, entry in entries.items():
                self._put(state, folder, path, entry, linked=linked)
            # Last, and the deepest first: a folder that may not be written could not be filled.
            for path, entry in sorted(entries.items(), reverse=True):
                if entry.kind == "folder":
                    (folder / path).chmod(entry.mode)
        except OSError as error:
            raise file_trouble("put back", folder, error) from error

    def apply(self, before: str, after: str, folder: Path) -> None:
        """Make the changes between two states in a folder that holds a third one."""
        old, new = self.entries(before), self.entries(after)
        try:
            for path in sorted(old.keys() - new.keys(), reverse=True):
                _drop(folder / path)
            for path, entry in new.items():
                if old.get(path) != entry:
                    _make_room(folder, path, is_folder=entry.kind == "folder")
                    self._put(after, folder, path, entry, linked=False)
        except OSError as error:
            raise file_trouble("merge", folder, error) from error

    def deliver(self, content: bytes, place: Path) -> None:
        """Give a new file this content, which is stored once if the store is shared."""
        if not self.shared:
            place.write_bytes(content)
            return
        blob = self._blob(hashlib.sha256(content).hexdigest())
        if not blob.exists():
            blob.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(blob, content, mode=_READ_ONLY)
        if not _link(blob, place):
            place.write_bytes(content)

    def _blob(self, digest: str) -> Path:
        return self.home / "blobs" / digest

    def _holds(self, folder: Path, entries: Mapping[str, _StateEntry]) -> bool:
        """Whether a folder holds these entries, and no link through which they could change."""
        if not folder.is_dir() or dict(self._entries(folder, whole=True)) != dict(entries):
            return False
        files = (folder / path for path, entry in entries.items() if entry.kind == "file")
        return all(file.stat().st_nlink == 1 for file in files)

    def _put(
        self, state: str, folder: Path, path: str, entry: _StateEntry, *, linked: bool
    ) -> None:
        place = folder / path
        if entry.kind == "folder":
            place.mkdir(parents=True, exist_ok=True)
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        if entry.kind == "link":
            place.symlink_to(_plain(entry.content))
        elif not (linked and not entry.mode & 0o111 and _link(self._blob(entry.content), place)):
            place.write_bytes(self.read(state, path))
            place.chmod(entry.mode)

    def _entries(self, folder: Path, *, whole: bool = False) -> Iterator[tuple[str, _StateEntry]]:
        seen = snapshot(folder, leave_out=None if whole else lambda path: covers(CACHES, path))
        for path, entry in seen.entries.items():
            if entry.kind == "link":
                target = _quoted(str((folder / path).readlink()))
                yield path, _StateEntry(kind="link", content=target)
            elif entry.kind == "file":
                digest, size = entry.digest, entry.size
                yield path, _StateEntry(kind="file", mode=entry.mode, content=digest, size=size)
            elif entry.kind == "folder":
                yield path, _StateEntry(kind="folder", mode=entry.mode)

    def _lost(self, state: str) -> JournalTrouble:
        return JournalTrouble(
            f"the workspace's state {state[:12]} in {self.home} is damaged",
            remedy="restore the run's folder from a backup, or start a new run",
        )


def _drop(place: Path) -> None:
    """Delete a file, or a folder that is empty."""
    if place.is_dir() and not place.is_symlink():
        with contextlib.suppress(OSError):
            place.rmdir()
    else:
        place.unlink(missing_ok=True)


def _make_room(folder: Path, path: str, *, is_folder: bool) -> None:
    """Remove what is in the way of an entry: what was there, or a file where a folder must be."""
    *above, place = [*reversed((folder / path).parents), folder / path]
    for parent in above[len(folder.parts) :]:
        if parent.is_symlink() or (os.path.lexists(parent) and not parent.is_dir()):
            parent.unlink()
    stays = is_folder and place.is_dir() and not place.is_symlink()
    if os.path.lexists(place) and not stays:
        remove_tree(place)


_READ_ONLY = 0o444
"""The mode of stored contents: a program that writes into a link of one fails, or replaces it."""


def _link(blob: Path, place: Path) -> bool:
    """Make a hard link; False where the file system has none."""
    try:
        place.hardlink_to(blob)
    except OSError:
        return False
    return True


def _copied(file: Path, spare: Path) -> None:
    """Copy and sync to disk, since the journal is about to rely on it."""
    with file.open("rb") as origin, spare.open("xb") as copy:
        shutil.copyfileobj(origin, copy, 1024 * 1024)
        os.fchmod(copy.fileno(), _READ_ONLY)
        copy.flush()
        os.fsync(copy.fileno())


def _make_readable(folder: Path) -> None:
    """Restore access rights that a command may have removed."""
    for inside, folders, files in os.walk(folder):
        for name in folders:
            _allow(Path(inside) / name, 0o700)
        for name in files:
            _allow(Path(inside) / name, 0o400)


def make_writable(folder: Path) -> None:
    """Let the owner write the files of a copy, whose originals may be read-only."""
    for path in folder.rglob("*"):
        if path.is_file():
            _allow(path, 0o200)


def _allow(path: Path, rights: int) -> None:
    with contextlib.suppress(OSError):
        mode = path.lstat().st_mode
        if not path.is_symlink() and mode & rights != rights:
            path.chmod((mode | rights) & 0o777)


def _quoted(path: str) -> str:
    """A path in characters that JSON can hold, whatever its bytes."""
    return quote_from_bytes(os.fsencode(path), safe="/ ")


def _plain(path: str) -> str:
    return os.fsdecode(unquote_to_bytes(path))


_Leaves: TypeAlias = Literal["changes", "nothing", "litter"]
"""What a step leaves in the folder: changes to keep, nothing, or changes to undo."""
STATES = "states"
"""The folder of a store."""
INPUT = "input"
"""The folder of input files in the workspace, which are not delivered."""


@dataclass(frozen=True, kw_only=True)
class _Stepped:
    value: Json
    state: str
    seconds: float


@dataclass(kw_only=True)
class TeamWorkspace:
    """The folder that workers share, and its state according to the journal.

    On a replay nothing is done in the folder. Before the first step that is not journaled, the
    folder is restored to the state of the step before, whatever a killed run did there.
    """

    folder: Path
    store: StateStore
    effects: Effects
    clock: Stopwatch
    state: str = ""
    seconds: float = 0.0
    """The active time at the end of the last step."""
    _actual: str = field(default="?", init=False)
    """The state that the folder is actually in; '?' if unknown."""
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
        """Do something in the folder, journaled, once."""
        before = self.state

        async def perform(_: Effects) -> Receipt[_Stepped]:
            task = asyncio.current_task()
            assert task is not None
            self._steps.add(task)
            try:
                await self._bring_to(before)
                self._actual = "?"
                value = await act()
                after = await self._saved_state() if leaves == "changes" else before
                self._actual = "?" if leaves == "litter" else after
            finally:
                self._steps.discard(task)
            stepped = _Stepped(value=value, state=after, seconds=self.clock.seconds)
            return Receipt(value=stepped, spend=price)

        request = {"state": before, **request}
        call = Call(kind=kind, request=request, codec=codec(_Stepped), estimate=price)
        done = await self.effects.once(call, perform)
        self.clock.reach(done.seconds)
        self.state, self.seconds = done.state, max(self.seconds, done.seconds)
        return done.value

    async def settle(self) -> None:
        """Bring the folder to the current state, for readers after the end."""
        if self.store.shared:
            await finished(partial(self.store.restore, self.state, self.folder, to_read=True))
            self._actual = "?"
        else:
            await self._bring_to(self.state)

    async def clear(self) -> None:
        """Remove the folder, which nobody needs any more; the store still has its states."""
        await finished(remove_tree, self.folder)
        self._actual = "?"

    async def abandon(self) -> None:
        """Cancel the running step, since nobody waits for it any more."""
        steps = list(self._steps)
        for step in steps:
            step.cancel()
        await asyncio.gather(*steps, return_exceptions=True)

    async def _saved_state(self) -> str:
        """Store the state after a step; a removed folder counts as an empty one."""
        if self.folder.is_symlink() or not self.folder.is_dir():
            await finished(remove_tree, self.folder)
            self.folder.mkdir(parents=True)
        return await finished(self.store.keep, self.folder)

    async def _bring_to(self, state: str) -> None:
        if state and self._actual != state:
            await finished(self.store.restore, state, self.folder)
            self._actual = state

    @property
    def files(self) -> list[str]:
        return self.store.files(self.state)

    def changed_since(self, since: str) -> list[str]:
        """Files that are new or changed since a state, without input files."""
        changed = self.store.changed(since, self.state)
        return [path for path in changed if not path.startswith(f"{INPUT}/")]

    def read(self, path: str) -> bytes:
        """The content of a file in the current state."""
        return self.store.read(self.state, path)


@dataclass(frozen=True, kw_only=True)
class StartingFiles:
    """The files that a run starts from. Everything is copied, never linked."""

    source: Path | None = None
    """The workspace starts as a copy of this folder."""
    inputs: tuple[Path, ...] = ()
    """Files and folders to put under input/ by their names."""
    seed_deliverable: Path | None = None
    """A folder whose files go under input/, or one file."""

    def check(self) -> None:
        """Raise ConfigError with everything that cannot be copied."""
        problems = [
            Problem(where=str(path), message="no such file or folder")
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
        """Create the folder with all its files."""
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
            make_writable(place)
        files = [seed] if seed is not None and not seed.is_dir() else []
        for path in (*self.inputs, *files):
            place.mkdir(exist_ok=True)
            if path.is_dir():
                copy_workspace(path, place / path.name)
                make_writable(place / path.name)
            else:
                shutil.copyfile(path, place / path.name)
