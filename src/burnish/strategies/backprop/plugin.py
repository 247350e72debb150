"""Back-propagation as a plug-in: how it is built, its plan, its lines, its report."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from burnish.core.drawings import Drawing
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
from burnish.strategies.backprop.prompts import (
    AGGREGATOR,
    BACKWARDER,
    PATCHER,
    aggregator,
    backwarder,
    patcher,
)
from burnish.strategies.backprop.report import (
    ENDS,
    BackpropLines,
    blame,
    plan_lines,
    report,
    search_cost,
    search_limits,
)
from burnish.strategies.backprop.rounds import PHASE
from burnish.strategies.backprop.settings import BackpropSettings
from burnish.strategies.backprop.strategy import (
    ROLES,
    Backprop,
    role_models,
    unknown_names,
    whole_names,
)


class BackpropPlugin(StrategyPlugin):
    """Back-propagation for the command line, run.json and report.md."""

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
        settings = whole_names(building.spec.strategy.settings, parts)
        for problem in unknown_names(settings, parts.target, parts.metrics, parts.dataset):
            path = ("strategy", "settings", *problem.at)
            building.problems.add(path, problem.message, problem.remedy)
        clients = {
            name: None if ref is None else building.asked(name, ref)
            for name, ref in role_models(building, parts).items()
        }
        walking, merging, patching = (clients[name] for name in (BACKWARDER, AGGREGATOR, PATCHER))
        if walking is None or merging is None or patching is None:
            return None
        return StrategyParts(
            strategy=Backprop(
                backwarder=backwarder(*walking),
                aggregator=aggregator(*merging),
                patcher=patcher(*patching),
                settings=settings,
            ),
            client=patching[0],
        )

    def plan(self, setup: Setup) -> Iterable[str]:
        return plan_lines(setup, _strategy(setup))

    def search_cost(self, setup: Setup) -> str:
        return search_cost(setup, _strategy(setup))

    def limits(self, setup: Setup) -> list[str]:
        return search_limits(setup, _strategy(setup))

    def repeats(self, setup: Setup) -> int:
        return _strategy(setup).settings.repeats

    def progress(self) -> ProgressLines:
        return BackpropLines(self.ends)

    def baseline(self, run: RunRecord, *, quiet: bool) -> Sequence[Section]:
        del quiet
        table = score_table(run)
        return () if table is None else (table,)

    def report(self, run: RunRecord) -> Iterable[Section]:
        return report(run, self.reason(run))

    def drawings(self, run: RunRecord) -> Iterable[Drawing]:
        return blame(run)

    def turn(self, trial: Trial) -> str:
        return "round" if trial.phase == PHASE else "cycle"


def _strategy(setup: Setup) -> Backprop:
    assert isinstance(setup.strategy, Backprop)
    return setup.strategy
