"""Complaints: everything that is wrong with a file, gathered while it is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from burnish.core.content import Json, canonical
from burnish.core.errors import ConfigError, NotJournalable, Problem
from burnish.system.config_errors import Fault, dotted, faults_in, problems_of
from burnish.system.yaml import TreePath, YamlTree

M = TypeVar("M", bound=BaseModel)
Respell = Callable[[Fault], Fault]

_MOST = 100
DEEPEST = 100
"""Beyond some 200 levels a case can neither be checked nor hashed."""
_LONGEST_WITH_LINES = 500_000
"""Finding lines means parsing again, slowly: a minute for a file of ten megabytes."""


def _as_it_is(fault: Fault) -> Fault:
    return fault


def _no_names() -> dict[str, tuple[TreePath, int | None]]:
    return {}


@dataclass(kw_only=True)
class Complaints:
    """The problems of one file, each with its place."""

    source: str
    tree: YamlTree | None = None
    problems: list[Problem] = field(default_factory=list[Problem])
    names: dict[str, tuple[TreePath, int | None]] = field(default_factory=_no_names)
    """Where each name of a case was first seen."""

    @classmethod
    def about(cls, tree: YamlTree) -> "Complaints":
        """About a YAML or JSON file, with lines unless it is too long or deep to look for them."""
        small = len(tree.text) <= _LONGEST_WITH_LINES and not is_deeper(tree.data, DEEPEST)
        return cls(source=tree.path.name, tree=tree if small else None)

    def shaped(
        self,
        value: Json,
        model: type[M],
        *,
        at: TreePath = (),
        line: int | None = None,
        respell: Respell = _as_it_is,
    ) -> M | None:
        """The value as a `model`; None, and every problem noted, where it is none.

        `respell` turns places as the model names them into places as the file does.
        """
        try:
            return model.model_validate(value)
        except ValidationError as error:
            faults = [respell(_plainly(fault)) for fault in faults_in(error, value, model)]
        placed = [replace(fault, path=(*at, *fault.path)) for fault in faults]
        source = f"{self.source}:{line}" if line else self.source
        self.problems += problems_of(placed, source=source, tree=self.tree)
        return None

    def add(
        self, message: str, *, at: TreePath = (), line: int | None = None, remedy: str = ""
    ) -> None:
        """Note one problem at a place."""
        where = self._where(at, line)
        self.problems.append(Problem(message=message, where=where, remedy=remedy))

    def is_json(self, value: Json, *, at: TreePath = (), line: int | None = None) -> bool:
        """Whether a value can be kept as JSON: NaN and half a character cannot."""
        if is_deeper(value, DEEPEST):
            self.add("its values are nested too deeply", at=at, line=line)
            return False
        try:
            canonical(value)
        except NotJournalable as error:
            self.add(error.message, at=at, line=line, remedy=error.remedy)
            return False
        return True

    def named(self, name: str, *, at: TreePath = (), line: int | None = None) -> None:
        """Note a name of a case, and complain when it is there twice."""
        if name in self.names:
            first = self._where(*self.names[name])
            message = f"two cases are called {name!r}; the first is at {first}"
            self.add(message, at=at, line=line, remedy="give each case a name of its own")
        elif name:
            self.names[name] = (at, line)

    def settle(self) -> None:
        """Raise what was gathered, if anything was."""
        if not self.problems:
            return
        more = len(self.problems) - _MOST
        last = [Problem(message=f"and {more} more problems", where=self.source)]
        raise ConfigError([*self.problems[:_MOST], *(last if more > 0 else [])])

    def _where(self, at: TreePath, line: int | None) -> str:
        found = line or self._line(at)
        place = f"{self.source}:{found}" if found else self.source
        return f"{place} {dotted(at)}".strip()

    def _line(self, at: TreePath) -> int | None:
        if self.tree is None or not at:
            return None
        return self.tree.line_of(at) or self._line(at[:-1])


def _plainly(fault: Fault) -> Fault:
    """The fault as a model would have it, where it was found in a dataclass."""
    error, missing = fault.errors[0].copy(), fault.errors[0]["loc"][-1:]
    if error["type"] == "missing" and fault.path[-1:] != missing:
        return replace(fault, path=(*fault.path, *missing))
    if error["type"] == "unexpected_keyword_argument":
        error["type"] = "extra_forbidden"
        return replace(fault, errors=(error,), known_keys=())
    return fault


def is_deeper(value: Json, levels: int) -> bool:
    """Whether values stand in one another more than so many levels deep."""
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(is_deeper(one, levels - 1) for one in inner)


def listed(value: Json) -> list[Json]:
    """The value where it is a list, else nothing."""
    return value if isinstance(value, list) else []


def mapped(value: Json) -> Mapping[str, Json]:
    """The value where it is a mapping, else nothing."""
    return value if isinstance(value, dict) else {}
