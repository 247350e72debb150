"""Complaints: everything that is wrong with a file, gathered while it is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.system.config_faults import Fault, faults_in
from burnish.system.config_problems import dotted, problems_of
from burnish.system.plain_data import TreePath
from burnish.system.yaml_tree import YamlTree

M = TypeVar("M", bound=BaseModel)
Respell = Callable[[Fault], Fault]

_MOST = 100
_LONGEST_WITH_LINES = 500_000
"""Finding lines means parsing again, slowly: a minute for a file of ten megabytes."""


def _as_it_is(fault: Fault) -> Fault:
    return fault


@dataclass(kw_only=True)
class Complaints:
    """The problems of one file, each with its place."""

    source: str
    tree: YamlTree | None = None
    problems: list[Problem] = field(default_factory=list[Problem])
    names: dict[str, str] = field(default_factory=dict[str, str])
    """Where each name of a case was first seen."""

    @classmethod
    def about(cls, tree: YamlTree) -> "Complaints":
        """About a YAML or JSON file, with lines unless it is too long to look for them."""
        short = len(tree.text) <= _LONGEST_WITH_LINES
        return cls(source=tree.path.name, tree=tree if short else None)

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
            faults = [respell(fault) for fault in faults_in(error, value, model)]
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

    def named(self, name: str, *, at: TreePath = (), line: int | None = None) -> None:
        """Note a name of a case, and complain when it is there twice."""
        if name in self.names:
            message = f"two cases are called {name!r}; the first is at {self.names[name]}"
            self.add(message, at=at, line=line, remedy="give each case a name of its own")
        elif name:
            self.names[name] = self._where(at, line)

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


def listed(value: Json) -> list[Json]:
    """The value where it is a list, else nothing."""
    return value if isinstance(value, list) else []


def mapped(value: Json) -> Mapping[str, Json]:
    """The value where it is a mapping, else nothing."""
    return value if isinstance(value, dict) else {}
