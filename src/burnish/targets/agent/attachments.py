"""Files that go with a case: pictures as pictures, documents as text."""

import asyncio
import base64
import codecs
import hashlib
import stat
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePath
from urllib.parse import unquote
from xml.sax.saxutils import quoteattr

from burnish.core.cases import Attachment, Case, Image, Turn
from burnish.core.content import Json, canonical
from burnish.core.errors import BurnishError, ConfigError, FileTrouble, Problem
from burnish.journal.limits import RetryPolicy
from burnish.system import Redactor, read_bytes
from burnish.system.config_errors import shown
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
_PICTURES = "PNG, JPEG, GIF or WebP"

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
"""Which part of a file can be asked for, and of which kinds."""


@dataclass(frozen=True, kw_only=True)
class _Part:
    """The part of a document that is asked for; all of it where nothing is said."""

    kind: str
    pages: tuple[int, ...] = ()
    sheet: str = ""
    cells: str = ""

    @classmethod
    def of(cls, attachment: Attachment) -> "_Part":
        """What an attachment asks for; Unreadable where it asks for what cannot be."""
        _require_sense(attachment)
        options = attachment.options
        return cls(
            kind=attachment.kind,
            pages=_pages(options.get("pages")),
            sheet=_words("sheet", options.get("sheet")),
            cells=_words("range", options.get("range")),
        )


def _require_sense(attachment: Attachment) -> None:
    """Rows of cases come with any kind of file and any options."""
    if attachment.kind not in _KINDS:
        cause = f"there is no type of file {attachment.kind[:40]!r}"
        raise Unreadable(cause, remedy=f"Known: {', '.join(_KINDS)}.")
    places = {"path": "a path", "url": "a url", "data": "data"}
    there = [words for place, words in places.items() if getattr(attachment, place)]
    if len(there) != 1:
        which = " and ".join(there) or "neither a path nor a url nor data"
        raise Unreadable(f"it has {which}", remedy="Give one of them.")
    for name in attachment.options:
        if attachment.kind not in _OPTIONS.get(name, ()):
            options = [each for each, kinds in _OPTIONS.items() if attachment.kind in kinds]
            cause = f"a file of type {attachment.kind} has no {name!r}"
            raise Unreadable(cause, remedy=f"Remove it; there is: {', '.join(options)}.")
    if not isinstance(cache := attachment.options.get("cache", False), bool):
        cause = f"expected true or false as its cache, found {shown(cache)}"
        raise Unreadable(cause, remedy="Mend its `cache`.")


def _pages(value: Json) -> tuple[int, ...]:
    if value is None:
        return ()
    pages = [page for page in value if type(page) is int] if isinstance(value, list) else []
    if not pages or pages != value:
        cause = f"expected the numbers of pages such as [1, 3], found {_listed(value)}"
        raise Unreadable(cause, remedy="Mend its `pages`.")
    return tuple(pages)


def _words(name: str, value: Json) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or not value.strip():
        cause = f"expected text as its {name}, found {shown(value)}"
        raise Unreadable(cause, remedy="Put it in quotes, or leave it out.")
    return value


def _listed(value: Json) -> str:
    return f"{value}"[:60] if isinstance(value, list) else shown(value)


def _name_of(attachment: Attachment) -> str:
    """The name of the file, wherever it is."""
    if attachment.data:
        return PurePath(attachment.name).name
    if attachment.path:
        return PurePath(attachment.path).name
    address = attachment.url.partition("?")[0].partition("#")[0].rstrip("/")
    return unquote(address.rpartition("/")[2])


def _require_name(kind: str, name: str) -> None:
    """Refuse a kind that the file's name speaks against; Unreadable says what to do."""
    suffix = PurePath(name).suffix.lower()
    promised = _KIND_OF_SUFFIX.get(suffix, kind)
    if newer := _NEWER_OF_SUFFIX.get(suffix):
        remedy = f"Save it as {newer} and say `type: {_KIND_OF_SUFFIX[newer]}`."
        raise Unreadable(f"{suffix} files are not read", remedy=remedy)
    if promised != kind and not {promised, kind} <= set(_PLAIN):
        remedy = f"Say `type: {promised}`, or name another file."
        raise Unreadable(f"`type: {kind}` does not fit a {suffix} file", remedy=remedy)


