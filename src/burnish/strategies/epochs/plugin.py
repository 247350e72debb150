"""Training by epochs as a plug-in: its plan and its report."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from burnish.core.sections import Section
from burnish.runs.plugins import StrategyPlugin
from burnish.runs.record import RunRecord
from burnish.runs.setup import Setup
from burnish.strategies.epochs.report import ENDS, plan_lines, report
from burnish.strategies.epochs.strategy import Epochs


class EpochsPlugin(StrategyPlugin):
    """The words of training by epochs."""

    name: ClassVar[str] = Epochs.name
    ends: ClassVar[Mapping[str, str]] = ENDS

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
