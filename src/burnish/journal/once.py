"""Do this once: effects through the journal, passed through, or only looked up."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from burnish.core.content import Json, canonical
from burnish.core.errors import BurnishError, NotJournalable, ReplayDiverged, SealedTestRead
from burnish.core.money import NOTHING, Spend, total
from burnish.core.protocols import Call, Receipt, Scope
from burnish.journal.journal import Journal, JournalReader, Stored
from burnish.journal.sqlite_store import reading
from burnish.system import Redactor

# -- Effects that are looked up and never performed -----------------------------------------------


# -- Effects that are simply performed ------------------------------------------------------------


T = TypeVar("T")


class DirectEffects:
    """Performs every effect every time, and remembers what was used."""

    def __init__(self) -> None:
        self.used: dict[str, Spend] = {}

    @property
    def spent(self) -> Spend:
        """What it all cost."""
        return total(self.used.values())

    async def once(self, call: Call[T], perform: Callable[[Scope], Awaitable[Receipt[T]]]) -> T:
        """The result, straight from `perform`."""
        receipt = await perform(self)
        self.used[call.key] = self.used.get(call.key, Spend()) + receipt.spend
        return receipt.value


class NotRehearsed(BurnishError):
    """A rehearsal came to something that it may not do; nobody but who rehearses sees this."""


class Rehearsal:
    """Answers from the journal; at the first effect that it may not use it ends.

    Nothing is performed, spent or kept. `within` are the keys that may be used; without it,
    everything that the journal holds.
    """

    def __init__(
        self, find: Callable[[str], Json], *, within: Collection[str] | None = None
    ) -> None:
        self._find = find
        self._within = within
        self.used: set[str] = set()
        self.ended = False
        """Whether there was something that it may not use. Stays, whoever catches the error."""

    async def once(self, call: Call[T], perform: Callable[[Scope], Awaitable[Receipt[T]]]) -> T:
        """The result as the journal has it."""
        del perform
        return call.codec.decode(self._known(call))

    def _known(self, call: Call[Any]) -> Json:
        allowed = not self.ended and (self._within is None or call.key in self._within)
        result = self._find(call.key) if allowed else None
        if result is None:
            self.ended = True
            raise NotRehearsed(f"the {call.kind} call {call.key[:12]} may not be used")
        self.used.add(call.key)
        return result


_Perform = Callable[[Scope], Awaitable[Receipt[T]]]


class Cache:
    """The journal of an earlier run, from which a fork takes what it would pay for again."""

    def __init__(self, reader: JournalReader, *, retry_missing: bool = False) -> None:
        self._reader = reader
        self._retry_missing = retry_missing
        self._again: set[str] = set()
        """What was part of an answer that is asked for again as a whole."""

    def close(self) -> None:
        """Let go of the earlier journal."""
        self._reader.close()

    def find(self, key: str, *, as_a_whole: bool = False) -> tuple[bytes, bool] | None:
        """An earlier result and whether it is missing; none where it is asked for again.

        `as_a_whole` says that then nothing nested in it counts either: a role that could not use
        a model's answers would get the same answers once more.
        """
        if key in self._again:
            return None
        result = self._reader.find(key)
        if result is None or not (result[1] and self._retry_missing):
            return result
        if as_a_whole:
            self._again |= self._reader.nested_in(key)
        return None


class JournaledEffects:
    """All effects of one run: each key runs once, however many wait for it."""

    def __init__(self, journal: Journal, *, redactor: Redactor, cache: Cache | None = None) -> None:
        self.journal = journal
        self._redactor = redactor
        self._cache = cache
        self._in_flight: dict[str, asyncio.Task[Stored]] = {}
        self.landed = 0
        """How many effects have ended here: a run in which this stands still may hang."""

    def scope(self, *, trial: int, sealed: bool = False) -> "JournalScope":
        """Effects on behalf of one trial; `sealed` ones may follow the look at the test."""
        return JournalScope(self, trial=trial, sealed=sealed)

    def rehearsal(self, *, within: Collection[str] | None = None) -> Rehearsal:
        """Effects that only look up what was paid for, here or in the run this was forked from."""
        return Rehearsal(self._known, within=within)

    def replays(self, trial: int) -> bool:
        """Whether this trial is recorded already, so that nothing in it may be paid."""
        return trial < self.journal.trials_recorded

    async def result(self, call: Call[T], perform: _Perform[T], scope: "JournalScope") -> Stored:
        """The journaled result, performed first if need be."""
        key = call.key
        task = self._in_flight.get(key)
        if task is None:
            stored = self.journal.find(key)
            if stored is not None:
                return stored
            self._guard(call, scope)
            if call.computed:
                return await self._perform(call, perform, scope)
            task = asyncio.create_task(self._perform(call, perform, scope))
            self._in_flight[key] = task
            task.add_done_callback(lambda ended: self._landed(key, ended))
        # The effect belongs to the run: whoever waits may leave, the result is still kept.
        return await asyncio.shield(task)

    async def cancel_all(self) -> None:
        """Leave nothing running."""
        while self._in_flight:
            tasks = list(self._in_flight.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # Where all had ended already, newer Pythons do not wait at all: the turn of the loop
            # in which they are taken off the list has to be given.
            await asyncio.sleep(0)

    def _known(self, key: str) -> Json:
        stored = self.journal.find(key)
        if stored is not None:
            return stored.value
        earlier = self._cache.find(key) if self._cache else None
        if earlier is None:
            return None
        with reading(self.journal.path):
            return json.loads(earlier[0])

    def _landed(self, key: str, task: "asyncio.Task[Stored]") -> None:
        self._in_flight.pop(key, None)
        self.landed += 1
        if not task.cancelled():
            task.exception()  # looked at, since everyone who waited may have left

    def _guard(self, call: Call[Any], scope: "JournalScope") -> None:
        if self.replays(scope.trial):
            raise ReplayDiverged(
                f"trial {scope.trial} is recorded, but its {call.kind} call "
                f"{call.key[:12]} is not in the journal",
                remedy="the strategy, the target or the data behave differently from when this "
                "run was made; nothing was paid. Start a new run, or fork this one with --fork",
            )
        if self.journal.sealed_read and not scope.sealed:
            raise SealedTestRead(
                "the sealed test of this run was read, so it may not search on",
                remedy="fork it with --fork: the new run marks its test as spent",
            )

    async def _perform(self, call: Call[T], perform: _Perform[T], scope: "JournalScope") -> Stored:
        request = self._redacted(call.spelled, call.request)
        earlier = None
        if self._cache:
            earlier = self._cache.find(call.key, as_a_whole=call.retried_as_a_whole)
        if earlier is not None:
            return await self._import(call, scope, request, earlier)
        nested = JournalScope(self, trial=scope.trial, sealed=scope.sealed)
        try:
            if call.paid:
                await self.journal.note(call, trial=scope.trial, request=request)
            receipt = await perform(nested)
            value = self._keepable(call, receipt.value)
        except BaseException:
            if call.paid:
                self.journal.lose(call)
            raise
        await self.journal.complete(
            call,
            trial=scope.trial,
            request=request,
            value=value,
            spend=receipt.spend,
            nested=nested.used,
            missing=receipt.missing,
        )
        spends = {call.key: receipt.spend, **nested.used}
        return Stored(value=json.loads(value), spends=spends, missing=receipt.missing)

    def _keepable(self, call: Call[T], value: T) -> bytes:
        try:
            encoded = call.codec.encode(value)
            return self._redacted(canonical(encoded), encoded)
        except NotJournalable as error:
            if call.otherwise is None:
                raise
            encoded = call.codec.encode(call.otherwise(error))
            return self._redacted(canonical(encoded), encoded)

    def _redacted(self, spelled: bytes, value: Json) -> bytes:
        if self._redactor.is_clean(spelled.decode()):
            return spelled
        return canonical(self._redactor.json(value))

    async def _import(
        self, call: Call[Any], scope: "JournalScope", request: bytes, earlier: tuple[bytes, bool]
    ) -> Stored:
        """Take a result from the earlier run: it was paid there, so it costs nothing here."""
        value, missing = earlier
        with reading(self.journal.path):
            data = json.loads(value)
        await self.journal.complete(
            call,
            trial=scope.trial,
            request=request,
            value=value,
            spend=NOTHING,
            nested={},
            missing=missing,
            imported=True,
        )
        return Stored(value=data, spends={call.key: NOTHING}, missing=missing)


class JournalScope:
    """The Effects handed to targets, metrics and roles; remembers what was used through it."""

    def __init__(self, effects: JournaledEffects, *, trial: int, sealed: bool) -> None:
        self._effects = effects
        self.trial = trial
        self.sealed = sealed
        self.used: dict[str, Spend] = {}

    async def once(self, call: Call[T], perform: _Perform[T]) -> T:
        """The result of `call`, as the journal keeps it, also the first time."""
        stored = await self._effects.result(call, perform, self)
        self.used.update(stored.spends)
        with reading(self._effects.journal.path):
            return call.codec.decode(stored.value)


class NamedScope:
    """Effects of one piece of work among others in a journal: its name is part of every key.

    So the same question in two of them is two effects, each with an answer of its own.
    """

    def __init__(self, scope: Scope, name: str) -> None:
        self._scope = scope
        self._name = name

    @property
    def used(self) -> Mapping[str, Spend]:
        """What each effect used so far cost, by key."""
        return self._scope.used

    async def once(self, call: Call[T], perform: _Perform[T]) -> T:
        """The result of `call` as this piece of work has it."""
        own = replace(call, request={"within": self._name, "request": call.request})
        return await self._scope.once(own, lambda nested: perform(NamedScope(nested, self._name)))
