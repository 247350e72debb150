"""The names that the parts of a row go by, and the rows of a file with one name for each."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from burnish.core.content import Json
from burnish.evaluation.datasets.complaints import listed, mapped
from burnish.evaluation.datasets.row_shapes import RowShape, RowTurnShape
from burnish.system.config_errors import Fault

ALIASES: Mapping[str, tuple[str, ...]] = {
    "name": ("name", "id"),
    "input": ("input", "question", "prompt", "query"),
    "expected": (
        "expected",
        "ground_truth",
        "answer",
        "reference",
        "output",
        "expected_output",
    ),
    "context": ("context", "retrieval_context"),
    "labels": ("labels", "label"),
    "settings": ("settings", "turn_config"),
}
"""The names of a part of a row; the first that a row has is the one that counts."""

OF_THE_TURN = frozenset(RowTurnShape.model_fields) - {"extras"}
PARTS = frozenset(RowShape.model_fields) | OF_THE_TURN
OF_THE_CASE = PARTS - OF_THE_TURN
KNOWN = PARTS.union(*ALIASES.values())
"""Every name that means something in a row; any other is a column for graders."""


def name_in(row: Mapping[str, Json], name: str) -> str:
    """The name that a part has in this row: its first name where it is not there."""
    return next((alias for alias in ALIASES.get(name, ()) if row.get(alias) is not None), name)


def plainly_named(row: Mapping[str, Json], parts: frozenset[str] = PARTS) -> dict[str, Json]:
    """The row with its parts under their first names, without those that are nothing."""
    first = _first_names(tuple(key for key, value in row.items() if value is not None), parts)
    named = ((first.get(key, key), value) for key, value in row.items())
    return {name: value for name, value in named if value is not None or name not in parts}


def names_used(layouts: Iterable[tuple[str, ...]]) -> dict[str, Json]:
    """The other names that all rows have for a part, where they agree on one.

    A layout holds the columns of a row in which something stands.
    """
    used: dict[str, set[str]] = {}
    for layout in layouts:
        for alias, name in _first_names(layout, PARTS).items():
            used.setdefault(name, set()).add(alias)
    return {name: alias for name, (alias, *others) in used.items() if not others and alias != name}


def layout_of(row: Mapping[str, Json]) -> tuple[str, ...]:
    """The columns of a row in which something stands."""
    return tuple(key for key, value in row.items() if value not in (None, "", [], {}))


@lru_cache(maxsize=1024)
def _first_names(keys: tuple[str, ...], parts: frozenset[str]) -> Mapping[str, str]:
    """The parts by the names they have among these keys; most rows of a file have the same."""
    held = {
        name: next((alias for alias in aliases if alias in keys), None)
        for name, aliases in ALIASES.items()
    }
    return {alias: name for name, alias in held.items() if alias and name in parts}


def as_named(fault: Fault, row: Mapping[str, Json]) -> Fault:
    """The fault at the place as the row names it; a lone turn stands in the row itself."""
    turn, path = fault.path[:2], fault.path[2:]
    many = row.get("turns") is not None
    if turn[:1] != ("turns",) or (many and not path):
        turn, path, holder = (), fault.path, row
    elif many:
        holder = mapped(listed(row["turns"])[int(turn[1])])
    else:
        turn, holder = (), row
    named = (name_in(holder, str(path[0])), *path[1:]) if path else ()
    return replace(fault, path=(*turn, *named))
