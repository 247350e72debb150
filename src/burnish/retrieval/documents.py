"""The files of a source: their content, and cutting it into chunks by section or record."""

import csv
import difflib
import glob
import io
import json
import logging
import os
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote, urlsplit

from burnish.core.content import Json, canonical
from burnish.core.errors import ConfigError, FileTrouble, NotJournalable, Problem
from burnish.retrieval.chunks import Chunk, Section, SourceSettings, pieces
from burnish.system import read_bytes
from burnish.system.extras import install_command
from burnish.system.files import Unreadable, chosen_pages

if TYPE_CHECKING:
    from pypdf import PdfReader

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=://)")

_MARKDOWN = frozenset({".md", ".markdown", ".mdown", ".mkd"})
HTML = frozenset({".html", ".htm", ".xhtml"})
PDF = frozenset({".pdf"})
_TABLES = frozenset({".csv", ".tsv"})
JSON = frozenset({".json", ".jsonl", ".ndjson"})
_PLAIN = frozenset({".txt", ".text", ".rst", ".adoc", ".log"})
_KNOWN = _MARKDOWN | HTML | PDF | _TABLES | JSON | _PLAIN
"""The suffixes read from a folder. A file that is named or matched may have any."""

_PDF_STUMBLES = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RuntimeError),
    *(TypeError, ValueError, struct.error, zlib.error),
)
"""What pypdf raises for damaged files besides its own errors."""
_MOST_PAGES = 2_000
"""Pages that are read of one file. A page of a few bytes can draw on what all others share, so the
size of a file says little about the time that its pages take."""


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """One file of a source."""

    name: str
    """Its path, relative to the folder in the settings."""
    path: Path

    @property
    def suffix(self) -> str:
        return self.path.suffix.lower()

    def trouble(self, message: str, *, line: int = 0, remedy: str = "") -> ConfigError:
        """An error about this file."""
        where = f"{self.path}:{line}" if line else str(self.path)
        return ConfigError([Problem(where=where, message=message, remedy=remedy)])

    def read(self) -> bytes:
        try:
            return read_bytes(self.path)
        except FileTrouble as error:
            problem = Problem(where=str(self.path), message=error.message, remedy=error.remedy)
            raise ConfigError([problem]) from error

    def read_text(self) -> str:
        """Decode it as UTF-8, with plain line ends."""
        try:
            text = self.read().decode("utf-8").removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            formats = "text, Markdown, HTML, PDF, CSV and JSON"
            message = f"the file is not UTF-8 text (at byte {error.start})"
            raise self.trouble(
                message, remedy=f"save it as UTF-8; supported formats: {formats}"
            ) from error
        return text.replace("\r\n", "\n").replace("\r", "\n")


def find_files(settings: SourceSettings) -> list[SourceFile]:
    """Find the files of a source, sorted by name."""
    source = _local(settings.source)
    paths = sorted(set(_matches(settings.folder, source)))
    if not paths:
        message = "no file has this name or matches this pattern"
        remedy = f"a relative source starts at {settings.folder}"
        raise ConfigError([Problem(where=settings.source, message=message, remedy=remedy)])
    return [
        SourceFile(name=Path(os.path.relpath(path, settings.folder)).as_posix(), path=path)
        for path in paths
    ]


def _local(source: str) -> str:
    scheme = _SCHEME.match(source)
    if scheme is None:
        return source
    if scheme[0].lower() == "file":
        return unquote(urlsplit(source).path)
    message = f"sources at {scheme[0]}:// are not supported: burnish only reads local files"
    remedy = "copy the files next to the agent and use their path"
    raise ConfigError([Problem(where=source, message=message, remedy=remedy)])


def _matches(folder: Path, source: str) -> Iterator[Path]:
    named = folder / Path(source).expanduser()
    if named.is_dir():
        yield from _in_folder(named)
    elif named.exists() or not glob.has_magic(source):
        yield from [named] if named.is_file() else []
    else:
        for each in glob.glob(source, root_dir=folder, recursive=True):  # noqa: PTH207 - absolute ones too
            if (folder / each).is_file():
                yield folder / each


def _in_folder(folder: Path) -> Iterator[Path]:
    for place, inside, files in os.walk(folder):
        inside[:] = [name for name in inside if not name.startswith(".")]
        for name in files:
            path = Path(place, name)
            if path.suffix.lower() in _KNOWN and not name.startswith(".") and path.is_file():
                yield path


