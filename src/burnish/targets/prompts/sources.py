"""How a candidate's texts reach the agent, and the user's own texts come back."""

import asyncio
import json
import os
import secrets
import shutil
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from burnish.core.errors import BurnishError, ConfigError, Problem, RollbackError
from burnish.core.protocols import Target
from burnish.journal.executors import is_infrastructure
from burnish.system.borrowed_files import Borrowing, make_private_folder
from burnish.system.files import file_trouble, make_folder, write_atomic
from burnish.system.processes import Owner
from burnish.system.restoration import (
    SCHEMA,
    PutBack,
    borrowed_folder,
    records_in,
    restore_abandoned,
)
from burnish.targets.callables import HttpTarget
from burnish.targets.prompts.fields import (
    CallbackField,
    FileField,
    LentCallbacks,
    decoded,
    encoded,
    recall,
    write_together,
)
from burnish.targets.prompts.target_prompt import TargetPrompt, lock_files, require_unborrowed


def common_root(prompts: TargetPrompt, root: Path | None) -> Path:
    """The folder from which the prompt files are named: given, or the one that all lie in."""
    parents = [_normal(file).parent for file in prompts.files]
    if root is None:
        return Path(os.path.commonpath(parents)) if parents else Path.cwd()
    folder = Path(os.path.normpath(root.absolute()))
    outside = [file for file in prompts.files if not _normal(file).is_relative_to(folder)]
    if outside:
        problems = [
            Problem(where=file.name, message=f"{file.shown} does not lie in {root}",
                    remedy="name a folder that all prompt files lie in")
            for file in outside
        ]  # fmt: skip
        raise ConfigError(problems)
    return folder


class CandidateFolders:
    """One folder a candidate, made when it is asked for, gone when the target is closed."""

    def __init__(self, prompts: TargetPrompt, root: Path, home: Path) -> None:
        self._prompts = prompts
        self._root = root
        self._folder = home / "isolated" / f"{os.getpid()}-{secrets.token_hex(8)}"

    def of(self, candidate: str, texts: Mapping[str, str]) -> Path:
        """The folder with a candidate's texts; fields behind callbacks are `<field>.md`."""
        folder = self._folder / candidate
        if not folder.is_dir():
            self._begin()
            make_folder(folder, lambda spare: self._fill(spare, texts))
        return folder

    def close(self) -> None:
        """Remove them all."""
        shutil.rmtree(self._folder, ignore_errors=True)
        _record(self._folder).unlink(missing_ok=True)

    def _begin(self) -> None:
        if self._folder.is_dir():
            return
        sweep(self._folder.parent)
        make_private_folder(self._folder.parent)
        data = {"schema": SCHEMA, "owner": Owner.here().as_json()}
        # On record before it is there: a folder without a record would stay for ever.
        write_atomic(_record(self._folder), json.dumps(data), durable=False)
        make_private_folder(self._folder)

    def _fill(self, folder: Path, texts: Mapping[str, str]) -> None:
        for file in self._prompts.files:
            place = folder / _normal(file).relative_to(self._root)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(encoded(texts[file.name], _like(file), place))
        for callback in self._prompts.callbacks:
            place = folder / f"{callback.name}.md"
            if place.exists():
                raise file_trouble("write", place, FileExistsError("a prompt file has that name"))
            place.write_bytes(texts[callback.name].encode())


def sweep(folder: Path) -> None:
    """Remove what killed processes left."""
    for record, data in records_in(folder, "[0-9]*.json"):
        if Owner.parse(data["owner"]).is_gone(record):
            shutil.rmtree(record.with_suffix(""), ignore_errors=True)
            record.unlink(missing_ok=True)


def _record(folder: Path) -> Path:
    return folder.parent / f"{folder.name}.json"


def _normal(file: FileField) -> Path:
    return Path(os.path.normpath(file.path))


def _like(file: FileField) -> bytes:
    try:
        return file.path.read_bytes()
    except OSError:
        return b""


# -- Reading what the fields say at the start -----------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Begun:
    """What the fields say, and what had to be put back before."""

    values: Mapping[str, str]
    notes: tuple[str, ...] = ()


async def begin(prompts: TargetPrompt, home: Path) -> Begun:
    """Put back what killed runs left, files and callbacks; then read."""
    folder = borrowed_folder(home)
    notes = _files_back(prompts, home)
    notes += await recall(prompts.names(), prompts.callbacks, folder)
    return Begun(values=await prompts.read_all(), notes=notes)


