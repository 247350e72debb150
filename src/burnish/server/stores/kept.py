"""A run in memory, and who holds it."""

import time
from dataclasses import dataclass, field, replace

from burnish.server.stores.records import Lease, RunEvent, RunFilter, RunRecord, moment


@dataclass(kw_only=True)
class Kept:
    """One run, as it changes."""

    number: int
    record: RunRecord
    """Without request and result: those are kept as bytes, so that each reader has a copy."""
    request: bytes
    result: bytes | None = None
    token: int = 0
    lease_until: float = 0.0
    events: list[tuple[RunEvent, bytes]] = field(default_factory=list[tuple[RunEvent, bytes]])
    keys: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def driven(self) -> bool:
        """Whether its lease holds."""
        return self.lease_until > time.time()


def holds(kept: Kept, lease: Lease) -> bool:
    """Whether a lease is the one that the run was claimed with last."""
    return (kept.record.owner, kept.token) == (lease.owner, lease.token)


def leased(kept: Kept, owner: str, seconds: float) -> Lease:
    """Give the run to an owner for some time."""
    kept.lease_until = time.time() + seconds
    until = moment(kept.lease_until)
    kept.record = record = replace(kept.record, owner=owner, lease_until=until)
    return Lease(
        app_name=record.app_name,
        run_id=record.run_id,
        owner=owner,
        token=kept.token,
        until=until,
        cancel_requested=record.cancel_requested,
    )


def freed(kept: Kept) -> None:
    """Take the run from its owner."""
    kept.lease_until = 0.0
    kept.record = replace(kept.record, owner="", lease_until=None)


def matches(kept: Kept, which: RunFilter) -> bool:
    """Whether a filter takes the run."""
    record = kept.record
    return (
        which.app_name in ("", record.app_name)
        and which.status in (None, record.status)
        and which.strategy in ("", record.strategy)
        and not (which.undriven and (record.status.finished or kept.driven))
    )
