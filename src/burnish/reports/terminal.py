"""Sections of a report on the terminal."""

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text as RichText

from burnish.core.formatting import (
    Code,
    Diff,
    Facts,
    Heading,
    Listing,
    Page,
    Section,
    Series,
    Table,
    Text,
    visible,
)


class Columns:
    """A table whose named columns give way where there is no room: cut, or folded into lines."""

    def __init__(
        self,
        *names: str,
        cut: Collection[str] = (),
        folded: Collection[str] = (),
        shades: Mapping[str, str] | None = None,
    ) -> None:
        self._shades = shades or {}
        """Colours of cells, by their first word."""
        self._table = RichTable(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
        self._cut = [name in cut for name in names]
        for name in names:
            # A column that may not wrap gives way last, so the others go first.
            head = RichText(visible(name))
            self._table.add_column(head, no_wrap=name not in cut and name not in folded)

    def add(self, *cells: str) -> None:
        """Add a row; brackets and escape codes in a text are text."""
        cuts = zip(cells, self._cut, strict=True)
        texts = (
            RichText(
                visible(cell),
                style=self._shades.get(cell.partition(" ")[0], ""),
                no_wrap=cut,
                overflow="ellipsis" if cut else "fold",
            )
            for cell, cut in cuts
        )
        self._table.add_row(*texts)

    def show(self) -> None:
        """Print it. A file or a pipe has no width: nothing is folded there."""
        console = Console()
        console.width = console.width if console.is_terminal else 240
        console.print(self._table)


def show(parts: Iterable[Section]) -> None:
    """Print sections: tables as columns, everything else as its lines."""
    for part in parts:
        match part:
            case Table():
                _show_table(part.head, part.rows)
            case Facts():
                _show_table(("", ""), part.rows)
            case _:
                for line in _terminal_lines(part):
                    sys.stdout.write(f"{visible(line)}\n")


def _show_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    table = Columns(*head)
    for row in rows:
        table.add(*map(_plain, row))
    table.show()


def _terminal_lines(part: Section) -> Iterator[str]:
    match part:
        case Heading():
            yield from ("", _plain(part.text))
        case Text():
            yield from map(_plain, part.lines)
        case Listing():
            yield from [_plain(part.lead)] if part.lead else []
            yield from (f"- {_plain(item)}" for item in part.items)
        case Diff() | Code() | Page():
            yield from part.lines
        case Series():
            yield from part.drawing
        case _:
            return


def _plain(text: str) -> str:
    bare = re.sub(r"\*\*(.+?)\*\*", r"\1", text.replace("`", ""))
    return re.sub(r"\\([\\|])", r"\1", bare).replace("&lt;", "<")
