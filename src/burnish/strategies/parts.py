"""The parts of a winner that a search brought: rules of texts, hunks of files, demonstrations,
numbers. What is left without some of them is computed here, without running anything."""

import difflib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from burnish.core.formatting import shorten
from burnish.core.surfaces import (
    Candidate,
    Demonstration,
    FileSurface,
    Surface,
    Value,
    diff,
    value_key,
)
from burnish.strategies.text_units import units_of

_PROSE = (".md", ".txt")
"""Files whose examples stay whole. What looks like one in a program or its settings is none."""
_SHOWN = 60
"""Characters of a part in a note."""


@dataclass(frozen=True, kw_only=True)
class LineageStep:
    """A candidate on the way from the baseline to the winner."""

    trial: int
    candidate: Candidate
    gain: float | None = None
    """How much loss it removed on the cases that decide; None if it was not run on them."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Something that the search brought, and that can be taken out."""

    surface: str
    trial: int
    """The trial that brought it."""
    what: str
    """It in a few words."""
    size: int
    """Characters."""
    pieces: frozenset[int]
    """Its places among the pieces of the value."""
    put_back: Mapping[int, str] = field(default_factory=dict[int, str])
    """By place, the text that it had replaced."""
    support: float | None = None
    """The gain of the trial that brought it."""
    smaller: tuple["Part", ...] = ()
    """The parts of it, to try where it is missed as a whole."""
    whole: bool = False
    """Whether it is every change of its text together; it comes after each alone."""

    @property
    def rank(self) -> tuple[bool, bool, float, int, int]:
        """Sorts parts: the least supported first, of these the largest, then the oldest.

        What was accepted by luck has a small gain more often than a large one, so a budget that
        does not reach far is best spent there.
        """
        supported = self.support is not None
        return self.whole, supported, self.support or 0.0, -self.size, self.trial

    @property
    def rules(self) -> int:
        """How many parts cannot be divided any more."""
        return sum(each.rules for each in self.smaller) or 1


class SurfaceParts(Protocol):
    """The parts of one surface's value."""

    @property
    def parts(self) -> Sequence[Part]:
        """Those to begin with; they may overlap."""
        ...

    def without(self, removed: Collection[Part]) -> Value:
        """The value without these parts."""
        ...


def parts_of(steps: Sequence[LineageStep], surfaces: Sequence[Surface]) -> dict[str, SurfaceParts]:
    """By surface that differs from the baseline, its parts. The first step is the baseline."""
    kinds = {surface.id: surface for surface in surfaces}
    parts: dict[str, SurfaceParts] = {}
    for change in diff(steps[0].candidate, steps[-1].candidate):
        before, after = change.before, change.after
        changes = _changes(steps, change.surface)
        if before is None and isinstance(after, str):
            # A new file: without all of its text it is not there.
            before = ""
            changes = [Edited(trial=steps[0].trial, value=before), *changes]
        if before is None or after is None:
            continue
        if isinstance(after, tuple) and isinstance(before, tuple):
            parts[change.surface] = _Demonstrations(change.surface, changes)
        elif isinstance(after, str) and isinstance(before, str) and _is_text(kinds, change.surface):
            is_file = isinstance(kinds.get(change.surface), FileSurface)
            parts[change.surface] = TextParts(
                change.surface,
                changes,
                by_sentence=not is_file,
                examples=not is_file or change.surface.endswith(_PROSE),
            )
        else:
            parts[change.surface] = _Single(change.surface, changes)
    return parts


@dataclass(frozen=True, kw_only=True)
class Edited:
    """A value of one surface on the way to the winner."""

    trial: int
    value: Value
    gain: float | None = None


def _changes(steps: Sequence[LineageStep], surface: str) -> list[Edited]:
    """The steps that changed a surface, after the baseline."""
    changes: list[Edited] = []
    for step in steps:
        value = step.candidate.values.get(surface)
        if value is None:
            continue
        if not changes or value_key(value) != value_key(changes[-1].value):
            changes.append(Edited(trial=step.trial, value=value, gain=step.gain))
    return changes


def _is_text(kinds: Mapping[str, Surface], surface: str) -> bool:
    return surface not in kinds or kinds[surface].kind in ("text", "file")


class _Single:
    """A number or a choice: it goes back to the baseline's value, or stays."""

    def __init__(self, surface: str, changes: Sequence[Edited]) -> None:
        self._before, last = changes[0].value, changes[-1]
        self._after = last.value
        what = f"{surface} = {self._after} (was {self._before})"
        self.parts: Sequence[Part] = (
            Part(
                surface=surface,
                trial=last.trial,
                what=what,
                size=0,
                pieces=frozenset({0}),
                support=last.gain,
            ),
        )

    def without(self, removed: Collection[Part]) -> Value:
        return self._before if removed else self._after


