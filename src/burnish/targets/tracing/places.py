"""Where a piece of code stands in a recording: one context variable.

What the agent's own code sees of a recording is declared here, so that an agent which nobody
records loads no recorder.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from burnish.core.content import Json
    from burnish.targets.tracing.strands import Strand


class StepRecord(Protocol):
    """A step while it is written down."""

    input: "Json"
    mark: object
    """What an adapter knows it by, whose code is called in contexts that are not the agent's."""

    def apply(self, surface: str) -> None:
        """A surface whose value is in force here."""
        ...

    def use(self, requests: int, input_tokens: int, output_tokens: int) -> None:
        """What model calls in it took."""
        ...

    def tool(
        self, name: str, arguments: Mapping[str, object], result: object, error: str, call: str
    ) -> None:
        """One use of a tool."""
        ...


R = TypeVar("R", bound=StepRecord)


class Recording(Protocol[R]):
    """Whoever writes the steps of a run down."""

    def begin(
        self,
        place: "Place[R]",
        node: str,
        *,
        inputs: object,
        surfaces: Iterable[str],
        after: Sequence[R] | None,
    ) -> R | None:
        """A step begins here; None when the recording is over."""
        ...

    def end(self, record: R, *, output: object, error: BaseException | None) -> None:
        """The step has ended."""
        ...

    def settled(self, place: "Place[R]") -> "Place[R]":
        """The place with everything taken over that has ended by now."""
        ...

    def carried(self, place: "Place[R]") -> AbstractContextManager[None]:
        """A function that was taken elsewhere from this place runs."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Place(Generic[R]):
    """What a context knows of the recording; a copy of the context keeps it as it was then."""

    recorder: Recording[R]
    strand: "Strand[R]"
    heads: tuple[R, ...]
    """The open ends of the strand when this was set."""
    settled: int
    """How often the strand had looked by then for others that are over."""
    inside: R | None = None
    """The innermost step that is under way."""


PLACE: ContextVar[Place[Any] | None] = ContextVar("burnish_place", default=None)


def applied(surface: str) -> None:
    """Say that a surface is in force in the step under way, if there is one."""
    place = PLACE.get()
    if place is not None and place.inside is not None:
        place.inside.apply(surface)
