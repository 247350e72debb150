"""What differs between two JSON trees, path by path.

The walk keeps its own stack, so that a deep tree cannot exhaust Python's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from burnish.core.content import Json
from burnish.evaluation.matching.excerpts import a_kind, shown
from burnish.evaluation.matching.json_paths import extended
from burnish.evaluation.matching.numbers import same_number
from burnish.evaluation.matching.texts import levelled

TOLERANCE = 1e-6
"""How far apart two numbers may be where nobody says."""
_WIDTH = 60

Tree = Mapping[str, Json]
"""Keys that are spoken of: each is true, for all of it, or has a tree of its own."""


@dataclass(frozen=True, kw_only=True)
class _Place:
    """A place of both trees, and what is to be left out from there on."""

    path: str = "$"
    expected: Json
    found: Json
    tree: Json
    only: bool

    def sees(self, key: str) -> bool:
        """Whether a key is compared at all."""
        if not isinstance(self.tree, Mapping):
            return True
        said = self.tree.get(key)
        chosen = said is True or isinstance(said, Mapping)
        return chosen if self.only else said is not True

    def inside(self, key: str | int, expected: Json, found: Json) -> "_Place":
        """The place one step further in; a list hands its tree on to every item."""
        tree = self.tree
        if isinstance(key, str):
            said = tree.get(key) if isinstance(tree, Mapping) else None
            tree = dict(said) if isinstance(said, Mapping) else None
        path = extended(self.path, key)
        return _Place(path=path, expected=expected, found=found, tree=tree, only=self.only)


def differences(
    expected: Json,
    found: Json,
    *,
    ignored: Tree | None = None,
    only: Tree | None = None,
    tolerance: float = TOLERANCE,
) -> Iterator[str]:
    """Every difference that is not left out, in the order of the expected value.

    1 is 1.0, but neither true nor the text '1'.
    """
    tree: Json = dict(only or ignored or {}) or None
    stack = [_Place(expected=expected, found=found, tree=tree, only=bool(only))]
    while stack:
        place = stack.pop()
        one, other = place.expected, place.found
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from _unpaired(place, one, other)
            both = [key for key in one if key in other and place.sees(key)]
            stack += [place.inside(key, one[key], other[key]) for key in reversed(both)]
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                yield f"{place.path}: expected {a_kind(one)}, found {a_kind(other)}"
            pairs = list(enumerate(zip(one, other, strict=False)))
            stack += [place.inside(index, a, b) for index, (a, b) in reversed(pairs)]
        elif not _same(one, other, tolerance):
            yield f"{place.path}: expected {_told(one, other)}, found {_told(other, one)}"


def _unpaired(place: _Place, one: Mapping[str, Json], other: Mapping[str, Json]) -> Iterator[str]:
    for key, value in one.items():
        if key not in other and place.sees(key):
            yield f"{extended(place.path, key)}: missing, expected {shown(value, _WIDTH)}"
    for key, value in other.items():
        if key not in one and place.sees(key):
            yield f"{extended(place.path, key)}: unexpected, found {shown(value, _WIDTH)}"


def _same(one: Json, other: Json, tolerance: float) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return same_number(one, other, tolerance)
    if isinstance(one, str) and isinstance(other, str):
        return levelled(one) == levelled(other)
    return one is None and other is None


def _told(value: Json, beside: Json) -> str:
    """The value, and that it is a text where the other is none: '5' is no 5."""
    words = shown(value, _WIDTH)
    text_alone = isinstance(value, str) and not isinstance(beside, str)
    return f"the text {words}" if text_alone else words
