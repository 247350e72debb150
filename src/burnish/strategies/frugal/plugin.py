"""The search for savings as a plug-in: how it is built, its plan and its report."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from burnish.core.formatting import Heading, Section, Table, Text, cell, number
from burnish.core.savings import SAVED_WORDS
from burnish.core.surfaces import (
    ChoiceSurface,
    DemosSurface,
    NumberSurface,
    Surface,
    TextSurface,
    diff,
)
from burnish.core.trials import TrialRow
from burnish.core.word_diff import changes_words
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
from burnish.strategies.frugal.search import Frugal, FrugalSettings, Point, frontier


class FrugalPlugin(StrategyPlugin):
    """`--goal cheaper`, `--goal faster` and `--goal frontier`."""

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
        if settings.goal == "frontier":
            yield "keeps     whatever no other candidate beats in both score and cost"
        yield f"changes   {', '.join(surfaces)}"
        holdout = len(setup.dataset.holdout)
        yield f"cases     holdout {holdout} decide, {progress.sealed_cases(setup)}"
        yield f"can show  {progress.shown_by(holdout)}"
        yield f"limits    {', '.join(progress.budget_limits(setup.budget)) or 'none'}"
        yield from progress.notes(setup)
        yield progress.NOTHING_PAID

    def report(self, run: RunRecord) -> Iterable[Section]:
        yield from plain_report(run, self.reason(run))
        if any(row.trial.kept for row in run.rows):
            yield from _frontier(run)
        else:
            yield from _steps(run)


def _frontier(run: RunRecord) -> Iterator[Section]:
    """What no other candidate beats in both score and cost, the cheapest first."""
    rows = [
        row for row in run.rows if row.trial.decision and (row.trial.accepted or row.trial.kept)
    ]
    places = [(row, Point(amount=_amount(row, "after"), score=_score(row))) for row in rows]
    start = run.baseline
    if start is not None and places:
        places.insert(0, (start, Point(amount=_amount(rows[0], "before"), score=_score(start))))
    best = run.best
    yield Heading("Cost and score")
    yield Text.of(
        "No other candidate that was measured is as good and cheaper than one of these. "
        "`burnish adopt RUN --trial N` adopts one. These are the cases of holdout, which chose "
        "them: only what is offered was measured on others."
    )
    yield Table(
        ("trial", "what", _unit(rows), "score", ""),
        tuple(
            (
                str(row.number),
                cell("; ".join(_changes(run, row)) or "the start", 80),
                number(point.amount),
                number(point.score),
                "offered" if best is not None and row.number == best.number else "",
            )
            for row, point in frontier(places)
        ),
    )


def _changes(run: RunRecord, row: TrialRow) -> list[str]:
    """What differs from the start; values that are short to tell come first."""
    if run.baseline is None:
        return []
    changes = diff(run.baseline.trial.candidate, row.trial.candidate)
    return changes_words(sorted(changes, key=lambda each: len(str(each.after))))


def _unit(rows: Iterable[TrialRow]) -> str:
    """What the amounts are, which the reasons of the decisions say."""
    reasons = [row.trial.decision.reason for row in rows if row.trial.decision]
    told = (words for words in SAVED_WORDS.values() if any(words in each for each in reasons))
    return next(told, "amount a case")


def _amount(row: TrialRow, side: str) -> float:
    return row.trial.decision.numbers.get(side, math.nan) if row.trial.decision else math.nan


def _score(row: TrialRow) -> float:
    result = row.trial.holdout
    score = None if result is None else result.measurement.score
    return math.nan if score is None else score


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
        ("trial", "what", _unit(rows), "score"),
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
