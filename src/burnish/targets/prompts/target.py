"""PromptsTarget: a called agent, how a candidate's prompts reach it, how the user's come back."""

import asyncio
import json
import os
import secrets
import shutil
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeAlias, runtime_checkable

from burnish.core.cases import Case, Outcome, Trace
from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, Problem, RollbackError
from burnish.core.money import Spend
from burnish.core.protocols import (
    Description,
    KnowsSecrets,
    Receipt,
    Scope,
    Target,
    calls_function,
)
from burnish.core.surfaces import Candidate, Origin, TextSurface
from burnish.journal.executors import is_infrastructure
from burnish.system.borrowed_files import Borrowing, make_private_folder
from burnish.system.files import file_trouble, make_folder, state_folder, write_atomic
from burnish.system.processes import Owner
from burnish.system.restoration import (
    SCHEMA,
    PutBack,
    borrowed_folder,
    records_in,
    restore_abandoned,
)
from burnish.targets.prompts.fields import (
    CallbackField,
    FileField,
    LentCallbacks,
    decoded,
    encoded,
    lock_files,
    recall,
    write_together,
)
from burnish.targets.prompts.target_prompt import (
    Frozen,
    MaxChars,
    TargetPrompt,
    require_unborrowed,
    surfaces_of,
)
from burnish.targets.user_code import CurrentPrompts, providing

# -- Prompts where the agent reads them ------------------------------------------------------------


def _common_root(prompts: TargetPrompt, root: Path | None) -> Path:
    """The folder that prompt files are relative to: by default the common parent of all."""
    parents = [_normal(file).parent for file in prompts.files]
    if root is None:
        return Path(os.path.commonpath(parents)) if parents else Path.cwd()
    folder = Path(os.path.normpath(root.absolute()))
    outside = [file for file in prompts.files if not _normal(file).is_relative_to(folder)]
    if outside:
        remedy = "give a folder that contains all prompt files"
        causes = {file.name: f"{file.shown} is not in {root}" for file in outside}
        raise ConfigError(
            [Problem(where=name, message=cause, remedy=remedy) for name, cause in causes.items()]
        )
    return folder


def sweep(folder: Path) -> None:
    """Remove what killed processes left behind."""
    for record, data in records_in(folder, "[0-9]*.json"):
        if Owner.parse(data["owner"]).is_gone(record):
            shutil.rmtree(record.with_suffix(""), ignore_errors=True)
            record.unlink(missing_ok=True)


def _normal(file: FileField) -> Path:
    return Path(os.path.normpath(file.path))


@dataclass(frozen=True, kw_only=True)
class _Begun:
    """The texts of the fields, and what had to be restored first."""

    values: Mapping[str, str]
    notes: tuple[str, ...] = ()


async def begin(prompts: TargetPrompt, home: Path) -> _Begun:
    """Restore what killed runs left, in files and callbacks; then read."""
    folder = borrowed_folder(home)
    notes = _files_back(home)
    notes += await recall(prompts.names(), prompts.callbacks, folder)
    values = await prompts.read_all()
    require_unborrowed(prompts.files, home)
    return _Begun(values=values, notes=notes)


def _begin_at_once(prompts: TargetPrompt, home: Path) -> _Begun:
    """The same without awaiting, if all fields are files."""
    notes = _files_back(home)
    values = prompts.read_files()
    require_unborrowed(prompts.files, home)
    return _Begun(values=values, notes=notes)


def _files_back(home: Path) -> tuple[str, ...]:
    fates = restore_abandoned(borrowed_folder(home))
    return tuple(f"{fate} (a killed run had changed it)" for fate in fates)


class _Taken:
    """The fields while burnish holds them: their contents and records."""

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


