"""What happens in a run, told to whoever listens: progress views, other tools, user callbacks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from burnish.core.cases import Split
from burnish.core.content import Json
from burnish.core.money import Spend


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened, kept in the journal under a stable id.

    Delivery is at least once: after a crash an event may come again, with the same id.
    """

    schema: int = 1
    id: str
    kind: str
    at: str
    """UTC, ISO 8601."""
    data: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, kw_only=True)
class Tick:
    """How far the evaluation under way is. Not kept: a replay has none."""

    candidate: str
    split: Split
    done: int
    total: int
    failed: int
    missing: int
    spent: Spend
    billed: Spend
    active_seconds: float


class Listener(Protocol):
    """Hears events and ticks."""

    def event(self, event: Event) -> None:
        """Something happened."""
        ...

    def tick(self, tick: Tick) -> None:
        """A case ended."""
        ...
