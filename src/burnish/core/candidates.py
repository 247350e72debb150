"""Candidates: values for surfaces, where they came from, and how two differ."""

import difflib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from burnish.core.surfaces import Value, value_key


@dataclass(frozen=True, kw_only=True)
class Origin:
    """How a candidate came to be."""

    kind: str = "proposal"
    """`baseline`, `proposal`, `merge`, or a word of the strategy's own."""
    by: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One surface whose value differs between two candidates."""

    surface: str
    before: Value | None
    after: Value | None

    def lines(self) -> list[str]:
        """The change as a unified diff, for people."""
        before, after = _lines(self.before), _lines(self.after)
        return list(difflib.unified_diff(before, after, self.surface, self.surface, lineterm=""))


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Values for surfaces + parents + origin. Two with the same values are the same candidate."""

    values: Mapping[str, Value]
    parents: tuple[str, ...] = ()
    origin: Origin = field(default_factory=Origin)

    @cached_property
    def id(self) -> str:
        """A hash of the values, in whatever order they were given."""
        hasher = hashlib.sha256()
        for name in sorted(self.values):
            for part in (name.encode(), value_key(self.values[name])):
                hasher.update(len(part).to_bytes(8, "big") + part)
        return hasher.hexdigest()[:16]

    def child(self, changes: Mapping[str, Value], *, origin: Origin) -> "Candidate":
        """This candidate with some values changed."""
        return Candidate(values={**self.values, **changes}, parents=(self.id,), origin=origin)


def diff(before: Candidate, after: Candidate) -> tuple[Change, ...]:
    """The surfaces whose values differ, sorted by surface."""
    names = sorted(set(before.values) | set(after.values))
    pairs = ((name, before.values.get(name), after.values.get(name)) for name in names)
    return tuple(
        Change(surface=name, before=old, after=new)
        for name, old, new in pairs
        if (old is None) != (new is None)
        or (old is not None and new is not None and value_key(old) != value_key(new))
    )


def _lines(value: Value | None) -> list[str]:
    if value is None:
        return []
    if isinstance(value, tuple):
        return [str(demo) for demo in value]
    return str(value).split("\n")
