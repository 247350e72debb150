"""Downloads, and limits on documents that are checked before a library opens them."""

import asyncio
import hashlib
import os
import posixpath
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree
from xml.parsers import expat
from xml.sax.saxutils import quoteattr
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from burnish.journal.outages import RetryPolicy, Setback, retry
from burnish.models.dotenv import require_own_keys
from burnish.system import Redactor, expand_variables, read_bytes, write_atomic
from burnish.system.files import Unreadable, file_trouble, state_folder
from burnish.system.variables import has_login, secrets_in
from burnish.targets.user_code import is_web_address, web_client

if TYPE_CHECKING:
    from httpx2 import Response


_MOST_BYTES = 20_000_000
"""Of a file, local or downloaded."""
_MOST_UNPACKED = 100_000_000
"""Of the unpacked parts of an Office file; a zip can hold far more than its size."""
_MOST_CHARACTERS = 10_000_000
"""Of the text of a file: more than any model reads."""
_MOST_PARTS = 10_000
"""Slides, sheets, notes and so on of one file."""
_MOST_ELEMENTS = {"workbook": 5_000_000, "document": 2_000_000, "presentation": 2_000_000}
"""By the root of the file. A sheet of a million cells has two or three million; documents and
slides are held in memory as trees."""
_TOO_MANY = "its XML has too many elements"
_SAVE_ANEW = "Save it again with the program that created it."
_DAMAGED = (BadZipFile, EOFError, OSError, RuntimeError, ValueError, zlib.error)
"""What the zip library raises for damaged, protected or exotic archives."""

_KINDS = {"workbook": "excel", "document": "word", "presentation": "powerpoint"}
_SHEETS = ("worksheet", "chartsheet", "dialogsheet", "xlMacrosheet", "xlIntlMacrosheet")
_NEEDED = {
    "workbook": (*_SHEETS, "sharedStrings", "styles"),
    "presentation": ("slide",),
}
"""The parts that a file cannot be read without, by the kind of the part that points to them."""
_WELCOME = {
    "document": ("header", "footer", "footnotes", "endnotes", "comments"),
    "worksheet": ("comments",),
    "slide": ("notesSlide", "comments"),
}
"""The parts that are read if present."""

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
"""Files in the strict form of the standard have other namespaces."""


class Allowance:
    """What is left of a limit."""

    def __init__(self, most: int, *, cause: str, remedy: str) -> None:
        self._left = most
        self._refusal = Unreadable(cause, remedy=remedy)

    def take(self, number: int) -> None:
        """Use some of it, or refuse the document."""
        self._left -= number
        if self._left < 0:
            raise self._refusal


def allowed_text() -> Allowance:
    return Allowance(
        _MOST_CHARACTERS,
        cause=f"it has more than {_MOST_CHARACTERS:,} characters",
        remedy="Give the part that matters: `pages`, or `sheet` and `range`, or a shorter file.",
    )


def require_size(size: int) -> None:
    if size > _MOST_BYTES:
        raise Unreadable(
            f"it has {size:,} bytes, but the limit is {_MOST_BYTES:,}",
            remedy="Give the part that matters as a separate file.",
        )


_PICTURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_OTHERS = {
    b"%PDF-": "a PDF",
    b"PK\x03\x04": "an Office file or another zip",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an Office file that is old or has a password",
}


def picture_type(content: bytes) -> str | None:
    """The media type of a picture that models read, by its first bytes."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _PICTURES.items() if content.startswith(start)), None)


def looks_like(content: bytes) -> str:
    """What the content seems to be, to follow 'it looks like'; empty if unknown."""
    if content.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")):
        return "a web page"
    picture = "a picture" if picture_type(content) else ""
    return next((kind for start, kind in _OTHERS.items() if content.startswith(start)), picture)


class _Relation(NamedTuple):
    id: str
    kind: str
    part: str


@dataclass(frozen=True, kw_only=True)
class OfficeFile:
    """The checked parts of an Office file that hold text."""

    main: str
    root: str
    """The root element of the main part."""
    parts: Mapping[str, bytes]
    relations: Mapping[str, Sequence[_Relation]]

    def related(self, part: str, kind: str) -> list[bytes]:
        return [self.parts[each.part] for each in self.relations[part] if each.kind == kind]

    def package(self) -> BytesIO:
        """These parts alone as a file, for a library.

        Pictures are left out, because they unpack to anything, and so are dangling relations, over
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
            start = [_Relation("rId1", "officeDocument", self.main)]
            for part, pointed in {"": start, **self.relations}.items():
                archive.writestr(_about(part), _relations_xml(pointed))
            for part, content in self.parts.items():
                archive.writestr(part, content)
        return buffer


