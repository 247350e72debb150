"""PDF files as text, page by page, through pypdf."""

import logging
import struct
import zlib
from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from burnish.targets.agent.documents_bounds import Unreadable, allowed_text
from burnish.targets.agent.documents_kinds import looks_like
from burnish.targets.agent.documents_pages import chosen

if TYPE_CHECKING:
    from pypdf import PdfReader

_STUMBLES = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RuntimeError),
    *(TypeError, ValueError, struct.error, zlib.error),
)
"""What pypdf lets through, beside its own errors, when a file is damaged."""


def pdf_text(content: bytes, *, pages: Sequence[int] = ()) -> str:
    """The text of the pages, or of those whose numbers are given; several have headings."""
    try:
        from pypdf.errors import PyPdfError
    except ImportError:
        remedy = "pip install 'burnish[documents]'"
        raise Unreadable("pypdf is needed for PDF and not installed", remedy=remedy) from None
    try:
        texts = _page_texts(content, pages)
    except (PyPdfError, *_STUMBLES) as error:
        raise _damaged(content, error) from error
    if not any(texts.values()):
        raise Unreadable(
            "there is no text in it: its pages may be pictures",
            remedy="Give its pages as pictures (`type: image`), or a PDF with text.",
        )
    if len(texts) == 1:
        return "".join(texts.values())
    return "\n\n".join(f"# Page {number}\n{text}" for number, text in texts.items())


def _page_texts(content: bytes, pages: Sequence[int]) -> dict[int, str]:
    from pypdf import PdfReader

    # What pypdf mends is no news; without any handler, Python would print it.
    log = logging.getLogger("pypdf")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    reader = PdfReader(BytesIO(content))
    _open(reader)
    allowance = allowed_text()
    texts: dict[int, str] = {}
    for number in chosen(pages, len(reader.pages), "page"):
        texts[number] = _clean(reader.pages[number - 1].extract_text())
        allowance.take(len(texts[number]))
    return texts


def _open(reader: "PdfReader") -> None:
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


def _damaged(content: bytes, error: BaseException) -> Unreadable:
    if not content:
        return Unreadable("it is empty", remedy="Give a PDF.")
    if b"%PDF-" not in content[:1024]:
        likeness = looks_like(content)
        told = f"it looks like {likeness}" if likeness else "it does not begin like one"
        return Unreadable(f"it is no PDF: {told}", remedy="Mend its `type`, or give a PDF.")
    told = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return Unreadable(f"it is damaged ({told})", remedy="Save it anew, as PDF.")
