"""A description of a run on its way: values from several doors, each with its place."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import TypeAlias, TypeVar, cast

from pydantic import BaseModel, JsonValue, ValidationError

from burnish.core.errors import BurnishError, ConfigError, Problem, ResumeRefused
from burnish.system import Redactor, YamlTree, read_tree
from burnish.system.config_errors import dotted, faults_in, problem_of
from burnish.system.settings import FieldPath, closed_keys
from burnish.system.yaml import TreePath

M = TypeVar("M", bound=BaseModel)
R = TypeVar("R")
_Where: TypeAlias = "FilePlace | str"


class Strength(IntEnum):
    """How strong the word of a door is."""

    DEFAULT = 0
    """What a dialect takes for granted."""
    ENVIRONMENT = 1
    FILE = 2
    REQUEST = 3
    """A request that is laid over a file."""
    FLAG = 4


@dataclass(frozen=True, kw_only=True)
class FilePlace:
    """A place in a file."""

    tree: YamlTree
    keys: TreePath

    def below(self, path: TreePath) -> "FilePlace":
        """The place of something inside."""
        return replace(self, keys=(*self.keys, *path))

    @property
    def line(self) -> int:
        """The line of the value, or of the nearest one around it."""
        lengths = range(len(self.keys), 0, -1)
        lines = (self.tree.line_of(self.keys[:length]) for length in lengths)
        return next((line for line in lines if line), 0)

    def __str__(self) -> str:
        name, line = self.tree.path.name, self.line
        return (
            f"{name}:{line} {dotted(self.keys)}" if line else f"{name} {dotted(self.keys)}".strip()
        )


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where each value of a description came from."""

    source: str = ""
    """What to name where a value has no place: the file as a whole."""
    by_path: Mapping[TreePath, _Where] = field(default_factory=dict[TreePath, _Where])

    def where(self, path: TreePath) -> str:
        """The place of a value, or of the nearest one around it."""
        return str(self.place(path)).strip()

    def line(self, path: TreePath) -> int:
        """For putting problems in the order of the file."""
        place = self.place(path)
        return place.line if isinstance(place, FilePlace) else 0

    def is_flag(self, path: TreePath) -> bool:
        """Whether a flag has set the value: then that is what to change."""
        return str(self.by_path.get(path, "")).startswith("--")

    def place(self, path: TreePath) -> _Where:
        """The place of a value, or inside that of the nearest one around it."""
        for length in range(len(path), -1, -1):
            place = self.by_path.get(path[:length])
            if place is not None:
                rest = path[length:]
                return place.below(rest) if isinstance(place, FilePlace) else place
        return f"{self.source} {dotted(path)}"


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """One value that a door gives."""

    path: TreePath
    value: JsonValue
    """None takes away what weaker doors give."""
    strength: Strength
    place: _Where
    written: JsonValue = None
    """As it was written, where the value is what variables of the environment made of it."""


