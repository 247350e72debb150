"""The parts that every project file has, whatever its kind."""

from collections.abc import Mapping

from pydantic import Field

from burnish.effects.budget import Budget
from burnish.models.model_settings import ModelsBlock
from burnish.projects.overrides import Overrides
from burnish.system.settings import AboveZero, AtLeastOne, Limits, Places, Settings, Share

DEFAULT_SEED = 42
DEFAULT_CONCURRENCY = 8


class BudgetSettings(Limits):
    """Limits. Whichever is reached first ends the run."""

    max_proposals: AtLeastOne | None = None
    max_tracked_candidates: AtLeastOne | None = None
    pass_rate_threshold: Share | None = None
    """Good enough: the share of cases in which the incumbent passes every metric."""
    required_metrics: tuple[str, ...] = ()

    def budget(self, flags: Overrides, environment: Overrides) -> Budget:
        """The limits after flags and environment."""
        chosen: Mapping[str, object] = {
            name: flags.choose(name, value, environment, None)
            if name in Overrides.model_fields
            else value
            for name, value in self
        }
        return Budget(**chosen)  # pyright: ignore[reportArgumentType]


class ProjectFile(Settings):
    """What every project file may say."""

    kind: str
    seed: int | None = None
    concurrency: Places | None = None
    time_limit: AboveZero | None = None
    """Seconds a case may take; not said, 300 for each call of a Python function."""
    budget: BudgetSettings = Field(default_factory=BudgetSettings)
    models: ModelsBlock = Field(default_factory=ModelsBlock)
    """How models are called: prices, limits, attempts."""
