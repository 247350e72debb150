"""Launching runs: waiting for room, taking the lease, driving, and stopping all of them."""

import asyncio
import logging
import os
import secrets
import socket
from collections import Counter

from burnish.core.errors import BurnishError
from burnish.server.driving import Drive
from burnish.server.limits import ServiceLimits
from burnish.server.places import Place, Places
from burnish.server.stores.records import Lease, RunChanges, RunMissing, RunStore
from burnish.server.tails import Tails
from burnish.server.work import Work

log = logging.getLogger("burnish.server")
_CLEANING_SECONDS = 5.0
"""What a run that was cancelled gets to close its journal."""
Key = tuple[str, str]
"""App and run."""


class Launcher:
    """The runs that this process drives, and those that wait here for room."""

    def __init__(
        self, store: RunStore, places: Places, limits: ServiceLimits, tails: Tails
    ) -> None:
        self._store = store
        self._places = places
        self._limits = limits
        self._tails = tails
        self._room = asyncio.Semaphore(limits.running)
        self._drives: dict[Key, Drive] = {}
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self.tasks: dict[Key, asyncio.Task[None]] = {}
        self.counts: Counter[str] = Counter(started=0, recovered=0)
        """How many runs were started here, picked up here, and how those ended."""

    @property
    def running(self) -> int:
        """How many runs are driven now."""
        return len(self._drives)

    @property
    def waiting(self) -> int:
        """How many wait for room."""
        return len(self.tasks) - len(self._drives)

    @property
    def busy(self) -> bool:
        """Whether there is no room for another run now."""
        return self._room.locked()

    def launch(self, key: Key, work: Work) -> None:
        """Drive a run as soon as there is room."""
        task = asyncio.create_task(self._driven(key, work), name=f"run {key[0]}/{key[1]}")
        self.tasks[key] = task
        task.add_done_callback(lambda _: self.tasks.pop(key, None))

    def cancel(self, key: Key, *, finished: bool) -> None:
        """Stop a run that was canceled; one that waits has ended by that."""
        if (drive := self._drives.get(key)) is not None:
            drive.cancel()
        elif finished and key in self.tasks:
            self.tasks[key].cancel()

    def ask_to_stop(self) -> None:
        """Let the trials in flight end; what waits need not wait any more."""
        for drive in self._drives.values():
            drive.ask_to_stop("the service goes down")
        for key, task in self.tasks.items():
            if key not in self._drives:
                task.cancel()

    async def close(self) -> None:
        """Wait for the trials in flight, then for nobody."""
        await self._ended(self._limits.grace_seconds)
        for drive in self._drives.values():
            drive.insist()
        await self._ended(_CLEANING_SECONDS)
        for task in self.tasks.values():
            task.cancel()  # its code does not end; its lease will
        await self._ended(1.0)

    async def _ended(self, seconds: float) -> None:
        if self.tasks:
            await asyncio.wait([*self.tasks.values()], timeout=seconds)

    async def _driven(self, key: Key, work: Work) -> None:
        """Wait for room, take the lease, drive."""
        drive: Drive | None = None
        try:
            async with self._room:
                seconds = self._limits.lease_seconds
                lease = await self._store.claim(*key, owner=self.owner, seconds=seconds)
                if lease is None:
                    return  # another process has it, or it was canceled while it waited
                drive = Drive(self._store, lease, seconds=seconds, announce=self._tails.announce)
                self._drives[key] = drive
                await drive.through(work, await self._placed(key, lease))
                self.counts[(await self._store.get(*key, result=False)).status.value] += 1
        except RunMissing:
            pass  # deleted
        except BurnishError as error:
            log.warning("run %s/%s stands still: %s", *key, error.message)
        finally:
            self._drives.pop(key, None)
            if drive is None or not drive.worked:
                await work.drop()

    async def _placed(self, key: Key, lease: Lease) -> Place:
        """Where the run lies, said in the store before it begins."""
        record = await self._store.get(*key, result=False)
        place = self._places.of(record)
        changes = RunChanges(where=self._places.where(place))
        if record.where != changes.where:
            await self._store.update(*key, changes, lease=lease)
        return place
