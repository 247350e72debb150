"""Gathering everything that is wrong with a project file before any of it is said."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pydantic import BaseModel

from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.system import YamlTree
from burnish.system.config_errors import dotted

T = TypeVar("T")
_Keys = tuple[str | int, ...]


@dataclass(kw_only=True)
class _Gathering:
    """The problems of one file, each with its line."""

    tree: YamlTree
    problems: list[Problem] = field(default_factory=list[Problem])

    def of(self, at: _Keys, make: Callable[[], T], otherwise: T) -> T:
        """What `make` gives; where it cannot, the problem is kept and `otherwise` given."""
        try:
            return make()
        except ConfigError as error:
            self.problems += [self._placed(problem, at) for problem in error.problems]
        except BurnishError as error:
            problem = Problem(message=error.message, remedy=error.remedy)
            self.problems.append(self._placed(problem, at))
        return otherwise

    def as_told(self, make: Callable[[], T], otherwise: T, *, where: str = "") -> T:
        """The same for what says by itself where it stands; `where` is for what does not."""
        try:
            return make()
        except ConfigError as error:
            self.problems += error.problems
        except BurnishError as error:
            self.problems.append(Problem(where=where, message=error.message, remedy=error.remedy))
        return otherwise

    def made(self, at: str, block: BaseModel, make: Callable[[], T]) -> T | None:
        """What a block makes; its problems may say which of its settings they are about."""
        try:
            return make()
        except ConfigError as error:
            for problem in error.problems:
                keys = tuple(problem.where.split("."))
                if keys[0] in type(block).model_fields:
                    self.problems.append(replace(problem, where=self.place((at, *keys))))
                else:
                    self.problems.append(self._placed(problem, (at,)))
        return None

    def add(self, at: _Keys, message: str, remedy: str = "") -> None:
        """Keep a problem."""
        self.problems.append(Problem(where=self.place(at), message=message, remedy=remedy))

    def settle(self) -> None:
        """Raise everything that was found."""
        if self.problems:
            raise ConfigError(list(dict.fromkeys(self.problems)))

    def place(self, keys: _Keys) -> str:
        """Where a key stands, or the nearest one around it."""
        source = self.tree.path.name
        line = next(
            (number for n in range(len(keys), 0, -1) if (number := self.tree.line_of(keys[:n]))),
            None,
        )
        return f"{source}:{line} {dotted(keys)}" if line else f"{source} {dotted(keys)}".strip()

    def _placed(self, problem: Problem, at: _Keys) -> Problem:
        """With the key's place before its own, which may be in another file."""
        here = self.place(at)
        return replace(problem, where=f"{here}: {problem.where}" if problem.where else here)