class _SourceWay:
    """Writes the texts where the agent reads them, one candidate at a time.

    Nothing is touched before the first run.
    """

    def __init__(
        self, prompts: TargetPrompt, values: Mapping[str, str], *, root: Path, home: Path
    ) -> None:
        self._prompts = prompts
        self._values = dict(values)
        self._root = root
        self._home = home
        self._turns = Turns()
        self._locks = ExitStack()
        self._taken: _Taken | None = None
        self._closed = False

    @asynccontextmanager
    async def held(self, candidate: str, texts: Mapping[str, str]) -> AsyncGenerator[None, None]:
        """Wait for the candidate's turn and write its texts."""
        if _TURN.get() == candidate:
            yield
            return
        async with self._turns.turn(candidate) as preparing:
            async with preparing:
                await self._hold(texts)
            token = _TURN.set(candidate)
            try:
                yield
            finally:
                _TURN.reset(token)

    def folder(self, candidate: str, texts: Mapping[str, str]) -> Path:
        del candidate, texts
        return self._root

    async def _hold(self, texts: Mapping[str, str]) -> None:
        """Make the fields hold these texts; only changed ones are written."""
        self._require_open()
        taken = self._taken or await self._take()
        files: dict[FileField, bytes] = {}
        for file in self._prompts.files:
            content = encoded(texts[file.name], taken.originals[file], file.path)
            now, home = file.content(), taken.homes[file]
            if file.home != home or not taken.borrowing.knows(home, now):
                raise _changed(file.shown, "while candidates were tried")
            if now != content:
                files[file] = content
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
        except Exception as error:  # what the user's function raises is the case's failure
            if is_infrastructure(error):
                raise
            message = f"the prompts could not be written: {type(error).__name__}: {error}"
            raise BurnishError(message, remedy="Fix the write function of the field.") from error
        finally:
            if self._closed:  # meanwhile: what was written, or rolled back, is no longer wanted
                taken.borrowing.put_back()
        taken.held.update(callbacks)
        if self._closed:
            await self._callbacks_back(taken)

    async def _take(self) -> _Taken:
        """Lock the files and check that every field still has its original text."""
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
        """Restore everything; return what was left alone.

        Files come first and without awaiting, so that no interruption can come between. Raises
        RollbackError where something could not be restored.
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
            place = f"Their original texts are in {taken.borrowing.record.parent}."
            remedy = f"{place} The next burnish command tries again."
            raise RollbackError(failed, remedy=remedy)
        return [fate for fate in fates if fate.fate == "left alone"]

    async def _callbacks_back(self, taken: _Taken) -> list[PutBack]:
        fates: list[PutBack] = []
        for callback in self._prompts.callbacks:
            try:
                fate = await taken.lent.put_back(callback)
            except Exception as error:  # noqa: BLE001 - the user's function: the others go on
                cause = f"{type(error).__name__}: {error}"
                message = f"the original text could not be restored: {cause}"
                fate = PutBack(path=callback.name, fate="failed", message=message)
            fates += [fate] if fate is not None else []
        if not any(fate.fate == "failed" for fate in fates):
            taken.lent.forget()
        return fates

    def _require_open(self) -> None:
        if self._closed:
            raise BurnishError(
                "the prompts are already restored, so no candidate can be written",
                remedy="Make a new target for another run.",
            )


def _changed(what: str, when: str) -> ConfigError:
    message = f"it was changed {when}, and was not overwritten"
    remedy = "do not edit it while burnish runs, or use the mode 'isolated'; then start again"
    return ConfigError([Problem(where=what, message=message, remedy=remedy)])


class Turns:
    """First come, first served; runs of the current candidate join it.

    Unless another candidate is waiting: then a new group queues up, so that nobody waits for ever.
    """

    def __init__(self) -> None:
        self._candidate = ""
        self._inside = 0
        self._preparing = asyncio.Lock()
        self._queue: dict[str, list[asyncio.Future[None]]] = {}
        """Those who wait, by candidate; the first in line comes first."""

    @asynccontextmanager
    async def turn(self, candidate: str) -> AsyncGenerator[asyncio.Lock, None]:
        """No other candidate runs inside the block; the lock is shared by the candidate's runs."""
        await self._enter(candidate)
        try:
            yield self._preparing
        finally:
            self._leave()

    async def _enter(self, candidate: str) -> None:
        if not self._queue and (not self._inside or self._candidate == candidate):
            self._begin(candidate, self._inside + 1)
            return
        waiters = self._queue.setdefault(candidate, [])
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # it was called just before it was cancelled
                self._leave()
                raise
            waiters.remove(waiter)
            if not waiters and self._queue.get(candidate) is waiters:
                del self._queue[candidate]
            raise

    def _leave(self) -> None:
        self._inside -= 1
        while not self._inside and self._queue:
            candidate = next(iter(self._queue))
            # Those that were cancelled a moment ago are still in the list.
            called = [waiter for waiter in self._queue.pop(candidate) if not waiter.done()]
            self._begin(candidate, len(called))
            for waiter in called:
                waiter.set_result(None)

    def _begin(self, candidate: str, inside: int) -> None:
        if not self._inside:
            # A lock belongs to the event loop in which it was first waited for.
            self._preparing = asyncio.Lock()
        self._candidate, self._inside = candidate, inside


Mode: TypeAlias = Literal["source", "isolated"]

_TURN: ContextVar[str] = ContextVar("burnish_turn", default="")
"""The candidate whose turn the current context already has."""