def office_file(content: bytes, root: str) -> OfficeFile:
    """Unpack an Office file whose main part has this root element.

    Raises Unreadable where it is of another kind, damaged, or too large.
    """
    unpacking = _Unpacking(content, root)
    starts = [each for each in unpacking.pointed("") if each.kind == "officeDocument"]
    if not starts:
        raise _another_kind("", root)
    main = unpacking.name(starts[0].part)
    main_content = unpacking.unpacked(main)
    if unpacking.last_root != root:
        raise _another_kind(unpacking.last_root, root)
    unpacking.add(main, root, main_content)
    return OfficeFile(main=main, root=root, parts=unpacking.parts, relations=unpacking.relations)


class _Unpacking:
    """An Office file while it is unpacked."""

    def __init__(self, content: bytes, root: str) -> None:
        try:
            self._zip = ZipFile(BytesIO(content))
            self._names = {part.filename.lower(): part for part in self._zip.infolist()}
        except _DAMAGED as error:
            raise _no_package(content) from error
        cause = f"it unpacks to more than {_MOST_UNPACKED:,} bytes"
        remedy = "Save the part that matters as a separate file."
        self._bytes = Allowance(_MOST_UNPACKED, cause=cause, remedy=remedy)
        cause = f"it has more than {_MOST_PARTS:,} parts"
        self._number = Allowance(_MOST_PARTS, cause=cause, remedy=remedy)
        most = _MOST_ELEMENTS[root]
        self._elements = Allowance(most, cause=_TOO_MANY, remedy=_SAVE_ANEW)
        self.last_root = ""
        """The root element of the part that was unpacked last."""
        self.parts: dict[str, bytes] = {}
        self.relations: dict[str, list[_Relation]] = {}

    def add(self, part: str, kind: str, content: bytes) -> None:
        """Add a part, and those with text that it points to."""
        self._number.take(1)
        self.parts[part] = content
        self.relations[part] = []
        needed, welcome = _NEEDED.get(kind, ()), _WELCOME.get(kind, ())
        for each in self.pointed(part) if needed or welcome else ():
            there = each.part.lower() in self._names
            if each.kind not in needed and not (each.kind in welcome and there):
                continue
            target = self.name(each.part)
            self.relations[part].append(each._replace(part=target))
            if target not in self.parts:
                self.add(target, each.kind, self.unpacked(target))

    def name(self, part: str) -> str:
        """The name of a part as the archive spells it."""
        if part.lower() not in self._names:
            raise _damaged(f"{part} is missing")
        return self._names[part.lower()].filename

    def pointed(self, part: str) -> Iterator[_Relation]:
        """What a part points to."""
        about = _about(part)
        if about.lower() not in self._names:
            return
        folder = posixpath.dirname(part)
        # Without a DOCTYPE, which is refused, this parser is safe.
        for each in ElementTree.fromstring(self.unpacked(about)):  # noqa: S314
            if "Id" in each.attrib and each.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, each.get("Target", "")))
                kind = each.get("Type", "").rpartition("/")[2]
                yield _Relation(each.attrib["Id"], kind, target.lstrip("/"))

    def unpacked(self, name: str) -> bytes:
        """Unpack a part, counting its tags on the way, so that a zip bomb is noticed early."""
        part = self._names[name.lower()]
        if part.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise _damaged(f"{part.filename} is compressed in a way that Office does not use")
        pieces: list[bytes] = []
        try:
            with self._zip.open(part) as packed:
                while piece := packed.read(1 << 20):
                    self._bytes.take(len(piece))
                    self._elements.take(piece.count(b"<") - piece.count(b"</"))
                    pieces.append(piece)
        except _DAMAGED as error:
            raise _damaged(str(error) or type(error).__name__) from error
        content = b"".join(pieces)
        self.last_root = _root_of(content)
        return _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", content)


def _root_of(part: bytes) -> str:
    """The root element of XML, without its namespace."""
    root, depth = "", 0

    def start(name: str, _: object) -> None:
        nonlocal root, depth
        root = root or name.rpartition(":")[2]
        depth += 1
        if depth > 250:
            raise Unreadable(_TOO_MANY, remedy=_SAVE_ANEW)

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    def refuse_doctype(*_: object) -> None:
        # Without a DOCTYPE no entity can grow or reach for a file.
        cause = "its XML declares a DOCTYPE, which Office files do not have"
        raise Unreadable(cause, remedy=_SAVE_ANEW)

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = refuse_doctype
    try:
        parser.Parse(part, True)  # noqa: FBT003
    # An encoding that nobody knows is a LookupError, one that is none a ValueError.
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise Unreadable(f"its XML is damaged ({error})", remedy=_SAVE_ANEW) from error
    return root


