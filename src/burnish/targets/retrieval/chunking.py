"""From files to chunks."""

from collections.abc import Iterable, Iterator, Sequence

from burnish.targets.retrieval.chunks import Chunk, Section, SourceSettings
from burnish.targets.retrieval.html_pages import html_sections, html_text
from burnish.targets.retrieval.markdown import markdown_sections
from burnish.targets.retrieval.pdf_files import pdf_sections
from burnish.targets.retrieval.records import record_sections, table_text
from burnish.targets.retrieval.sources import HTML, JSON, MARKDOWN, PDF, TABLES, SourceFile
from burnish.targets.retrieval.splitting import pieces


def read_chunks(settings: SourceSettings, files: Sequence[SourceFile]) -> list[Chunk]:
    """The chunks of the files, in order. An empty file has none."""
    return [chunk for file in files for chunk in _chunks_of(file, settings)]


def _chunks_of(file: SourceFile, settings: SourceSettings) -> Iterator[Chunk]:
    number = 0
    for section in _sections(file, settings):
        found = [text for text in _cut(section.text, settings) if text.strip()]
        for part, text in enumerate(found, start=1):
            number += 1
            yield Chunk(
                id=_id(file, section, number, part),
                text=text,
                source=file.name,
                place=section.place or (f"part {part}" if len(found) > 1 else ""),
                headings=section.headings,
                metadata=section.metadata,
            )


def _sections(file: SourceFile, settings: SourceSettings) -> Iterable[Section]:
    structured = settings.chunking == "structure"
    if settings.vector_fields:
        return _records(file, settings)
    if file.suffix in PDF:
        return pdf_sections(file)
    if file.suffix in TABLES:
        return [Section(text=table_text(file, settings.delimiter))]
    text = file.read_text()
    if file.suffix in MARKDOWN and structured:
        return markdown_sections(text)
    if file.suffix in HTML:
        return html_sections(text) if structured else [Section(text=html_text(text))]
    return [Section(text=text)]


def _records(file: SourceFile, settings: SourceSettings) -> Iterable[Section]:
    if file.suffix in TABLES | JSON:
        return record_sections(file, settings)
    remedy = "fields are read from CSV, JSON and JSONL; for other files leave vector_field out"
    raise file.trouble("it has no records with fields", remedy=remedy)


def _cut(text: str, settings: SourceSettings) -> Iterator[str]:
    return pieces(text, most=settings.max_chunk_tokens, overlap=settings.chunk_overlap)


def _id(file: SourceFile, section: Section, number: int, part: int) -> str:
    """Ids sort as the chunks stand in their file."""
    if not section.record:
        return f"{file.name}#{number:06d}"
    return f"{file.name}#{section.record}" + (f"/{part:06d}" if part > 1 else "")
