"""Word, Excel and PowerPoint files as text, by python-docx, openpyxl and python-pptx."""

import re
import struct
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from importlib import import_module
from io import BytesIO
from itertools import groupby
from typing import Any, Literal
from xml.etree import ElementTree
from zipfile import BadZipFile

from burnish.system.config import nearest
from burnish.system.extras import install_command
from burnish.system.files import Unreadable, chosen_pages
from burnish.targets.agent.document_limits import Allowance, OfficeFile, allowed_text, office_file

_STUMBLES = (
    *(ArithmeticError, AssertionError, AttributeError, BadZipFile, LookupError, OSError),
    *(RuntimeError, SyntaxError, TypeError, ValueError, struct.error, zlib.error),
)
"""What the libraries raise for damaged files."""
_SAVE_ANEW = "Save it again with the program that created it."


def word_text(content: bytes) -> str:
    """The text without tracked deletions; notes, comments, headers and footers follow it."""
    docx = _library("docx", "python-docx", "Word files")
    file = office_file(content, "document")
    with _read_by("python-docx"):
        paragraphs = _Paragraphs(allowed_text())
        document = docx.Document(file.package()).part
        sections = ["\n".join(paragraphs.lines(document.element))]
        for kind, title in _WORD_SECTIONS.items():
            roots = [docx.oxml.parse_xml(part) for part in file.related(file.main, kind)]
            lines = [line for root in roots for line in _of_section(root, paragraphs)]
            # The first page, even pages and other chapters often repeat a header.
            sections += ["\n".join([f"# {title}", *dict.fromkeys(lines)])] if lines else []
    return "\n\n".join(filter(None, sections))


_WORD_SECTIONS = {
    "footnotes": "Footnotes",
    "endnotes": "Endnotes",
    "comments": "Comments",
    "header": "Headers",
    "footer": "Footers",
}


def _of_section(root: Any, paragraphs: "_Paragraphs") -> Iterator[str]:
    for child in root:
        if _name(child) != "comment":
            yield from paragraphs.lines([child])
        elif lines := list(paragraphs.lines(child)):
            authors = (text for name, text in child.attrib.items() if name.endswith("}author"))
            yield ": ".join(filter(None, [next(authors, ""), "\n".join(lines)]))


def powerpoint_text(content: bytes, *, pages: Sequence[int] = ()) -> str:
    """The slides in order, or those with these numbers, each under its title."""
    pptx = _library("pptx", "python-pptx", "PowerPoint files")
    file = office_file(content, "presentation")
    with _read_by("python-pptx"):
        slides = list(pptx.Presentation(file.package()).slides)
        paragraphs = _Paragraphs(allowed_text())
        numbers = chosen_pages(pages, len(slides), "slide")
        return "\n\n".join(_slide(n, slides[n - 1], paragraphs) for n in numbers)


_TITLES = ("title", "ctrTitle")
_FURNITURE = ("sldNum", "dt", "ftr", "hdr")
"""The number, date and footer of every slide."""


def _slide(number: int, slide: Any, paragraphs: "_Paragraphs") -> str:
    shapes = [(role, list(paragraphs.lines(shape))) for role, shape in _shapes(slide.element)]
    title = " ".join(
        " ".join(line for role, own in shapes if role in _TITLES for line in own).split()
    )
    lines = [f"# Slide {number}: {title}" if title else f"# Slide {number}"]
    lines += [line for role, own in shapes if role not in (*_TITLES, *_FURNITURE) for line in own]
    if slide.has_notes_slide:
        shapes = _shapes(slide.notes_slide.element)
        own = [line for role, shape in shapes if role == "body" for line in paragraphs.lines(shape)]
        lines += ["", "## Notes", *own] if own else []
    parts = (each.target_part for each in slide.part.rels.values() if "/comments" in each.reltype)
    own = [line for part in parts for line in _slide_comments(part.blob, paragraphs)]
    lines += ["", "## Comments", *own] if own else []
    return "\n".join(lines)