def begin_at_once(prompts: TargetPrompt, home: Path) -> Begun:
    """The same where all fields are files."""
    notes = _files_back(prompts, home)
    return Begun(values=prompts.read_files(), notes=notes)


def _files_back(prompts: TargetPrompt, home: Path) -> tuple[str, ...]:
    fates = restore_abandoned(borrowed_folder(home))
    require_unborrowed(prompts.files, home)
    return tuple(f"{fate} (a killed run had changed it)" for fate in fates)


# -- The user's prompts, holding one candidate after another --------------------------------------


class _Taken:
    """What is known once the fields are ours for a while: locks, own contents, records."""

    def __init__(
        self,
        prompts: TargetPrompt,
        originals: Mapping[FileField, bytes],
        texts: Mapping[str, str],
        home: Path,
    ) -> None:
        folder = borrowed_folder(home)
        self.originals = dict(originals)
        self.homes = {file: file.home for file in originals}
        own = {self.homes[file]: content for file, content in originals.items()}
        self.borrowing = Borrowing(own, folder)
        behind = {field.name: texts[field.name] for field in prompts.callbacks}
        self.lent = LentCallbacks(prompts.names(), behind, folder)
        self.held: dict[CallbackField, str] = {
            field: texts[field.name] for field in prompts.callbacks
        }
        """What each callback was given last, as far as that is known."""


class Sources:
    """Writes texts where the agent reads them. Nothing is touched before the first run needs it."""

    def __init__(self, prompts: TargetPrompt, values: Mapping[str, str], home: Path) -> None:
        self._prompts = prompts
        self._values = dict(values)
        self._home = home
        self._locks = ExitStack()
        self._taken: _Taken | None = None
        self._closed = False

    async def hold(self, texts: Mapping[str, str]) -> None:
        """See that the fields hold these texts; what they hold already is not written again."""
        self._require_open()
        taken = self._taken or await self._take()
        files = {
            file: content
            for file in self._prompts.files
            if self._differs(
                taken,
                file,
                content := encoded(texts[file.name], taken.originals[file], file.path),
            )
        }
        callbacks = {
            field: texts[field.name]
            for field in self._prompts.callbacks
            if taken.held.get(field) != texts[field.name]
        }
        if files or callbacks:
            await self._write(taken, files, callbacks)

    async def _write(
        self,
        taken: _Taken,
        files: Mapping[FileField, bytes],
        callbacks: Mapping[CallbackField, str],
    ) -> None:
        if files:
            taken.borrowing.note({taken.homes[file]: files[file] for file in files})
        if callbacks:
            taken.lent.note({field.name: text for field, text in callbacks.items()})
        for callback in callbacks:
            taken.held.pop(callback, None)  # until it is written, nobody knows
        try:
            await write_together(files, callbacks)
        except BurnishError:
            raise
        except Exception as error:
            if is_infrastructure(error):
                raise
            message = f"the prompts could not be written: {type(error).__name__}: {error}"
            raise BurnishError(message, remedy="Mend the write function of the field.") from error
        finally:
            if self._closed:  # meanwhile: what was written, or rolled back, is no longer wanted
                taken.borrowing.put_back()
        taken.held.update(callbacks)
        if self._closed:
            await self._callbacks_back(taken)

    def _differs(self, taken: _Taken, file: FileField, content: bytes) -> bool:
        now = file.content()
        if file.home != taken.homes[file] or not taken.borrowing.knows(taken.homes[file], now):
            raise _changed(file.shown, "while candidates were tried")
        return now != content

    async def _take(self) -> _Taken:
        """Lock the files and make sure that every field says what the run began with."""
        with lock_files(self._prompts.files, self._home) as locks:
            originals = {file: file.content() for file in self._prompts.files}
            for file, content in originals.items():
                if decoded(content, file.path) != self._values[file.name]:
                    raise _changed(file.shown, "after the run was set up")
            for callback in self._prompts.callbacks:
                if await callback.text() != self._values[callback.name]:
                    raise _changed(f"prompt field '{callback.name}'", "after the run was set up")
            self._require_open()
            self._locks = locks.pop_all()
        self._taken = _Taken(self._prompts, originals, self._values, self._home)
        return self._taken

    async def close(self) -> list[PutBack]:
        """Put everything back and let go of it; what did not go as wished.

        Files first, and without waiting for anybody, so that no interruption comes between.
        Raises RollbackError where something could not be put back.
        """
        taken, self._taken, self._closed = self._taken, None, True
        if taken is None:
            return []
        try:
            fates = taken.borrowing.put_back()
            fates += await self._callbacks_back(taken)
        finally:
            self._locks.close()
        failed = {fate.path: BurnishError(fate.message) for fate in fates if fate.fate == "failed"}
        if failed:
            place = f"What they held is kept in {taken.borrowing.record.parent}."
            remedy = f"{place} The next burnish command tries again."
            raise RollbackError(failed, remedy=remedy)
        return [fate for fate in fates if fate.fate == "left alone"]

    async def _callbacks_back(self, taken: _Taken) -> list[PutBack]:
        fates: list[PutBack] = []
        for callback in self._prompts.callbacks:
            try:
                fate = await taken.lent.put_back(callback)
            except Exception as error:  # noqa: BLE001 - the user's function: the others go on
                message = f"its own text could not be put back: {type(error).__name__}: {error}"
                fate = PutBack(path=callback.name, fate="failed", message=message)
            fates += [fate] if fate is not None else []
        if not any(fate.fate == "failed" for fate in fates):
            taken.lent.forget()
        return fates

    def _require_open(self) -> None:
        if self._closed:
            raise BurnishError(
                "the prompts were put back already, and no candidate is written any more",
                remedy="Make a new target for another run.",
            )