@dataclass
class _Outline:
    """Collects the sections of a document from top to bottom."""

    sections: list[Section] = field(default_factory=list[Section])
    lines: list[str] = field(default_factory=list[str])
    """The text of the open section so far."""
    _open: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    def heading(self, level: int, title: str) -> None:
        """Start a heading, which ends the open ones at its level or below."""
        # A heading right above a deeper one is said by the sections under it.
        self.flush(leaf=not self._open or level <= self._open[-1][0])
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        self._open.append((level, " ".join(title.split())))

    def flush(self, *, leaf: bool = True) -> None:
        """End the open section. One without text is kept for its heading, if it is a `leaf`."""
        headings = tuple(title for _, title in self._open if title)
        text = "\n".join(self.lines).strip("\n")
        self.lines.clear()
        if not text.strip():
            if not (leaf and headings):
                return
            text = headings[-1]
        self.sections.append(Section(text=text, place=" > ".join(headings), headings=headings))


_UNSEEN = frozenset({"noscript", "script", "style", "svg", "template", "title"})
_HEADING = re.compile(r"h[1-6]")
_BLOCKS = re.compile(
    r"address|article|aside|blockquote|br|caption|d[dlt]|details|div|fieldset|figcaption|figure"
    r"|footer|form|header|hr|li|main|nav|ol|p|pre|section|summary|table|tbody|thead|tr|ul"
)
_MARKED = re.compile(r"<!\[(?!CDATA\[)", re.IGNORECASE)


def html_sections(page: str) -> list[Section]:
    """The sections of a page, by its headings."""
    reader = _HtmlReader()
    # The parser of Python 3.11 gives up at such a declaration; a browser takes it for a comment.
    reader.feed(_MARKED.sub("<!x[", page))
    reader.close()
    reader.end_block()
    reader.outline.flush()
    return reader.outline.sections


def html_text(page: str) -> str:
    """The page as one text, each heading on a separate line."""
    lines: list[str] = []
    before: tuple[str, ...] = ()
    for section in html_sections(page):
        shared = sum(1 for a, b in zip(before, section.headings, strict=False) if a == b)
        lines += section.headings[shared:]
        if not section.headings or section.text != section.headings[-1]:
            lines.append(section.text)
        before = section.headings
    return "\n\n".join(lines)


class _HtmlReader(HTMLParser):
    """Collects the visible text."""

    def __init__(self) -> None:
        super().__init__()
        self.outline = _Outline()
        self._unseen: list[str] = []
        self._words: list[str] = []
        self._level = 0
        self._pre = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if tag in _UNSEEN:
            self._unseen.append(tag)
        elif _HEADING.fullmatch(tag):
            self.end_block()
            self._level = int(tag[1])
        elif _BLOCKS.fullmatch(tag):
            self.end_block()
            self._pre += tag == "pre"
        elif tag in {"td", "th"} and self._words:
            self._words.append(" | ")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _UNSEEN:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._unseen:
            del self._unseen[self._unseen.index(tag) :]
        elif _HEADING.fullmatch(tag) or _BLOCKS.fullmatch(tag):
            self.end_block()
            self._pre = max(0, self._pre - (tag == "pre"))

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self._words.append(data)

    def end_block(self) -> None:
        """Hand the collected words to the outline."""
        raw = "".join(self._words)
        self._words.clear()
        text = raw.strip("\n") if self._pre else " ".join(raw.split())
        level, self._level = self._level, 0
        if not text.strip():
            return
        if level:
            self.outline.heading(level, text)
        else:
            self.outline.lines.append(text)


_FRONT = re.compile(r"---[ \t]*\n(?:.*\n)*?(?:---|\.\.\.)[ \t]*(?:\n|\Z)")


def markdown_sections(text: str) -> list[Section]:
    """The sections of a Markdown text, by its headings.

    What looks like a heading inside a code block, a list or a quotation is not one.
    """
    from markdown_it import MarkdownIt

    # Right below a line of HTML a heading is still meant as one.
    parser = MarkdownIt("commonmark").enable("table").disable("html_block")
    # Only where blocks begin and end is of interest, not what is in them.
    parser.core.ruler.enableOnly(["normalize", "block"])
    outline = _Outline()
    front = _FRONT.match(text)
    start = front.end() if front else 0
    outline.lines.append(text[:start])
    lines = text[start:].split("\n")
    at = 0
    for opening, title in pairwise(parser.parse(text[start:])):
        if opening.type == "heading_open" and opening.level == 0 and opening.map:
            first, end = opening.map
            # A whole paragraph can be underlined: its last line is the title.
            first = max(first, end - 2)
            outline.lines.append("\n".join(lines[at:first]))
            outline.heading(int(opening.tag[1:]), title.content.rpartition("\n")[2])
            at = end
    outline.lines.append("\n".join(lines[at:]))
    outline.flush()
    return outline.sections