def _shapes(node: Any) -> Iterator[tuple[str, Any]]:
    """The shapes of a slide, also those in groups, and their roles."""
    for child in node:
        name = _name(child)
        if name in ("sp", "graphicFrame"):
            roles = (each.get("type", "") for each in child.iter() if _name(each) == "ph")
            yield next(roles, ""), child
        elif name != "Fallback":
            yield from _shapes(child)


def _slide_comments(part: bytes, paragraphs: "_Paragraphs") -> Iterator[str]:
    """New comments have paragraphs, those of older programs one text."""
    for child in _tree(part):
        for each in child.iter():
            if _name(each) == "text" and each.text:
                paragraphs.allowance.take(len(each.text))
                yield each.text
        yield from paragraphs.lines(child)


_SIGNS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_UNSEEN = ("pPr", "rPr", "moveFrom", "del", "Fallback")
"""Formatting, deletions, and alternatives for older programs."""


@dataclass(frozen=True)
class _Paragraphs:
    """Reads the lines of Word and PowerPoint XML.

    The libraries' own texts leave out tracked insertions, text boxes and content controls. A row
    of a table is one line with tabs between its cells; a table in a cell becomes text of that cell.
    """

    allowance: Allowance

    def lines(self, nodes: Iterable[Any]) -> Iterator[str]:
        """The lines in these elements that are not empty."""
        for node in nodes:
            name = _name(node)
            if name == "p":
                yield from self._paragraph(node)
            elif name == "tr":
                yield from self._row(node)
            elif name not in _UNSEEN:
                yield from self.lines(node)

    def _paragraph(self, node: Any) -> Iterator[str]:
        pieces: list[str] = []
        yield from self._runs(node, pieces)
        self.allowance.take(1)
        if line := "".join(pieces).strip():
            yield line

    def _runs(self, node: Any, pieces: list[str]) -> Iterator[str]:
        """Collect the text of a paragraph, and yield the lines of text boxes in it."""
        for child in node:
            name = _name(child)
            if name == "t":
                text = "".join(child.itertext())
                self.allowance.take(len(text))
                pieces.append(text)
            elif name in _SIGNS:
                pieces.append(_SIGNS[name])
            elif name in ("p", "tr"):
                yield from self.lines([child])
            elif name not in _UNSEEN:
                yield from self._runs(child, pieces)

    def _row(self, node: Any) -> Iterator[str]:
        cells: list[str] = []
        for cell in _cells_of_row(node):
            self.allowance.take(10)  # an empty cell takes memory too
            cells.append(" ".join(" ".join(self.lines(cell)).split()))
        self.allowance.take(1)
        if line := "\t".join(cells).rstrip():
            yield line


def _cells_of_row(node: Any) -> Iterator[Any]:
    for child in node:
        if _name(child) == "tc":
            yield child
        elif _name(child) not in _UNSEEN:
            yield from _cells_of_row(child)


def _name(node: Any) -> str:
    """The tag of an element without its namespace; empty for a comment."""
    return node.tag.rpartition("}")[2] if isinstance(node.tag, str) else ""


def excel_text(content: bytes, *, sheet: str = "", cells: str = "") -> str:
    """The text of one sheet, or of all visible ones, each under its name.

    A sheet is its rows, a row its cells with tabs between them. A range without a sheet is in the
    first sheet. `load_workbook` of openpyxl is not used: it refuses files over fonts, filters and
    print settings that do not matter here.
    """
    _library("openpyxl", "openpyxl", "Excel files")
    block = _read_range(cells) if cells else _EVERYTHING
    file = office_file(content, "workbook")
    with _read_by("openpyxl"):
        book = _Workbook.of(file)
        shown = [_sheet_named(sheet, book.sheets)] if sheet else book.visible
        shown = shown[:1] if cells else shown
        texts = [book.text(each, block) for each in shown]
    if cells and not any(texts):
        where = f"sheet {shown[0].name!r}" if shown else "it"
        raise Unreadable(f"{cells} of {where} is empty", remedy="Fix `range`.")
    if len(shown) < 2:
        return "".join(texts)
    headed = (f"# {each.name}\n{text}" for each, text in zip(shown, texts, strict=True))
    return "\n\n".join(headed)


