"""What a report says, as data: strategies make sections, `reports` renders them.

Texts are lines of Markdown with nothing but `**strong**` and `` `code` `` in them; what a model or
a user wrote goes through `words.cell` before it gets here. So a report file, a terminal and a page
say the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True)
class Heading:
    """The title of what follows; level 1 is the title of the whole."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    """A paragraph, in the lines that it is written in."""

    lines: tuple[str, ...]

    @classmethod
    def of(cls, *lines: str) -> "Text":
        """A paragraph of these lines."""
        return cls(lines)


@dataclass(frozen=True)
class Listing:
    """Points of a list; a point may have several lines."""

    items: tuple[str, ...]
    lead: str = ""
    """A line right above the list."""


@dataclass(frozen=True)
class Facts:
    """Names and what is said of them."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Table:
    """Rows under named columns."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Diff:
    """Lines of a unified diff, as they are."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Code:
    """Lines to copy or to read as they are."""

    lines: tuple[str, ...]
    language: str = ""


@dataclass(frozen=True)
class Series:
    """Numbers in the order of the trials: the values, and how plain text draws them."""

    values: Mapping[str, tuple[float | None, ...]] = field(
        default_factory=dict[str, tuple[float | None, ...]]
    )
    """By name, one value a trial; None where it was not measured."""
    drawing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Page:
    """A page that the run has written beside its journal: Markdown, taken over as it is."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Space:
    """More room before the next section than there is between any two."""


Section: TypeAlias = Heading | Text | Listing | Facts | Table | Diff | Code | Series | Page | Space
