"""Assembles the description of a run from several sources and remembers where values came from."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import TypeAlias, TypeVar, cast

from pydantic import BaseModel, JsonValue, ValidationError

from burnish.core.errors import (
    BurnishError,
    ConfigError,
    Problem,
    ResumeRefused,
    RunLocked,
    first_problems,
)
from burnish.system import Redactor, YamlTree, read_tree
from burnish.system.config import dotted, faults_in, problem_of
from burnish.system.settings import FieldPath, closed_keys
from burnish.system.yaml import TreePath

M = TypeVar("M", bound=BaseModel)
R = TypeVar("R")
_Where: TypeAlias = "FilePlace | str"


class Strength(IntEnum):
    """The precedence of a source; the highest wins."""

    DEFAULT = 0
    """The default of a dialect."""
    ENVIRONMENT = 1
    FILE = 2
    REQUEST = 3
    """An HTTP request on top of a file."""
    FLAG = 4


@dataclass(frozen=True, kw_only=True)
class FilePlace:
    """A place in a file."""

    tree: YamlTree
    keys: TreePath

    def below(self, path: TreePath) -> "FilePlace":
        """The place of a nested value."""
        return replace(self, keys=(*self.keys, *path))

    @property
    def line(self) -> int:
        """The line of the value, or of the closest one that contains it."""
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
    """The place that each value of a description came from."""

    source: str = ""
    """What messages name if a value has no place: the file as a whole."""
    by_path: Mapping[TreePath, _Where] = field(default_factory=dict[TreePath, _Where])

    def where(self, path: TreePath) -> str:
        """The place of a value, or of the closest one that contains it, for messages."""
        return str(self.place(path)).strip()

    def line(self, path: TreePath) -> int:
        """The line of a value, for sorting problems; 0 if there is none."""
        place = self.place(path)
        return place.line if isinstance(place, FilePlace) else 0

    def is_flag(self, path: TreePath) -> bool:
        """Whether a flag has set the value."""
        return str(self.by_path.get(path, "")).startswith("--")

    def place(self, path: TreePath) -> _Where:
        """The place of a value, derived from the closest one that contains it."""
        for length in range(len(path), -1, -1):
            place = self.by_path.get(path[:length])
            if place is not None:
                rest = path[length:]
                return place.below(rest) if isinstance(place, FilePlace) else place
        return f"{self.source} {dotted(path)}"


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """One value of one source."""

    path: TreePath
    value: JsonValue
    """None removes the value of weaker sources."""
    strength: Strength
    place: _Where
    written: JsonValue = None
    """The value before environment variables were expanded, if it has any."""


class Draft:
    """Collects values from all sources and merges them into one description."""

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
        """Add a value unless it is None. `written` is the value with `${VAR}` unexpanded."""
        if value is not None:
            entry = _Entry(
                path=_path(path), value=value, strength=strength, place=place, written=written
            )
            self._entries.append(entry)

    def default(self, path: str, value: JsonValue) -> None:
        """Add a value for when no source sets one."""
        self.put(path, value, strength=Strength.DEFAULT)

    def silence(self, path: str, *, strength: Strength) -> None:
        """Remove the values of weaker sources at a path."""
        self._entries.append(_Entry(path=_path(path), value=None, strength=strength, place=""))

    def mark(self, path: str | TreePath, place: _Where) -> None:
        """Set the place to name if a value is missing."""
        self._marks[_path(path)] = place

    def note(self, message: str, *, about: str) -> None:
        """Add a message about the value at a path, unless a flag replaces the value."""
        self._notes.append((_path(about), message))

    def notes(self, places: Places) -> tuple[str, ...]:
        """The messages about values that no flag has replaced."""
        return tuple(message for path, message in self._notes if not places.is_flag(path))

    def value(self, path: str) -> JsonValue:
        """The value at a path so far; None if there is none."""
        data: JsonValue = self.assembled()[0]
        for key in path.split("."):
            data = data.get(key) if isinstance(data, dict) else None
        return data

    def assembled(self) -> tuple[dict[str, JsonValue], Places]:
        """All values as one tree, where the strongest source wins, and their places."""
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

    def overridden(self) -> list[TreePath]:
        """The fields that something stronger than the file has set or removed."""
        stronger = (each.path for each in self._entries if each.strength > Strength.FILE)
        return list(dict.fromkeys(stronger))

    def from_environment(self, places: Places) -> list[TreePath]:
        """The fields whose value is that of an environment variable."""
        entries = (each for each in self._entries if each.strength is Strength.ENVIRONMENT)
        return [each.path for each in entries if places.by_path.get(each.path) == each.place]

    def _by_strength(self) -> list[_Entry]:
        return sorted(self._entries, key=lambda each: each.strength)


def _laid(values: Iterable[tuple[TreePath, JsonValue]]) -> dict[str, JsonValue]:
    """Merge values into one tree; None removes one."""
    data: dict[str, JsonValue] = {}
    for path, value in values:
        if value is None:
            _remove(data, path)
        else:
            _lay(data, path, value)
    return data


def variables_in(written: JsonValue, value: JsonValue, path: FieldPath = ()) -> Iterator[FieldPath]:
    """The fields whose values differ from what was written."""
    if isinstance(written, dict) and isinstance(value, dict):
        for key, inner in written.items():
            yield from variables_in(inner, value.get(key), (*path, key))
    elif written != value:
        yield path


def _lay(data: dict[str, JsonValue], path: TreePath, value: JsonValue) -> None:
    """Set a value; mappings are merged, everything else is replaced."""
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


def _remove(data: dict[str, JsonValue], path: TreePath) -> None:
    *above, last = map(str, path)
    for key in above:
        inner = data.get(key)
        if not isinstance(inner, dict):
            return
        data = inner
    data.pop(last, None)


def _places(entry: _Entry) -> Iterator[tuple[TreePath, _Where]]:
    """The place of a value and of everything in it."""
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
    """The data as a model; raises everything that is wrong at once, with its places.

    Data that burnish itself `stored` may contain keys that no file may.
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
    # Raised out here, since pydantic's error contains the input with its secrets.
    faults.sort(key=lambda fault: places.line(fault.path))
    problems = first_problems(faults, lambda fault: problem_of(fault, places.where(fault.path)))
    raise ConfigError(list(dict.fromkeys(problems)))


