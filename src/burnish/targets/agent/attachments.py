"""Files attached to a case: pictures as pictures, documents as text."""

import asyncio
import base64
import codecs
import hashlib
import stat
from base64 import b64decode
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePath
from urllib.parse import unquote
from xml.sax.saxutils import quoteattr

from burnish.core.cases import Attachment, Case, Image, Turn
from burnish.core.content import Json, canonical
from burnish.core.errors import BurnishError, ConfigError, FileTrouble, Problem
from burnish.journal.outages import RetryPolicy
from burnish.system import Redactor, read_bytes
from burnish.system.config import shown
from burnish.system.files import Unreadable, file_trouble
from burnish.targets.agent.document_limits import (
    PATIENCE,
    allowed_text,
    download,
    full_address,
    kept_download,
    looks_like,
    picture_type,
    require_size,
)

_KINDS = ("image", "pdf", "text", "excel", "word", "powerpoint", "csv")
_PLAIN = ("text", "csv")
"""The kinds that are read as they are."""

_SUFFIXES = {
    "image": ".png .jpg .jpeg .gif .webp .bmp .tif .tiff .svg .heic",
    "pdf": ".pdf",
    "text": ".txt .md",
    "excel": ".xlsx .xlsm .xltx .xltm",
    "word": ".docx .docm .dotx .dotm",
    "powerpoint": ".pptx .pptm .potx .potm .ppsx .ppsm",
    "csv": ".csv .tsv",
}
_KIND_OF_SUFFIX = {suffix: kind for kind, all_ in _SUFFIXES.items() for suffix in all_.split()}
_NEWER = {".xlsx": ".xls .xlsb .ods", ".docx": ".doc .odt .rtf", ".pptx": ".ppt .odp"}
_NEWER_OF_SUFFIX = {suffix: newer for newer, all_ in _NEWER.items() for suffix in all_.split()}

_OPTIONS = {
    "pages": ("pdf", "powerpoint"),
    "sheet": ("excel",),
    "range": ("excel",),
    "cache": _KINDS,
}
"""The options of a file, and the kinds that have them."""


@dataclass(frozen=True, kw_only=True)
class _Part:
    """The requested part of a document; all of it by default."""

    kind: str
    pages: tuple[int, ...] = ()
    sheet: str = ""
    cells: str = ""

    @classmethod
    def of(cls, attachment: Attachment) -> "_Part":
        """Read the options of an attachment; Unreadable where they make no sense."""
        _require_sense(attachment)
        options = attachment.options
        return cls(
            kind=attachment.kind,
            pages=_pages(options.get("pages")),
            sheet=_words("sheet", options.get("sheet")),
            cells=_words("range", options.get("range")),
        )


def _require_sense(attachment: Attachment) -> None:
    if attachment.kind not in _KINDS:
        cause = f"unknown file type {attachment.kind[:40]!r}"
        raise Unreadable(cause, remedy=f"Known types: {', '.join(_KINDS)}.")
    places = {"path": "a path", "url": "a url", "data": "data"}
    there = [words for place, words in places.items() if getattr(attachment, place)]
    if len(there) != 1:
        which = " and ".join(there) or "no path, url or data"
        raise Unreadable(f"it has {which}", remedy="Give exactly one of path, url and data.")
    for name in attachment.options:
        if attachment.kind not in _OPTIONS.get(name, ()):
            options = [each for each, kinds in _OPTIONS.items() if attachment.kind in kinds]
            cause = f"a file of type {attachment.kind} has no {name!r}"
            raise Unreadable(cause, remedy=f"Remove it; the options are: {', '.join(options)}.")
    if not isinstance(cache := attachment.options.get("cache", False), bool):
        cause = f"expected true or false for cache, found {shown(cache)}"
        raise Unreadable(cause, remedy="Fix `cache`.")


def _pages(value: Json) -> tuple[int, ...]:
    if value is None:
        return ()
    pages = [page for page in value if type(page) is int] if isinstance(value, list) else []
    if not pages or pages != value:
        listed = f"{value}"[:60] if isinstance(value, list) else shown(value)
        cause = f"expected page numbers such as [1, 3], found {listed}"
        raise Unreadable(cause, remedy="Fix `pages`.")
    return tuple(pages)


def _words(name: str, value: Json) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or not value.strip():
        cause = f"expected text for {name}, found {shown(value)}"
        raise Unreadable(cause, remedy="Put it in quotes, or remove it.")
    return value


def _name_of(attachment: Attachment) -> str:
    if attachment.data:
        return PurePath(attachment.name).name
    if attachment.path:
        return PurePath(attachment.path).name
    address = attachment.url.partition("?")[0].partition("#")[0].rstrip("/")
    return unquote(address.rpartition("/")[2])


