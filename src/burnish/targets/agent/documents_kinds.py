"""Kinds of files: what their names promise, and what their first bytes say."""

from pathlib import PurePath
from urllib.parse import unquote

from burnish.core.cases import Attachment
from burnish.targets.agent.documents_bounds import Unreadable

KINDS = ("image", "pdf", "text", "excel", "word", "powerpoint", "csv")
PLAIN = ("text", "csv")
"""The kinds that are read as they are."""
PICTURES = "PNG, JPEG, GIF or WebP"

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

_ZIP, _OLE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


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
    if content.startswith(_ZIP):
        return "an Office file or another zip"
    if content.startswith(_OLE):
        return "an Office file that is old or has a password"
    if content.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")):
        return "a web page"
    return "a picture" if picture_type(content) else ""


def name_of(attachment: Attachment) -> str:
    """The name of the file, wherever it is."""
    if attachment.data:
        return PurePath(attachment.name).name
    if attachment.path:
        return PurePath(attachment.path).name
    address = attachment.url.partition("?")[0].partition("#")[0].rstrip("/")
    return unquote(address.rpartition("/")[2])


def require_name(kind: str, name: str) -> None:
    """Refuse a kind that the file's name speaks against; Unreadable says what to do."""
    suffix = PurePath(name).suffix.lower()
    promised = _KIND_OF_SUFFIX.get(suffix, kind)
    if newer := _NEWER_OF_SUFFIX.get(suffix):
        remedy = f"Save it as {newer} and say `type: {_KIND_OF_SUFFIX[newer]}`."
        raise Unreadable(f"{suffix} files are not read", remedy=remedy)
    if promised != kind and not {promised, kind} <= set(PLAIN):
        remedy = f"Say `type: {promised}`, or name another file."
        raise Unreadable(f"`type: {kind}` does not fit a {suffix} file", remedy=remedy)