def text_of(attachment: Attachment, path: Path) -> str:
    """The text of a document that is no picture, or of the part that is asked for.

    Raises FileTrouble, which says what to mend.
    """
    try:
        part = _Part.of(attachment)
        if part.kind in _PLAIN:
            return _text_in(_bounded_content(path), part)
        return _remembered(part, path, _version(path))
    except Unreadable as error:
        raise _trouble(attachment, error) from error


def text_in(attachment: Attachment, content: bytes) -> str:
    """The same, of a document that is in memory."""
    try:
        return _text_in(content, _Part.of(attachment))
    except Unreadable as error:
        raise _trouble(attachment, error) from error


def _sent_content(attachment: Attachment) -> bytes:
    """What came along as data; Unreadable where that is no base64, or too much."""
    try:
        content = b64decode("".join(attachment.data.split()), validate=True)
    except ValueError as error:
        cause = f"its data is no base64: {error}"
        raise Unreadable(cause, remedy="Send the file's bytes in base64.") from error
    require_size(len(content))
    return content


def _bounded_content(path: Path) -> bytes:
    """What a file holds, unless it is too big; Unreadable where it is."""
    require_size(_version(path)[1])
    return read_bytes(path)


def _trouble(attachment: Attachment, error: Unreadable) -> FileTrouble:
    """The error of an attachment that cannot be read."""
    place = attachment.path or attachment.url or attachment.name or "a file of a case"
    name = Redactor.from_environment().text(place)
    return FileTrouble(f"cannot read {name}: {error.cause}", remedy=error.remedy)


@lru_cache(maxsize=32)
def _remembered(part: _Part, path: Path, version: tuple[int, int, int]) -> str:
    """A file goes to the agent once for each candidate and repeat, and is taken apart once."""
    del version
    return _text_in(_bounded_content(path), part)


def _version(path: Path) -> tuple[int, int, int]:
    """What changes when a file does; its size is the second."""
    try:
        status = path.stat()
    except OSError as error:
        raise file_trouble("read", path, error) from error
    except ValueError as error:
        raise Unreadable(f"no path is like this: {error}", remedy="Mend its `path`.") from error
    if not stat.S_ISREG(status.st_mode):
        raise Unreadable("it is no file, but a folder or a device", remedy="Name a file.")
    return status.st_mtime_ns, status.st_size, status.st_ino


def _text_in(content: bytes, part: _Part) -> str:
    """A reader loads when a document of its kind appears."""
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
    """The text as it is, UTF-8 unless its first bytes say UTF-16; without a byte order mark."""
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise _no_text(content, f"it is not UTF-8 text (at byte {error.start})") from error
    if "\0" in text:
        raise _no_text(content, f"it is not text (a zero at character {text.index(chr(0))})")
    allowed_text().take(len(text))
    return text


def _no_text(content: bytes, cause: str) -> Unreadable:
    likeness = looks_like(content)
    if likeness:
        return Unreadable(f"{cause}: it looks like {likeness}", remedy="Mend its `type`.")
    return Unreadable(cause, remedy="Save it as UTF-8.")


def _pdf_text(content: bytes, part: _Part) -> str:
    """The pages; several have headings."""
    from burnish.system.pdf_files import pdf_pages

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
        hint = f"it looks like {likeness}" if likeness else "it does not begin like one"
        remedy = "Mend its `type`, or give a PDF."
        raise Unreadable(f"it is no PDF: {hint}", remedy=remedy) from error
    if not any(texts.values()):
        raise Unreadable(
            "there is no text in it: its pages may be pictures",
            remedy="Give its pages as pictures (`type: image`), or a PDF with text.",
        )
    if len(texts) == 1:
        return "".join(texts.values())
    return "\n\n".join(f"# Page {number}\n{text}" for number, text in texts.items())


# -- Files that go with a case --------------------------------------------------------------------


async def read_attachments(
    attachments: Sequence[Attachment], folder: Path, *, patience: RetryPolicy = PATIENCE
) -> tuple[list[str], list[Image]]:
    """The texts, each under the name of its file, and the pictures, in order.

    A picture has its name among the texts too, so that an agent can tell which is which.
    What the user has to mend is a FileTrouble; what nobody could fetch a ConnectionError.
    """
    texts: list[str] = []
    images: list[Image] = []
    for attachment in attachments:
        named = _named(attachment)
        if attachment.kind == "image":
            images.append(await _picture(attachment, folder, patience))
            texts.append(f"<image {named}/>")
        else:
            text = await _text(attachment, folder, patience)
            texts.append(f"<file {named}>\n{text}\n</file>")
    return texts, images


