"""Effects that are journaled, performed directly, or only looked up."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from burnish.core.content import Json, canonical, of_canonical
from burnish.core.errors import (
    BurnishError,
    NotJournalable,
    ReplayDiverged,
    SealedTestRead,
    WorkerUnready,
)
from burnish.core.money import NOTHING, Spend, total
from burnish.core.protocols import Call, Receipt, Scope
from burnish.journal.executors import DetachedTask
from burnish.journal.journal import Journal, JournalReader, Stored
from burnish.journal.sqlite_store import reading
from burnish.system import Redactor

T = TypeVar("T")
_REMEMBERED = 1_000
_Perform = Callable[[Scope], Awaitable[Receipt[T]]]


class Unpaid(Exception):
    """A call failed before anybody answered it: it is not billed. `error` says why."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class NeverBegun(asyncio.CancelledError):
    """An effect was cancelled while it waited for a worker: nothing was paid."""


class EffectWatch(Protocol):
    """Sees the effects of a run as they are performed; a replay performs none."""

    def watched(self, call: Call[T], perform: _Perform[T], *, trial: int) -> _Perform[T]:
        """`perform`, with whatever is to happen before and after it."""
        ...


class DirectEffects:
    """Performs every effect every time and records what it cost."""

    def __init__(self) -> None:
        self.used: dict[str, Spend] = {}

    @property
    def spent(self) -> Spend:
        return total(self.used.values())

    async def once(self, call: Call[T], perform: _Perform[T]) -> T:
        """The result of `perform`."""
        receipt = await perform(self)
        self.used[call.key] = self.used.get(call.key, NOTHING) + receipt.spend
        return receipt.value


class NotRehearsed(BurnishError):
    """A rehearsal reached an effect that it may not use; users never see this."""


class Rehearsal:
    """Looks effects up in the journal and ends at the first one that it may not use.

    Nothing is performed, spent or stored. `within` are the keys that may be used; None allows
    everything in the journal.
    """

    def __init__(
        self, find: Callable[[str], Json], *, within: Collection[str] | None = None
    ) -> None:
        self._find = find
        self._within = within
        self.used: set[str] = set()
        self.ended_at = ""
        """The key of the first effect that it may not use, even if the error was caught."""

    @property
    def ended(self) -> bool:
        """Whether it reached an effect that it may not use."""
        return bool(self.ended_at)

    async def once(self, call: Call[T], perform: _Perform[T]) -> T:
        """The result in the journal."""
        del perform
        allowed = not self.ended and (self._within is None or call.key in self._within)
        result = self._find(call.key) if allowed else None
        if result is None:
            self.ended_at = self.ended_at or call.key
            raise NotRehearsed(f"the {call.kind} call {call.key[:12]} may not be used")
        self.used.add(call.key)
        return call.codec.decode(result)


