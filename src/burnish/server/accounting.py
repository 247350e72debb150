"""Reserves for each run of a client what it may spend, and settles what it spent."""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil

from burnish.core.errors import BurnishError
from burnish.core.money import Spend
from burnish.journal.database_store import JournalUnreachable
from burnish.journal.limits import Budget
from burnish.projects.clients import NotAllowed
from burnish.runs.directory import look_into
from burnish.server.runs import NotHere, RunPlace, RunPlaces
from burnish.server.stores.accounts import (
    AccountLimits,
    Amounts,
    Charge,
    ChargeExists,
    LimitReached,
)
from burnish.server.stores.records import RunExists, RunMissing, RunStore
from burnish.server.tokens import Client, ClientLimits

_log = logging.getLogger("burnish.server")
_Key = tuple[str, str]
"""App and run."""
_REFINEMENT = ""
"""The app of refinements that are not stored yet."""


def refinement_key() -> _Key:
    """The key of a refinement until it has an id; it names the process that opens it."""
    return _REFINEMENT, f"{_process()}:{secrets.token_hex(8)}"


def _process() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _is_abandoned(run_id: str) -> bool:
    """Whether the process of a refinement has ended without settling it."""
    host, pid, _ = run_id.rsplit(":", 2)
    if host != socket.gethostname() or f"{host}:{pid}" == _process():
        return False
    return not psutil.pid_exists(int(pid))


def limits_of(client: Client) -> AccountLimits:
    """A client's limits as accounts know them."""
    return AccountLimits(amounts=_amounts(client.limits), runs=client.limits.max_runs)


def _amounts(limits: ClientLimits | Budget) -> Amounts:
    return Amounts(
        max_usd=limits.max_usd,
        max_calls=limits.max_calls,
        max_tokens=limits.max_tokens,
        max_minutes=limits.max_minutes,
    )


class Accounting:
    """The accounts of a service's clients."""

    def __init__(self, store: RunStore, places: RunPlaces) -> None:
        self._store = store
        self._places = places
        self._accounts = store.accounts

    async def reserve(
        self, client: Client, key: _Key, budget: Budget, *, again: bool = False
    ) -> Amounts:
        """What a run may spend: its own budget, cut to what is left of the client's limits."""
        charge = await self._accounts.charge(key) if again else None
        if charge is None:
            again = False  # a program started it, or its first start was refused
        elif charge.account != client.account:
            client = replace(client, account=charge.account)  # an admin resumes it
        reserve = self._accounts.reserve_again if again else self._accounts.reserve
        wish, limits = _amounts(budget), limits_of(client)
        try:
            try:
                return await reserve(client.account, key, wish, limits)
            except LimitReached:
                # A run may have ended a moment ago.
                if not await self.settle_finished(client.account):
                    raise
                return await reserve(client.account, key, wish, limits)
        except ChargeExists:
            raise RunExists(*key) from None

    async def granted(self, key: _Key) -> Amounts | None:
        """What a run may spend; None if no client started it."""
        charge = await self._accounts.charge(key)
        return None if charge is None else charge.granted

    async def drop(self, key: _Key) -> None:
        """Undo the reservation for a run that was not started."""
        await self._accounts.drop(key)

    async def rename(self, key: _Key, new: _Key) -> None:
        """Go on under the name with which the run is stored."""
        await self._accounts.rename(key, new)

    async def forget(self, key: _Key) -> None:
        """Free the name of a deleted run; what it spent stays spent."""
        await self._accounts.forget(key)

    async def settle(self, key: _Key, place: RunPlace | None) -> bool:
        """Count what a finished run has spent; everything reserved if that cannot be read.

        False while the database of its journal does not answer: it is settled later.
        """
        spent = None
        if place is not None:
            try:
                spent = await asyncio.to_thread(_measured, place)
            except JournalUnreachable:
                return False
            except (BurnishError, OSError) as error:
                _log.warning("what run %s/%s spent cannot be read: %s", *key, error)
        await self._accounts.settle(key, spent)
        return True

    async def settle_finished(self, account: str = "") -> int:
        """Settle every run that is finished, and return how many there were."""
        settled = 0
        for charge in await self._accounts.open_charges(account):
            if charge.app_name == _REFINEMENT:
                if _is_abandoned(charge.run_id):
                    await self.settle((_REFINEMENT, charge.run_id), None)
                    settled += 1
            elif await self._settle_charge(charge):
                settled += 1
        return settled

    async def _settle_charge(self, charge: Charge) -> bool:
        key = (charge.app_name, charge.run_id)
        place: RunPlace | None = None
        try:
            record = await self._store.get(*key, result=False)
            if not record.status.finished:
                return False
            place = self._places.of(record)
        except RunMissing:
            return False  # it is being stored just now
        except NotHere:
            pass
        return await self.settle(key, place)

    async def check_owner(self, client: Client, key: _Key) -> None:
        """Refuse to change the run of another token."""
        charge = await self._accounts.charge(key)
        if not client.owns(None if charge is None else charge.account):
            message = f'run "{key[1]}" belongs to another token'
            raise NotAllowed(message, remedy="use a token with the scope admin")

    async def upload(self, client: Client, name: str) -> None:
        """Record a dataset; refused if another token has it."""
        await self.check_dataset_owner(client, name)
        await self._accounts.upload(client.account, name)

    async def check_dataset_owner(self, client: Client, name: str) -> None:
        """Refuse to change the dataset of another token."""
        if not client.owns(await self._accounts.uploader(name)):
            message = f"the dataset '{name}' belongs to another token"
            raise NotAllowed(message, remedy="choose another name")


def _measured(place: RunPlace) -> Amounts:
    """What a run was billed for."""
    if not place.fetch():
        return Amounts.of(Spend(), seconds=0.0)
    with look_into(place.folder) as journal:
        return Amounts.of(journal.billed, seconds=journal.active_seconds)


def stop_at(folder: Path, granted: Amounts) -> Callable[[], str]:
    """Why the run in a folder may not go on, for runs without a budget of their own."""
    budget = Budget(**granted.limits())

    def look() -> str:
        try:
            with look_into(folder) as journal:
                spent, minutes = journal.billed, journal.active_seconds / 60
        except BurnishError:
            return ""  # it has not begun
        reason = budget.spend_limit(spent)
        if reason is None and budget.max_minutes is not None and minutes >= budget.max_minutes:
            return f"max_minutes: {minutes:.1f} of {budget.max_minutes:g} minutes"
        return "" if reason is None else f"{reason.code}: {reason.detail}"

    return look
