"""The search for savings as a plug-in: how it is built, its plan and its report."""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from burnish.core.formatting import Heading, Section, Table, Text, cell, number
from burnish.core.surfaces import ChoiceSurface, DemosSurface, NumberSurface, Surface, TextSurface
from burnish.runs import progress
from burnish.runs.directory import RunRecord
from burnish.runs.plugins import (
    COSTS,
    Ability,
    Building,
    StrategyParts,
    StrategyPlugin,
    TargetParts,
)
from burnish.runs.report_sections import plain_report
from burnish.runs.setup import Setup
from burnish.runs.spec import StrategySettings
from burnish.strategies.frugal.search import Frugal, FrugalSettings


class FrugalPlugin(StrategyPlugin):
    """`--goal cheaper` and `--goal faster`."""

    name: ClassVar[str] = "frugal"
    Settings: ClassVar[type[StrategySettings]] = FrugalSettings
    needs: ClassVar[tuple[type[Surface], ...]] = (
        TextSurface,
        NumberSurface,
        ChoiceSurface,
        DemosSurface,
    )
    requires: ClassVar[tuple[Ability, ...]] = (COSTS,)
    needs_holdout: ClassVar[bool] = True
    ends: ClassVar[Mapping[str, str]] = {"finished": "nothing more can be saved"}

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        names = (*parts.numbers(), *parts.demonstrations(), *parts.texts())
        return StrategyParts(
            strategy=Frugal(settings=building.spec.strategy.settings, surfaces=names)
        )

    def plan(self, setup: Setup) -> Iterable[str]:
        assert isinstance(setup.strategy, Frugal)
        settings, surfaces = setup.strategy.settings, setup.strategy.surfaces or ()
        saved = "seconds" if settings.goal == "faster" else "USD, or tokens without a price"
        yield from progress.agent_line(setup)
        yield f"strategy  frugal, seed {setup.seed}"
        yield f"saves     {saved}; the score may be lower by {settings.margin:g}"
        yield f"changes   {', '.join(surfaces)}"
        holdout = len(setup.dataset.holdout)
        yield f"cases     holdout {holdout} decide, {progress.sealed_cases(setup)}"
        yield f"can show  {progress.shown_by(holdout)}"
        yield f"limits    {', '.join(progress.budget_limits(setup.budget)) or 'none'}"
        yield from progress.notes(setup)
        yield progress.NOTHING_PAID

    def report(self, run: RunRecord) -> Iterable[Section]:
        yield from plain_report(run, self.reason(run))
        yield from _steps(run)


def _steps(run: RunRecord) -> Iterator[Section]:
    """The accepted candidates: each costs less than the one before it."""
    rows = [row for row in run.rows if row.trial.accepted and row.trial.decision is not None]
    yield Heading("Cost and score")
    if not rows:
        yield Text.of("Nothing cheaper is as good.")
        return
    yield Text.of(
        "Each step costs less than the one before it. `burnish adopt RUN --trial N` adopts one."
    )
    yield Table(
        ("trial", "what", "amount a case", "score"),
        tuple(
            (
                str(row.number),
                cell(row.trial.candidate.origin.note, 60),
                number(row.trial.decision.numbers.get("after") if row.trial.decision else None),
                number(row.trial.holdout.measurement.score if row.trial.holdout else None),
            )
            for row in rows
        ),
    )
