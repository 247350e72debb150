"""The limits that a file, a flag or an environment variable may set, and their bounds."""

from pydantic import BaseModel, ConfigDict

from burnish.core.bounds import (
    AboveZero,
    AtLeastOne,
    NoneOrMore,
    NotNegative,
    Places,
    Repeats,
    Share,
)

__all__ = [
    "AboveZero",
    "AtLeastOne",
    "Limits",
    "NoneOrMore",
    "NotNegative",
    "Places",
    "Repeats",
    "Settings",
    "Share",
]


class Settings(BaseModel):
    """A block of a project file: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Limits(Settings):
    """The limits that flags and variables know too. None leaves it open."""

    max_trials: AtLeastOne | None = None
    max_metric_calls: AtLeastOne | None = None
    max_calls: AtLeastOne | None = None
    max_tokens: AtLeastOne | None = None
    max_usd: AboveZero | None = None
    max_minutes: AboveZero | None = None
    patience: AtLeastOne | None = None
    score_threshold: Share | None = None
