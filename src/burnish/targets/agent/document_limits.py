"""Limits on documents, checked before a library opens them, and downloads."""

import asyncio
import hashlib
import os
import posixpath
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit
from xml.etree import ElementTree
from xml.parsers import expat
from xml.sax.saxutils import quoteattr
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from burnish.journal.limits import RetryPolicy, retry
from burnish.system import Redactor, expand_variables, read_bytes, write_atomic
from burnish.system.files import Unreadable, file_trouble, state_folder

if TYPE_CHECKING:
    import ssl

    from httpx2 import AsyncClient, Response


_MOST_BYTES = 20_000_000
"""Of a file, here or at an address."""
_MOST_UNPACKED = 100_000_000
"""Bytes that the parts of an Office file may unpack to; a zip can hold far more than it weighs."""
_MOST_CHARACTERS = 10_000_000
"""Of the text of a file: more than any model reads."""
_MOST_PARTS = 10_000
"""Slides, sheets, notes and the like of one file."""
_MOST_ELEMENTS = {"workbook": 5_000_000, "document": 2_000_000, "presentation": 2_000_000}
"""Of XML, by the root of the file. A sheet of a million cells has two or three million; documents
and slides are held in memory as trees."""
_DEEPEST = 250
_TOO_MANY = "its XML has too many elements"
_PIECE = 1 << 20
_SAVE_ANEW = "Save it anew with the program that made it."
_DAMAGED = (BadZipFile, EOFError, OSError, RuntimeError, ValueError, zlib.error)
"""What the zip library raises over damaged, protected or exotic archives."""

_KINDS = {"workbook": "excel", "document": "word", "presentation": "powerpoint"}
_SHEETS = ("worksheet", "chartsheet", "dialogsheet", "xlMacrosheet", "xlIntlMacrosheet")
_NEEDED = {
    "workbook": (*_SHEETS, "sharedStrings", "styles"),
    "presentation": ("slide",),
}
"""What a file cannot be read without, by the kind of the part that points to it."""
_WELCOME = {
    "document": ("header", "footer", "footnotes", "endnotes", "comments"),
    "worksheet": ("comments",),
    "slide": ("notesSlide", "comments"),
}
"""What is read where it is there."""

_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_FORMATS = "application/vnd.openxmlformats-officedocument."
_CONTENT_TYPES = {
    "document": f"{_FORMATS}wordprocessingml.document.main+xml",
    "presentation": f"{_FORMATS}presentationml.presentation.main+xml",
    "slide": f"{_FORMATS}presentationml.slide+xml",
    "notesSlide": f"{_FORMATS}presentationml.notesSlide+xml",
}
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")
"""Files in the strict form of the standard differ in the names of their namespaces."""


class Allowance:
    """What may still be taken of something that is bounded."""

    def __init__(self, most: int, *, cause: str, remedy: str) -> None:
        self._left = most
        self._refusal = Unreadable(cause, remedy=remedy)

    def take(self, number: int) -> None:
        """Take some, or refuse the document."""
        self._left -= number
        if self._left < 0:
            raise self._refusal


def allowed_text() -> Allowance:
    """How many characters a document may still give."""
    return Allowance(
        _MOST_CHARACTERS,
        cause=f"it holds more than {_MOST_CHARACTERS:,} characters",
        remedy="Give the part that matters: `pages`, or `sheet` and `range`, or a shorter file.",
    )


def require_size(size: int) -> None:
    """Refuse what is too big to be read whole."""
    if size > _MOST_BYTES:
        raise Unreadable(
            f"it has {size:,} bytes, and {_MOST_BYTES:,} is the most",
            remedy="Give the part that matters as a file of its own.",
        )


def picture_type(content: bytes) -> str | None:
    """The media type of a picture that models read, by its first bytes, whatever its name."""
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return None


def looks_like(content: bytes) -> str:
    """What the content seems to be, to follow 'it looks like'; empty where nobody can tell."""
    if content.startswith(b"%PDF-"):
        return "a PDF"
    if content.startswith(b"PK\x03\x04"):
        return "an Office file or another zip"
    if content.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        return "an Office file that is old or has a password"
    if content.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")):
        return "a web page"
    return "a picture" if picture_type(content) else ""


