"""Training by epochs as a plug-in: its plan and its report."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from burnish.core.formatting import Section
from burnish.delegation.training.epochs import PROPOSER, Epochs, build
from burnish.delegation.training.report import ENDS, plan_lines, report
from burnish.delegation.training.settings import EpochSettings
from burnish.runs.directory import RunRecord
from burnish.runs.plugins import (
    DELEGATIONS,
    Ability,
    Building,
    RoleNeed,
    StrategyParts,
    StrategyPlugin,
    TargetParts,
)
from burnish.runs.setup import Setup
from burnish.runs.spec import StrategySettings


class EpochsPlugin(StrategyPlugin):
    """The words of training by epochs."""

    name: ClassVar[str] = Epochs.name
    Settings: ClassVar[type[StrategySettings]] = EpochSettings
    roles: ClassVar[tuple[RoleNeed, ...]] = (PROPOSER,)
    requires: ClassVar[tuple[Ability, ...]] = (DELEGATIONS,)
    ends: ClassVar[Mapping[str, str]] = ENDS

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        """The training of a target's texts."""
        return build(building, parts)

    def plan(self, setup: Setup) -> Iterable[str]:
        """What would run, and what it may cost."""
        assert isinstance(setup.strategy, Epochs)
        return plan_lines(setup, setup.strategy)

    def repeats(self, setup: Setup) -> int:
        """Runs of every task in an epoch."""
        assert isinstance(setup.strategy, Epochs)
        return setup.strategy.settings.repeats

    def report(self, run: RunRecord) -> Iterable[Section]:
        """What report.md says."""
        return report(run, self.reason(run))
