"""The axes of a grid: what the command line names, the columns they make, and candidates."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TypeVar

from pydantic import JsonValue

from burnish.core.content import codec, from_json, short_id
from burnish.core.errors import ConfigError, Problem, RunNotFound
from burnish.core.formatting import shorten
from burnish.core.protocols import Target
from burnish.core.surfaces import Value
from burnish.models.references import ModelRef
from burnish.projects.agent.dialect import AgentFile
from burnish.projects.description import Doors
from burnish.projects.dialects import Document
from burnish.runs.directory import NAME as HEADER
from burnish.runs.directory import RunRecord, find_run
from burnish.runs.plugins import MODEL_AXIS, TargetPlugin, Variant
from burnish.system.config import nearest
from burnish.system.redaction import MARKER

CURRENT = "current"
"""The word for what the file says."""
CANDIDATE_AXIS = "candidate"
_FILES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, kw_only=True)
class GridAxes:
    """What varies: each axis with its values, in the order in which they were named."""

    models: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    """Absolute paths, or `current`."""
    settings: Mapping[str, tuple[JsonValue, ...]] = field(
        default_factory=dict[str, tuple[JsonValue, ...]]
    )
    """By surface."""

    def __bool__(self) -> bool:
        return bool(self.models or self.candidates or self.settings)

    def joined(self, more: "GridAxes") -> "GridAxes":
        """These axes and the values that others add."""
        settings = dict(self.settings)
        for name, values in more.settings.items():
            settings[name] = _once((*settings.get(name, ()), *values))
        return GridAxes(
            models=_once((*self.models, *more.models)),
            candidates=_once((*self.candidates, *more.candidates)),
            settings=settings,
        )

    def columns(self) -> "list[ColumnChoice]":
        """Every combination, each once; the first axis changes slowest."""
        axes: list[tuple[str, Sequence[JsonValue]]] = [
            *([(MODEL_AXIS, self.models)] if self.models else []),
            *([(CANDIDATE_AXIS, self.candidates)] if self.candidates else []),
            *self.settings.items(),
        ]
        varying = {name for name, values in axes if len(values) > 1}
        names = [name for name, _ in axes]
        made = [
            ColumnChoice(values=dict(zip(names, values, strict=True)), varying=frozenset(varying))
            for values in product(*(values for _, values in axes))
        ]
        return list({each.key: each for each in made}.values())

    @property
    def repeated(self) -> list[str]:
        """The values that were named more than once on their axis."""
        every = [*self.settings.items(), ("", self.models), ("", self.candidates)]
        return [
            _words(name, value) if name else str(value)
            for name, values in every
            for place, value in enumerate(values)
            if short_id(value) in map(short_id, values[:place])
        ]


V = TypeVar("V", bound=JsonValue)


def _once(values: Iterable[V]) -> tuple[V, ...]:
    """The values, each once; 1 and True are two."""
    return tuple({short_id(value): value for value in values}.values())


@dataclass(frozen=True, kw_only=True)
class ColumnChoice:
    """One combination: by axis, the value."""

    values: Mapping[str, JsonValue]
    varying: frozenset[str] = frozenset()
    """The axes with more than one value, which tell columns apart."""

    @property
    def key(self) -> str:
        """The same for the same combination, however the axes were named."""
        return short_id({**self.values})[:8]

    @property
    def label(self) -> str:
        """What tells it from the other columns."""
        shown = {n: v for n, v in self.values.items() if n in self.varying or not self.varying}
        words = [_words(name, value) for name, value in shown.items()]
        return " ".join(words) or CURRENT

    @property
    def model(self) -> str:
        named = str(self.values.get(MODEL_AXIS, CURRENT))
        return "" if named == CURRENT else named

    def without_model(self) -> "ColumnChoice":
        values = {name: value for name, value in self.values.items() if name != MODEL_AXIS}
        return replace(self, values=values)


def _words(name: str, value: JsonValue) -> str:
    if name == MODEL_AXIS:
        return str(value)
    if name == CANDIDATE_AXIS:
        path = Path(str(value))
        return path.name if value != CURRENT else CURRENT
    short = name.rpartition("#")[2].removeprefix("model.") if "#" not in name else name
    return f"{short}={shorten(str(value), 24)}"


# -- The command line ------------------------------------------------------------------------------


def split_assignments(
    assignments: Sequence[str], doors: Doors
) -> tuple[list[str], dict[str, tuple[JsonValue, ...]]]:
    """`--set` of settings of the run, and of what may be an axis with its values."""
    known = doors.assignable()
    settings: list[str] = []
    axes: dict[str, tuple[JsonValue, ...]] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        name = name.strip()
        if not equals or name in known:
            settings.append(assignment)
            continue
        values = tuple(_listed(text))
        if not values or not name:
            message = f"'{assignment}' names no value"
            remedy = "write it like temperature=0,0.7"
            raise ConfigError([Problem(where="--set", message=message, remedy=remedy)])
        axes[name] = (*axes.get(name, ()), *values)
    return settings, axes


def _listed(text: str) -> Iterator[JsonValue]:
    """The values of a list with commas; one that contains a comma is in double quotes."""
    with suppress(ValueError):
        whole = from_json(text)
        if isinstance(whole, list):
            yield from whole
            return
    for word in next(csv.reader([text.strip()], skipinitialspace=True), list[str]()):
        value: JsonValue = word.strip()
        if not word.strip():
            continue
        with suppress(ValueError):
            value = from_json(word)
        yield value


def check_axes(axes: GridAxes, plugin: TargetPlugin, target: Target, doors: Doors) -> GridAxes:
    """The axes by their full names; raises everything that is wrong with them."""
    names = list(plugin.axes(target))
    problems: list[Problem] = []
    if axes.models and MODEL_AXIS not in names:
        message = "this target has no model that could be changed"
        problems.append(Problem(where="--model", message=message, remedy=_there_are(names)))
    for label in axes.models:
        if label != CURRENT:
            try:
                ModelRef.parse(label)
            except ConfigError as error:
                problems += [replace(each, where=f"--model {label}") for each in error.problems]
    settings: dict[str, tuple[JsonValue, ...]] = {}
    for name, values in axes.settings.items():
        whole = _full_name(name, names)
        problem = _unknown(name, names, doors) if whole is None else _unfit(whole, values)
        if problem is not None:
            problems.append(problem)
        else:
            settings[whole or name] = values
    if problems:
        raise ConfigError(problems)
    return replace(axes, settings=settings)


def _full_name(name: str, names: Sequence[str]) -> str | None:
    """The surface that a name means; the end of one is enough if there is only one such."""
    if name in names:
        return name
    ends = [each for each in names if each.endswith((f".{name}", f"/{name}", f"#{name}"))]
    return ends[0] if len(ends) == 1 else None


def _unfit(name: str, values: Sequence[JsonValue]) -> Problem | None:
    if name == MODEL_AXIS:
        return Problem(where="--set", message="models have a flag", remedy="--model MODEL")
    wrong = [value for value in values if not isinstance(value, str | int | float | bool)]
    if not wrong:
        return None
    message = f"{name}: expected a number, a word or a text, found {shorten(str(wrong[0]), 40)}"
    remedy = "what is more than that comes in a file: --candidate FILE"
    return Problem(where="--set", message=message, remedy=remedy)


def _unknown(name: str, names: Sequence[str], doors: Doors) -> Problem:
    several = [each for each in names if each.endswith((f".{name}", f"/{name}", f"#{name}"))]
    if several:
        message = f"'{name}' could be any of: {', '.join(several)}"
        return Problem(where="--set", message=message, remedy="write more of it")
    near = nearest(name, [*names, *doors.assignable()])
    hint = f"did you mean '{near}'? " if near else ""
    message = f"there is no axis and no setting '{name}'"
    return Problem(where="--set", message=message, remedy=f"{hint}{_there_are(names)}")


def _there_are(names: Sequence[str]) -> str:
    shown = [name for name in names if name != MODEL_AXIS]
    models = ["--model"] if MODEL_AXIS in names else []
    listed = ", ".join([*models, *shown])
    return f"axes of this target: {shorten(listed, 400)}" if listed else "this target has no axes"


# -- Candidates ------------------------------------------------------------------------------------


def named_candidate(name: str) -> str:
    """Where a candidate is: `current`, or the path of a file, or of a run."""
    if name == CURRENT:
        return name
    if name and Path(name).exists():
        return str(Path(name).absolute())
    try:
        return str(find_run(name))
    except RunNotFound as error:
        message = f"there is no file '{name}', and {error.message}"
        problem = Problem(where="--candidate", message=message, remedy=error.remedy)
        raise ConfigError([problem]) from None


def read_candidate(place: str, plugin: TargetPlugin, target: Target) -> Variant:
    """The candidate of a file or a run, as a variant of the target."""
    if place == CURRENT:
        return Variant()
    path = Path(place)
    values = _of_run(path)
    if values is None and path.suffix in _FILES:
        document = Document.read(path)
        if plugin.kind == AgentFile.target and AgentFile().recognises(document):
            return Variant(file=path)
        if document.data and plugin.kind != AgentFile.target:
            values = codec(dict[str, Value]).decode({**document.data})
    if values is None:
        remedy = "name a run, a file or folder of its candidates, or a file with values by surface"
        if plugin.kind == AgentFile.target:
            remedy = "name an agent file, a run, or a file of its candidates"
        problem = Problem(where=f"--candidate {place}", message="this is no candidate")
        raise ConfigError([problem], remedy=remedy)
    _require_whole(values, place, plugin.axes(target))
    return Variant(values=values)


def _of_run(path: Path) -> Mapping[str, Value] | None:
    """The values of a run's best, or of the candidate that a file of a run belongs to."""
    real = path.resolve()
    home = next((each for each in (real, *real.parents) if (each / HEADER).is_file()), None)
    if home is None:
        return None
    run = RunRecord.read(home)
    candidate = run.best_candidate
    if real != home:
        inside = real.relative_to(home).as_posix()
        trials = [
            number
            for number, files in run.files.items()
            if any(each == inside or each.startswith(f"{inside}/") for each in files)
        ]
        rows = [row.trial.candidate for row in run.rows if row.number in trials[-1:]]
        candidate = rows[0] if rows else None
    return None if candidate is None else candidate.values


def _require_whole(values: Mapping[str, Value], place: str, names: Sequence[str]) -> None:
    problems = [
        Problem(where=f"--candidate {place}", message=message, remedy=_there_are(names))
        for name, value in values.items()
        for message in _faults(name, value, names)
    ]
    if problems:
        raise ConfigError(problems)


def _faults(name: str, value: Value, names: Sequence[str]) -> Iterator[str]:
    if name not in names:
        yield f"it has a value for '{name}', which this target does not have"
    elif MARKER in str(value):
        yield f"'{name}' was stored with {MARKER} in place of what looked like a secret"
