"""Files that are text already."""

import codecs

from burnish.targets.agent.documents_bounds import Unreadable, allowed_text
from burnish.targets.agent.documents_kinds import looks_like


def plain_text(content: bytes) -> str:
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