def _picture_here(attachment: Attachment, folder: Path) -> Image:
    """A picture that is a file here, or came along; FileTrouble says what to mend."""
    try:
        _Part.of(attachment)
        if attachment.data:
            return _picture_in(_sent_content(attachment))
        return _picture_in(_bounded_content(folder / attachment.path))
    except Unreadable as error:
        raise _trouble(attachment, error) from error


def _text_here(attachment: Attachment, folder: Path) -> str:
    """The text of a document that is a file here, or came along; FileTrouble likewise."""
    if not attachment.data:
        return text_of(attachment, folder / attachment.path)
    try:
        return text_in(attachment, _sent_content(attachment))
    except Unreadable as error:
        raise _trouble(attachment, error) from error


async def _picture(attachment: Attachment, folder: Path, patience: RetryPolicy) -> Image:
    if not attachment.url:
        return await asyncio.to_thread(_picture_here, attachment, folder)
    content = await _downloaded(attachment, patience)
    try:
        return _picture_in(content)
    except Unreadable as error:
        raise _trouble(attachment, error) from error


async def _text(attachment: Attachment, folder: Path, patience: RetryPolicy) -> str:
    # In a thread: a long document takes seconds to take apart, and other cases go on.
    if not attachment.url:
        return await asyncio.to_thread(_text_here, attachment, folder)
    content = await _downloaded(attachment, patience)
    return await asyncio.to_thread(text_in, attachment, content)


async def _downloaded(attachment: Attachment, patience: RetryPolicy) -> bytes:
    fetch = kept_download if attachment.options.get("cache") is True else download
    try:
        _Part.of(attachment)
        return await fetch(attachment.url, patience=patience)
    except Unreadable as error:
        raise _trouble(attachment, error) from error


def _picture_in(content: bytes) -> Image:
    """The first bytes decide what it is: endpoints refuse a picture under a wrong name."""
    media_type = picture_type(content)
    if media_type is None:
        likeness = looks_like(content)
        hint = f": it looks like {likeness}" if likeness else ""
        cause = f"it is no picture that models read ({_PICTURES}){hint}"
        raise Unreadable(cause, remedy=f"Save it as {_PICTURES}, or mend its `type`.")
    return Image(media_type=media_type, base64=base64.b64encode(content).decode())


def _named(attachment: Attachment) -> str:
    about = attachment.description
    hint = f" description={quoteattr(about)}" if about else ""
    return f"name={quoteattr(_name_of(attachment))}{hint}"


def check_attachments(cases: Sequence[Case], folder: Path) -> list[Problem]:
    """What would keep the files of these cases from reaching the agent.

    Files that are here are read as a run would read them; addresses are only looked at. A
    case that was recorded needs no files.
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
    """Every file, and the case it goes with."""
    for case in cases:
        if case.recorded is not None:
            continue
        for number, turn in enumerate(case.turns, start=1):
            at = f", turn {number}" if len(case.turns) > 1 else ""
            for attachment in turn.attachments:
                yield f"case '{case.id}'{at}", attachment


def _problems(where: str, attachment: Attachment, folder: Path) -> list[Problem]:
    try:
        _look_at(attachment, folder)
    except ConfigError as error:
        return [Problem(where=where, message=p.message, remedy=p.remedy) for p in error.problems]
    except BurnishError as error:
        return [Problem(where=where, message=error.message, remedy=error.remedy)]
    return []


def _look_at(attachment: Attachment, folder: Path) -> None:
    try:
        _Part.of(attachment)
        _require_name(attachment.kind, _name_of(attachment))
        if attachment.url:
            full_address(attachment.url)
            return
    except Unreadable as error:
        raise _trouble(attachment, error) from error
    read = _picture_here if attachment.kind == "image" else _text_here
    read(attachment, folder)


def pinned(cases: Sequence[Case], folder: Path) -> tuple[Case, ...]:
    """The cases with the content of their files in view, so that another content is noticed."""
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