@dataclass(kw_only=True)
class Problems:
    """Collects what is wrong with a description, to report all of it at once.

    That another run holds what it describes is nothing wrong with it: RunLocked is raised.
    """

    places: Places
    found: list[Problem] = field(default_factory=list[Problem])

    def attempt(self, at: str | TreePath | FilePlace, make: Callable[[], R], otherwise: R) -> R:
        """The result of `make`; if it fails, collects the problem and returns `otherwise`."""
        try:
            return make()
        except RunLocked:
            raise
        except BurnishError as error:
            self.found += [self._placed(problem, at) for problem in _problems_of(error)]
        return otherwise

    def as_raised(self, make: Callable[[], R], otherwise: R) -> R:
        """The same for problems that already have a place."""
        try:
            return make()
        except RunLocked:
            raise
        except BurnishError as error:
            self.found += _problems_of(error)
        return otherwise

    def in_block(self, at: str, block: BaseModel, make: Callable[[], R]) -> R | None:
        """The result of a block; its problems may name the settings that they are about."""
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
        """Collect a problem of the value at a path of the description."""
        self.found.append(Problem(where=self.where(at), message=message, remedy=remedy))

    def where(self, at: str | TreePath | FilePlace) -> str:
        """The place of a value, also of one without a field, for messages."""
        return str(at) if isinstance(at, FilePlace) else self.places.where(_path(at))

    def ways(self, at: str | TreePath, *, key: str, flag: str) -> str:
        """How a missing value may be set: by a key of the file or by a flag."""
        return flag if self.places.is_flag(_path(at)) else f"{key}, or {flag}"

    def settle(self) -> None:
        """Raise everything that was collected."""
        if self.found:
            raise ConfigError(list(dict.fromkeys(self.found)))

    def _placed(self, problem: Problem, at: str | TreePath | FilePlace) -> Problem:
        here = self.where(at)
        return replace(problem, where=f"{here}: {problem.where}" if problem.where else here)


def _problems_of(error: BurnishError) -> Sequence[Problem]:
    if isinstance(error, ConfigError):
        return error.problems
    return [Problem(message=error.message, remedy=error.remedy)]


def _path(at: str | TreePath) -> TreePath:
    return tuple(cast("list[str | int]", at.split("."))) if isinstance(at, str) else at


LITERAL = "$written_in"
"""The key that holds the place of a secret."""


def without_literals(
    data: Mapping[str, JsonValue], places: Places, redactor: Redactor
) -> dict[str, JsonValue]:
    """A description with secrets replaced by their places."""
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
    """A stored description with the secrets read from their files again."""
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
            "a key of this run was passed by hand and is not stored",
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
            f"the key that was in {path} at {steps} is gone",
            remedy="restore it, or name a variable there and start a new run",
        )
    return value


def refuse_literals(data: Mapping[str, JsonValue]) -> None:
    """Refuse a description whose secrets are only in files of this machine."""
    problems = [
        Problem(
            where=".".join(map(str, path)),
            message="a key is written here in plain text and would have to be passed on",
            remedy="name a variable instead, such as ${TEAM_KEY}",
        )
        for path in literal_paths(data)
    ]
    if problems:
        raise ConfigError(problems)


def literal_paths(data: Mapping[str, JsonValue]) -> Iterator[TreePath]:
    """Where a stored description has the place of a secret instead of the secret."""
    return _literals(dict(data), ())


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
