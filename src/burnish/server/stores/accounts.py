"""What each account has spent and reserved for its runs, and which datasets are its own.

A charge belongs to one run. While the run is unfinished it counts with what is reserved for it,
afterwards with what it was billed. Deleting a run refunds nothing.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    Executable,
    RowMapping,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.core.money import Spend, to_usd
from burnish.journal.tables import Schema
from burnish.system.databases import Database

P = ParamSpec("P")
T = TypeVar("T")
MEGABYTE = 1024 * 1024


class LimitReached(ConfigError):
    """A client has reached a limit that the operator set: money, calls, tokens, time or runs."""

    def __init__(self, name: str, message: str, remedy: str = "") -> None:
        super().__init__([Problem(where=name, message=message, remedy=remedy)], remedy=remedy)
        self.limit = name


class ChargeExists(BurnishError):
    """There is a charge for a run of this name already."""


@dataclass(frozen=True, kw_only=True)
class Amounts:
    """Amounts that an account is limited by; None means no limit or nothing known."""

    max_usd: float | None = None
    max_calls: float | None = None
    max_tokens: float | None = None
    max_minutes: float | None = None

    @classmethod
    def of(cls, spend: Spend, *, seconds: float) -> "Amounts":
        """What a run was billed for."""
        return cls(
            max_usd=to_usd(spend.nano_usd),
            max_calls=spend.calls,
            max_tokens=spend.tokens,
            max_minutes=seconds / 60,
        )

    def limits(self) -> dict[str, Any]:
        """The amounts that are set, as limits of a budget."""
        whole = ("max_calls", "max_tokens")
        return {
            name: int(value) if name in whole else value
            for name, value in asdict(self).items()
            if value is not None
        }


_NAMES = tuple(each.name for each in fields(Amounts))
_UNITS = {"max_usd": "USD", "max_calls": "calls", "max_tokens": "tokens", "max_minutes": "minutes"}


@dataclass(frozen=True, kw_only=True)
class AccountLimits:
    """The limits of an account."""

    amounts: Amounts = field(default_factory=Amounts)
    runs: int | None = None
    """Unfinished runs."""


@dataclass(frozen=True, kw_only=True)
class AccountUse:
    """What an account has used."""

    spent: Amounts
    reserved: Amounts
    """What unfinished runs may still spend."""
    runs: int


@dataclass(frozen=True, kw_only=True)
class Charge:
    """The charge of one run."""

    account: str
    app_name: str
    run_id: str
    granted: Amounts
    """What the run may spend in total."""
    spent: Amounts
    open: bool


class AccountStore(Protocol):
    """Accounts in a database that many processes share."""

    async def reserve(
        self, account: str, key: tuple[str, str], wish: Amounts, limits: AccountLimits
    ) -> Amounts:
        """Reserve for a new run what it may spend: what it wants, or what is left.

        LimitReached if nothing is left, ChargeExists if there is a charge for this run.
        """
        ...

    async def reserve_again(
        self, account: str, key: tuple[str, str], wish: Amounts, limits: AccountLimits
    ) -> Amounts:
        """The same for a run that is resumed; includes what it has spent."""
        ...

    async def charge(self, key: tuple[str, str]) -> Charge | None:
        """The charge of a run; None if no client started it."""
        ...

    async def open_charges(self, account: str = "") -> tuple[Charge, ...]:
        """The charges of unfinished runs, of one account or of all."""
        ...

    async def settle(self, key: tuple[str, str], spent: Amounts | None) -> None:
        """End a reservation; without a known amount, all of it counts as spent."""
        ...

    async def drop(self, key: tuple[str, str]) -> None:
        """Remove the charge of a run that was never stored."""
        ...

    async def rename(self, key: tuple[str, str], new: tuple[str, str]) -> None:
        """Give the charge of a run the name under which the run is stored."""
        ...

    async def forget(self, key: tuple[str, str]) -> None:
        """Free the name of a deleted run; what it spent stays spent."""
        ...

    async def standing(self, account: str) -> AccountUse:
        """What an account has used and reserved."""
        ...

    async def upload(self, account: str, name: str) -> None:
        """Record whose dataset this is."""
        ...

    async def uploader(self, name: str) -> str | None:
        """Whose dataset this is; None if nobody is recorded."""
        ...

    async def remove_upload(self, name: str) -> None:
        """Record that a dataset is gone."""
        ...


class InThread(Protocol):
    """Does work in one of a store's threads."""

    async def __call__(self, work: Callable[[], T], /) -> T: ...


