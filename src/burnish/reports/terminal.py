"""Tables, and sections of a report, on the terminal."""

import re
import sys
from collections.abc import Collection, Iterable, Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from burnish.core import sections
from burnish.core.sections import Section
from burnish.core.words import visible

_PIPE_WIDTH = 240


class Columns:
    """A table whose named columns give way where there is no room: cut, or folded into lines."""

    def __init__(
        self, *names: str, cut: Collection[str] = (), folded: Collection[str] = ()
    ) -> None:
        self._table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
        self._cut = [name in cut for name in names]
        for name in names:
            # A column that may not wrap gives way last, so the others go first.
            self._table.add_column(name, no_wrap=name not in cut and name not in folded)

    def add(self, *cells: str) -> None:
        """Add a row; brackets in a text are text, not markup."""
        cuts = zip(cells, self._cut, strict=True)
        texts = (
            Text(cell, no_wrap=cut, overflow="ellipsis" if cut else "fold") for cell, cut in cuts
        )
        self._table.add_row(*texts)

    def show(self) -> None:
        """Print it. A file or a pipe has no width: nothing is folded there."""
        console = Console()
        console.width = console.width if console.is_terminal else _PIPE_WIDTH
        console.print(self._table)


def show(parts: Iterable[Section]) -> None:
    """Print sections: tables as columns, everything else as its lines."""
    for part in parts:
        match part:
            case sections.Table():
                _show_table(part.head, part.rows)
            case sections.Facts():
                _show_table(("", ""), part.rows)
            case _:
                for line in _lines(part):
                    sys.stdout.write(f"{line}\n")


def _show_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    table = Columns(*head)
    for row in rows:
        table.add(*map(_plain, row))
    table.show()


def _lines(part: Section) -> Iterator[str]:
    match part:
        case sections.Heading():
            yield from ("", _plain(part.text))
        case sections.Text():
            yield from map(_plain, part.lines)
        case sections.Listing():
            yield from [_plain(part.lead)] if part.lead else []
            yield from (f"- {_plain(item)}" for item in part.items)
        case sections.Diff() | sections.Code() | sections.Page():
            yield from map(visible, part.lines)
        case sections.Series():
            yield from part.drawing
        case _:
            return


def _plain(text: str) -> str:
    """A text without its Markdown."""
    bare = re.sub(r"\*\*(.+?)\*\*", r"\1", text.replace("`", ""))
    return re.sub(r"\\([\\|])", r"\1", bare).replace("&lt;", "<")
