"""From files to chunks: documents by their sections, CSV and JSON by their records."""

import csv
import difflib
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from burnish.core.content import Json, canonical
from burnish.core.errors import NotJournalable
from burnish.retrieval.chunks import Chunk, Section, SourceSettings, pieces
from burnish.retrieval.documents import (
    HTML,
    JSON,
    MARKDOWN,
    PDF,
    TABLES,
    SourceFile,
    html_sections,
    html_text,
    markdown_sections,
    pdf_sections,
)


def read_chunks(settings: SourceSettings, files: Sequence[SourceFile]) -> list[Chunk]:
    """The chunks of the files, in order. An empty file has none."""
    return [chunk for file in files for chunk in _chunks_of(file, settings)]


def _chunks_of(file: SourceFile, settings: SourceSettings) -> Iterator[Chunk]:
    number = 0
    for section in _sections(file, settings):
        most, overlap = settings.max_chunk_tokens, settings.chunk_overlap
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
    if settings.vector_fields:
        return _sections_of_records(file, settings)
    if file.suffix in PDF:
        return pdf_sections(file)
    if file.suffix in TABLES:
        return [Section(text=_table_text(file, settings.delimiter))]
    text = file.read_text()
    if file.suffix in MARKDOWN and structured:
        return markdown_sections(text)
    if file.suffix in HTML:
        return html_sections(text) if structured else [Section(text=html_text(text))]
    return [Section(text=text)]


def _sections_of_records(file: SourceFile, settings: SourceSettings) -> Iterable[Section]:
    if file.suffix in TABLES | JSON:
        return _record_sections(file, settings)
    remedy = "fields are read from CSV, JSON and JSONL; for other files leave vector_field out"
    raise file.trouble("it has no records with fields", remedy=remedy)


def _id(file: SourceFile, section: Section, number: int, part: int) -> str:
    """Ids sort as the chunks stand in their file."""
    if not section.record:
        return f"{file.name}#{number:06d}"
    return f"{file.name}#{section.record}" + (f"/{part:06d}" if part > 1 else "")


_Record = Mapping[str, Json]
_DELIMITERS = ",;\t|"


def _record_sections(file: SourceFile, settings: SourceSettings) -> Iterator[Section]:
    """A section a record: its searched fields as text, the others as metadata."""
    seen: set[str] = set()
    for number, record in enumerate(_records(file, settings), start=1):
        if number == 1:
            _require_fields(file, record, settings)
        name = _shown(_field(record, settings.id_field))
        if not name or name in seen:
            what = f"record {number} has no id" if not name else f"two records are called '{name}'"
            raise file.trouble(what, remedy=f"give each record a {settings.id_field} of its own")
        seen.add(name)
        values = [_shown(_field(record, each)) for each in settings.vector_fields]
        yield Section(
            text=settings.field_separator.join(filter(None, values)),
            place=name,
            record=name,
            metadata={each: _field(record, each) for each in settings.meta_fields},
        )


def _table_text(file: SourceFile, delimiter: str | None) -> str:
    """A table as text: a paragraph a row, each cell behind the name of its column."""
    rows = _rows(file, delimiter)
    shown = (", ".join(f"{name}: {cell}" for name, cell in row.items() if cell) for row in rows)
    return "\n\n".join(filter(None, shown))


def _records(file: SourceFile, settings: SourceSettings) -> Iterable[_Record]:
    if file.suffix in TABLES:
        return _rows(file, settings.delimiter)
    if file.suffix == ".json":
        return _listed(file, settings.record_path)
    return _json_lines(file)


def _rows(file: SourceFile, delimiter: str | None) -> Iterator[dict[str, str]]:
    text = file.read_text()
    parted = delimiter or _delimiter(file, text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=parted)
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


def _delimiter(file: SourceFile, text: str) -> str:
    """The sign that the header has most of."""
    if file.suffix == ".tsv":
        return "\t"
    header = text.partition("\n")[0]
    return max(_DELIMITERS, key=header.count)


def _listed(file: SourceFile, path: str | None) -> Iterator[_Record]:
    held = _parsed(file, file.read_text() or "[]", line=0)
    for name in path.split(".") if path else ():
        if not isinstance(held, dict) or name not in held:
            raise file.trouble(f"there is nothing at '{path}'", remedy="check record_path")
        held = held[name]
    if not isinstance(held, list):
        remedy = "name where the list is: record_path, such as payload.items"
        raise file.trouble("expected a list of records", remedy=remedy)
    for number, each in enumerate(held, start=1):
        yield _mapping(file, each, f"record {number}")


def _json_lines(file: SourceFile) -> Iterator[_Record]:
    for number, line in enumerate(file.read_text().split("\n"), start=1):
        if line.strip():
            yield _mapping(file, _parsed(file, line, line=number), f"line {number}")


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
    raise file.trouble(f"{where} is no record", remedy="each record is a mapping of its fields")


def _require_fields(file: SourceFile, record: _Record, settings: SourceSettings) -> None:
    """A field that the first record lacks is most likely misspelled."""
    for name in (settings.id_field, *settings.vector_fields, *settings.meta_fields):
        if _has(record, name):
            continue
        near = difflib.get_close_matches(name, record, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(record)}"
        raise file.trouble(f"the first record has no field '{name}'", remedy=hint)


def _has(record: _Record, name: str) -> bool:
    return name in record or ("." in name and _field(record, name) is not None)


def _field(record: _Record, name: str) -> Json:
    """A field by its name, or by a path with dots into what it holds."""
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
