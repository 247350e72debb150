"""RunStore: where the service keeps its runs."""

from typing import Protocol

from burnish.core.content import Json
from burnish.server.stores.records import (
    Lease,
    NewEvent,
    RunChanges,
    RunEvent,
    RunFilter,
    RunPage,
    RunRecord,
    RunStatus,
    Where,
)

UNCHANGED = RunChanges()
EVERY = RunFilter()


class RunStore(Protocol):
    """Runs of many apps, isolated by app, shared by many processes.

    Where a `lease` is given, the write is refused with LeaseLost if another process has claimed
    the run since. A finished run does not change: RunNotRunning. RunMissing where a run is not
    there, StoreTrouble where the store does not work.
    """

    async def create(
        self,
        app_name: str,
        run_id: str,
        *,
        strategy: str = "",
        request: Json = None,
        where: Where | None = None,
    ) -> RunRecord:
        """Keep a new run, queued; RunExists where the app has one with this id."""
        ...

    async def get(self, app_name: str, run_id: str, *, result: bool = True) -> RunRecord:
        """A run; without `result` that is left out, which is cheap."""
        ...

    async def update(
        self, app_name: str, run_id: str, changes: RunChanges, *, lease: Lease | None = None
    ) -> RunRecord:
        """Change a run; what is given back has no request and no result.

        A run that ends after its cancel was requested ends canceled. A run that ends has no
        lease any more.
        """
        ...

    async def delete(self, app_name: str, run_id: str) -> None:
        """Remove a run and its events; RunLocked while a process drives it."""
        ...

    async def list_runs(
        self, which: RunFilter = EVERY, *, limit: int = 50, cursor: str = ""
    ) -> RunPage:
        """Runs, newest first, without requests and results."""
        ...

    async def append_event(
        self,
        app_name: str,
        run_id: str,
        event: NewEvent,
        changes: RunChanges = UNCHANGED,
        *,
        lease: Lease | None = None,
    ) -> int:
        """Keep an event and change the run, together; the event's number.

        An event whose key is there already is not kept again, and changes nothing.
        """
        ...

    async def events(
        self, app_name: str, run_id: str, *, after: int = 0, limit: int = 1000
    ) -> tuple[RunEvent, ...]:
        """The events with a number above `after`, in order."""
        ...

    async def claim(
        self, app_name: str, run_id: str, *, owner: str, seconds: float
    ) -> Lease | None:
        """Become the driver; None where someone is, or the run is finished."""
        ...

    async def renew(self, lease: Lease, *, seconds: float) -> Lease:
        """Stay the driver; LeaseLost where someone else is now, or the run is finished."""
        ...

    async def release(self, lease: Lease) -> None:
        """Stop being the driver; a lease that was lost is nothing to release."""
        ...

    async def request_cancel(self, app_name: str, run_id: str) -> RunStatus:
        """Ask whoever drives the run to stop it; where nobody does, it is canceled at once."""
        ...

    async def reopen(self, app_name: str, run_id: str) -> RunRecord:
        """Make a finished run queued again, its error and its cancel request forgotten.

        One that is not finished stays as it is. What is given back has no request and no result.
        """
        ...

    async def cancel_requested(self, app_name: str, run_id: str) -> bool:
        """Whether someone asked for it."""
        ...

    async def close(self) -> None:
        """Let go of the database. Doing so twice is fine."""
        ...
