"""Sections under headings, as Markdown and HTML have them."""

from dataclasses import dataclass, field

from burnish.targets.retrieval.chunks import Section

ARROW = " > "


@dataclass
class Outline:
    """Collects the sections of a document while it is read from top to bottom."""

    sections: list[Section] = field(default_factory=list[Section])
    _open: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    _lines: list[str] = field(default_factory=list[str])

    def heading(self, level: int, title: str) -> None:
        """A heading begins: what was open at its level or below ends."""
        # A heading right above a deeper one is said by the sections under it.
        self.flush(leaf=not self._open or level <= self._open[-1][0])
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        self._open.append((level, " ".join(title.split())))

    def line(self, text: str) -> None:
        """A line of the section that is open."""
        self._lines.append(text)

    def pop_line(self) -> str:
        """The last line back: it turned out to be a heading."""
        return self._lines.pop()

    @property
    def last(self) -> str:
        """The last line of the open section; empty where it has none."""
        return self._lines[-1] if self._lines else ""

    def flush(self, *, leaf: bool = True) -> None:
        """The open section ends. One without text is kept for its heading, if it is a `leaf`."""
        headings = tuple(title for _, title in self._open if title)
        text = "\n".join(self._lines).strip("\n")
        self._lines.clear()
        if not text.strip():
            if not (leaf and headings):
                return
            text = headings[-1]
        place = ARROW.join(headings)
        self.sections.append(Section(text=text, place=place, headings=headings))