def _changed(what: str, when: str) -> ConfigError:
    message = f"somebody changed it {when}; nothing of it was overwritten"
    remedy = "let it be while burnish works on it, or use the mode 'isolated'; then start again"
    return ConfigError([Problem(where=what, message=message, remedy=remedy)])


# -- Whose turn it is -----------------------------------------------------------------------------


@dataclass(kw_only=True, eq=False)
class _Group:
    """Runs of one candidate that wait together."""

    candidate: str
    waiters: list[asyncio.Future[None]] = field(default_factory=list[asyncio.Future[None]])


class Turns:
    """First come, first served; whoever comes for the candidate whose turn it is joins it.

    Unless somebody waits for another one: then a new group forms behind, so that nobody waits
    for ever.
    """

    def __init__(self) -> None:
        self._candidate = ""
        self._inside = 0
        self._preparing = asyncio.Lock()
        self._queue: deque[_Group] = deque()

    @asynccontextmanager
    async def turn(self, candidate: str) -> AsyncGenerator[asyncio.Lock, None]:
        """While entered, no other candidate has its turn; the lock is for what its runs share."""
        await self._enter(candidate)
        try:
            yield self._preparing
        finally:
            self._leave()

    async def _enter(self, candidate: str) -> None:
        if not self._queue and (not self._inside or self._candidate == candidate):
            self._begin(candidate, self._inside + 1)
            return
        group = self._group(candidate)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        group.waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # it was called just before it was cancelled
                self._leave()
                raise
            group.waiters.remove(waiter)
            if not group.waiters and group in self._queue:
                self._queue.remove(group)
            raise

    def _group(self, candidate: str) -> _Group:
        for group in self._queue:
            if group.candidate == candidate:
                return group
        self._queue.append(_Group(candidate=candidate))
        return self._queue[-1]

    def _leave(self) -> None:
        self._inside -= 1
        while not self._inside and self._queue:
            group = self._queue.popleft()
            # Those that were cancelled a moment ago are still in the list.
            called = [waiter for waiter in group.waiters if not waiter.done()]
            self._begin(group.candidate, len(called))
            for waiter in called:
                waiter.set_result(None)

    def _begin(self, candidate: str, inside: int) -> None:
        if not self._inside:
            # A lock belongs to the event loop in which it was first waited for.
            self._preparing = asyncio.Lock()
        self._candidate, self._inside = candidate, inside


# -- The two ways in which a candidate's texts reach the agent ------------------------------------


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


# -- Reaching -------------------------------------------------------------------------------------


def reach_problems(agent: Target, names: Sequence[str], mode: Mode) -> Iterator[Problem]:
    """What an endpoint is sent that does not exist, and what it would need and is not sent."""
    if not isinstance(agent, HttpTarget):
        return
    for name in sorted(agent.prompts - set(names)):
        remedy = f"there are: {', '.join(names)}"
        yield Problem(where="body", message=f"no prompt field '{name}'", remedy=remedy)
    for name in names:
        if mode == "isolated" and name not in agent.prompts:
            yield Problem(
                where="body",
                message=f"in the mode 'isolated' the endpoint would never see the field '{name}'",
                remedy=f"put \"{{{{prompts.{name}}}}}\" into the body, or use the mode 'source'",
            )