def _pdf_sections(file: SourceFile) -> list[Section]:
    """One section per page; a page without text, such as a scan, has none."""
    try:
        pages = list(pdf_pages(file.read()))
    except Unreadable as error:
        message = f"the file cannot be read as PDF: {error.cause}"
        raise file.trouble(message, remedy=error.remedy) from error
    return [Section(text=text, place=f"page {number}") for number, text in pages if text]


def pdf_pages(content: bytes, pages: Sequence[int] = ()) -> Iterator[tuple[int, str]]:
    """The number and the text of each page, or of the given pages.

    Raises Unreadable, also if pypdf is not installed.
    """
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        remedy = install_command("documents")
        raise Unreadable("PDF files need pypdf, which is not installed", remedy=remedy) from None
    if not content:
        raise Unreadable("it is empty", remedy="Provide a PDF.")
    # What pypdf mends is no news; without any handler, Python would print it.
    log = logging.getLogger("pypdf")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    try:
        reader = PdfReader(io.BytesIO(content))
        _unlock(reader)
        numbers = chosen_pages(pages, len(reader.pages), "page")
        if len(numbers) > _MOST_PAGES:
            remedy = "Choose the `pages` that matter, or split the file."
            message = f"{len(numbers):,} of its pages would be read; the limit is {_MOST_PAGES:,}"
            raise Unreadable(message, remedy=remedy)
        for number in numbers:
            yield number, _clean(reader.pages[number - 1].extract_text())
    except (PyPdfError, *_PDF_STUMBLES) as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise Unreadable(f"it is damaged ({cause})", remedy="Save it again as PDF.") from error


def _unlock(reader: "PdfReader") -> None:
    """Many files have an empty password, only to prevent changes."""
    from pypdf import PasswordType
    from pypdf.errors import DependencyError

    if not reader.is_encrypted:
        return
    try:
        opened = reader.decrypt("") is not PasswordType.NOT_DECRYPTED
    except DependencyError:
        remedy = "pip install cryptography, or save it without encryption."
        raise Unreadable("it is encrypted, and that needs cryptography", remedy=remedy) from None
    if not opened:
        raise Unreadable("it has a password", remedy="Save it without the password.")


