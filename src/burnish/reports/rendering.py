"""Sections of a report as Markdown and on the terminal."""

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text as RichText

from burnish.core import formatting
from burnish.core.formatting import (
    Code,
    Diff,
    Facts,
    Heading,
    Listing,
    Page,
    Section,
    Series,
    Space,
    Table,
    Text,
    visible,
)
from burnish.runs.directory import RunRecord
from burnish.runs.plugins import strategy_plugin
from burnish.system import write_atomic


def to_markdown(sections: Iterable[Section]) -> str:
    """The whole page, with a blank line between sections."""
    lines: list[str] = []
    for section in sections:
        shown = [*_lines(section)]
        lines += ["", *shown] if lines and shown else shown
        if isinstance(section, Space):
            lines.append("")
    return "\n".join(lines) + "\n"


def _lines(section: Section) -> Iterator[str]:
    match section:
        case Heading():
            yield f"{'#' * section.level} {section.text}"
        case Text() | Page():
            yield from section.lines
        case Listing():
            yield from [section.lead] if section.lead else []
            yield from (f"- {item.replace(chr(10), f'{chr(10)}  ')}" for item in section.items)
        case Facts():
            yield from _table(("", ""), section.rows)
        case Table():
            yield from _table(section.head, section.rows)
        case Diff():
            yield from _fenced(section.lines, "diff")
        case Code():
            yield from _fenced(section.lines, section.language)
        case Series():
            yield from _fenced(section.drawing)
        case Space():
            pass


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"|{'|'.join(f' {name} ' if name else ' ' for name in head)}|"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _fenced(lines: Sequence[str], language: str = "") -> Iterator[str]:
    """Lines in a fence that no line can close."""
    shown = [visible(line) for line in lines]
    longest = max((len(ticks) for line in shown for ticks in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}{language}"
    yield from shown
    yield fence


# -- Report.md ------------------------------------------------------------------------------------


NAME = "report.md"


def write_report(folder: Path) -> Path:
    """Write report.md from what the journal holds."""
    path = folder / NAME
    write_atomic(path, render(RunRecord.read(folder)))
    return path


def render(run: RunRecord) -> str:
    """The report as Markdown."""
    return to_markdown(strategy_plugin(run.header.strategy).report(run))


# -- Tables ---------------------------------------------------------------------------------------


_PIPE_WIDTH = 240


class Columns:
    """A table whose named columns give way where there is no room: cut, or folded into lines."""

    def __init__(
        self, *names: str, cut: Collection[str] = (), folded: Collection[str] = ()
    ) -> None:
        self._table = RichTable(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
        self._cut = [name in cut for name in names]
        for name in names:
            # A column that may not wrap gives way last, so the others go first.
            self._table.add_column(name, no_wrap=name not in cut and name not in folded)

    def add(self, *cells: str) -> None:
        """Add a row; brackets in a text are text, not markup."""
        cuts = zip(cells, self._cut, strict=True)
        texts = (
            RichText(cell, no_wrap=cut, overflow="ellipsis" if cut else "fold")
            for cell, cut in cuts
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
            case formatting.Table():
                _show_table(part.head, part.rows)
            case formatting.Facts():
                _show_table(("", ""), part.rows)
            case _:
                for line in _terminal_lines(part):
                    sys.stdout.write(f"{line}\n")


def _show_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    table = Columns(*head)
    for row in rows:
        table.add(*map(_plain, row))
    table.show()


def _terminal_lines(part: Section) -> Iterator[str]:
    match part:
        case formatting.Heading():
            yield from ("", _plain(part.text))
        case formatting.Text():
            yield from map(_plain, part.lines)
        case formatting.Listing():
            yield from [_plain(part.lead)] if part.lead else []
            yield from (f"- {_plain(item)}" for item in part.items)
        case formatting.Diff() | formatting.Code() | formatting.Page():
            yield from map(visible, part.lines)
        case formatting.Series():
            yield from part.drawing
        case _:
            return


def _plain(text: str) -> str:
    """A text without its Markdown."""
    bare = re.sub(r"\*\*(.+?)\*\*", r"\1", text.replace("`", ""))
    return re.sub(r"\\([\\|])", r"\1", bare).replace("&lt;", "<")
