"""The contract of a JournalStore: the rules of DESIGN.md that depend on the store."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from burnish.core.content import Json, codec
from burnish.core.errors import ReplayDiverged, SealedTestRead
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Call, Effects, Receipt
from burnish.journal.journal import EffectRow, Journal, JournalReader
from burnish.journal.once import Cache, JournaledEffects
from burnish.journal.storage import FILE_ABOVE, JournalStore
from burnish.system import Redactor
from burnish.testing.doubles import raises

Make: TypeAlias = Callable[[str], JournalStore]
_Perform: TypeAlias = Callable[[Effects], Awaitable[Receipt[str]]]
_ONE = Spend(calls=1, tokens_in=10, tokens_out=5, nano_usd=7)
_SECRET = "canary-secret-1234"  # noqa: S105 - a canary, to be found nowhere


async def check_journal_store(make: Make) -> None:
    """Check that a journal pays once, records effects before paying, and can be reopened.

    `make` opens the store of the journal with this name, as another process would; different names
    are different journals.
    """
    await _check_noted_first(make)
    await _check_lost(make)
    await _check_many_and_large(make)
    await _check_nested(make)
    await _check_trials_and_guard(make)
    await _check_events_and_checks(make)
    await _check_fork(make)
    await _check_sealed(make)


def _effects(store: JournalStore, cache: Cache | None = None) -> JournaledEffects:
    return JournaledEffects(Journal(store), redactor=Redactor(secrets=(_SECRET,)), cache=cache)


def _call(request: Json, estimate: Spend = _ONE) -> Call[str]:
    return Call(kind="contract", request=request, codec=codec(str), estimate=estimate)


def _says(text: str, spend: Spend = _ONE) -> _Perform:
    async def perform(effects: Effects) -> Receipt[str]:
        del effects
        return Receipt(value=text, spend=spend)

    return perform


async def _never(effects: Effects) -> Receipt[str]:
    del effects
    raise AssertionError("an effect was paid although it is in the journal")


def _rows(store: JournalStore) -> list[EffectRow]:
    with JournalReader(store) as reader:
        return list(reader.effects())


async def _check_noted_first(make: Make) -> None:
    """Rules 2 and 7."""
    effects = _effects(make("noted"))
    seen: list[EffectRow] = []

    async def perform(nested: Effects) -> Receipt[str]:
        del nested
        seen.extend(_rows(make("noted")))
        return Receipt(value=f"\0 🙂 {_SECRET}", spend=Spend(calls=1, nano_usd=9))

    first = await effects.scope(trial=0).once(_call({"key": _SECRET}), perform)
    assert first == "\0 🙂 [redacted]", "the first result is not the one that is stored"
    assert [(row.state, row.spend) for row in seen] == [("in flight", _ONE)], (
        "a paid effect is not recorded with its estimate before it starts"
    )
    assert effects.journal.billed == Spend(calls=1, nano_usd=9)
    (row,) = _rows(make("noted"))
    assert (row.state, row.request) == ("done", {"key": "[redacted]"})
    effects.journal.close()
    again = _effects(make("noted"))
    assert again.journal.session == 2, "sessions are not counted"
    assert await again.scope(trial=0).once(_call({"key": _SECRET}), _never) == first
    again.journal.close()


async def _check_lost(make: Make) -> None:
    """Rules 2 and 4: what was in flight is billed, not spent; bugs are not stored."""
    effects = _effects(make("lost"))

    async def bug(nested: Effects) -> Receipt[str]:
        del nested
        raise ZeroDivisionError

    with raises(ZeroDivisionError):
        await effects.scope(trial=0).once(_call("bug"), bug)
    await effects.journal.note(_call("a"), trial=0, request=b'"a"')
    effects.journal.close()
    assert [row.state for row in _rows(make("lost"))] == ["in flight"], "an error was stored"
    for billed in (2, 2):
        again = _effects(make("lost"))
        assert again.journal.billed == _ONE.times(billed), "lost effects are not billed once"
        again.journal.close()
    again = _effects(make("lost"))
    scope = again.scope(trial=0)
    assert await scope.once(_call("a"), _says("again")) == "again"
    assert again.journal.billed == _ONE.times(3)
    assert scope.used == {_call("a").key: _ONE}
    again.journal.close()


async def _check_many_and_large(make: Make) -> None:
    """Rule 1."""
    effects = _effects(make("many"))
    scope = effects.scope(trial=0)
    large = "".join(hashlib.sha256(b"%d" % n).hexdigest() for n in range(FILE_ABOVE // 30))
    texts = {0: large, 1: "x" * 10_000, **{number: str(number) for number in range(2, 60)}}
    await asyncio.gather(*(scope.once(_call(number), _says(texts[number])) for number in texts))
    effects.journal.close()
    rows = _rows(make("many"))
    assert [row.request for row in rows] == list(texts), "effects are out of order"
    assert {row.state for row in rows} == {"done"}
    with JournalReader(make("many")) as reader:
        values = [(row.request, row.value) for row in reader.values({0}, kinds={rows[0].kind})]
        assert values == list(texts.items()), "results cannot be read by their trial"
        assert not [*reader.values({1}, kinds={rows[0].kind})]
    again = _effects(make("many"))
    for number, text in texts.items():
        assert await again.scope(trial=0).once(_call(number), _never) == text
    assert again.journal.billed == _ONE.times(60)
    again.journal.close()


async def _check_nested(make: Make) -> None:
    """Rule 12: only leaves carry cost, and a replay sees them."""
    effects = _effects(make("nested"))

    async def talk(nested: Effects) -> Receipt[str]:
        turns = [await nested.once(_call(["turn", n]), _says(f"{n}")) for n in range(3)]
        return Receipt(value="".join(turns))

    first = effects.scope(trial=0)
    assert await first.once(_call("talk", NOTHING), talk) == "012"
    effects.journal.close()
    again = _effects(make("nested"))
    second = again.scope(trial=0)
    assert await second.once(_call("talk", NOTHING), _never) == "012"
    assert second.used == first.used, "a replay does not see what was nested"
    again.journal.close()
    with JournalReader(make("nested")) as reader:
        whole = [row for row in reader.costs() if len(row.spends) == 4]
        assert len(whole) == 1
        assert reader.billed == _ONE.times(3)


async def _check_trials_and_guard(make: Make) -> None:
    """Rules 6 and 13."""
    effects = _effects(make("trials"))
    await effects.scope(trial=0).once(_call("a"), _says("hello"))
    body = b'{"number":0,"text":"' + b"y" * 5000 + b'"}'
    effects.journal.add_trial(0, body)
    with JournalReader(make("trials")) as reader:
        assert list(reader.trials()) == [reader.trial(0)] == [body], "a trial is not stored at once"
    effects.journal.close()
    again = _effects(make("trials"))
    assert again.journal.trials_recorded == 1
    assert again.journal.trial(0) == body
    assert again.journal.trial(1) is None
    with raises(ReplayDiverged):
        await again.scope(trial=0).once(_call("b"), _never)
    assert await again.scope(trial=0).once(_call("a"), _never) == "hello"
    assert await again.scope(trial=1).once(_call("b"), _says("live")) == "live"
    again.journal.close()


async def _check_events_and_checks(make: Make) -> None:
    """Rules 5, 13 and 18."""
    journal = Journal(make("events"))
    assert journal.add_event("trial:0", b"{}") == (True, False)
    assert journal.add_event("TRIAL:0", b"[]") == (True, False), "keys differ in case too"
    assert journal.add_event("trial:0", b"{}") == (False, False)
    journal.event_delivered("trial:0")
    journal.add_continue("minutes", 1)
    journal.add_continue("minutes", 2)
    journal.set_mark("note", "one")
    journal.set_mark("note", "two 🙂")
    journal.close()
    again = Journal(make("events"))
    assert again.add_event("trial:0", b"{}") == (False, True)
    assert [again.continued("minutes", n) for n in (1, 2, 3)] == [True, True, False]
    assert again.mark("note") == "two 🙂"
    assert again.active_before > 0, "the time of earlier sessions is forgotten"
    again.close()
    with JournalReader(make("events")) as reader:
        assert list(reader.events()) == [b"{}", b"[]"]
        assert reader.marks()["note"] == "two 🙂"


async def _check_fork(make: Make) -> None:
    """Rules 4 and 17."""
    first = _effects(make("old"))
    await first.scope(trial=0).once(_call("a"), _says("from the old run"))
    first.journal.close()
    with JournalReader(make("old")) as reader:
        second = _effects(make("new"), Cache(reader))
        assert await second.scope(trial=0).once(_call("a"), _never) == "from the old run"
        assert await second.scope(trial=0).once(_call("b"), _says("new")) == "new"
        assert second.journal.billed == _ONE, "what was paid before is paid again"
        second.journal.close()
    assert [row.state for row in _rows(make("new"))] == ["imported", "done"]


async def _check_sealed(make: Make) -> None:
    """Rule 20."""
    effects = _effects(make("sealed"))
    await effects.scope(trial=0).once(_call("a"), _says("hello"))
    effects.journal.set_mark("sealed_read", "now")
    effects.journal.close()
    again = _effects(make("sealed"))
    assert await again.scope(trial=1, sealed=True).once(_call("t"), _says("test")) == "test"
    with raises(SealedTestRead):
        await again.scope(trial=1).once(_call("b"), _never)
    again.journal.close()