class Draft:
    """Collects what the doors say, and makes one description of it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._entries: list[_Entry] = []
        self._marks: dict[TreePath, _Where] = {}
        self._notes: list[tuple[TreePath, str]] = []

    def put(
        self,
        path: str | TreePath,
        value: JsonValue,
        *,
        place: _Where = "",
        strength: Strength,
        written: JsonValue = None,
    ) -> None:
        """Say something; None says nothing. `written` is the value with `${VAR}` unexpanded."""
        if value is not None:
            entry = _Entry(
                path=_path(path), value=value, strength=strength, place=place, written=written
            )
            self._entries.append(entry)

    def default(self, path: str, value: JsonValue) -> None:
        """What holds where no door says anything."""
        self.put(path, value, strength=Strength.DEFAULT)

    def silence(self, path: str, *, strength: Strength) -> None:
        """Say that nothing holds at a path, whatever weaker doors give."""
        self._entries.append(_Entry(path=_path(path), value=None, strength=strength, place=""))

    def mark(self, path: str | TreePath, place: _Where) -> None:
        """Where a value would stand: the place to name should it be missing."""
        self._marks[_path(path)] = place

    def note(self, message: str, *, about: str) -> None:
        """Something to tell the user of the value at a path, unless a flag replaces it."""
        self._notes.append((_path(about), message))

    def notes(self, places: Places) -> tuple[str, ...]:
        """What is to be told of the values that hold."""
        return tuple(message for path, message in self._notes if not places.is_flag(path))

    def value(self, path: str) -> JsonValue:
        """What holds at a path by now; None where nobody has said anything."""
        data: JsonValue = self.assembled()[0]
        for key in path.split("."):
            data = data.get(key) if isinstance(data, dict) else None
        return data

    def assembled(self) -> tuple[dict[str, JsonValue], Places]:
        """All values as one tree, the strongest where several doors speak, and their places."""
        places = dict(self._marks)
        for entry in self._by_strength():
            places |= {} if entry.value is None else dict(_places(entry))
        data = _laid((each.path, each.value) for each in self._by_strength())
        return data, Places(source=self.source, by_path=places)

    def written(self) -> dict[str, JsonValue]:
        """The same tree with `${VAR}` as written."""
        entries = self._by_strength()
        return _laid(
            (each.path, each.value if each.written is None else each.written) for each in entries
        )

    def _by_strength(self) -> list[_Entry]:
        return sorted(self._entries, key=lambda each: each.strength)


def _laid(values: Iterable[tuple[TreePath, JsonValue]]) -> dict[str, JsonValue]:
    """One tree of values that are laid over each other; None takes away."""
    data: dict[str, JsonValue] = {}
    for path, value in values:
        if value is None:
            _take_away(data, path)
        else:
            _lay(data, path, value)
    return data


def variables_in(written: JsonValue, value: JsonValue, path: FieldPath = ()) -> Iterator[FieldPath]:
    """The fields whose values are other ones than those that were written."""
    if isinstance(written, dict) and isinstance(value, dict):
        for key, inner in written.items():
            yield from variables_in(inner, value.get(key), (*path, key))
    elif written != value:
        yield path


def _lay(data: dict[str, JsonValue], path: TreePath, value: JsonValue) -> None:
    """Lay a value over what is there; mappings are merged, everything else is replaced."""
    *above, last = map(str, path)
    for key in above:
        inner = data.get(key)
        if not isinstance(inner, dict):
            inner = data[key] = {}
        data = inner
    before = data.get(last)
    if isinstance(value, dict) and isinstance(before, dict):
        for key, item in value.items():
            _lay(before, (key,), item)
    else:
        data[last] = dict(value) if isinstance(value, dict) else value


def _take_away(data: dict[str, JsonValue], path: TreePath) -> None:
    *above, last = map(str, path)
    for key in above:
        inner = data.get(key)
        if not isinstance(inner, dict):
            return
        data = inner
    data.pop(last, None)


def _places(entry: _Entry) -> Iterator[tuple[TreePath, _Where]]:
    """The place of a value, and of everything that stands in it."""
    if entry.place:
        yield entry.path, entry.place
    if isinstance(entry.value, dict) and isinstance(entry.place, FilePlace):
        for key, value in entry.value.items():
            below = replace(
                entry, path=(*entry.path, key), value=value, place=entry.place.below((key,))
            )
            yield from _places(below)


def validated(
    data: Mapping[str, JsonValue], model: type[M], places: Places, *, stored: bool = False
) -> M:
    """The data as a model; everything that is wrong is said at once, where it came from.

    Data that burnish itself has `stored` may hold what no file may say.
    """
    problems = [
        Problem(where=places.where(path), message=f"unknown key '{path[-1]}'", remedy="remove it")
        for path in closed_keys(data, model)
        if not stored
    ]
    if problems:
        raise ConfigError(problems)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        faults = faults_in(error, dict(data), model)
    # Raised out here, since pydantic's error would bring the input along, secrets included.
    faults.sort(key=lambda fault: places.line(fault.path))
    problems = [problem_of(fault, places.where(fault.path)) for fault in faults]
    raise ConfigError(list(dict.fromkeys(problems)))


@dataclass(kw_only=True)
class Problems:
    """What is wrong with a description, gathered so that all of it is said at once."""

    places: Places
    found: list[Problem] = field(default_factory=list[Problem])

    def attempt(self, at: str | TreePath | FilePlace, make: Callable[[], R], otherwise: R) -> R:
        """What `make` gives; where it cannot, the problem is kept and `otherwise` given."""
        try:
            return make()
        except ConfigError as error:
            self.found += [self._placed(problem, at) for problem in error.problems]
        except BurnishError as error:
            problem = Problem(message=error.message, remedy=error.remedy)
            self.found.append(self._placed(problem, at))
        return otherwise

    def as_raised(self, make: Callable[[], R], otherwise: R) -> R:
        """The same for what says by itself where it stands."""
        try:
            return make()
        except ConfigError as error:
            self.found += error.problems
        except BurnishError as error:
            self.found.append(Problem(message=error.message, remedy=error.remedy))
        return otherwise

    def in_block(self, at: str, block: BaseModel, make: Callable[[], R]) -> R | None:
        """What a block makes; its problems may say which of its settings they are about."""
        try:
            return make()
        except ConfigError as error:
            for problem in error.problems:
                keys = tuple(problem.where.split("."))
                inside = keys[0] in type(block).model_fields
                whole = (*_path(at), *keys)
                self.found.append(
                    replace(problem, where=self.where(whole))
                    if inside
                    else self._placed(problem, at)
                )
        return None

    def add(self, at: str | TreePath, message: str, remedy: str = "") -> None:
        """Keep a problem of the value at a path of the description."""
        self.found.append(Problem(where=self.where(at), message=message, remedy=remedy))

    def where(self, at: str | TreePath | FilePlace) -> str:
        """The place of a value in the user's own words, also of one that no field stands for."""
        return str(at) if isinstance(at, FilePlace) else self.places.where(_path(at))

    def ways(self, at: str | TreePath, *, key: str, flag: str) -> str:
        """How a missing value may be set: by a key of the file where it has one, or by a flag."""
        return flag if self.places.is_flag(_path(at)) else f"{key}, or {flag}"

    def settle(self) -> None:
        """Raise everything that was found."""
        if self.found:
            raise ConfigError(list(dict.fromkeys(self.found)))

    def _placed(self, problem: Problem, at: str | TreePath | FilePlace) -> Problem:
        """With the place of the value before its own, which may be in another file."""
        here = self.where(at)
        return replace(problem, where=f"{here}: {problem.where}" if problem.where else here)


