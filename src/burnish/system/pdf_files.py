"""PDF files as text, page by page, through pypdf."""

import logging
import struct
import zlib
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from burnish.system.files import Unreadable

if TYPE_CHECKING:
    from pypdf import PdfReader

_STUMBLES = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RuntimeError),
    *(TypeError, ValueError, struct.error, zlib.error),
)
"""What pypdf lets through, beside its own errors, when a file is damaged."""


def pdf_pages(content: bytes, pages: Sequence[int] = ()) -> Iterator[tuple[int, str]]:
    """The number and the text of each page, or of those whose numbers are given.

    Raises Unreadable, also where pypdf is not installed.
    """
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        remedy = "pip install 'burnish[documents]'"
        raise Unreadable("pypdf is needed for PDF and not installed", remedy=remedy) from None
    if not content:
        raise Unreadable("it is empty", remedy="Give a PDF.")
    # What pypdf mends is no news; without any handler, Python would print it.
    log = logging.getLogger("pypdf")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    try:
        reader = PdfReader(BytesIO(content))
        _unlock(reader)
        for number in chosen_pages(pages, len(reader.pages), "page"):
            yield number, _clean(reader.pages[number - 1].extract_text())
    except (PyPdfError, *_STUMBLES) as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise Unreadable(f"it is damaged ({cause})", remedy="Save it anew, as PDF.") from error


def chosen_pages(pages: Sequence[int], count: int, thing: str) -> Sequence[int]:
    """The numbers of the pages or slides to read: the ones that are named, else all."""
    beyond = [page for page in pages if not 1 <= page <= count]
    if beyond:
        listed = ", ".join(map(str, beyond[:10]))
        has = f"it has {count} {thing}{'' if count == 1 else 's'}"
        raise Unreadable(f"there is no {thing} {listed}: {has}", remedy="Mend its `pages`.")
    return list(dict.fromkeys(pages)) or range(1, count + 1)


def _unlock(reader: "PdfReader") -> None:
    """Many files are locked with an empty password, only against being changed."""
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
    """Without what is no text: NUL, and halves of surrogate pairs, which have no JSON form."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\0", "").strip()