class Relation(NamedTuple):
    """A part that another one points to."""

    id: str
    kind: str
    part: str


@dataclass(frozen=True, kw_only=True)
class OfficeFile:
    """The parts of an Office file that hold text, checked."""

    main: str
    root: str
    """The root element of the main part."""
    parts: Mapping[str, bytes]
    relations: Mapping[str, Sequence[Relation]]

    def related(self, part: str, kind: str) -> list[bytes]:
        """The parts of a kind that a part points to."""
        return [self.parts[each.part] for each in self.relations[part] if each.kind == kind]

    def package(self) -> BytesIO:
        """These parts alone as a file, for a library.

        Left out are pictures, which unpack to anything, and relations that lead nowhere, over
        which libraries stumble. Templates and files with macros become plain documents.
        """
        kinds = {each.part: each.kind for pointed in self.relations.values() for each in pointed}
        kinds[self.main] = self.root
        types = "".join(
            f"<Override PartName={quoteattr('/' + part)} ContentType={quoteattr(named)}/>"
            for part, kind in kinds.items()
            if (named := _CONTENT_TYPES.get(kind))
        )
        defaults = "".join(
            f'<Default Extension={quoteattr(suffix[1:])} ContentType="application/xml"/>'
            for suffix in {posixpath.splitext(part)[1] for part in kinds}
        )
        buffer = BytesIO()
        with ZipFile(buffer, "w") as archive:
            archive.writestr(
                "[Content_Types].xml",
                f'<Types xmlns="{_PACKAGE}/content-types">{defaults}{types}</Types>',
            )
            start = [Relation("rId1", "officeDocument", self.main)]
            for part, pointed in {"": start, **self.relations}.items():
                archive.writestr(_about(part), _relations_xml(pointed))
            for part, content in self.parts.items():
                archive.writestr(part, content)
        return buffer


def office_file(content: bytes, root: str) -> OfficeFile:
    """The parts of an Office file whose main part has this root element.

    Raises Unreadable where it is none, is damaged, or unpacks to too much.
    """
    return _Unpacking(content, root).office_file()


class _Unpacking:
    """One Office file while it is unpacked."""

    def __init__(self, content: bytes, root: str) -> None:
        try:
            self._zip = ZipFile(BytesIO(content))
            self._names = {part.filename.lower(): part for part in self._zip.infolist()}
        except _DAMAGED as error:
            raise _no_package(content) from error
        self._root = root
        cause = f"it unpacks to more than {_MOST_UNPACKED:,} bytes"
        remedy = "Save the part that matters as a file of its own."
        self._bytes = Allowance(_MOST_UNPACKED, cause=cause, remedy=remedy)
        cause = f"it has more than {_MOST_PARTS:,} parts"
        self._number = Allowance(_MOST_PARTS, cause=cause, remedy=remedy)
        most = _MOST_ELEMENTS[root]
        self._elements = Allowance(most, cause=_TOO_MANY, remedy=_SAVE_ANEW)
        self._last_root = ""
        """The root element of the part that was unpacked last."""
        self._parts: dict[str, bytes] = {}
        self._relations: dict[str, list[Relation]] = {}

    def office_file(self) -> OfficeFile:
        starts = [each for each in self._pointed("") if each.kind == "officeDocument"]
        if not starts:
            raise _another_kind("", self._root)
        main = self._name(starts[0].part)
        content = self._unpacked(main)
        if self._last_root != self._root:
            raise _another_kind(self._last_root, self._root)
        self._add(main, self._root, content)
        return OfficeFile(main=main, root=self._root, parts=self._parts, relations=self._relations)

    def _add(self, part: str, kind: str, content: bytes) -> None:
        """A part, and those that it points to and that hold text."""
        self._number.take(1)
        self._parts[part] = content
        self._relations[part] = []
        needed, welcome = _NEEDED.get(kind, ()), _WELCOME.get(kind, ())
        for each in self._pointed(part) if needed or welcome else ():
            there = each.part.lower() in self._names
            if each.kind not in needed and not (each.kind in welcome and there):
                continue
            target = self._name(each.part)
            self._relations[part].append(each._replace(part=target))
            if target not in self._parts:
                self._add(target, each.kind, self._unpacked(target))

    def _name(self, part: str) -> str:
        """How the archive spells the name of a part."""
        if part.lower() not in self._names:
            raise _damaged(f"{part} is not in it")
        return self._names[part.lower()].filename

    def _pointed(self, part: str) -> Iterator[Relation]:
        about = _about(part)
        if about.lower() not in self._names:
            return
        folder = posixpath.dirname(part)
        # Without a DOCTYPE, which is refused, this parser is safe.
        for each in ElementTree.fromstring(self._unpacked(about)):  # noqa: S314
            if "Id" in each.attrib and each.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, each.get("Target", "")))
                kind = each.get("Type", "").rpartition("/")[2]
                yield Relation(each.attrib["Id"], kind, target.lstrip("/"))

    def _unpacked(self, name: str) -> bytes:
        """A part, its tags counted while it is unpacked, so that a bomb is noticed early."""
        part = self._names[name.lower()]
        if part.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise _damaged(f"{part.filename} is packed in a way that Office does not use")
        pieces: list[bytes] = []
        try:
            with self._zip.open(part) as packed:
                while piece := packed.read(_PIECE):
                    self._bytes.take(len(piece))
                    self._elements.take(piece.count(b"<") - piece.count(b"</"))
                    pieces.append(piece)
        except _DAMAGED as error:
            raise _damaged(str(error) or type(error).__name__) from error
        content = b"".join(pieces)
        self._last_root = _root_of(content)
        return _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", content)