def _path(at: str | TreePath) -> TreePath:
    return tuple(cast("list[str | int]", at.split("."))) if isinstance(at, str) else at


# -- Keys that a user wrote out in a file ---------------------------------------------------------


LITERAL = "$written_in"
"""The key under which the place of a literal stands."""


def without_literals(
    data: Mapping[str, JsonValue], places: Places, redactor: Redactor
) -> dict[str, JsonValue]:
    """A description as it may be kept: secrets are replaced by their places."""
    return cast("dict[str, JsonValue]", _replaced(dict(data), (), places, redactor))


def _replaced(value: JsonValue, path: TreePath, places: Places, redactor: Redactor) -> JsonValue:
    def kept(key: str | int, item: JsonValue, seen: JsonValue) -> JsonValue:
        if isinstance(item, str) and seen != item:
            return _place((*path, key), places)
        return _replaced(item, (*path, key), places, redactor)

    seen = redactor.json(value)
    if isinstance(value, dict) and isinstance(seen, dict):
        return {key: kept(key, item, seen.get(key)) for key, item in value.items()}
    if isinstance(value, list) and isinstance(seen, list):
        pairs = zip(value, seen, strict=True)
        return [kept(number, item, shown) for number, (item, shown) in enumerate(pairs)]
    return value


def _place(path: TreePath, places: Places) -> JsonValue:
    place = places.place(path)
    if not isinstance(place, FilePlace):
        return {LITERAL: None}
    return {LITERAL: {"file": str(place.tree.path.resolve()), "at": list(place.keys)}}


def with_literals(value: JsonValue) -> JsonValue:
    """A kept description with what stands in its files put back."""
    if isinstance(value, dict):
        if LITERAL in value:
            return _read(value[LITERAL])
        return {key: with_literals(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_literals(item) for item in value]
    return value


def _read(place: JsonValue) -> JsonValue:
    if not isinstance(place, dict):
        raise ResumeRefused(
            "a key of this run was given by hand and is not kept",
            remedy="name a variable instead, such as ${TEAM_KEY}, and start a new run",
        )
    path, value = Path(str(place["file"])), read_tree(Path(str(place["file"]))).data
    for step in cast("list[str | int]", place["at"]):
        if isinstance(value, dict):
            value = value.get(str(step))
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            value = None
    if value is None:
        steps = ".".join(map(str, cast("list[str | int]", place["at"])))
        raise ResumeRefused(
            f"the key that stood in {path} at {steps} is gone",
            remedy="put it back, or name a variable there and start a new run",
        )
    return value


def refuse_literals(data: Mapping[str, JsonValue]) -> None:
    """Refuse a description that only the machine with its files can build."""
    problems = [
        Problem(
            where=".".join(map(str, path)),
            message="a key is written out here, and it would have to be passed on",
            remedy="name a variable instead, such as ${TEAM_KEY}",
        )
        for path in _literals(dict(data), ())
    ]
    if problems:
        raise ConfigError(problems)


def _literals(value: JsonValue, path: TreePath) -> Iterator[TreePath]:
    if isinstance(value, dict):
        if LITERAL in value:
            yield path
            return
        for key, item in value.items():
            yield from _literals(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _literals(item, (*path, number))