def _require_name(kind: str, name: str) -> None:
    """Refuse a kind that does not fit the file's name."""
    suffix = PurePath(name).suffix.lower()
    promised = _KIND_OF_SUFFIX.get(suffix, kind)
    if newer := _NEWER_OF_SUFFIX.get(suffix):
        remedy = f"Save it as {newer} and set `type: {_KIND_OF_SUFFIX[newer]}`."
        raise Unreadable(f"{suffix} files are not supported", remedy=remedy)
    if promised != kind and not {promised, kind} <= set(_PLAIN):
        remedy = f"Set `type: {promised}`, or use another file."
        raise Unreadable(f"`type: {kind}` does not fit a {suffix} file", remedy=remedy)


def text_of(attachment: Attachment, path: Path) -> str:
    """The text of a document, or of the requested part.

    Raises FileTrouble, which says what to fix.
    """
    with _readable(attachment):
        part = _Part.of(attachment)
        if part.kind in _PLAIN:
            return _text_in(_bounded_content(path), part)
        return _remembered(part, path, _version(path))


def text_in(attachment: Attachment, content: bytes) -> str:
    """The text of a document in memory."""
    with _readable(attachment):
        return _text_in(content, _Part.of(attachment))


def _sent_content(attachment: Attachment) -> bytes:
    try:
        content = b64decode("".join(attachment.data.split()), validate=True)
    except ValueError as error:
        cause = f"its data is not valid base64: {error}"
        raise Unreadable(cause, remedy="Send the file's bytes in base64.") from error
    require_size(len(content))
    return content


def _bounded_content(path: Path) -> bytes:
    require_size(_version(path)[1])
    return read_bytes(path)


@contextmanager
def _readable(attachment: Attachment) -> Generator[None, None, None]:
    """Raise FileTrouble with the name of the attachment instead of Unreadable."""
    try:
        yield
    except Unreadable as error:
        place = attachment.path or attachment.url or attachment.name or "a file of a case"
        name = Redactor.from_environment().text(place)
        raise FileTrouble(f"cannot read {name}: {error.cause}", remedy=error.remedy) from error


@lru_cache(maxsize=32)
def _remembered(part: _Part, path: Path, version: tuple[int, int, int]) -> str:
    """A file goes to the agent once for each candidate and repeat, but is parsed only once."""
    del version
    return _text_in(_bounded_content(path), part)


def _version(path: Path) -> tuple[int, int, int]:
    """What changes when a file does; its size is the second."""
    try:
        status = path.stat()
    except OSError as error:
        raise file_trouble("read", path, error) from error
    except ValueError as error:
        raise Unreadable(f"invalid path: {error}", remedy="Fix `path`.") from error
    if not stat.S_ISREG(status.st_mode):
        raise Unreadable(
            "it is not a file but a folder or a device", remedy="Give the path of a file."
        )
    return status.st_mtime_ns, status.st_size, status.st_ino


def _text_in(content: bytes, part: _Part) -> str:
    """The libraries are imported only for documents that need them."""
    if part.kind in _PLAIN:
        return _plain_text(content)
    if part.kind == "pdf":
        return _pdf_text(content, part)
    from burnish.targets.agent import office_documents

    match part.kind:
        case "excel":
            return office_documents.excel_text(content, sheet=part.sheet, cells=part.cells)
        case "word":
            return office_documents.word_text(content)
        case _:
            return office_documents.powerpoint_text(content, pages=part.pages)


def _plain_text(content: bytes) -> str:
    """UTF-8 unless the first bytes say UTF-16; without a byte order mark."""
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise _no_text(content, f"it is not UTF-8 text (at byte {error.start})") from error
    if "\0" in text:
        raise _no_text(
            content, f"it is not text (a null character at position {text.index(chr(0))})"
        )
    allowed_text().take(len(text))
    return text


def _no_text(content: bytes, cause: str) -> Unreadable:
    likeness = looks_like(content)
    if likeness:
        return Unreadable(f"{cause}: it looks like {likeness}", remedy="Fix `type`.")
    return Unreadable(cause, remedy="Save it as UTF-8.")


def _pdf_text(content: bytes, part: _Part) -> str:
    from burnish.retrieval.documents import pdf_pages

    allowance = allowed_text()
    texts: dict[int, str] = {}
    try:
        for number, text in pdf_pages(content, part.pages):
            allowance.take(len(text))
            texts[number] = text
    except Unreadable as error:
        if not content or b"%PDF-" in content[:1024]:
            raise
        likeness = looks_like(content)
        hint = f"it looks like {likeness}" if likeness else "it does not start like one"
        remedy = "Fix `type`, or give a PDF."
        raise Unreadable(f"it is not a PDF: {hint}", remedy=remedy) from error
    if not any(texts.values()):
        raise Unreadable(
            "it contains no text: its pages may be pictures",
            remedy="Give its pages as pictures (`type: image`), or a PDF with text.",
        )
    if len(texts) == 1:
        return "".join(texts.values())
    return "\n\n".join(f"# Page {number}\n{text}" for number, text in texts.items())