class _Demonstrations:
    """Demonstrations: each that the baseline does not have is a part."""

    def __init__(self, surface: str, changes: Sequence[Edited]) -> None:
        shown = [(each, _demonstrations(each.value)) for each in changes]
        self._demos = shown[-1][1]
        first = set(shown[0][1])
        self.parts: Sequence[Part] = tuple(
            Part(
                surface=surface,
                trial=brought.trial,
                what=f"demonstration {shorten(demo.input, _SHOWN)}",
                size=demo.size,
                pieces=frozenset({place}),
                support=brought.gain,
            )
            for place, demo in enumerate(self._demos)
            if demo not in first
            for brought in [_brought(demo, shown)]
        )

    def without(self, removed: Collection[Part]) -> Value:
        gone = {place for part in removed for place in part.pieces}
        return tuple(demo for place, demo in enumerate(self._demos) if place not in gone)


def _demonstrations(value: Value) -> tuple[Demonstration, ...]:
    return value if isinstance(value, tuple) else ()


def _brought(
    demo: Demonstration, shown: Sequence[tuple[Edited, tuple[Demonstration, ...]]]
) -> Edited:
    """The first change since which a demonstration has always been there."""
    since = shown[-1][0]
    for each, demos in reversed(shown):
        if demo not in demos:
            break
        since = each
    return since


@dataclass(frozen=True, kw_only=True)
class _Piece:
    """A unit of the winner's text: a sentence, a line, or an example as a whole."""

    text: str
    line: int
    """Pieces of one line have the same number."""
    hunk: int | None = None
    """The hunk that brought it; None if the baseline had it."""


@dataclass(frozen=True, kw_only=True)
class _Hunk:
    """A place of a text that one trial changed."""

    change: Edited
    size: int
    """Pieces that it brought."""
    replaced: str
    """The text that was there before; empty if it was an insertion."""
    original: str
    """The same of the baseline, where several edits changed one place after another."""

    def put_back(self, size: int) -> str:
        """What to put back for a text of this size: the shorter text that it replaced, else the
        baseline's; empty if nothing is to be put back."""
        return self.replaced if len(self.replaced) < size else self.original


