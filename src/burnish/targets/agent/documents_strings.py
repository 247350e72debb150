"""The texts of a workbook that its cells share."""

import re
from collections.abc import Iterable, Iterator

from burnish.targets.agent.documents_xml import Mark

_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_BREAKS = re.compile(r"[\t\r\n]+")


def strings_in(marks: Iterable[Mark]) -> Iterator[str]:
    """Each shared text in order, its runs joined, without hints of how to read it aloud."""
    pieces: list[str] = []
    inside = aloud = False
    for mark in marks:
        if mark.kind == "text":
            if inside and not aloud:
                pieces.append(mark.name)
        elif mark.name == "rPh":
            aloud = mark.kind == "start"
        elif mark.name == "t":
            inside = mark.kind == "start"
        elif mark.name == "si" and mark.kind == "end":
            yield one_line("".join(pieces))
            pieces.clear()


def one_line(text: str) -> str:
    """A cell's text without what would look like another cell or another row."""
    return _BREAKS.sub(" ", _ESCAPED.sub(_unescaped, text)).strip()


def _unescaped(found: re.Match[str]) -> str:
    """What XML cannot hold is written as _x000D_; half a surrogate pair stays as it is."""
    code = int(found[1], 16)
    return found[0] if 0xD800 <= code < 0xE000 or not code else chr(code)
