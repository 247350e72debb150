"""What may be taken out of a text or of demonstrations, and what is left without it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from burnish.core.formatting import shorten
from burnish.core.surfaces import Demonstration, Value
from burnish.strategies.text_units import units_of

_SHOWN = 60
"""Characters of a part in a note."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Something that can be taken out."""

    what: str
    """It in a few words."""
    places: frozenset[int]
    """Its places among the pieces of the value."""
    smaller: tuple["Part", ...] = ()
    """The parts of it, to try where it is missed as a whole."""


class DivisibleValue(Protocol):
    """The value of a surface, and its parts."""

    @property
    def parts(self) -> Sequence[Part]:
        """Those to begin with; they do not overlap."""
        ...

    def without(self, part: Part) -> Value:
        """The value without a part."""
        ...


class DivisibleText:
    """A text: lines and whole examples, and the sentences of a line.

    A text of one line has sentences alone, and one of a single sentence has no parts.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._units = tuple(units_of(text))
        lines: dict[int, list[int]] = {}
        for place, unit in enumerate(self._units):
            lines.setdefault(unit.line, []).append(place)
        parts = tuple(self._line(places) for places in lines.values())
        self.parts: Sequence[Part] = parts[0].smaller if len(parts) == 1 else parts

    def without(self, part: Part) -> str:
        texts: list[str] = []
        line = 0
        for place, unit in enumerate(self._units):
            if place not in part.places:
                texts.append(unit.text)
                line = unit.line
            elif texts and line == unit.line:
                # The end of a line that is still there in part.
                texts[-1] = _ending_like(texts[-1], unit.text)
        return _ending_like("".join(texts), self._text)

    def _line(self, places: Collection[int]) -> Part:
        sentences = tuple(self._part([place]) for place in places) if len(places) > 1 else ()
        return self._part(places, sentences)

    def _part(self, places: Collection[int], smaller: tuple[Part, ...] = ()) -> Part:
        text = "".join(self._units[place].text for place in places)
        what = f"“{shorten(' '.join(text.split()), _SHOWN)}”"
        return Part(what=what, places=frozenset(places), smaller=smaller)


class DivisibleDemonstrations:
    """Demonstrations: each is a part."""

    def __init__(self, demos: Sequence[Demonstration]) -> None:
        self._demos = demos
        self.parts: Sequence[Part] = tuple(
            Part(what=f"demonstration {shorten(demo.input, _SHOWN)}", places=frozenset({place}))
            for place, demo in enumerate(demos)
        )

    def without(self, part: Part) -> Value:
        return tuple(demo for place, demo in enumerate(self._demos) if place not in part.places)


def _ending_like(text: str, model: str) -> str:
    """The text with the white space at its end that another text has."""
    return text.rstrip() + model[len(model.rstrip()) :]
