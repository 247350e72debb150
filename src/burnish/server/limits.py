"""How much a service takes on."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ServiceLimits:
    """Limits that hold for everyone who asks."""

    running: int = 4
    """Runs that this process drives at once."""
    waiting: int = 100
    """Runs that wait for a place; one more is refused."""
    body_bytes: int = 10 * 1024 * 1024
    listeners: int = 500
    """Open event streams."""
    lease_seconds: float = 30.0
    """How long a process that died keeps its runs from others."""
    grace_seconds: float = 10.0
    """What a shutdown gives the trials in flight."""
    sync_seconds: float | None = None
    """How long a blocking run may take; None for as long as it needs."""
