"""The text of an HTML page: scripts and styles dropped, headings kept."""

import re
from html.parser import HTMLParser

from burnish.targets.retrieval.chunks import Section
from burnish.targets.retrieval.outlines import Outline

_UNSEEN = frozenset({"noscript", "script", "style", "svg", "template", "title"})
_HEADING = re.compile(r"h[1-6]")
_BLOCKS = re.compile(
    r"address|article|aside|blockquote|br|caption|d[dlt]|details|div|fieldset|figcaption|figure"
    r"|footer|form|header|hr|li|main|nav|ol|p|pre|section|summary|table|tbody|thead|tr|ul"
)
_CELLS = frozenset({"td", "th"})
_MARKED = re.compile(r"<!\[(?!CDATA\[)", re.IGNORECASE)


def html_sections(page: str) -> list[Section]:
    """The sections of a page, by its headings."""
    reader = _Reader()
    # The parser of Python 3.11 gives up at such a declaration; a browser takes it for a comment.
    reader.feed(_MARKED.sub("<!x[", page))
    reader.close()
    return reader.finished()


def html_text(page: str) -> str:
    """The same as one text, each heading on a line of its own."""
    lines: list[str] = []
    before: tuple[str, ...] = ()
    for section in html_sections(page):
        shared = sum(1 for a, b in zip(before, section.headings, strict=False) if a == b)
        lines += section.headings[shared:]
        if not section.headings or section.text != section.headings[-1]:
            lines.append(section.text)
        before = section.headings
    return "\n\n".join(lines)


class _Reader(HTMLParser):
    """Gathers what a reader would see."""

    def __init__(self) -> None:
        super().__init__()
        self._outline = Outline()
        self._unseen: list[str] = []
        self._words: list[str] = []
        self._level = 0
        self._pre = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if tag in _UNSEEN:
            self._unseen.append(tag)
        elif _HEADING.fullmatch(tag):
            self._end_block()
            self._level = int(tag[1])
        elif _BLOCKS.fullmatch(tag):
            self._end_block()
            self._pre += tag == "pre"
        elif tag in _CELLS and self._words:
            self._words.append(" | ")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _UNSEEN:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._unseen:
            del self._unseen[self._unseen.index(tag) :]
        elif _HEADING.fullmatch(tag) or _BLOCKS.fullmatch(tag):
            self._end_block()
            self._pre = max(0, self._pre - (tag == "pre"))

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self._words.append(data)

    def finished(self) -> list[Section]:
        """The sections, once all was read."""
        self._end_block()
        self._outline.flush()
        return self._outline.sections

    def _end_block(self) -> None:
        said = "".join(self._words)
        self._words.clear()
        text = said.strip("\n") if self._pre else " ".join(said.split())
        level, self._level = self._level, 0
        if not text.strip():
            return
        if level:
            self._outline.heading(level, text)
        else:
            self._outline.line(text)