class Cache:
    """The journal of an earlier run, from which a fork takes results instead of paying again."""

    def __init__(self, reader: JournalReader, *, retry_missing: bool = False) -> None:
        self._reader = reader
        self._retry_missing = retry_missing
        self._again: set[str] = set()
        """Effects nested in a result that is requested again as a whole."""

    def close(self) -> None:
        """Close the earlier journal."""
        self._reader.close()

    def find(self, key: str, *, as_a_whole: bool = False) -> tuple[bytes, bool] | None:
        """An earlier result and whether it is missing; None if it is to be requested again.

        With `as_a_whole`, nested results are requested again too: otherwise a role that could not
        use a model's answers would get the same answers once more.
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
        self._in_flight: dict[str, DetachedTask[Stored]] = {}
        self._whole: dict[str, Stored] = {}
        """Results inside the work on a case, before something was removed from them."""
        self._unanswered: list[tuple[int, str]] = []
        """The keys of results that nobody gave, each with its trial."""
        self.landed = 0
        """The number of effects that have ended; a run in which it does not grow may hang."""
        self.watch: EffectWatch | None = None

    def scope(self, *, trial: int, sealed: bool = False) -> "JournalScope":
        """Effects of one trial; `sealed` ones may still run after the test was read."""
        return JournalScope(self, trial=trial, sealed=sealed)

    def rehearsal(self, *, within: Collection[str] | None = None) -> Rehearsal:
        """Effects that only look up results, here or in the run this was forked from."""
        return Rehearsal(self._known, within=within)

    def replays(self, trial: int) -> bool:
        """Whether this trial is already recorded, so that nothing in it may be paid."""
        return trial < self.journal.trials_recorded

    async def result(self, call: Call[T], perform: _Perform[T], scope: "JournalScope") -> Stored:
        """The journaled result, performed first if necessary."""
        key = call.key
        effect = self._in_flight.get(key)
        if effect is None:
            stored = self._stored(key, scope)
            if stored is not None:
                return stored
            self._guard(call, scope)
            if self.watch is not None:
                perform = self.watch.watched(call, perform, trial=scope.trial)
            if call.computed:
                return await self._perform(call, perform, scope)
            effect = self._in_flight[key] = DetachedTask(
                lambda: self._landing(call, perform, scope)
            )
        # The effect belongs to the run: its result is stored even if the caller is cancelled.
        return await effect.result()

    def _stored(self, key: str, scope: "JournalScope") -> Stored | None:
        """The result, whole where it is used in the work on a case; None if it is to be made."""
        stored = self.journal.find(key)
        if stored is None or scope.own_text is None or not stored.withheld:
            return stored
        if key not in self._whole:
            # The agent would continue with a gap in what it was told: a wrong answer for nothing.
            self.journal.forget(key)
        return self._whole.get(key)

    def forget_unanswered(self) -> None:
        """Ask again, in a later session, for what nobody answered since the last trial."""
        unanswered, self._unanswered = self._unanswered, []
        for trial, key in unanswered:
            if not self.replays(trial):
                self.journal.forget(key)

    async def cancel_all(self) -> None:
        """Cancel everything that is running."""
        while self._in_flight:
            cancelled = dict(self._in_flight)
            for effect in cancelled.values():
                effect.cancel()
            tasks = [effect.task for effect in cancelled.values()]
            await asyncio.gather(*tasks, return_exceptions=True)
            for key in cancelled:  # one that had not begun has not removed itself
                self._in_flight.pop(key, None)

    def _known(self, key: str) -> Json:
        """The result here, or in the run this was forked from."""
        stored = self.journal.find(key)
        earlier = self._cache.find(key) if self._cache and stored is None else None
        spelled = stored.spelled if stored else earlier[0] if earlier else b"null"
        with reading(self.journal.path):
            return of_canonical(spelled)

    async def _landing(self, call: Call[T], perform: _Perform[T], scope: "JournalScope") -> Stored:
        try:
            return await self._perform(call, perform, scope)
        finally:
            self._in_flight.pop(call.key, None)
            self.landed += 1

    def _guard(self, call: Call[Any], scope: "JournalScope") -> None:
        if self.replays(scope.trial):
            raise ReplayDiverged(
                f"trial {scope.trial} is recorded, but its {call.kind} call "
                f"{call.key[:12]} is not in the journal",
                remedy="the strategy, the target or the data now behave differently than when this "
                "run was made; nothing was paid. Start a new run, or fork this one with --fork",
            )
        if self.journal.sealed_read and not scope.sealed:
            raise SealedTestRead(
                "the sealed test of this run was read, so it cannot search any further",
                remedy="fork it with --fork: the new run marks its test as spent",
            )

    async def _perform(self, call: Call[T], perform: _Perform[T], scope: "JournalScope") -> Stored:
        request = self._redacted(call.spelled, call.request)
        own_text = call.own_text or scope.own_text
        nested = JournalScope(self, trial=scope.trial, sealed=scope.sealed, own_text=own_text)
        earlier, whole = None, None
        if self._cache:
            earlier = self._cache.find(call.key, as_a_whole=call.retried_as_a_whole)
        if earlier is not None:
            # It was paid in the earlier run, so it costs nothing here.
            (value, missing), spend = earlier, NOTHING
        else:
            begun = False
            try:
                if call.paid:
                    await self.journal.note(call, trial=scope.trial, request=request)
                begun = True
                receipt = await perform(nested)
                value, whole = self._encoded(call, receipt.value, own_text)
            except BaseException as error:  # cancelled or failed, a paid call that began is lost
                begun = begun and not isinstance(error, (WorkerUnready, NeverBegun, Unpaid))
                if call.paid:
                    end = self.journal.lose if begun else self.journal.withdraw
                    end(call)
                raise
            missing, spend = receipt.missing, receipt.spend
        await self.journal.complete(
            call,
            trial=scope.trial,
            request=request,
            value=value,
            spend=spend,
            nested=nested.used,
            missing=missing,
            withheld=whole is not None,
            imported=earlier is not None,
        )
        if missing and earlier is None:
            self._unanswered.append((scope.trial, call.key))
        stored = Stored(spelled=value, spends={call.key: spend, **nested.used}, missing=missing)
        if whole is None:
            return stored
        if call.whole is not None:
            call.whole(call.codec.read(whole))
        # Inside the work on a case the result stays whole, for the agent and for metrics.
        return stored if scope.own_text is None else self._remembered(call.key, stored, whole)

    def _remembered(self, key: str, stored: Stored, whole: bytes) -> Stored:
        if len(self._whole) >= _REMEMBERED:
            self._whole.pop(next(iter(self._whole)))
        self._whole[key] = replace(stored, spelled=whole)
        return self._whole[key]

    def _encoded(
        self, call: Call[T], value: T, own_text: Callable[[], str] | None
    ) -> tuple[bytes, bytes | None]:
        """The value without secrets; if something was removed that only looks like one, and it is
        part of the work on a case, also the value with that."""
        try:
            data = call.codec.encode(value)
            spelled = canonical(data)
        except NotJournalable as error:
            if call.otherwise is None:
                raise
            value = call.otherwise(error)
            data = call.codec.encode(value)
            spelled = canonical(data)
        if self._redactor.is_clean(spelled.decode()):
            return spelled, None
        if own_text is None:
            return canonical(self._redactor.json(data)), None
        spared = own_text()
        stored = canonical(self._redactor.json(data, spared=spared))
        whole = canonical(self._redactor.own_secrets_removed(data))
        if stored == whole:
            return stored, None
        if call.withheld is not None:
            marked = call.codec.encode(call.withheld(value))
            stored = canonical(self._redactor.json(marked, spared=spared))
        return stored, whole

    def _redacted(self, spelled: bytes, value: Json) -> bytes:
        if self._redactor.is_clean(spelled.decode()):
            return spelled
        return canonical(self._redactor.json(value))


class JournalScope:
    """The effects for targets, metrics and roles; records what was used through it."""

    def __init__(
        self,
        effects: JournaledEffects,
        *,
        trial: int,
        sealed: bool,
        own_text: Callable[[], str] | None = None,
    ) -> None:
        self._effects = effects
        self.own_text = own_text
        """The text of the case, inside the work on one."""
        self.trial = trial
        self.sealed = sealed
        self.used: dict[str, Spend] = {}

    async def once(self, call: Call[T], perform: _Perform[T]) -> T:
        """The result of `call`, decoded from the journal's form even the first time."""
        stored = await self._effects.result(call, perform, self)
        self.used.update(stored.spends)
        with reading(self._effects.journal.path):
            return call.codec.read(stored.spelled)