def _root_of(part: bytes) -> str:
    """The root element of XML, without its namespace; Unreadable where it is no sound XML."""
    root, depth = "", 0

    def start(name: str, _: object) -> None:
        nonlocal root, depth
        root = root or name.rpartition(":")[2]
        depth += 1
        if depth > _DEEPEST:
            raise Unreadable(_TOO_MANY, remedy=_SAVE_ANEW)

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        parser.Parse(part, True)  # noqa: FBT003
    # An encoding that nobody knows is a LookupError, one that is none a ValueError.
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise Unreadable(f"its XML is damaged ({error})", remedy=_SAVE_ANEW) from error
    return root


def _refuse_doctype(*_: object) -> None:
    """Without a DOCTYPE no entity can grow or reach for a file."""
    cause = "its XML declares a DOCTYPE, which Office files do not have"
    raise Unreadable(cause, remedy=_SAVE_ANEW)


def _about(part: str) -> str:
    """The part that holds the relations of a part."""
    folder, name = posixpath.split(part)
    return posixpath.join(folder, "_rels", f"{name}.rels")


def _relations_xml(relations: Sequence[Relation]) -> str:
    each = "".join(
        f"<Relationship Id={quoteattr(id_)} Type={quoteattr(f'{_OFFICE}/{kind}')} "
        f"Target={quoteattr('/' + part)}/>"
        for id_, kind, part in relations
    )
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{each}</Relationships>'


def _damaged(why: str) -> Unreadable:
    return Unreadable(f"it is damaged ({why})", remedy="Save it anew, without a password.")


def _no_package(content: bytes) -> Unreadable:
    likeness = looks_like(content)
    hint = f"; it looks like {likeness}" if likeness else ""
    remedy = "Save it as .xlsx, .docx or .pptx, without a password, or mend its `type`."
    return Unreadable(f"it is no Office file, or it is damaged{hint}", remedy=remedy)


def _another_kind(root: str, expected: str) -> Unreadable:
    if root in _KINDS:
        return Unreadable(
            f"it is a file of type {_KINDS[root]}, not {_KINDS[expected]}",
            remedy=f"Say `type: {_KINDS[root]}`.",
        )
    return Unreadable(f"there is no {expected} in it", remedy=_SAVE_ANEW)


# -- Files at an address --------------------------------------------------------------------------