@dataclass(frozen=True, kw_only=True)
class _Sheet:
    name: str
    part: str
    hidden: bool


@dataclass(frozen=True, kw_only=True)
class _Workbook:
    """What the cells of a workbook refer to."""

    file: OfficeFile
    sheets: Sequence[_Sheet]
    strings: Sequence[str]
    formats: Sequence[str]
    """The number format of each cell style."""
    from_1904: bool
    allowance: Allowance

    @classmethod
    def of(cls, file: OfficeFile) -> "_Workbook":
        root = _tree(file.parts[file.main])
        dates = [each.get("date1904", "") for each in root.iter(f"{_MAIN}workbookPr")]
        return cls(
            file=file,
            sheets=list(_sheets(file, root)),
            strings=[
                text
                for part in file.related(file.main, "sharedStrings")[:1]
                for text in _texts(part, "si")
            ],
            formats=[
                code
                for part in file.related(file.main, "styles")[:1]
                for code in _formats(_tree(part))
            ],
            from_1904=dates[:1] in (["1"], ["true"]),
            allowance=allowed_text(),
        )

    @property
    def visible(self) -> list[_Sheet]:
        """The visible sheets; all of them if none is."""
        return [each for each in self.sheets if not each.hidden] or [*self.sheets]

    def text(self, sheet: _Sheet, block: "_CellRange") -> str:
        """The rows of a block of a sheet, and the comments on its cells."""
        lines = list(self._rows(sheet, block))
        place_of = import_module("openpyxl.utils.cell").coordinate_to_tuple
        comments = [
            f"{place}: {_one_line(text)}"
            for part in self.file.related(sheet.part, "comments")
            for place, text in _comments(part)
            if block.has(*place_of(place)[::-1])
        ]
        self.allowance.take(sum(map(len, comments)))
        return "\n".join([*lines, *(["", "## Comments", *comments] if comments else [])])

    def _rows(self, sheet: _Sheet, block: "_CellRange") -> Iterator[str]:
        """Rows with tabs between cells. Several empty rows become one empty line."""
        last = 0
        cells = (cell for cell in self._cells(sheet) if block.has(cell["column"], cell["row"]))
        for number, row in groupby(cells, key=lambda cell: cell["row"]):
            line = self._line({cell["column"]: self._shown(cell) for cell in row}, block)
            if not line:
                continue
            if last and number != last + 1:
                yield ""
            yield line
            last = number

    def _cells(self, sheet: _Sheet) -> Iterator[dict[str, Any]]:
        """Each cell as openpyxl reads it; dates stay numbers."""
        reader = import_module("openpyxl.worksheet._reader")
        parser = reader.WorkSheetParser(None, self.strings, data_only=True)
        row: ElementTree.Element | None = None
        for event, element in _events(self.file.parts[sheet.part], ("start", "end")):
            if element.tag == reader.ROW_TAG:
                row = element
                if event == "start":
                    parser.row_counter = int(element.get("r") or parser.row_counter + 1)
                    parser.col_counter = 0
            elif element.tag == f"{_MAIN}c" and event == "end" and row is not None:
                try:
                    yield {**parser.parse_cell(element), "row": parser.row_counter}
                except IndexError as error:
                    cause = "it is damaged: a cell refers to a missing text"
                    raise Unreadable(cause, remedy=_SAVE_ANEW) from error
                row.clear()

    def _line(self, texts: Mapping[int, str], block: "_CellRange") -> str:
        pieces: list[str] = []
        at = block.columns[0]
        for column in sorted(column for column, text in texts.items() if text):
            self.allowance.take(column - at + 2)
            pieces.append("\t" * (column - at) + texts[column])
            at = column
        return "".join(pieces)

    def _shown(self, cell: Mapping[str, Any]) -> str:
        value: object = cell["value"]
        style: int = cell["style_id"]
        if isinstance(value, bool):
            text = str(value).upper()
        elif isinstance(value, int | float):
            code = self.formats[style] if style < len(self.formats) else ""
            text = _number_shown(value, code, from_1904=self.from_1904)
        elif isinstance(value, datetime | date | time):
            text = value.isoformat()
        else:
            text = _one_line(str(value or ""))
        self.allowance.take(len(text))
        return text


