"""The surfaces of a graph, each under the id of the position that it edits."""

from collections.abc import Mapping, Sequence

from burnish.core.errors import ConfigError, Problem
from burnish.core.structures import Position, SurfaceType
from burnish.core.surfaces import (
    ChoiceSurface,
    DemosSurface,
    NumberSurface,
    Surface,
    TextSurface,
    placeholders_in,
)
from burnish.models.references import ModelRef
from burnish.targets.graph.graphs import Graph
from burnish.targets.graph.positions import positions_of_graph, unknown_position

_ROOM = 4
"""A text may grow to so many times its length,"""
_LEAST_ROOM = 2000
"""and to so many characters in any case."""


def all_surfaces(graph: Graph) -> list[Surface]:
    """Every text and every place for demonstrations; models and numbers need choices, ranges."""
    made = [_plain(position) for position in positions_of_graph(graph)]
    return [surface for surface in made if surface is not None]


def surfaces_of(
    graph: Graph,
    names: Sequence[str] | None = None,
    *,
    choices: Mapping[str, Sequence[str]] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> list[Surface]:
    """The surfaces of these ids, or all; a model with its choices, a number with its range.

    Raises a ConfigError that names the nearest known id for one that is not there.
    """
    known = {position.id: position for position in positions_of_graph(graph)}
    choices, ranges = choices or {}, ranges or {}
    wanted = [s.id for s in all_surfaces(graph)] if names is None else list(names)
    wanted = list(dict.fromkeys([*wanted, *choices, *ranges]))
    problems = [unknown_position(name, known) for name in wanted if name not in known]
    found: list[Surface] = []
    for position in (known[name] for name in wanted if name in known):
        try:
            found.append(_surface(position, choices.get(position.id), ranges.get(position.id)))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return found


def _surface(
    position: Position, choices: Sequence[str] | None, bounds: tuple[float, float] | None
) -> Surface:
    if position.type is not SurfaceType.MODEL:
        surface = _plain(position)
        if choices is not None or bounds is not None:
            raise _wrong(position, "it is no model and no number: it has no choices or range")
        if surface is None:
            raise _wrong(position, "there is no text yet", "write one first")
        return surface
    return _number(position, bounds) if position.part else _choice(position, choices)


def _plain(position: Position) -> Surface | None:
    """A text or demonstrations; None for what has neither."""
    value = position.value
    if isinstance(value, tuple):
        return DemosSurface(id=position.id, max_demos=max(8, len(value)))
    if position.type is SurfaceType.MODEL or not isinstance(value, str) or not value.strip():
        return None
    room = max(_ROOM * len(value), _LEAST_ROOM)
    return TextSurface(id=position.id, max_chars=room, placeholders=placeholders_in(value))


def _choice(position: Position, choices: Sequence[str] | None) -> ChoiceSurface:
    """The model of now is always among them."""
    if not choices:
        raise _wrong(position, "say which models there are to choose from", "give choices")
    for each in choices:
        ModelRef.parse(each)
    return ChoiceSurface(
        id=position.id, choices=tuple(dict.fromkeys([str(position.value), *choices]))
    )


def _number(position: Position, bounds: tuple[float, float] | None) -> NumberSurface:
    if bounds is None:
        raise _wrong(position, "say in which range it may be", "give ranges")
    low, high = bounds
    if not low <= high:
        raise _wrong(position, f"the range [{low:g}, {high:g}] is empty")
    made = NumberSurface(id=position.id, low=low, high=high, integer=position.part == "max_tokens")
    if problems := made.problems(position.value):
        raise _wrong(position, f"the value of now: {problems[0].message}", "widen the range")
    return made


def _wrong(position: Position, message: str, remedy: str = "") -> ConfigError:
    return ConfigError([Problem(where=position.id, message=message, remedy=remedy)])
