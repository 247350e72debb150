"""The rows of a sheet, out of the marks of its part."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from burnish.targets.agent.documents_bounds import Allowance, Unreadable
from burnish.targets.agent.documents_numbers import number_shown
from burnish.targets.agent.documents_ranges import CellRange, place_of
from burnish.targets.agent.documents_strings import one_line
from burnish.targets.agent.documents_xml import Mark

_SHOWN_AS_WRITTEN = ("inlineStr", "str", "e", "d")


class Cell(NamedTuple):
    """A cell as it is written."""

    row: int
    column: int
    kind: str
    style: str
    written: str


@dataclass(frozen=True, kw_only=True)
class CellTexts:
    """Makes texts of cells: what they refer to, and how much text they may still give."""

    strings: Sequence[str]
    formats: Sequence[str]
    from_1904: bool
    allowance: Allowance

    def of(self, cell: Cell) -> str:
        """A cell's value as text."""
        text = self._shown(cell)
        self.allowance.take(len(text))
        return text

    def _shown(self, cell: Cell) -> str:
        if cell.kind == "s":
            return self._shared(cell.written)
        if cell.kind == "b":
            return "TRUE" if cell.written.strip() == "1" else "FALSE"
        if cell.kind in _SHOWN_AS_WRITTEN:
            return one_line(cell.written)
        style = _index(cell.style or "0", self.formats)
        code = "" if style is None else self.formats[style]
        return number_shown(cell.written.strip(), code, from_1904=self.from_1904)

    def _shared(self, written: str) -> str:
        index = _index(written, self.strings)
        if index is None:
            cause = "it is damaged: a cell refers to a text that is not there"
            raise Unreadable(cause, remedy="Save it anew with the program that made it.")
        return self.strings[index]


def sheet_rows(marks: Iterable[Mark], texts: CellTexts, block: CellRange) -> Iterator[str]:
    """The rows of a block, cells with tabs between them.

    Any number of empty rows between two others is one empty line.
    """
    last = 0
    inside = (cell for cell in _cells(marks) if block.has(cell.column, cell.row))
    for number, cells in groupby(inside, key=lambda cell: cell.row):
        line = _line({cell.column: texts.of(cell) for cell in cells}, block)
        if not line:
            continue
        texts.allowance.take(line.count("\t") + 2)
        if last and number != last + 1:
            yield ""
        yield line
        last = number


def _line(texts: dict[int, str], block: CellRange) -> str:
    pieces: list[str] = []
    at = block.columns[0]
    for column in sorted(column for column, text in texts.items() if text):
        pieces.append("\t" * (column - at) + texts[column])
        at = column
    return "".join(pieces)


def _cells(marks: Iterable[Mark]) -> Iterator[Cell]:
    """The cells that are not empty. A row or cell that does not say its place is the next one."""
    row = column = 0
    kind = style = ""
    written: list[str] = []
    inside = False
    for mark in marks:
        starts = mark.kind == "start"
        if mark.kind == "text":
            if inside:
                written.append(mark.name)
        elif mark.name in ("v", "t"):
            inside = starts
        elif mark.name == "row" and starts:
            row, column = _row_number(mark.attributes.get("r", ""), row + 1), 0
        elif mark.name == "c" and starts:
            kind, style = mark.attributes.get("t", "n"), mark.attributes.get("s", "")
            column = place_of(mark.attributes.get("r", ""), (column + 1, row))[0]
            written.clear()
        elif mark.name == "c" and written:
            yield Cell(row, column, kind, style, "".join(written))


def _row_number(told: str, otherwise: int) -> int:
    return int(told) if told.isdecimal() and len(told) < 8 else otherwise


def _index(told: str, values: Sequence[str]) -> int | None:
    number = int(told) if told.strip().isdecimal() and len(told) < 10 else len(values)
    return number if number < len(values) else None
