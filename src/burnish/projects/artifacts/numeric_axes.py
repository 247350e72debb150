"""Numbers and choices inside configuration files, tuned by the strategy `coordinate`."""

from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from burnish.core.surfaces import ChoiceSurface, NumberSurface, Scalar, value_key
from burnish.projects.artifacts.paths_inside import inside
from burnish.strategies.coordinate.settings import CoordinateSettings, PhaseLimits
from burnish.system.settings import AtLeastOne, Settings

Inside: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(inside)]
NumericSurface: TypeAlias = NumberSurface | ChoiceSurface

_USUAL = CoordinateSettings()


class AxisBlock(Settings):
    """A number in a range, or one of several choices, at a place in a YAML or JSON file."""

    file: Inside
    path: Annotated[str, Field(min_length=1)]
    """Keys with dots between them, and numbers for places in a list: `retry.waits.0`."""
    low: float | None = None
    high: float | None = None
    integer: bool = False
    log: bool = False
    """Search it on a logarithmic scale."""
    choices: list[Scalar] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "AxisBlock":
        if self.choices is not None:
            return self._choosing(self.choices)
        if self.low is None or self.high is None or not self.low < self.high:
            raise ValueError("give low and high, the lower number first, or choices")
        if self.integer and not (self.low.is_integer() and self.high.is_integer()):
            raise ValueError("integer: true needs whole numbers for low and high")
        if self.log and self.low <= 0:
            raise ValueError("log: true needs a low above 0")
        return self

    def _choosing(self, choices: list[Scalar]) -> "AxisBlock":
        if self.low is not None or self.high is not None or self.integer or self.log:
            raise ValueError("choices do not go with low, high, integer and log")
        if len(choices) < 2 or len({value_key(each) for each in choices}) < len(choices):
            raise ValueError("give two or more choices, each once")
        return self

    @property
    def id(self) -> str:
        """The surface's: the file, and the place in it."""
        return f"{self.file}#{self.path}"

    def surface(self) -> NumericSurface:
        """What is tuned."""
        if self.choices is not None:
            return ChoiceSurface(id=self.id, choices=tuple(self.choices))
        assert self.low is not None
        assert self.high is not None
        return NumberSurface(
            id=self.id, low=self.low, high=self.high, integer=self.integer, log=self.log
        )


class CoordinateBlock(Settings):
    """When the search over numbers ends."""

    max_cycles: AtLeastOne = _USUAL.max_cycles
    max_trials: AtLeastOne = _USUAL.numeric_phase.max_trials
    """Of each cycle."""
    patience: AtLeastOne = _USUAL.numeric_phase.patience

    def phase(self) -> PhaseLimits:
        """The limits of a phase."""
        return PhaseLimits(max_trials=self.max_trials, patience=self.patience)
