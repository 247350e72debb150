"""XML of Office files as a stream of marks: bounded memory, and no DOCTYPE.

Without a DOCTYPE no entity can grow or reach for a file.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple
from xml.parsers import expat

from burnish.targets.agent.documents_bounds import Unreadable

_RELATION = "/relationships}id"


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
    found: list[Mark] = []
    parser = _parser(found)
    old = 0
    for piece in _with_end(pieces):
        _parse(parser, piece)
        for mark in found:
            if mark.kind != "text" and mark.name == "Fallback":
                old += 1 if mark.kind == "start" else -1
            elif not old:
                yield mark
        found.clear()


def _with_end(pieces: Iterable[bytes]) -> Iterator[bytes | None]:
    yield from pieces
    yield None


def _parser(found: list[Mark]) -> expat.XMLParserType:
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True

    def start(name: str, attributes: dict[str, str]) -> None:
        found.append(Mark("start", name.rpartition("}")[2], attributes))

    def end(name: str) -> None:
        found.append(Mark("end", name.rpartition("}")[2]))

    def text(text: str) -> None:
        found.append(Mark("text", text))

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = _refuse
    return parser


def _refuse(*_: object) -> None:
    cause = "its XML declares a DOCTYPE, which Office files do not have"
    raise Unreadable(cause, remedy="Save it anew with the program that made it.")


def _parse(parser: expat.XMLParserType, piece: bytes | None) -> None:
    try:
        parser.Parse(piece or b"", piece is None)
    # An encoding that nobody knows is a LookupError, one that is none a ValueError.
    except (expat.ExpatError, LookupError, ValueError) as error:
        remedy = "Save it anew with the program that made it."
        raise Unreadable(f"its XML is damaged ({error})", remedy=remedy) from error