_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_UNREAD = re.compile(rb"<(?:\w+:)?rP[rh]\b[^>]*/>|<((?:\w+:)?rP[rh])\b[^>]*>.*?</\1\s*>", re.DOTALL)
"""Formatting and phonetic text; openpyxl refuses what other programs allow there."""


def _tree(part: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(part)  # noqa: S314 - it was checked


def _events(
    part: bytes, events: Sequence[Literal["start", "end"]] = ("end",)
) -> Iterator[tuple[str, ElementTree.Element]]:
    return ElementTree.iterparse(BytesIO(_UNREAD.sub(b"", part)), events)  # noqa: S314


def _texts(part: bytes, name: str) -> Iterator[str]:
    """The text of each element of this name, its runs joined."""
    for _, element in _events(part):
        if element.tag == f"{_MAIN}{name}":
            yield "".join(each.text or "" for each in element.iter(f"{_MAIN}t"))
            element.clear()


def _comments(part: bytes) -> Iterator[tuple[str, str]]:
    places = (each.get("ref", "") for each in _tree(part).iter(f"{_MAIN}comment"))
    return zip(places, _texts(part, "text"), strict=False)


def _sheets(file: OfficeFile, root: ElementTree.Element) -> Iterator[_Sheet]:
    parts = {each.id: each.part for each in file.relations[file.main]}
    for each in root.iter(f"{_MAIN}sheet"):
        relation = next(
            (id_ for name, id_ in each.items() if name.endswith("/relationships}id")), ""
        )
        if relation not in parts:
            raise Unreadable("it is damaged (the content of a sheet is missing)", remedy=_SAVE_ANEW)
        hidden = each.get("state") in ("hidden", "veryHidden")
        yield _Sheet(name=each.get("name", ""), part=parts[relation], hidden=hidden)


def _sheet_named(name: str, sheets: Sequence[_Sheet]) -> _Sheet:
    for sheet in sheets:
        if sheet.name.casefold() == name.casefold():
            return sheet
    names = [sheet.name for sheet in sheets]
    likely = nearest(name, names)
    meant = f"Did you mean {likely!r}? " if likely else ""
    remedy = f"{meant}Its sheets: {', '.join(names)[:300] or 'none'}."
    raise Unreadable(f"there is no sheet {name[:60]!r}", remedy=remedy)


_EASTERN = {
    **dict.fromkeys([*range(27, 32), 36, *range(50, 55), 57, 58], "yyyy-mm-dd"),
    **dict.fromkeys([*range(32, 36), 55, 56], "hh:mm:ss"),
}
"""Date and time formats that Excel knows by number in some languages, but openpyxl does not."""


def _formats(styles: ElementTree.Element) -> Iterator[str]:
    codes: dict[str, str] = {
        str(number): code
        for table in (import_module("openpyxl.styles.numbers").BUILTIN_FORMATS, _EASTERN)
        for number, code in table.items()
    }
    for each in styles.iter(f"{_MAIN}numFmt"):
        codes[each.get("numFmtId", "")] = each.get("formatCode", "")
    for styled in styles.iter(f"{_MAIN}cellXfs"):
        yield from (codes.get(each.get("numFmtId", ""), "") for each in styled)


_LITERAL = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]')
_IS_A_LENGTH = re.compile(r"\[(h+|m+|s+)\]", re.IGNORECASE)


