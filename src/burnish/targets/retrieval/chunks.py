"""Chunks: the pieces that sources are cut into, and how they are to be cut."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem

Chunking: TypeAlias = Literal["structure", "token"]

CHUNKING_VERSION = 1
"""Raised when the same files and settings come to mean other chunks."""


@dataclass(frozen=True, kw_only=True)
class SourceSettings:
    """What to read, and how to cut it."""

    source: str
    """A file, a folder or a glob."""
    folder: Path
    """What a relative source is taken from."""
    chunking: Chunking = "token"
    """`structure` cuts Markdown and HTML at their headings first; `token` by length alone."""
    max_chunk_tokens: int = 800
    chunk_overlap: int = 50
    """Tokens that a chunk repeats of the one before; at most half a chunk."""
    id_field: str = ""
    vector_fields: tuple[str, ...] = ()
    """The fields that are searched. With them, CSV and JSON are read record by record."""
    meta_fields: tuple[str, ...] = ()
    """The fields that a hit brings along."""
    field_separator: str = "\n"
    delimiter: str | None = None
    """What parts the cells of a CSV file; None looks at its header."""
    record_path: str | None = None
    """Where the records of a JSON file are, such as `payload.items`."""

    def __post_init__(self) -> None:
        if self.max_chunk_tokens < 1 or self.chunk_overlap < 0:
            sizes = f"max_chunk_tokens {self.max_chunk_tokens}, chunk_overlap {self.chunk_overlap}"
            message = f"a chunk cannot be of this size: {sizes}"
            raise ConfigError([Problem(where=self.source, message=message)])
        if self.vector_fields and not self.id_field:
            remedy = "name the field that holds each record's id"
            raise ConfigError([Problem(where=self.source, message="no id_field", remedy=remedy)])

    @property
    def cut(self) -> dict[str, Json]:
        """Everything that decides which chunks a file becomes."""
        return {
            "version": CHUNKING_VERSION,
            "chunking": self.chunking,
            "max_chunk_tokens": self.max_chunk_tokens,
            "chunk_overlap": self.chunk_overlap,
            "id_field": self.id_field,
            "vector_fields": [*self.vector_fields],
            "meta_fields": [*self.meta_fields],
            "field_separator": self.field_separator,
            "delimiter": self.delimiter,
            "record_path": self.record_path,
        }


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A piece of a source: what is searched, and what a hit brings back."""

    id: str
    text: str
    source: str
    """The file, from the folder that its settings name."""
    place: str = ""
    """Where in the file: its headings, its page, its record, its part."""
    headings: tuple[str, ...] = ()
    """The headings above it, the outermost first."""
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])

    @property
    def passage(self) -> str:
        """The text under its headings: what is searched, and what an answer may rest on."""
        return "\n".join(filter(None, [" > ".join(self.headings), self.text]))


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a file that is cut by itself."""

    text: str
    place: str = ""
    headings: tuple[str, ...] = ()
    record: str = ""
    """The id of the record it is, where it is one."""
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])
