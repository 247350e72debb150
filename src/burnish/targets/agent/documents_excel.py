"""Excel files as text: a sheet is its rows, a row its cells with tabs between them."""

from collections.abc import Iterator
from dataclasses import dataclass

from burnish.system.config_errors import nearest
from burnish.targets.agent.documents_bounds import Unreadable, allowed_text
from burnish.targets.agent.documents_numbers import BUILT_IN
from burnish.targets.agent.documents_package import Package, part_behind
from burnish.targets.agent.documents_ranges import EVERYTHING, read_range
from burnish.targets.agent.documents_sheets import CellTexts, sheet_rows
from burnish.targets.agent.documents_strings import strings_in

_HIDDEN = ("hidden", "veryHidden")


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A sheet of a workbook, and the part that holds it."""

    name: str
    part: str
    hidden: bool = False


def excel_text(content: bytes, *, sheet: str = "", cells: str = "") -> str:
    """The text of one sheet, or of all that can be seen, each under its name.

    A range without a sheet is one of the first sheet.
    """
    block = read_range(cells) if cells else EVERYTHING
    package = Package(content)
    book = package.main("workbook")
    sheets = list(_sheets(package, book))
    if sheet:
        shown = [_named(sheet, sheets)]
    else:
        shown = [each for each in sheets if not each.hidden] or sheets
    shown = shown[:1] if cells else shown
    of_cells = _cell_texts(package, book)
    read = (sheet_rows(package.marks(each.part), of_cells, block) for each in shown)
    texts = ["\n".join(rows) for rows in read]
    if cells and not any(texts):
        where = f"sheet {shown[0].name!r}" if shown else "it"
        raise Unreadable(f"there is nothing in {cells} of {where}", remedy="Mend its `range`.")
    if len(shown) < 2:
        return "".join(texts)
    headed = (f"# {each.name}\n{text}" for each, text in zip(shown, texts, strict=True))
    return "\n\n".join(headed)


def _sheets(package: Package, book: str) -> Iterator[Sheet]:
    related = package.related(book)
    for mark in package.marks(book):
        if mark.kind == "start" and mark.name == "sheet":
            yield Sheet(
                name=mark.attributes.get("name", ""),
                part=part_behind(mark, related),
                hidden=mark.attributes.get("state") in _HIDDEN,
            )


def _named(wanted: str, sheets: list[Sheet]) -> Sheet:
    for sheet in sheets:
        if sheet.name.casefold() == wanted.casefold():
            return sheet
    names = [sheet.name for sheet in sheets]
    likely = nearest(wanted, names)
    meant = f"Did you mean {likely!r}? " if likely else ""
    remedy = f"{meant}Its sheets: {', '.join(names)[:300] or 'none'}."
    raise Unreadable(f"it has no sheet {wanted[:60]!r}", remedy=remedy)


def _cell_texts(package: Package, book: str) -> CellTexts:
    """What the cells of a workbook refer to, and the text they may give in all."""
    properties = (mark for mark in package.marks(book) if mark.name == "workbookPr")
    from_1904 = next((mark.attributes.get("date1904", "") for mark in properties), "")
    return CellTexts(
        strings=list(strings_in(package.marks(package.related_as(book, "sharedStrings")))),
        formats=list(_formats(package, package.related_as(book, "styles"))),
        from_1904=from_1904 in ("1", "true"),
        allowance=allowed_text(),
    )


def _formats(package: Package, styles: str) -> Iterator[str]:
    """The number format of each style of cells, in order."""
    codes = dict(BUILT_IN)
    of_cells = False
    for mark in package.marks(styles):
        told = mark.attributes
        if mark.name == "cellXfs":
            of_cells = mark.kind == "start"
        elif mark.kind == "start" and mark.name == "numFmt":
            codes[_number(told.get("numFmtId", ""))] = told.get("formatCode", "")
        elif mark.kind == "start" and mark.name == "xf" and of_cells:
            yield codes.get(_number(told.get("numFmtId", "")), "")


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else -1