async def read_attachments(
    attachments: Sequence[Attachment], folder: Path, *, patience: RetryPolicy = PATIENCE
) -> tuple[list[str], list[Image]]:
    """Return the texts, each under the name of its file, and the pictures, in order.

    A picture has its name among the texts too, so that an agent can tell them apart. Raises
    FileTrouble for what the user has to fix, ConnectionError for what could not be downloaded.
    """
    texts: list[str] = []
    images: list[Image] = []
    for attachment in attachments:
        named = f"name={quoteattr(_name_of(attachment))}"
        if attachment.description:
            named += f" description={quoteattr(attachment.description)}"
        # In a thread: a long document takes seconds to read, and other cases go on.
        if attachment.url:
            content = await _downloaded(attachment, patience)
            found = await asyncio.to_thread(_content_of, attachment, content)
        else:
            found = await asyncio.to_thread(_local_content, attachment, folder)
        if isinstance(found, Image):
            images.append(found)
            texts.append(f"<image {named}/>")
        else:
            texts.append(f"<file {named}>\n{found}\n</file>")
    return texts, images


def _local_content(attachment: Attachment, folder: Path) -> Image | str:
    path = folder / attachment.path
    with _readable(attachment):
        if attachment.kind != "image" and not attachment.data:
            return text_of(attachment, path)
        if attachment.kind == "image":
            _Part.of(attachment)
        content = _sent_content(attachment) if attachment.data else _bounded_content(path)
        return _content_of(attachment, content)


def _content_of(attachment: Attachment, content: bytes) -> Image | str:
    if attachment.kind != "image":
        return text_in(attachment, content)
    with _readable(attachment):
        return _picture_in(content)


async def _downloaded(attachment: Attachment, patience: RetryPolicy) -> bytes:
    fetch = kept_download if attachment.options.get("cache") is True else download
    with _readable(attachment):
        _Part.of(attachment)
        return await fetch(attachment.url, patience=patience)


def _picture_in(content: bytes) -> Image:
    """The first bytes decide what it is: endpoints refuse a picture under a wrong name."""
    media_type = picture_type(content)
    if media_type is None:
        likeness = looks_like(content)
        hint = f": it looks like {likeness}" if likeness else ""
        formats = "PNG, JPEG, GIF or WebP"
        cause = f"it is not a picture that models can read ({formats}){hint}"
        raise Unreadable(cause, remedy=f"Save it as {formats}, or fix `type`.")
    return Image(media_type=media_type, base64=base64.b64encode(content).decode())


def check_attachments(cases: Sequence[Case], folder: Path) -> list[Problem]:
    """Find what would keep the files of these cases from reaching the agent.

    Local files are read as a run would read them; addresses are only validated. A recorded case
    needs no files.
    """
    problems: list[Problem] = []
    seen: set[bytes] = set()
    for where, attachment in _all(cases):
        place: list[Json] = [attachment.kind, attachment.path, attachment.url, attachment.data]
        key = canonical([*place, dict(attachment.options)])
        if key not in seen:
            seen.add(key)
            problems += _problems(where, attachment, folder)
    return problems


def _all(cases: Sequence[Case]) -> Iterator[tuple[str, Attachment]]:
    for case in cases:
        if case.recorded is not None:
            continue
        for number, turn in enumerate(case.turns, start=1):
            at = f", turn {number}" if len(case.turns) > 1 else ""
            for attachment in turn.attachments:
                yield f"case '{case.id}'{at}", attachment


def _problems(where: str, attachment: Attachment, folder: Path) -> list[Problem]:
    try:
        with _readable(attachment):
            _Part.of(attachment)
            _require_name(attachment.kind, _name_of(attachment))
            if attachment.url:
                full_address(attachment.url)
            else:
                _local_content(attachment, folder)
    except ConfigError as error:
        return [replace(problem, where=where) for problem in error.problems]
    except BurnishError as error:
        return [Problem(where=where, message=error.message, remedy=error.remedy)]
    return []


def pinned(cases: Sequence[Case], folder: Path) -> tuple[Case, ...]:
    """The cases with hashes of their files, so that changed content is noticed."""
    return tuple(
        replace(case, turns=tuple(_pinned(turn, folder) for turn in case.turns))
        if any(turn.attachments for turn in case.turns)
        else case
        for case in cases
    )


def _pinned(turn: Turn, folder: Path) -> Turn:
    def hashed(attachment: Attachment) -> Attachment:
        try:
            sent = _sent_content(attachment) if attachment.data else None
        except Unreadable:
            return attachment  # of a recorded case, which needs no files
        content = read_bytes(folder / attachment.path) if sent is None else sent
        return replace(attachment, content=hashlib.sha256(content).hexdigest()[:16])

    files = tuple(hashed(each) if each.path or each.data else each for each in turn.attachments)
    return replace(turn, attachments=files)
