"""Turn files into chunks: documents by section, CSV and JSON by record."""

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
    if settings.vector_fields and file.suffix in TABLES | JSON:
        return _record_sections(file, settings)
    if settings.vector_fields:
        remedy = (
            "fields are only read from CSV, JSON and JSONL: remove vector_field for other files"
        )
        raise file.trouble("the file has no records with fields", remedy=remedy)
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
    if file.suffix in TABLES:
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