class _Way(Protocol):
    def held(self, candidate: str, texts: Mapping[str, str]) -> AbstractAsyncContextManager[None]:
        """Let the agent find these texts inside the block."""
        ...

    def folder(self, candidate: str, texts: Mapping[str, str]) -> Path:
        """The folder with these texts as files."""
        ...

    async def close(self) -> list[PutBack]:
        """Clean up; return what was left alone because somebody else changed it."""
        ...


class _IsolatedWay:
    """Nothing of the user's is written, and candidates overlap.

    Each candidate has a folder, made when it is needed and removed when the target is closed.
    """

    def __init__(self, prompts: TargetPrompt, *, root: Path, home: Path) -> None:
        self._prompts = prompts
        self._root = root
        self._folder = home / "isolated" / f"{os.getpid()}-{secrets.token_hex(8)}"
        self._record = self._folder.with_name(f"{self._folder.name}.json")

    @asynccontextmanager
    async def held(self, candidate: str, texts: Mapping[str, str]) -> AsyncGenerator[None, None]:
        del candidate, texts
        yield

    def folder(self, candidate: str, texts: Mapping[str, str]) -> Path:
        """The folder with a candidate's texts; fields behind callbacks are `<field>.md`."""
        folder = self._folder / candidate
        if not folder.is_dir():
            self._begin()
            make_folder(folder, lambda spare: self._fill(spare, texts))
        return folder

    async def close(self) -> list[PutBack]:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._record.unlink(missing_ok=True)
        return []

    def _begin(self) -> None:
        if self._folder.is_dir():
            return
        sweep(self._folder.parent)
        make_private_folder(self._folder.parent)
        data = {"schema": SCHEMA, "owner": Owner.here().as_json()}
        # Recorded before it exists: a folder without a record would stay for ever.
        write_atomic(self._record, json.dumps(data), durable=False)
        make_private_folder(self._folder)

    def _fill(self, folder: Path, texts: Mapping[str, str]) -> None:
        for file in self._prompts.files:
            place = folder / _normal(file).relative_to(self._root)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(encoded(texts[file.name], file.content_if_readable(), place))
        for callback in self._prompts.callbacks:
            place = folder / f"{callback.name}.md"
            if place.exists():
                raise file_trouble("write", place, FileExistsError("a prompt file has that name"))
            place.write_bytes(texts[callback.name].encode())


@runtime_checkable
class _SendsPrompts(Protocol):
    """An agent that gets its prompts in a request."""

    @property
    def sent_prompts(self) -> set[str]: ...


def _reach_problems(agent: Target, names: Sequence[str], mode: Mode) -> Iterator[Problem]:
    """Prompt fields that an endpoint is sent but do not exist, or needs but is not sent."""
    if not isinstance(agent, _SendsPrompts):
        return
    for name in sorted(agent.sent_prompts - set(names)):
        remedy = f"there are: {', '.join(names)}"
        yield Problem(where="body", message=f"no prompt field '{name}'", remedy=remedy)
    for name in names:
        if mode == "isolated" and name not in agent.sent_prompts:
            yield Problem(
                where="body",
                message=f"in the mode 'isolated' the endpoint would never see the field '{name}'",
                remedy=f"put \"{{{{prompts.{name}}}}}\" into the body, or use the mode 'source'",
            )


# -- The target ------------------------------------------------------------------------------------