_REDIRECTS = 5
_SECONDS = 30.0
PATIENCE = RetryPolicy(attempts=3)
_LONGEST_WAIT = 30.0
"""Seconds waited at most when the other side asks for a pause."""
_LATER = {408, 425, 429}


class DownloadFailed(ConnectionError):
    """Nobody answered, or nothing whole came: another time it may."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds the other side asked to wait."""


def full_address(url: str) -> str:
    """The address with its variables; Unreadable where it is none that can be fetched."""
    full = expand_variables(url, os.environ)
    try:
        parts = urlsplit(full)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        remedy = "Give an address that begins with http:// or https://."
        raise Unreadable("it is no address of the web", remedy=remedy)
    return full


async def download(
    url: str, *, patience: RetryPolicy = PATIENCE, seconds: float = _SECONDS
) -> bytes:
    """What is at an address; tried again where that may help.

    Raises DownloadFailed when nobody answers, Unreadable when the answer is no.
    """
    address = full_address(url)
    shown = Redactor.from_environment().text(url)

    async def attempt(_: int) -> bytes:
        try:
            async with asyncio.timeout(seconds):
                return await _fetched(address, shown)
        except TimeoutError as error:
            raise DownloadFailed(f"{shown} did not come within {seconds:g} s") from error

    return await retry(
        attempt,
        policy=patience,
        again=lambda error: isinstance(error, DownloadFailed),
        requested_wait=lambda error: getattr(error, "retry_after", None),
    )


async def kept_download(url: str, *, patience: RetryPolicy = PATIENCE) -> bytes:
    """The same, fetched once on this machine and kept for later."""
    name = hashlib.sha256(full_address(url).encode()).hexdigest()
    copy = state_folder() / "downloads" / name
    if copy.is_file():
        return read_bytes(copy)
    content = await download(url, patience=patience)
    _make(copy.parent)
    write_atomic(copy, content, mode=0o600)
    return content


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise file_trouble("make", folder, error) from error


async def _fetched(address: str, shown: str) -> bytes:
    import httpx2

    try:
        async with _client(address) as client, client.stream("GET", address) as response:
            _require_ok(response, shown)
            return await _body(response)
    except httpx2.TooManyRedirects as error:
        cause = f"it leads on more than {_REDIRECTS} times"
        raise Unreadable(cause, remedy="Give the address it leads to.") from error
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
        cause = "it is, or leads to, no address of the web"
        raise Unreadable(cause, remedy="Give an http:// or https:// address.") from error
    except (httpx2.HTTPError, OSError) as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        cause = Redactor.from_environment().text(cause)[:300]
        raise DownloadFailed(f"{shown} could not be fetched: {cause}") from error


def _client(address: str) -> "AsyncClient":
    import httpx2

    host = urlsplit(address).hostname or ""
    return httpx2.AsyncClient(
        follow_redirects=True,
        max_redirects=_REDIRECTS,
        timeout=None,
        # What is packed can grow without bounds while it is unpacked.
        headers={"Accept-Encoding": "identity"},
        verify=_certificates(),
        # This machine is not reached through a proxy.
        trust_env=not (host in ("localhost", "::1") or host.startswith("127.")),
    )


@cache
def _certificates() -> "ssl.SSLContext":
    """Reading the certificates of the world takes longer than many a download."""
    import httpx2

    return httpx2.create_ssl_context()


def _require_ok(response: "Response", shown: str) -> None:
    status = response.status_code
    if status in _LATER or status >= 500:
        pause = response.headers.get("retry-after", "")
        wait = min(float(pause), _LONGEST_WAIT) if pause.isdecimal() else None
        raise DownloadFailed(f"{shown} answered HTTP {status}", retry_after=wait)
    if status != 200:
        remedy = "See that the address is right, and open to whoever asks without logging in."
        raise Unreadable(f"the answer was HTTP {status}", remedy=remedy)


async def _body(response: "Response") -> bytes:
    length = response.headers.get("content-length", "")
    require_size(int(length) if length.isdecimal() else 0)
    pieces: list[bytes] = []
    size = 0
    async for piece in response.aiter_bytes():
        size += len(piece)
        require_size(size)
        pieces.append(piece)
    return b"".join(pieces)