def _clean(text: str) -> str:
    """Removes NUL and unpaired surrogates, which JSON cannot represent."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\0", "").strip()


def read_chunks(settings: SourceSettings, files: Sequence[SourceFile]) -> list[Chunk]:
    """Return the chunks of the files, in order; an empty file has none."""
    return [chunk for file in files for chunk in _chunks_of(file, settings)]


def _chunks_of(file: SourceFile, settings: SourceSettings) -> Iterator[Chunk]:
    number = 0
    most, overlap = settings.max_chunk_tokens, settings.chunk_overlap
    for section in _sections(file, settings):
        parts = pieces(section.text, most=most, overlap=overlap)
        texts = [text for text in parts if text.strip()]
        for part, text in enumerate(texts, start=1):
            number += 1
            yield Chunk(
                id=_id(file, section, number, part),
                text=text,
                source=file.name,
                place=section.place or (f"part {part}" if len(texts) > 1 else ""),
                headings=section.headings,
                metadata=section.metadata,
            )


def _sections(file: SourceFile, settings: SourceSettings) -> Iterable[Section]:
    structured = settings.chunking == "structure"
    if settings.vector_fields and file.suffix in _TABLES | JSON:
        return _record_sections(file, settings)
    if settings.vector_fields:
        remedy = (
            "fields are only read from CSV, JSON and JSONL: remove vector_field for other files"
        )
        raise file.trouble("the file has no records with fields", remedy=remedy)
    if file.suffix in PDF:
        return _pdf_sections(file)
    if file.suffix in _TABLES:
        return [Section(text=_table_text(file, settings.delimiter))]
    text = file.read_text()
    if file.suffix in _MARKDOWN and structured:
        return markdown_sections(text)
    if file.suffix in HTML:
        return html_sections(text) if structured else [Section(text=html_text(text))]
    return [Section(text=text)]


def _id(file: SourceFile, section: Section, number: int, part: int) -> str:
    """Ids sort in the order of the chunks in their file."""
    if not section.record:
        return f"{file.name}#{number:06d}"
    return f"{file.name}#{section.record}" + (f"/{part:06d}" if part > 1 else "")


_Record = Mapping[str, Json]


def _record_sections(file: SourceFile, settings: SourceSettings) -> Iterator[Section]:
    """One section per record: its searched fields as text, the others as metadata."""
    seen: set[str] = set()
    for number, record in enumerate(_records(file, settings), start=1):
        if number == 1:
            _require_fields(file, record, settings)
        name = _shown(_field(record, settings.id_field))
        if not name or name in seen:
            what = f"record {number} has no id" if not name else f"two records have the id '{name}'"
            raise file.trouble(what, remedy=f"give each record a unique {settings.id_field}")
        seen.add(name)
        values = [_shown(_field(record, each)) for each in settings.vector_fields]
        yield Section(
            text=settings.field_separator.join(filter(None, values)),
            place=name,
            record=name,
            metadata={each: _field(record, each) for each in settings.meta_fields},
        )


def _table_text(file: SourceFile, delimiter: str | None) -> str:
    """A table as text: one paragraph per row, each cell after the name of its column."""
    rows = _rows(file, delimiter)
    shown = (", ".join(f"{name}: {cell}" for name, cell in row.items() if cell) for row in rows)
    return "\n\n".join(filter(None, shown))


def _records(file: SourceFile, settings: SourceSettings) -> Iterator[_Record]:
    if file.suffix in _TABLES:
        yield from _rows(file, settings.delimiter)
    elif file.suffix == ".json":
        for number, record in enumerate(_listed(file, settings.record_path), start=1):
            yield _mapping(file, record, f"record {number}")
    else:
        for number, line in enumerate(file.read_text().split("\n"), start=1):
            if line.strip():
                yield _mapping(file, _parsed(file, line, line=number), f"line {number}")


def _rows(file: SourceFile, delimiter: str | None) -> Iterator[dict[str, str]]:
    text = file.read_text()
    if not delimiter:
        in_header = text.partition("\n")[0].count
        delimiter = "\t" if file.suffix == ".tsv" else max(",;\t|", key=in_header)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    header: list[str] | None = None
    try:
        for cells in reader:
            if header is None:
                header = [cell.strip() for cell in cells]
            elif any(cells):
                yield dict(zip(header, cells, strict=False))
    except csv.Error as error:
        remedy = "check its quotes; no cell may be longer than 131,072 characters"
        raise file.trouble(
            f"not valid CSV: {error}", line=reader.line_num, remedy=remedy
        ) from error


def _listed(file: SourceFile, path: str | None) -> list[Json]:
    held = _parsed(file, file.read_text() or "[]", line=0)
    for name in path.split(".") if path else ():
        if not isinstance(held, dict) or name not in held:
            raise file.trouble(f"there is nothing at '{path}'", remedy="check record_path")
        held = held[name]
    if not isinstance(held, list):
        remedy = "set record_path to the path of the list, such as payload.items"
        raise file.trouble("expected a list of records", remedy=remedy)
    return held


def _parsed(file: SourceFile, text: str, *, line: int) -> Json:
    try:
        value = cast("Json", json.loads(text))
        canonical(value)
    except (ValueError, RecursionError, NotJournalable) as error:
        raise file.trouble(f"not valid JSON: {error}", line=line) from error
    return value


def _mapping(file: SourceFile, value: Json, where: str) -> _Record:
    if isinstance(value, dict):
        return value
    raise file.trouble(
        f"{where} is not a record", remedy="write each record as an object with its fields"
    )


def _require_fields(file: SourceFile, record: _Record, settings: SourceSettings) -> None:
    """A field missing from the first record is most likely misspelled."""
    for name in (settings.id_field, *settings.vector_fields, *settings.meta_fields):
        if name in record or ("." in name and _field(record, name) is not None):
            continue
        near = difflib.get_close_matches(name, record, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"the fields are: {', '.join(record)}"
        raise file.trouble(f"the first record has no field '{name}'", remedy=hint)


def _field(record: _Record, name: str) -> Json:
    """Look up a field by its name, or by a dotted path."""
    if name in record:
        return record[name]
    held: Json = dict(record)
    for part in name.split("."):
        held = held.get(part) if isinstance(held, dict) else None
    return held


def _shown(value: Json) -> str:
    if value is None:
        return ""
    return value.strip() if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
