"""The sections of a Markdown text, by its headings."""

import re
from collections.abc import Iterator

from burnish.targets.retrieval.chunks import Section
from burnish.targets.retrieval.outlines import Outline

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
_NO_PARAGRAPH = re.compile(r"\s*(?:[>|#*+-]|\d+[.)]\s|$)")
_FRONT = re.compile(r"---[ \t]*\n(?:.*\n)*?(?:---|\.\.\.)[ \t]*(?:\n|\Z)")


def markdown_sections(text: str) -> list[Section]:
    """Sections in order. What looks like a heading inside a code block is none."""
    outline = Outline()
    front = _FRONT.match(text)
    if front is not None:
        outline.line(front[0])
    fence = ""
    for line in _lines(text, front.end() if front else 0):
        mark = _FENCE.match(line)
        if fence:
            fence = "" if _closes(line, fence) else fence
            outline.line(line)
        elif mark is not None:
            fence = mark[1]
            outline.line(line)
        else:
            _read_line(outline, line)
    outline.flush()
    return outline.sections


def _read_line(outline: Outline, line: str) -> None:
    if heading := _HEADING.fullmatch(line):
        outline.heading(len(heading[1]), heading[2] or "")
    elif (under := _UNDERLINE.fullmatch(line)) and not _NO_PARAGRAPH.match(outline.last):
        title = outline.pop_line()
        outline.heading(1 if under[1][0] == "=" else 2, title)
    else:
        outline.line(line)


def _closes(line: str, fence: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(fence) and set(bare) == {fence[0]}


def _lines(text: str, start: int) -> Iterator[str]:
    """Line by line, without a second copy of a large text."""
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end + 1