class StoreTables:
    """Tables next to the runs of a store, used in its threads."""

    def __init__(self, database: Database, in_thread: InThread) -> None:
        self._database = database
        self._in_thread = in_thread
        self._now: ColumnElement[float] = literal_column(database.clock, Double())

    async def _do(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._in_thread(partial(work, *args, **kwargs))


class DatabaseAccounts(StoreTables):
    """Accounts next to the runs of a store."""

    def __init__(self, database: Database, schema: Schema, in_thread: InThread) -> None:
        super().__init__(database, in_thread)
        self._accounts = schema.tables["accounts"]
        self._charges = schema.tables["charges"]
        self._uploads = schema.tables["uploads"]

    async def reserve(
        self, account: str, key: tuple[str, str], wish: Amounts, limits: AccountLimits
    ) -> Amounts:
        return await self._do(self._reserve, account, key, wish, limits, again=False)

    async def reserve_again(
        self, account: str, key: tuple[str, str], wish: Amounts, limits: AccountLimits
    ) -> Amounts:
        return await self._do(self._reserve, account, key, wish, limits, again=True)

    async def charge(self, key: tuple[str, str]) -> Charge | None:
        rows = await self._do(self._rows, self._of(key))
        return _charge(rows[0]) if rows else None

    async def open_charges(self, account: str = "") -> tuple[Charge, ...]:
        table = self._charges
        conditions = [table.c.open == 1, *([table.c.account == account] if account else [])]
        return tuple(_charge(row) for row in await self._do(self._rows, conditions))

    async def settle(self, key: tuple[str, str], spent: Amounts | None) -> None:
        await self._do(self._settle, key, spent)

    async def drop(self, key: tuple[str, str]) -> None:
        await self._do(self._write, delete(self._charges).where(*self._of(key)))

    async def rename(self, key: tuple[str, str], new: tuple[str, str]) -> None:
        names = {"app_name": new[0], "run_id": new[1]}
        await self._do(self._write, update(self._charges).where(*self._of(key)).values(**names))

    async def forget(self, key: tuple[str, str]) -> None:
        freed = {"run_id": "", "open": 0}
        await self._do(self._write, update(self._charges).where(*self._of(key)).values(**freed))

    async def standing(self, account: str) -> AccountUse:
        return await self._do(self._standing, account)

    async def upload(self, account: str, name: str) -> None:
        await self._do(self._upload, account, name)

    async def uploader(self, name: str) -> str | None:
        return await self._do(self._uploader, name)

    async def remove_upload(self, name: str) -> None:
        table = self._uploads
        await self._do(self._write, delete(table).where(table.c.name == name))

    def _of(self, key: tuple[str, str]) -> Sequence[ColumnElement[bool]]:
        return [self._charges.c.app_name == key[0], self._charges.c.run_id == key[1]]

    def _rows(self, conditions: Sequence[ColumnElement[bool]]) -> Sequence[RowMapping]:
        with self._database.transaction(read_only=True) as db:
            return db.execute(select(self._charges).where(*conditions)).mappings().all()

    def _write(self, statement: Executable) -> None:
        with self._database.transaction() as db:
            db.execute(statement)

    def _reserve(
        self,
        account: str,
        key: tuple[str, str],
        wish: Amounts,
        limits: AccountLimits,
        *,
        again: bool,
    ) -> Amounts:
        table = self._charges
        with self._locked(account) as db:
            own = db.execute(select(table).where(*self._of(key))).mappings().one_or_none()
            if own is not None and not again:
                raise ChargeExists(f'run "{key[1]}" for app "{key[0]}" already exists')
            others = [table.c.account == account]
            others += [] if own is None else [table.c.id != own["id"]]
            used = self._used(db, others)
            if limits.runs is not None and used.runs >= limits.runs:
                message = f"{used.runs} of {limits.runs} runs are waiting or running"
                raise LimitReached("max_runs", message, "wait until one ends, or cancel one")
            before = Amounts(**dict.fromkeys(_NAMES, 0.0)) if own is None else _spent(own)
            granted = _granted(wish, limits, used, before)
            values = {f"granted{name[3:]}": value for name, value in asdict(granted).items()}
            if own is None:
                new = insert(table).values(
                    account=account,
                    app_name=key[0],
                    run_id=key[1],
                    open=1,
                    **values,
                    **{name[4:]: 0.0 for name in _NAMES},
                )
                db.execute(new)
            else:
                change = update(table).where(table.c.id == own["id"])
                db.execute(change.values(open=1, **values))
        return granted

    def _settle(self, key: tuple[str, str], spent: Amounts | None) -> None:
        table = self._charges
        values: dict[str, Any] = {"open": 0}
        for name in _NAMES:
            column, granted = table.c[name[4:]], table.c[f"granted{name[3:]}"]
            amount = None if spent is None else getattr(spent, name)
            values[name[4:]] = func.coalesce(granted, column) if amount is None else amount
        self._write(update(table).where(*self._of(key), table.c.open == 1).values(values))

    def _standing(self, account: str) -> AccountUse:
        with self._database.transaction(read_only=True) as db:
            return self._used(db, [self._charges.c.account == account])

    def _upload(self, account: str, name: str) -> None:
        table = self._uploads
        with self._locked(account) as db:
            db.execute(delete(table).where(table.c.name == name))
            db.execute(insert(table).values(name=name, account=account))

    def _uploader(self, name: str) -> str | None:
        table = self._uploads
        with self._database.transaction(read_only=True) as db:
            return db.execute(select(table.c.account).where(table.c.name == name)).scalar()

    @contextmanager
    def _locked(self, account: str) -> Generator[Connection, None, None]:
        """A transaction that no other one of the same account runs beside."""
        table = self._accounts
        same = select(table.c.name).where(table.c.name == account)
        with suppress(IntegrityError), self._database.transaction() as db:
            if db.execute(same).scalar() is None:
                db.execute(insert(table).values(name=account))
        with self._database.transaction() as db:
            db.execute(same.with_for_update())
            yield db

    def _used(self, db: Connection, conditions: Sequence[ColumnElement[bool]]) -> AccountUse:
        """What charges come to: an open one counts with what is granted, if that is more."""
        spent, reserved = dict.fromkeys(_NAMES, 0.0), dict.fromkeys(_NAMES, 0.0)
        runs = 0
        for row in db.execute(select(self._charges).where(*conditions)).mappings():
            runs += row["open"]
            for name in _NAMES:
                own, granted = row[name[4:]], row[f"granted{name[3:]}"]
                spent[name] += own
                if row["open"] and granted is not None:
                    reserved[name] += max(0.0, granted - own)
        return AccountUse(spent=Amounts(**spent), reserved=Amounts(**reserved), runs=runs)


def _granted(wish: Amounts, limits: AccountLimits, used: AccountUse, before: Amounts) -> Amounts:
    granted: dict[str, float | None] = {}
    for name in _NAMES:
        limit, own_limit = getattr(limits.amounts, name), getattr(wish, name)
        if limit is None:
            granted[name] = own_limit
            continue
        own = getattr(before, name)
        left = limit - own - getattr(used.spent, name) - getattr(used.reserved, name)
        if left <= 0 or (name in ("max_calls", "max_tokens") and left < 1):
            message = _explained(name, limit, used, own)
            raise LimitReached(name, message, "ask the operator")
        most = own + left
        granted[name] = most if own_limit is None else min(own_limit, most)
    return Amounts(**granted)


def _explained(name: str, limit: float, used: AccountUse, own: float) -> str:
    spent, reserved = getattr(used.spent, name) + own, getattr(used.reserved, name)
    message = f"{spent:.6g} of {limit:g} {_UNITS[name]} of this token are spent"
    return f"{message}, and running runs have reserved {reserved:.6g}" if reserved else message


def _spent(row: Mapping[Any, Any]) -> Amounts:
    return Amounts(**{name: row[name[4:]] for name in _NAMES})


def _charge(row: Mapping[Any, Any]) -> Charge:
    return Charge(
        account=row["account"],
        app_name=row["app_name"],
        run_id=row["run_id"],
        granted=Amounts(**{name: row[f"granted{name[3:]}"] for name in _NAMES}),
        spent=_spent(row),
        open=bool(row["open"]),
    )
