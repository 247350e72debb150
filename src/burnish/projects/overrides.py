"""Flags and environment variables that stand in for values of a project file."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TypeVar, cast, get_type_hints

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """What flags say; None leaves it to the file."""

    seed: int | None = None
    concurrency: int | None = None
    max_trials: int | None = None
    max_metric_calls: int | None = None
    max_calls: int | None = None
    max_tokens: int | None = None
    max_usd: float | None = None
    max_minutes: float | None = None
    patience: int | None = None
    score_threshold: float | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "Overrides":
        """`BURNISH_MAX_TRIALS=10` and so on: weaker than the file, stronger than defaults."""
        values: dict[str, int | float] = {}
        problems: list[Problem] = []
        for name, hint in get_type_hints(cls).items():
            variable = f"BURNISH_{name.upper()}"
            text = environ.get(variable, "")
            if not text:
                continue
            try:
                values[name] = float(text) if "float" in str(hint) else int(text)
            except ValueError:
                problems.append(
                    Problem(where=f"${variable}", message=f"expected a number, found '{text}'")
                )
        if problems:
            raise ConfigError(problems)
        return replace(cls(), **cast("dict[str, int]", values))

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> "Overrides":
        """What `to_json` gave, names this version does not know left out."""
        known = {field.name for field in fields(cls)}
        return cls(**cast("dict[str, int]", {k: v for k, v in data.items() if k in known}))

    def to_json(self) -> dict[str, Json]:
        """The values that are set."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def over(self, earlier: "Overrides") -> "Overrides":
        """These, and what an earlier command said where these are silent."""
        return Overrides.from_json({**earlier.to_json(), **self.to_json()})

    def choose(self, name: str, in_file: T | None, environment: "Overrides", default: T) -> T:
        """Flag, file, environment, default: the first that says anything."""
        flag = cast("T | None", getattr(self, name))
        weaker = cast("T | None", getattr(environment, name))
        return next((v for v in (flag, in_file, weaker) if v is not None), default)
