"""Documents as text: what an agent is given of a file that is no picture."""

import stat
from base64 import b64decode
from functools import lru_cache
from pathlib import Path

from burnish.core.cases import Attachment
from burnish.core.errors import FileTrouble
from burnish.system import Redactor, read_bytes
from burnish.system.files import file_trouble
from burnish.targets.agent.documents_bounds import Unreadable, require_size
from burnish.targets.agent.documents_kinds import PLAIN
from burnish.targets.agent.documents_parts import Part
from burnish.targets.agent.documents_plain import plain_text


def text_of(attachment: Attachment, path: Path) -> str:
    """The text of a document that is no picture, or of the part that is asked for.

    Raises FileTrouble, which says what to mend.
    """
    try:
        part = Part.of(attachment)
        if part.kind in PLAIN:
            return _text_in(bounded_content(path), part)
        return _remembered(part, path, _version(path))
    except Unreadable as error:
        raise trouble(attachment, error) from error


def text_in(attachment: Attachment, content: bytes) -> str:
    """The same, of a document that is in memory."""
    try:
        return _text_in(content, Part.of(attachment))
    except Unreadable as error:
        raise trouble(attachment, error) from error


def sent_content(attachment: Attachment) -> bytes:
    """What came along as data; Unreadable where that is no base64, or too much."""
    try:
        content = b64decode("".join(attachment.data.split()), validate=True)
    except ValueError as error:
        cause = f"its data is no base64: {error}"
        raise Unreadable(cause, remedy="Send the file's bytes in base64.") from error
    require_size(len(content))
    return content


def bounded_content(path: Path) -> bytes:
    """What a file holds, unless it is too big; Unreadable where it is."""
    require_size(_version(path)[1])
    return read_bytes(path)


def trouble(attachment: Attachment, error: Unreadable) -> FileTrouble:
    """The error of an attachment that cannot be read."""
    place = attachment.path or attachment.url or attachment.name or "a file of a case"
    name = Redactor.from_environment().text(place)
    return FileTrouble(f"cannot read {name}: {error.cause}", remedy=error.remedy)


@lru_cache(maxsize=32)
def _remembered(part: Part, path: Path, version: tuple[int, int, int]) -> str:
    """A file goes to the agent once for each candidate and repeat, and is taken apart once."""
    del version
    return _text_in(bounded_content(path), part)


def _version(path: Path) -> tuple[int, int, int]:
    """What changes when a file does; its size is the second."""
    try:
        found = path.stat()
    except OSError as error:
        raise file_trouble("read", path, error) from error
    except ValueError as error:
        raise Unreadable(f"no path is like this: {error}", remedy="Mend its `path`.") from error
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable("it is no file, but a folder or a device", remedy="Name a file.")
    return found.st_mtime_ns, found.st_size, found.st_ino


def _text_in(content: bytes, part: Part) -> str:
    """A reader loads when a document of its kind appears."""
    match part.kind:
        case "pdf":
            from burnish.targets.agent.documents_pdf import pdf_text

            return pdf_text(content, pages=part.pages)
        case "excel":
            from burnish.targets.agent.documents_excel import excel_text

            return excel_text(content, sheet=part.sheet, cells=part.cells)
        case "word":
            from burnish.targets.agent.documents_word import word_text

            return word_text(content)
        case "powerpoint":
            from burnish.targets.agent.documents_powerpoint import powerpoint_text

            return powerpoint_text(content, pages=part.pages)
        case _:
            return plain_text(content)