class PromptsTarget:
    """Runs an agent with the texts of a candidate.

    In `source` mode they are written where the agent reads them, inside the effect, one candidate
    at a time; `close` restores the originals. In `isolated` mode the agent gets them by
    `burnish.prompt`, in a separate folder or in the request, and none of the user's files is
    written.
    """

    def __init__(
        self,
        *,
        agent: Target,
        prompts: TargetPrompt,
        values: Mapping[str, str],
        mode: Mode = "source",
        max_chars: MaxChars = None,
        frozen: Frozen | None = None,
        root: Path | None = None,
        home: Path | None = None,
    ) -> None:
        self.agent = agent
        self.prompts = prompts
        self.mode: Mode = mode
        self.notes: tuple[str, ...] = ()
        """What was put back before the fields were read: a killed run had left it."""
        self.left_alone: tuple[str, ...] = ()
        """After `close`: what was not put back, since somebody else had changed it."""
        own = _in_order(prompts.names(), values)
        self._surfaces = surfaces_of(own, max_chars=max_chars, frozen=frozen or {})
        self._baseline = Candidate(values=own, origin=Origin(kind="baseline"))
        if problems := list(_reach_problems(agent, prompts.names(), mode)):
            raise ConfigError(problems)
        place, home = _common_root(prompts, root), home or state_folder()
        self._way: _Way
        if mode == "isolated":
            self._way = _IsolatedWay(prompts, root=place, home=home)
        else:
            self._way = _SourceWay(prompts, own, root=place, home=home)

    @classmethod
    async def load(
        cls, agent: Target, prompts: TargetPrompt, *, home: Path | None = None, **more: Any
    ) -> Self:
        """Make a target with the current texts, after restoring what a killed run left."""
        begun = await begin(prompts, home or state_folder())
        return cls._begun(begun, agent=agent, prompts=prompts, home=home, **more)

    @classmethod
    def load_files(
        cls, agent: Target, prompts: TargetPrompt, *, home: Path | None = None, **more: Any
    ) -> Self:
        """The same without awaiting, if all fields are files."""
        begun = _begin_at_once(prompts, home or state_folder())
        return cls._begun(begun, agent=agent, prompts=prompts, home=home, **more)

    @classmethod
    def _begun(cls, begun: _Begun, **more: Any) -> Self:
        made = cls(values=begun.values, **more)
        made.notes = begun.notes
        return made

    @property
    def description(self) -> Description:
        """The agent, its fields and their sources, without their texts."""
        names = self.prompts.names()
        sources: dict[str, Json] = {name: self.prompts.describe_source(name) for name in names}
        agent = self.agent.description
        config: dict[str, Json] = {
            "agent": {"kind": agent.kind, "config": dict(agent.config)},
            "fields": [*names],
            "sources": sources,
            "mode": self.mode,
        }
        return Description(kind="prompts", config=config)

    def secrets(self) -> Sequence[str]:
        """What the agent and the stores of prompts are sent and nobody may store."""
        own = self.agent.secrets() if isinstance(self.agent, KnowsSecrets) else ()
        return [*own, *self.prompts.secrets()]

    @property
    def surfaces(self) -> Sequence[TextSurface]:
        return self._surfaces

    @property
    def baseline(self) -> Candidate:
        return self._baseline

    @property
    def leaf(self) -> bool:
        return self.agent.leaf

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        return [
            Problem(where=name, message="the field has no text")
            for name in self.prompts.names()
            if not isinstance(candidate.values.get(name), str)
        ]

    def estimate(self, case: Case) -> Spend:
        return self.agent.estimate(case)

    @property
    def calls_function(self) -> bool:
        return calls_function(self.agent)

    @property
    def prompts_summary(self) -> str:
        """What is called, and how it gets its prompts."""
        agent = self.agent.description
        return f"{agent.config.get('call') or agent.kind}, prompts in mode '{self.mode}'"

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """One file per field."""
        del home
        return {f"{name}.md": text.encode() for name, text in self._texts(candidate).items()}

    def held(self, candidate: Candidate) -> AbstractAsyncContextManager[None]:
        """Wait for the candidate's turn before the clock of a case starts."""
        return self._way.held(candidate.id, self._texts(candidate))

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Scope
    ) -> Receipt[Outcome]:
        texts = self._texts(candidate)
        prompts = CurrentPrompts(
            texts=texts, make_folder=partial(self._way.folder, candidate.id, texts)
        )
        async with self._way.held(candidate.id, texts):
            with providing(prompts):
                receipt = await self.agent.run(
                    self.agent.baseline, case, draw=draw, effects=effects
                )
        return replace(receipt, value=_attributed(receipt.value, prompts.used or texts))

    async def close(self) -> None:
        """Restore everything. No candidate is written after that.

        Raises RollbackError where something could not be restored.
        """
        self.left_alone += tuple(map(str, await self._way.close()))

    def _texts(self, candidate: Candidate) -> dict[str, str]:
        return {name: str(candidate.values[name]) for name in self.prompts.names()}


def _in_order(names: Sequence[str], values: Mapping[str, str]) -> dict[str, str]:
    if not names:
        remedy = "add at least one prompt: a file, or a pair of functions"
        raise ConfigError([Problem(message="there are no prompt fields", remedy=remedy)])
    if set(names) != set(values):
        message = "the values do not match the prompt fields"
        raise ConfigError([Problem(message=message, remedy=f"the fields are: {', '.join(names)}")])
    return {name: values[name] for name in names}


def _attributed(outcome: Outcome, names: Iterable[str]) -> Outcome:
    """Attribute the fields that no step names to each step that names none."""
    claimed = {name for step in outcome.trace.steps for name in step.surfaces}
    unclaimed = tuple(sorted(set(names) - claimed))
    steps = tuple(
        step if step.surfaces else replace(step, surfaces=unclaimed) for step in outcome.trace.steps
    )
    return replace(outcome, trace=Trace(steps=steps))