class TextParts:
    """A text, or the text of a file: what each edit brought, hunk by hunk.

    An edit divides into hunks, a hunk into lines and whole examples, a line of a text into
    sentences. Of a hunk that a later edit changed in part, what is left counts; only a hunk that is
    still there as a whole can be replaced by what stood there before. A part that would make the
    text longer is none.
    """

    def __init__(
        self,
        surface: str,
        changes: Sequence[Edited],
        *,
        by_sentence: bool,
        examples: bool = True,
    ) -> None:
        self._surface = surface
        self._pieces_of = partial(_pieces, by_sentence=by_sentence, examples=examples)
        self._hunks: list[_Hunk] = []
        self.pieces: Sequence[_Piece] = self._followed(changes)
        self._text = "".join(piece.text for piece in self.pieces)
        self._before = str(changes[0].value)
        self.parts: Sequence[Part] = [*self._edits(changes), *self._whole(changes)]

    def without(self, removed: Collection[Part]) -> Value:
        if any(part.whole for part in removed):
            return self._before
        gone = {place for part in removed for place in part.pieces}
        back = {place: text for part in removed for place, text in part.put_back.items()}
        texts: list[str] = []
        line = 0
        for place, piece in enumerate(self.pieces):
            if place not in gone:
                texts.append(piece.text)
                line = piece.line
            elif place in back:
                texts.append(back[place])
            elif texts and line == piece.line:
                # The end of a line that is still there in part.
                texts[-1] = _ending_like(texts[-1], piece.text)
        return _ending_like("".join(texts), self._text) if gone else self._text

    def _followed(self, changes: Sequence[Edited]) -> list[_Piece]:
        """The pieces of the last text, each with the hunk that brought it."""
        pieces = self._pieces_of(str(changes[0].value))
        for change in changes[1:]:
            fresh = self._pieces_of(str(change.value))
            pieces = self._merged(pieces, fresh, change)
        return pieces

    def _merged(self, old: Sequence[_Piece], new: Sequence[_Piece], change: Edited) -> list[_Piece]:
        matcher = difflib.SequenceMatcher(
            a=[each.text.strip() for each in old],
            b=[each.text.strip() for each in new],
            autojunk=False,
        )
        pieces: list[_Piece] = []
        for kind, low, high, start, end in matcher.get_opcodes():
            if kind == "equal":
                pairs = zip(old[low:high], new[start:end], strict=True)
                pieces += [
                    _Piece(text=after.text, line=after.line, hunk=before.hunk)
                    for before, after in pairs
                ]
            elif start < end:
                replaced = "".join(each.text for each in old[low:high])
                original = self._original(old[low:high], replaced)
                pieces += [
                    _Piece(text=each.text, line=each.line, hunk=len(self._hunks))
                    for each in new[start:end]
                ]
                self._hunks.append(
                    _Hunk(change=change, size=end - start, replaced=replaced, original=original)
                )
        return pieces

    def _original(self, old: Sequence[_Piece], replaced: str) -> str:
        """What the baseline had in the place of these pieces, if they are one whole hunk."""
        numbers = {piece.hunk for piece in old}
        number = numbers.pop() if len(numbers) == 1 else None
        if number is None or self._hunks[number].size != len(old):
            return replaced
        return self._hunks[number].original

    def _edits(self, changes: Sequence[Edited]) -> Iterator[Part]:
        """One part for each trial that changed the text."""
        for change in changes[1:]:
            hunks = [n for n, hunk in enumerate(self._hunks) if hunk.change is change]
            parts = [part for n in hunks for part in self._hunk_parts(n)]
            if len(parts) == 1:
                yield parts[0]
            elif parts:
                yield self._joined(parts, change)

    def _hunk_parts(self, number: int) -> Iterator[Part]:
        hunk = self._hunks[number]
        places = [n for n, piece in enumerate(self.pieces) if piece.hunk == number]
        if not places:
            return
        lines: dict[int, list[int]] = {}
        for place in places:
            lines.setdefault(self.pieces[place].line, []).append(place)
        by_line = [self._line_part(each, hunk) for each in lines.values()]
        is_intact = len(places) == hunk.size == places[-1] - places[0] + 1
        size = sum(len(self.pieces[place].text) for place in places)
        before = hunk.put_back(size) if is_intact else ""
        if len(before) > size:
            # What stood there before is longer: then only what was added may leave.
            yield from by_line
            return
        put_back = dict[int, str]()
        if before:
            put_back[places[0]] = _ending_like(before, self.pieces[places[-1]].text)
        smaller = by_line if len(by_line) > 1 or put_back else by_line[0].smaller
        yield self._part(places, hunk.change, put_back=put_back, smaller=smaller)

    def _line_part(self, places: Sequence[int], hunk: _Hunk) -> Part:
        single = [self._part([place], hunk.change) for place in places]
        return self._part(places, hunk.change, smaller=single if len(single) > 1 else ())

    def _part(
        self,
        places: Sequence[int],
        change: Edited,
        *,
        put_back: Mapping[int, str] | None = None,
        smaller: Sequence[Part] = (),
    ) -> Part:
        text = "".join(self.pieces[place].text for place in places)
        return Part(
            surface=self._surface,
            trial=change.trial,
            what=_quoted(text),
            size=len(text),
            pieces=frozenset(places),
            put_back=put_back or {},
            support=change.gain,
            smaller=tuple(smaller),
        )

    def _joined(self, parts: Sequence[Part], change: Edited) -> Part:
        return Part(
            surface=self._surface,
            trial=change.trial,
            what=f"the edit of trial {change.trial}: {parts[0].what} and {len(parts) - 1} more",
            size=sum(part.size for part in parts),
            pieces=frozenset[int]().union(*(part.pieces for part in parts)),
            put_back={place: text for part in parts for place, text in part.put_back.items()},
            support=change.gain,
            smaller=tuple(parts),
        )

    def _whole(self, changes: Sequence[Edited]) -> Iterator[Part]:
        """All changes together: the baseline's text, unless that is longer."""
        if len(self._before) > len(self._text):
            return
        gains = [change.gain for change in changes[1:] if change.gain is not None]
        yield Part(
            surface=self._surface,
            trial=changes[-1].trial,
            what=f"all changes of {self._surface}",
            size=len(self._text),
            pieces=frozenset(range(len(self.pieces))),
            support=math.fsum(gains) if gains else None,
            whole=True,
        )


def _pieces(text: str, *, by_sentence: bool, examples: bool) -> list[_Piece]:
    units = units_of(text, by_sentence=by_sentence, examples=examples)
    return [_Piece(text=unit.text, line=unit.line) for unit in units]


def _ending_like(text: str, model: str) -> str:
    """The text with the white space at its end that another text has."""
    return text.rstrip() + model[len(model.rstrip()) :]


def _quoted(text: str) -> str:
    return f"“{shorten(' '.join(text.split()), _SHOWN)}”"
