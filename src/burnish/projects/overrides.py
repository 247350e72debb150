"""Flags and environment variables that stand in for values of a project file."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, TypeAlias, TypeVar, cast

from pydantic import Field

from burnish.core.content import Json
from burnish.core.errors import ConfigError
from burnish.system import validate_config
from burnish.system.settings import AtLeastOne, Limits, NotNegative, Places, Repeats, Settings

T = TypeVar("T")
AGENT_FOLDER = "agent_folder"
"""What no flag says: it goes with --agent."""
FlagValue: TypeAlias = float | str | Mapping[str, str] | Mapping[str, Json] | None

_FLAGS = {
    "sealed_cases": "--test",
    "baseline_only": "--print-baseline",
    "train_cases": "--train",
    "holdout_cases": "--val",
    "prompt_files": "--prompt",
    "metric_file": "--metrics",
    "policy_db": "--db",
    "experiment": "--target",
}
"""The flags that have another name than what they set."""
_DOORS = {
    "sealed_cases": "test",
    "train_cases": "train",
    "holdout_cases": "holdout",
    "prompt_files": "prompt",
    "metric_file": "metrics",
    "policy_db": "db",
    "baseline_only": "print_baseline",
    "no_rollback": "rollback",
}


class AgentOverrides(Settings):
    """What only the search over an agent file, or over prompts, can be told."""

    max_cycles: AtLeastOne | None = None
    numeric_max_trials: AtLeastOne | None = None
    numeric_patience: AtLeastOne | None = None
    textual_max_trials: AtLeastOne | None = None
    textual_patience: AtLeastOne | None = None
    repeats: Repeats | None = None
    accept_sigma: NotNegative | None = None
    strategy: str | None = None
    critic: str | None = None
    """Models, as `provider:name`."""
    applier: str | None = None
    reflector: str | None = None
    sealed_cases: str | None = None
    """A file of cases; whole, so that a run goes on from another folder too."""
    keep_best_only: bool | None = None
    baseline_only: bool | None = None


class PromptOverrides(Settings):
    """What only the search over prompts can be told. Paths are whole, as above."""

    agent: str | None = None
    """`module:function`."""
    agent_folder: str | None = None
    """Where the command was given, so that the module is found again."""
    prompt_files: dict[str, str] | None = None
    """By the name of the field."""
    train_cases: str | None = None
    holdout_cases: str | None = None
    metric_file: str | None = None
    update_source: bool | None = None
    """Put the best prompts where they came from when the run has ended well."""


class BackpropOverrides(Settings):
    """What only back-propagation can be told."""

    proposer: str | None = None
    """A model, as `provider:name`."""
    max_rounds: AtLeastOne | None = None


class TaskOverrides(Settings):
    """What only the search over the files of a task can be told."""

    editor: str | None = None
    """A model, as `provider:name`."""
    in_place: bool | None = None
    """Put the best files where they came from when the run has ended well."""


class SuiteOverrides(Settings):
    """What only the training of policy texts on a suite can be told."""

    epochs: AtLeastOne | None = None
    learning_rate: Annotated[float, Field(gt=0, le=1)] | None = None
    with_textgrad: bool | None = None
    no_rollback: bool | None = None
    policy_db: str | None = None
    """The registry, by its whole path."""
    experiment: str | None = None
    """The experiment whose registry is meant."""
    policy_versions: dict[str, int] | None = None
    """Where a run that goes on had started; no flag says it."""


class Overrides(
    Limits, AgentOverrides, PromptOverrides, BackpropOverrides, TaskOverrides, SuiteOverrides
):
    """What flags say; None leaves it to the file."""

    seed: int | None = None
    concurrency: Places | None = None

    @classmethod
    def from_flags(cls, **values: FlagValue) -> "Overrides":
        """What the command line says: stronger than the file."""
        return cls._read(values, flag_of)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "Overrides":
        """`BURNISH_MAX_TRIALS=10` and so on: weaker than the file, stronger than defaults."""
        unsaid = (*PromptOverrides.model_fields, "in_place", "no_rollback")
        # The registry has its own way to be found, whatever runs with it.
        unsaid += ("policy_db", "experiment", "policy_versions")
        names = [name for name in cls.model_fields if name not in unsaid]
        variables = {name: _variable(name) for name in names}
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

    def by_door(self) -> dict[str, Json]:
        """The same by the names that the doors of a description have."""
        said = self.to_json()
        return {_DOORS.get(key, key): value for key, value in said.items() if key != AGENT_FOLDER}

    @classmethod
    def from_doors(cls, flags: Mapping[str, Json]) -> "Overrides":
        """From the names that the doors have."""
        names = {door: name for name, door in _DOORS.items()}
        return cls.from_flags(**{names.get(key, key): value for key, value in flags.items()})  # pyright: ignore[reportArgumentType]

    def over(self, earlier: "Overrides") -> "Overrides":
        """These, and what an earlier command said where these are silent."""
        return Overrides.from_json({**earlier.to_json(), **self.to_json()})

    def choose(self, name: str, in_file: T | None, environment: "Overrides", default: T) -> T:
        """Flag, file, environment, default: the first that says anything."""
        flag = cast("T | None", getattr(self, name))
        weaker = cast("T | None", getattr(environment, name))
        return next((v for v in (flag, in_file, weaker) if v is not None), default)


def flag_of(name: str) -> str:
    """An override as the command line spells it."""
    return _FLAGS.get(name, f"--{name.replace('_', '-')}")


def _variable(name: str) -> str:
    return f"BURNISH_{name.upper()}"
