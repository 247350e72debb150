"""What differs between two descriptions of a run, as people are told."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from pydantic import JsonValue

from burnish.core.formatting import counted, shorten
from burnish.runs.draft import LITERAL
from burnish.system import Redactor
from burnish.system.config import dotted
from burnish.system.redaction import MARKER
from burnish.system.yaml import TreePath

_MOST, _LONG = 10, 60


@dataclass(frozen=True, kw_only=True)
class SpecChange:
    """One value that differs; None stands for one that is not there."""

    path: TreePath
    before: JsonValue
    after: JsonValue

    def among(self, paths: Iterable[Sequence[str]]) -> bool:
        """Whether it is one of these fields, or in one of them."""
        steps = [str(step) for step in self.path]
        return any(steps[: len(each)] == each for each in map(list, paths))


def spec_changes(before: JsonValue, after: JsonValue, path: TreePath = ()) -> Iterator[SpecChange]:
    """The values that differ. What was stored without its secret counts as the same."""
    if isinstance(before, dict) and LITERAL in before:
        return
    if isinstance(before, str) and MARKER in before:
        return
    if before is None and isinstance(after, dict) and after:
        before = {}
    if after is None and isinstance(before, dict) and before:
        after = {}
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            yield from spec_changes(before.get(key), after.get(key), (*path, key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from spec_changes(old, new, (*path, number))
    elif before != after or isinstance(before, bool) != isinstance(after, bool):
        yield SpecChange(path=path, before=before, after=after)


def named_changes(
    changes: Iterable[SpecChange], where: Mapping[TreePath, str] | None = None
) -> str:
    """The first ten changes, a line each, without secrets; `where` has names for their fields."""
    where = where or {}
    every, redactor = list(changes), Redactor.from_environment()
    lines: list[str] = []
    for each in every[:_MOST]:
        name = redactor.text(where.get(each.path, dotted(each.path)))
        before, after = (_clean(each.path, value, redactor) for value in (each.before, each.after))
        lines.append(f"  {shorten(name, 120)}: {_shown(before, after)} → {_shown(after, before)}")
    more = len(every) - _MOST
    return "\n".join([*lines, *([f"  and {more} more"] if more > 0 else [])])


def _clean(path: TreePath, value: JsonValue, redactor: Redactor) -> JsonValue:
    """The value without secrets, of which the name of the field tells some."""
    clean = redactor.json({str(path[-1]) if path else "": value})
    assert isinstance(clean, dict)
    return next(iter(clean.values()))


def _shown(value: JsonValue, other: JsonValue) -> str:
    """A value in a few words; of a long text, the part that is not as in the other."""
    if value is None:
        return "not set"
    if isinstance(value, dict):
        return counted(len(value), "key")
    if isinstance(value, list):
        return counted(len(value), "value")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and isinstance(other, str) and len(value) > _LONG:
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(value, other)))  # noqa: B905
        value = f"…{value[same - 10 :]}" if same > _LONG // 2 else value
    return shorten(repr(value), _LONG)
