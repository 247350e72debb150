"""XML of Office files as a stream of marks: bounded memory, and no DOCTYPE.

Without a DOCTYPE no entity can grow or reach for a file.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple
from xml.parsers import expat

from burnish.targets.agent.documents_bounds import Unreadable

_RELATION = "/relationships}id"
_DEEPEST = 1000
_MOST_ELEMENTS = 5_000_000
"""A sheet of a million cells has two or three million."""
_SAVE_ANEW = "Save it anew with the program that made it."


class Mark(NamedTuple):
    """A start tag, an end tag or a text."""

    kind: Literal["start", "end", "text"]
    name: str
    """The tag without its namespace, or the text."""
    attributes: Mapping[str, str] = {}

    @property
    def relation(self) -> str:
        """The id of the part that this element points to; empty where it points to none."""
        found = (text for name, text in self.attributes.items() if name.endswith(_RELATION))
        return next(found, "")


def marks(pieces: Iterable[bytes]) -> Iterator[Mark]:
    """The marks of a document that comes in pieces.

    What a newer program wrote twice, for older ones too, is told once.
    """
    gathered = _Gathered()
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    parser.StartElementHandler = gathered.start
    parser.EndElementHandler = gathered.end
    parser.CharacterDataHandler = gathered.text
    parser.StartDoctypeDeclHandler = _refuse_doctype
    for piece in _with_end(pieces):
        _parse(parser, piece)
        yield from gathered.marks
        gathered.marks.clear()


class _Gathered:
    """The marks of one piece. Handlers run for every element, so they do little."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self._depth = 0
        self._old = 0
        """The depth at which what is meant for older programs begins; 0 outside of it."""
        self._left = _MOST_ELEMENTS

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._left -= 1
        if self._depth > _DEEPEST or self._left < 0:
            raise Unreadable("its XML has too many elements", remedy=_SAVE_ANEW)
        local = name[name.rfind("}") + 1 :]
        if not self._old and local == "Fallback":
            self._old = self._depth
        if not self._old:
            self.marks.append(Mark("start", local, attributes))

    def end(self, name: str) -> None:
        if not self._old:
            self.marks.append(Mark("end", name[name.rfind("}") + 1 :]))
        elif self._old == self._depth:
            self._old = 0
        self._depth -= 1

    def text(self, text: str) -> None:
        if not self._old:
            self.marks.append(Mark("text", text))


def _with_end(pieces: Iterable[bytes]) -> Iterator[bytes | None]:
    yield from pieces
    yield None


def _refuse_doctype(*_: object) -> None:
    cause = "its XML declares a DOCTYPE, which Office files do not have"
    raise Unreadable(cause, remedy=_SAVE_ANEW)


def _parse(parser: expat.XMLParserType, piece: bytes | None) -> None:
    try:
        parser.Parse(piece or b"", piece is None)
    # An encoding that nobody knows is a LookupError, one that is none a ValueError.
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise Unreadable(f"its XML is damaged ({error})", remedy=_SAVE_ANEW) from error
