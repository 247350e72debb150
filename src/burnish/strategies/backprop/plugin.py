"""Back-propagation as a plug-in: its plan, its lines, its report."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from burnish.core.formatting import Section
from burnish.core.surfaces import AGENT_SURFACES, Surface
from burnish.core.trials import Trial
from burnish.runs.directory import RunRecord
from burnish.runs.plugins import (
    STEPS,
    Ability,
    Building,
    RoleNeed,
    StrategyParts,
    StrategyPlugin,
    TargetParts,
)
from burnish.runs.progress import ProgressLines
from burnish.runs.report_sections import score_table
from burnish.runs.setup import Setup
from burnish.runs.spec import StrategySettings
from burnish.strategies.backprop.report import (
    ENDS,
    BackpropLines,
    plan_lines,
    report,
    search_limits,
)
from burnish.strategies.backprop.rounds import PHASE
from burnish.strategies.backprop.settings import BackpropSettings
from burnish.strategies.backprop.strategy import ROLES, Backprop, build


class BackpropPlugin(StrategyPlugin):
    """The words of back-propagation."""

    name: ClassVar[str] = Backprop.name
    Settings: ClassVar[type[StrategySettings]] = BackpropSettings
    roles: ClassVar[tuple[RoleNeed, ...]] = ROLES
    needs: ClassVar[tuple[type[Surface], ...]] = AGENT_SURFACES
    requires: ClassVar[tuple[Ability, ...]] = (STEPS,)
    needs_holdout: ClassVar[bool] = True
    ends: ClassVar[Mapping[str, str]] = ENDS
    rationales: ClassVar[Mapping[str, Sequence[str]]] = {"patcher": ("reason",)}
    offers_fork: ClassVar[bool] = False

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        """The search over a target."""
        return build(building, parts)

    def plan(self, setup: Setup) -> Iterable[str]:
        """What would run, and what it may cost."""
        return plan_lines(setup, _strategy(setup))

    def limits(self, setup: Setup) -> list[str]:
        """What ends a search."""
        return search_limits(setup, _strategy(setup))

    def repeats(self, setup: Setup) -> int:
        """How often a trial runs each case."""
        return _strategy(setup).settings.repeats

    def progress(self) -> ProgressLines:
        """Who turns the events of one run into lines."""
        return BackpropLines(self.ends)

    def baseline(self, run: RunRecord, *, quiet: bool) -> Sequence[Section]:
        """What the start scores on holdout."""
        del quiet
        table = score_table(run)
        return () if table is None else (table,)

    def report(self, run: RunRecord) -> Iterable[Section]:
        """What report.md says."""
        return report(run, self.reason(run))

    def turn(self, trial: Trial) -> str:
        """Rounds, once there is one."""
        return "round" if trial.phase == PHASE else "cycle"


def _strategy(setup: Setup) -> Backprop:
    assert isinstance(setup.strategy, Backprop)
    return setup.strategy
