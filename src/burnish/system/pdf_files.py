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
"""What pypdf raises for damaged files besides its own errors."""
_MOST_PAGES = 2_000
"""Pages that are read of one file. A page of a few bytes can draw on what all others share, so the
size of a file says little about the time that its pages take."""


def pdf_pages(content: bytes, pages: Sequence[int] = ()) -> Iterator[tuple[int, str]]:
    """The number and the text of each page, or of the given pages.

    Raises Unreadable, also if pypdf is not installed.
    """
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        remedy = "pip install 'burnish[documents]'"
        raise Unreadable("PDF files need pypdf, which is not installed", remedy=remedy) from None
    if not content:
        raise Unreadable("it is empty", remedy="Provide a PDF.")
    # What pypdf mends is no news; without any handler, Python would print it.
    log = logging.getLogger("pypdf")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    try:
        reader = PdfReader(BytesIO(content))
        _unlock(reader)
        numbers = chosen_pages(pages, len(reader.pages), "page")
        if len(numbers) > _MOST_PAGES:
            remedy = "Choose the `pages` that matter, or split the file."
            message = f"{len(numbers):,} of its pages would be read; the limit is {_MOST_PAGES:,}"
            raise Unreadable(message, remedy=remedy)
        for number in numbers:
            yield number, _clean(reader.pages[number - 1].extract_text())
    except (PyPdfError, *_STUMBLES) as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise Unreadable(f"it is damaged ({cause})", remedy="Save it again as PDF.") from error


def chosen_pages(pages: Sequence[int], count: int, thing: str) -> Sequence[int]:
    """The numbers of the pages or slides to read: the given ones, otherwise all."""
    beyond = [page for page in pages if not 1 <= page <= count]
    if beyond:
        listed = ", ".join(map(str, beyond[:10]))
        has = f"it has {count} {thing}{'' if count == 1 else 's'}"
        raise Unreadable(f"there is no {thing} {listed}: {has}", remedy="Correct its `pages`.")
    return list(dict.fromkeys(pages)) or range(1, count + 1)


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