def _about(part: str) -> str:
    """The part that holds the relations of a part."""
    folder, name = posixpath.split(part)
    return posixpath.join(folder, "_rels", f"{name}.rels")


def _relations_xml(relations: Sequence[_Relation]) -> str:
    each = "".join(
        f"<Relationship Id={quoteattr(id_)} Type={quoteattr(f'{_OFFICE}/{kind}')} "
        f"Target={quoteattr('/' + part)}/>"
        for id_, kind, part in relations
    )
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{each}</Relationships>'


def _damaged(why: str) -> Unreadable:
    return Unreadable(f"it is damaged ({why})", remedy="Save it again, without a password.")


def _no_package(content: bytes) -> Unreadable:
    likeness = looks_like(content)
    hint = f"; it looks like {likeness}" if likeness else ""
    remedy = "Save it as .xlsx, .docx or .pptx, without a password, or fix `type`."
    return Unreadable(f"it is not an Office file, or it is damaged{hint}", remedy=remedy)


def _another_kind(root: str, expected: str) -> Unreadable:
    if root in _KINDS:
        return Unreadable(
            f"it is a file of type {_KINDS[root]}, not {_KINDS[expected]}",
            remedy=f"Set `type: {_KINDS[root]}`.",
        )
    return Unreadable(f"it contains no {expected}", remedy=_SAVE_ANEW)


_REDIRECTS = 5
PATIENCE = RetryPolicy(attempts=3)


class DownloadFailed(ConnectionError):
    """Nothing arrived, or not all of it: a retry may help."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds the other side asked to wait."""


def full_address(url: str) -> str:
    """Expand the variables of an address; Unreadable if it cannot be fetched."""
    require_own_keys(url)
    full = expand_variables(url, os.environ)
    if has_login(full):
        remedy = "Leave them out; what a server needs to know belongs in the query, as ${NAME}."
        raise Unreadable("its address has a user and password in it", remedy=remedy)
    if not is_web_address(full):
        remedy = "Give an address that starts with http:// or https://."
        raise Unreadable("it is not a web address", remedy=remedy)
    return full


async def download(url: str, *, patience: RetryPolicy = PATIENCE, seconds: float = 30.0) -> bytes:
    """Download a file, with retries where they may help.

    Raises DownloadFailed without an answer, Unreadable when the answer is no.
    """
    address = full_address(url)
    shown = Redactor.from_environment().text(url)

    async def attempt(_: int) -> bytes:
        try:
            async with asyncio.timeout(seconds):
                return await _fetched(address, shown)
        except TimeoutError as error:
            raise DownloadFailed(f"{shown} could not be downloaded within {seconds:g} s") from error

    return await retry(
        attempt,
        policy=patience,
        again=lambda error: (
            Setback(requested=error.retry_after) if isinstance(error, DownloadFailed) else None
        ),
    )


async def kept_download(url: str, *, patience: RetryPolicy = PATIENCE) -> bytes:
    """Download a file once on this machine and keep it."""
    name = hashlib.sha256(full_address(url).encode()).hexdigest()
    copy = state_folder() / "downloads" / name
    if copy.is_file():
        return read_bytes(copy)
    content = await download(url, patience=patience)
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise file_trouble("make", copy.parent, error) from error
    write_atomic(copy, content, mode=0o600)
    return content


async def _fetched(address: str, shown: str) -> bytes:
    import httpx2

    # What is packed can grow without bounds while it is unpacked.
    unpacked = {"Accept-Encoding": "identity"}
    client = web_client(
        address,
        follow_redirects=True,
        max_redirects=_REDIRECTS,
        timeout=None,
        headers=unpacked,
    )
    try:
        async with client, client.stream("GET", address) as response:
            _require_ok(response, shown)
            return await _body(response)
    except httpx2.TooManyRedirects as error:
        cause = f"it redirects more than {_REDIRECTS} times"
        raise Unreadable(cause, remedy="Give the final address.") from error
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
        cause = "it is not a web address, or redirects to something else"
        raise Unreadable(cause, remedy="Give an http:// or https:// address.") from error
    except (httpx2.HTTPError, OSError) as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        cause = Redactor.from_environment(extra=secrets_in(address)).text(cause)[:300]
        raise DownloadFailed(f"{shown} could not be downloaded: {cause}") from error


def _require_ok(response: "Response", shown: str) -> None:
    status = response.status_code
    if status in {408, 425, 429} or status >= 500:
        pause = response.headers.get("retry-after", "")
        wait = min(float(pause), 30.0) if pause.isdecimal() else None
        raise DownloadFailed(f"{shown} answered HTTP {status}", retry_after=wait)
    if status != 200:
        remedy = "Check that the address is correct and does not require a login."
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
