"""What a winner changed: texts word by word, numbers, demonstrations, and what pruning removed."""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from burnish.core.formatting import visible
from burnish.core.surfaces import Candidate, Change, Demonstration, Value, diff
from burnish.runs.directory import RunRecord
from burnish.runs.events import PRUNE

Mark: TypeAlias = Literal["same", "added", "removed"]
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_LONG = 20_000
"""Words of both texts together, above which a text is compared line by line."""
_AROUND = 240
"""Characters of unchanged text that are shown beside a change."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A stretch of a text that is the same on both sides, or on one side only."""

    mark: Mark
    text: str


@dataclass(frozen=True, kw_only=True)
class DemoRow:
    """A demonstration that was added, removed or left."""

    mark: Mark
    demo: Demonstration


@dataclass(frozen=True, kw_only=True)
class ShownChange:
    """One surface that differs, in the way that suits its values."""

    surface: str
    kind: Literal["text", "value", "demonstrations"]
    before: str = ""
    after: str = ""
    pieces: tuple[Piece, ...] = ()
    demos: tuple[DemoRow, ...] = ()

    @property
    def words_added(self) -> int:
        return self._words("added")

    @property
    def words_removed(self) -> int:
        return self._words("removed")

    def _words(self, mark: Mark) -> int:
        return sum(len(piece.text.split()) for piece in self.pieces if piece.mark == mark)


def shown_changes(before: Candidate, after: Candidate) -> tuple[ShownChange, ...]:
    """Every surface whose value differs."""
    return tuple(map(_shown, diff(before, after)))


def _shown(change: Change) -> ShownChange:
    before, after = change.before, change.after
    if isinstance(before, tuple) or isinstance(after, tuple):
        demos = tuple(_demo_rows(_demos(before), _demos(after)))
        return ShownChange(surface=change.surface, kind="demonstrations", demos=demos)
    old, new = _text(before), _text(after)
    if not (isinstance(before, str) or isinstance(after, str)):
        return ShownChange(surface=change.surface, kind="value", before=old, after=new)
    return text_change(change.surface, old, new)


def text_change(name: str, before: str, after: str) -> ShownChange:
    """How a text changed, word by word."""
    pieces = tuple(_folded(word_pieces(before, after)))
    return ShownChange(surface=name, kind="text", before=before, after=after, pieces=pieces)


def _text(value: Value | None) -> str:
    return "" if value is None else visible(str(value))


def _demos(value: Value | None) -> tuple[Demonstration, ...]:
    return value if isinstance(value, tuple) else ()


def _demo_rows(
    before: Sequence[Demonstration], after: Sequence[Demonstration]
) -> Iterator[DemoRow]:
    yield from (DemoRow(mark="same" if d in before else "added", demo=d) for d in after)
    yield from (DemoRow(mark="removed", demo=d) for d in before if d not in after)


def word_pieces(before: str, after: str) -> list[Piece]:
    """Two texts as pieces: the same ones and the added ones make up the second text."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if len(old) + len(new) > _LONG:
        old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    pieces: list[Piece] = []
    for tag, start, end, first, last in matcher.get_opcodes():
        if tag == "equal":
            pieces.append(Piece(mark="same", text="".join(new[first:last])))
            continue
        sides: tuple[tuple[Mark, str], ...] = (
            ("removed", "".join(old[start:end])),
            ("added", "".join(new[first:last])),
        )
        pieces += [Piece(mark=mark, text=text) for mark, text in sides if text]
    return list(_joined(pieces))


def _joined(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Replaced words that only spaces part, taken together: that is easier to read."""
    pending: dict[Mark, str] = {"removed": "", "added": ""}
    for index, piece in enumerate(pieces):
        last = index == len(pieces) - 1
        changed = all(pending.values())
        if piece.mark != "same":
            pending[piece.mark] += piece.text
        elif changed and not last and not piece.text.strip() and "\n" not in piece.text:
            pending = {mark: text + piece.text for mark, text in pending.items()}
        else:
            yield from _pending_pieces(pending)
            pending = {"removed": "", "added": ""}
            yield piece
    yield from _pending_pieces(pending)


def _pending_pieces(pending: dict[Mark, str]) -> Iterator[Piece]:
    yield from (Piece(mark=mark, text=text) for mark, text in pending.items() if text)


def _folded(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """The pieces with long unchanged stretches cut in their middle."""
    for index, piece in enumerate(pieces):
        first, last = index == 0, index == len(pieces) - 1
        room = _AROUND * (1 if first or last else 2)
        if piece.mark != "same" or len(piece.text) <= room + 80:
            yield piece
            continue
        head = "" if first else piece.text[:_AROUND]
        tail = "" if last else piece.text[-_AROUND:]
        yield Piece(mark="same", text=f"{head} […] {tail}")


@dataclass(frozen=True, kw_only=True)
class PrunedPart:
    """A part of the winner that was taken out again since nothing missed it."""

    trial: int
    what: str


def pruned_parts(run: RunRecord) -> tuple[PrunedPart, ...]:
    """What pruning removed from the winner."""
    return tuple(
        PrunedPart(trial=row.number, what=row.trial.candidate.origin.note or "a part")
        for row in run.rows
        if row.trial.phase == PRUNE and row.trial.accepted
    )
