"""The parts that every project file has, whatever its kind."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from burnish.effects.budget import Budget
from burnish.projects.overrides import Overrides

AtLeastOne = Annotated[int, Field(ge=1)]
AboveZero = Annotated[float, Field(gt=0)]

DEFAULT_SEED = 42
DEFAULT_CONCURRENCY = 8


class Settings(BaseModel):
    """A block of a project file: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class BudgetSettings(Settings):
    """Limits. Whichever is reached first ends the run."""

    max_trials: AtLeastOne | None = None
    max_proposals: AtLeastOne | None = None
    max_metric_calls: AtLeastOne | None = None
    max_calls: AtLeastOne | None = None
    max_tokens: AtLeastOne | None = None
    max_usd: AboveZero | None = None
    max_minutes: AboveZero | None = None
    max_tracked_candidates: AtLeastOne | None = None
    patience: AtLeastOne | None = None
    score_threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    required_metrics: tuple[str, ...] = ()

    def budget(self, flags: Overrides, environment: Overrides) -> Budget:
        """The limits after flags and environment."""
        chosen: Mapping[str, object] = {
            name: flags.choose(name, value, environment, None) if hasattr(flags, name) else value
            for name, value in self
        }
        return Budget(**chosen)  # pyright: ignore[reportArgumentType]


class ProjectFile(Settings):
    """What every project file may say."""

    kind: str
    seed: int | None = None
    concurrency: AtLeastOne | None = None
    time_limit: AboveZero | None = None
    """Seconds a case may take."""
    budget: BudgetSettings = Field(default_factory=BudgetSettings)