class NamedScope:
    """Effects whose keys contain the name of a piece of work.

    The same request in two of them is two effects with separate results.
    """

    def __init__(self, scope: Scope, name: str) -> None:
        self._scope = scope
        self._name = name

    @property
    def used(self) -> Mapping[str, Spend]:
        return self._scope.used

    async def once(self, call: Call[T], perform: _Perform[T]) -> T:
        """The result of `call` within this piece of work."""
        own = self._named(call)
        return await self._scope.once(own, lambda nested: perform(NamedScope(nested, self._name)))

    def _named(self, call: Call[T]) -> Call[T]:
        return replace(call, request={"within": self._name, "request": call.request})

    def branch(self) -> "BranchScope":
        """The same effects for one of several pieces of work that go on at once."""
        return BranchScope(self._scope, self._name)


class BranchScope(NamedScope):
    """A named scope that tells what was used through it alone."""

    def __init__(self, scope: Scope, name: str) -> None:
        super().__init__(scope, name)
        self._keys: list[str] = []

    @property
    def used(self) -> Mapping[str, Spend]:
        return {key: self._scope.used[key] for key in self._keys}

    async def once(self, call: Call[T], perform: _Perform[T]) -> T:
        """The result of `call` within this piece of work."""
        result = await super().once(call, perform)
        self._keys.append(self._named(call).key)
        return result
