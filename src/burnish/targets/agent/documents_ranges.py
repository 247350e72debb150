"""Ranges of cells such as A1:C10, and the names of columns."""

import re
from dataclasses import dataclass

from burnish.targets.agent.documents_bounds import Unreadable

MOST_COLUMNS, MOST_ROWS = 16_384, 1_048_576
_CORNER = r"(?:([A-Z]{1,3})([0-9]{1,7})?|([0-9]{1,7}))"
_RANGE = re.compile(rf"{_CORNER}(?::{_CORNER})?")
_CELL = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")


@dataclass(frozen=True, kw_only=True)
class CellRange:
    """A block of cells; both ends are in it, and both count from 1."""

    columns: tuple[int, int] = (1, MOST_COLUMNS)
    rows: tuple[int, int] = (1, MOST_ROWS)

    def has(self, column: int, row: int) -> bool:
        """Whether a cell is in it."""
        (left, right), (top, bottom) = self.columns, self.rows
        return left <= column <= right and top <= row <= bottom


EVERYTHING = CellRange()


def read_range(text: str) -> CellRange:
    """`A1:C10`, one cell `B2`, whole columns `A:C` or whole rows `2:5`."""
    found = _RANGE.fullmatch(text.replace("$", "").strip().upper())
    if found is None:
        raise _no_range(text)
    left, top, only_top, right, bottom, only_bottom = found.groups()
    if right is None and only_bottom is None:
        right, bottom, only_bottom = left, top, only_top
    rows = [int(row) for row in (top or only_top, bottom or only_bottom) if row]
    columns = [column_number(name) for name in (left, right) if name]
    if len(rows) == 1 or len(columns) == 1 or 0 in rows or max(columns, default=1) > MOST_COLUMNS:
        raise _no_range(text)
    return CellRange(
        columns=(min(columns), max(columns)) if columns else EVERYTHING.columns,
        rows=(min(rows), max(rows)) if rows else EVERYTHING.rows,
    )


def place_of(reference: str, otherwise: tuple[int, int]) -> tuple[int, int]:
    """The column and row of a cell such as C10, or what it is where that says nothing."""
    found = _CELL.fullmatch(reference)
    return (column_number(found[1]), int(found[2])) if found else otherwise


def column_number(name: str) -> int:
    """1 for A, 27 for AA."""
    number = 0
    for letter in name:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


def _no_range(text: str) -> Unreadable:
    return Unreadable(
        f"expected a range of cells such as A1:C10, found {text[:40]!r}", remedy="Mend its `range`."
    )
