"""Where a piece of code stands in a recording: one context variable."""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from burnish.targets.tracing.recorder import Recorder
    from burnish.targets.tracing.records import Record
    from burnish.targets.tracing.strands import Strand


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """What a context knows of the recording; a copy of the context keeps it as it was then."""

    recorder: "Recorder"
    strand: "Strand"
    heads: "tuple[Record, ...]"
    """The open ends of the strand when this was set."""
    settled: int
    """How often the strand had looked by then for others that are over."""
    inside: "Record | None" = None
    """The innermost step that is under way."""


PLACE: ContextVar[Place | None] = ContextVar("burnish_place", default=None)


def applied(surface: str) -> None:
    """Say that a surface is in force in the step under way, if there is one."""
    place = PLACE.get()
    if place is not None and place.inside is not None:
        place.inside.apply(surface)
