"""Flags and environment variables that stand in for values of a project file."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar, cast

from burnish.core.content import Json
from burnish.core.errors import ConfigError
from burnish.projects.limits import Limits, Places
from burnish.system import validate_config

T = TypeVar("T")


class Overrides(Limits):
    """What flags say; None leaves it to the file."""

    seed: int | None = None
    concurrency: Places | None = None

    @classmethod
    def from_flags(cls, **values: float | None) -> "Overrides":
        """What the command line says: stronger than the file."""
        return cls._read(values, lambda name: f"--{name.replace('_', '-')}")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "Overrides":
        """`BURNISH_MAX_TRIALS=10` and so on: weaker than the file, stronger than defaults."""
        variables = {name: _variable(name) for name in cls.model_fields}
        said = {name: environ.get(variable) or None for name, variable in variables.items()}
        return cls._read(said, lambda name: f"${_variable(name)}")

    @classmethod
    def from_json(cls, data: Mapping[str, Json], *, source: str = "") -> "Overrides":
        """What `to_json` gave, names this version does not know left out."""
        known = {name: value for name, value in data.items() if name in cls.model_fields}
        return cls._read(known, lambda name: f"{source} {name}".strip())

    @classmethod
    def _read(cls, data: Mapping[str, object], where: Callable[[str], str]) -> "Overrides":
        try:
            return validate_config(dict(data), cls, source="")
        except ConfigError as error:
            raise ConfigError(
                [replace(problem, where=where(problem.where)) for problem in error.problems]
            ) from None

    def to_json(self) -> dict[str, Json]:
        """The values that are set."""
        return self.model_dump(exclude_none=True)

    def over(self, earlier: "Overrides") -> "Overrides":
        """These, and what an earlier command said where these are silent."""
        return Overrides.from_json({**earlier.to_json(), **self.to_json()})

    def choose(self, name: str, in_file: T | None, environment: "Overrides", default: T) -> T:
        """Flag, file, environment, default: the first that says anything."""
        flag = cast("T | None", getattr(self, name))
        weaker = cast("T | None", getattr(environment, name))
        return next((v for v in (flag, in_file, weaker) if v is not None), default)


def _variable(name: str) -> str:
    return f"BURNISH_{name.upper()}"
