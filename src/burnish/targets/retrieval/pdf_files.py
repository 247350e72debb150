"""The pages of a PDF file as text, by pypdf."""

import io
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from burnish.core.errors import ConfigError, Problem
from burnish.targets.retrieval.chunks import Section
from burnish.targets.retrieval.sources import SourceFile

if TYPE_CHECKING:
    from pypdf import PdfReader


def pdf_sections(file: SourceFile) -> list[Section]:
    """A section a page; a page without text, such as a scan, gives none."""
    _require_pypdf(file)
    from pypdf.errors import PyPdfError

    # A damaged file comes to light anywhere in the parser, as whatever its content leads to.
    broken = (PyPdfError, ArithmeticError, AssertionError, AttributeError, LookupError, OSError,
              NotImplementedError, RecursionError, TypeError, ValueError, zlib.error)  # fmt: skip
    try:
        return list(_pages(file))
    except broken as error:
        told = str(error) or type(error).__name__
        remedy = "open it in a viewer; an encrypted file has to be saved without its password"
        raise file.trouble(f"it cannot be read as PDF: {told}", remedy=remedy) from error


def _pages(file: SourceFile) -> Iterator[Section]:
    from pypdf import PdfReader

    reader = PdfReader(io.BytesIO(file.read()))
    for number in range(len(reader.pages)):
        if text := _text(reader, number):
            yield Section(text=text, place=f"page {number + 1}")


def _text(reader: "PdfReader", number: int) -> str:
    found = reader.pages[number].extract_text()
    # Fonts may map a glyph to half a character, which no file can hold.
    return found.encode("utf-8", "ignore").decode("utf-8").strip()


def _require_pypdf(file: SourceFile) -> None:
    try:
        import pypdf
    except ImportError as error:
        message = "PDF files need pypdf, which is not installed"
        remedy = "install it: pip install 'burnish[documents]'"
        problem = Problem(where=str(file.path), message=message, remedy=remedy)
        raise ConfigError([problem]) from error
    del pypdf