def _number_shown(value: float, format_code: str = "", *, from_1904: bool = False) -> str:
    """A number as text, or as the date, time or duration that its format shows."""
    pattern = format_code.partition(";")[0]
    try:
        if _IS_A_LENGTH.search(pattern):
            seconds = round(abs(value) * 86_400)
            sign = "-" if value < 0 else ""
            return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        moment = _moment(value, _LITERAL.sub("", pattern).lower(), from_1904=from_1904)
    except (OverflowError, ValueError):
        moment = ""
    # Fifteen digits are what Excel keeps: 0.1 + 0.2 is 0.3 there.
    return moment or f"{value:.15g}"


def _moment(number: float, pattern: str, *, from_1904: bool) -> str:
    """A date or time as text; empty if the format is not one of dates or times."""
    if "general" in pattern:
        return ""
    has_time = any(letter in pattern for letter in "hs")
    has_date = any(letter in pattern for letter in "yd") or ("m" in pattern and not has_time)
    if not (has_date or has_time) or number < 0:
        return ""
    # Excel counts a 29 February 1900, day 60, so that days before it are one off.
    shift = number if from_1904 or number >= 60 else number + 1
    start = datetime(1904, 1, 1) if from_1904 else datetime(1899, 12, 30)
    when = start + timedelta(seconds=round(shift * 86_400))
    if has_date and has_time:
        return f"{when:%Y-%m-%d %H:%M:%S}"
    return f"{when:%Y-%m-%d}" if has_date else f"{when:%H:%M:%S}"


_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")


def _one_line(text: str) -> str:
    """A cell's text without tabs and line breaks."""
    return re.sub(r"[\t\r\n]+", " ", _ESCAPED.sub(_unescaped, text)).strip()


def _unescaped(match: re.Match[str]) -> str:
    """Characters that XML cannot hold are written as _x000D_; surrogates stay as they are."""
    code = int(match[1], 16)
    return match[0] if 0xD800 <= code < 0xE000 or not code else chr(code)


_MOST_COLUMNS = 16_384


@dataclass(frozen=True, kw_only=True)
class _CellRange:
    """A block of cells; both ends are included and count from 1."""

    columns: tuple[int, int] = (1, _MOST_COLUMNS)
    rows: tuple[int, int] = (1, 1_048_576)

    def has(self, column: int, row: int) -> bool:
        (left, right), (top, bottom) = self.columns, self.rows
        return left <= column <= right and top <= row <= bottom


_EVERYTHING = _CellRange()


def _read_range(text: str) -> _CellRange:
    """`A1:C10`, one cell `B2`, whole columns `A:C` or whole rows `2:5`."""
    cause = f"expected a range of cells such as A1:C10, found {text[:40]!r}"
    try:
        left, top, right, bottom = import_module("openpyxl.utils").range_boundaries(text.strip())
    except ValueError as error:
        raise Unreadable(cause, remedy="Fix `range`.") from error
    if 0 in (top, bottom) or max(left or 1, right or 1) > _MOST_COLUMNS:
        raise Unreadable(cause, remedy="Fix `range`.")
    return _CellRange(
        columns=(min(left, right), max(left, right)) if left else _EVERYTHING.columns,
        rows=(min(top, bottom), max(top, bottom)) if top else _EVERYTHING.rows,
    )


def _library(module: str, package: str, files: str) -> Any:
    """Import a library of the extra; its objects have no types."""
    try:
        return import_module(module)
    except ImportError:
        cause = f"{files} need {package}, which is not installed"
        raise Unreadable(cause, remedy=install_command("documents")) from None


@contextmanager
def _read_by(library: str) -> Generator[None, None, None]:
    """Turn the errors of a library into Unreadable."""
    try:
        yield
    except _STUMBLES as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise Unreadable(f"{library} cannot read it ({cause})", remedy=_SAVE_ANEW) from error
