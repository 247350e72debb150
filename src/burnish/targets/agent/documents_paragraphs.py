"""Paragraphs and tables out of the XML that Word and PowerPoint share the shape of."""

from dataclasses import dataclass, field

from burnish.targets.agent.documents_bounds import Allowance
from burnish.targets.agent.documents_xml import Mark

_SIGNS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_UNSEEN = ("pPr", "rPr", "moveFrom", "del")
"""How things look, and what was taken away: a tab in there is a place on a ruler."""
_PRICE_OF_A_CELL = 10
"""In characters: an empty cell takes memory too."""


@dataclass
class Paragraphs:
    """Gathers the lines of a document while its marks go by.

    A row of a table is one line, tabs between its cells; a table in a cell becomes text of
    that cell.
    """

    allowance: Allowance
    lines: list[str] = field(default_factory=list[str])
    _open: list[list[str]] = field(default_factory=list[list[str]])
    """The paragraphs under way: a text box stands inside a paragraph and has its own."""
    _rows: list[list[list[str]]] = field(default_factory=list[list[list[str]]])
    """The rows under way, each with the lines of its cells."""
    _unseen: int = 0
    _in_text: bool = False

    def take(self, mark: Mark) -> None:
        """Look at the next mark."""
        if mark.kind == "text":
            if self._in_text and self._open and not self._unseen:
                self.allowance.take(len(mark.name))
                self._open[-1].append(mark.name)
        elif mark.name in _UNSEEN:
            self._unseen += 1 if mark.kind == "start" else -1
        elif mark.name == "t":
            self._in_text = mark.kind == "start"
        elif mark.kind == "start":
            self._begin(mark.name)
        else:
            self._end(mark.name)

    def _begin(self, name: str) -> None:
        if name == "p":
            self._open.append([])
        elif name == "tr":
            self._rows.append([])
        elif name == "tc" and self._rows:
            self.allowance.take(_PRICE_OF_A_CELL)
            self._rows[-1].append([])
        elif name in _SIGNS and self._open and not self._unseen:
            self._open[-1].append(_SIGNS[name])

    def _end(self, name: str) -> None:
        if name == "p" and self._open:
            self._add("".join(self._open.pop()).strip())
        elif name == "tr" and self._rows:
            cells = [" ".join(" ".join(lines).split()) for lines in self._rows.pop()]
            self._add("\t".join(cells).rstrip())

    def _add(self, line: str) -> None:
        self.allowance.take(1)
        if self._rows and self._rows[-1]:
            self._rows[-1][-1].append(line)
        elif line:
            self.lines.append(line)
