"""Runs of coordinate descent, driven to their end, and what they left behind."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from burnish.core.cases import Case, Dataset
from burnish.core.evaluations import Objective
from burnish.core.surfaces import Candidate, Surface, Value
from burnish.core.trials import TrialRow
from burnish.journal.journal import EffectRow, JournalReader
from burnish.journal.limits import Budget
from burnish.runs.directory import trial_rows
from burnish.runs.driver import Ending, drive
from burnish.runs.setup import Setup, resume, start
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.coordinate.trials import CoordinateSettings, PhaseLimits
from burnish.testing import ExpectedText, ScriptedTarget

ONE = PhaseLimits(max_trials=1, patience=1)


@dataclass(frozen=True, kw_only=True)
class Driven:
    """A run that has ended."""

    folder: Path
    ending: Ending

    @property
    def rows(self) -> list[TrialRow]:
        """The recorded trials, the baseline first."""
        with JournalReader(self.folder) as journal:
            return list(trial_rows(journal))

    @property
    def effects(self) -> list[EffectRow]:
        """What the journal holds."""
        with JournalReader(self.folder) as journal:
            return list(journal.effects())

    def of_phase(self, phase: str, cycle: int | None = None) -> list[TrialRow]:
        """The trials of one phase."""
        return [
            row
            for row in self.rows
            if row.trial.phase == phase and cycle in (None, row.trial.cycle)
        ]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """What was announced."""
        lines = (self.folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
        return [event["data"] for event in map(json.loads, lines) if event["kind"] == kind]

    def ends(self) -> dict[tuple[int, str], str]:
        """Why each phase ended."""
        return {(e["cycle"], e["phase"]): e["reason"] for e in self.events("phase_ended")}

    @property
    def why(self) -> str:
        """Why the search ended by itself."""
        return "".join(event["reason"] for event in self.events("search_ended"))


def driven(setup: Setup, folder: Path) -> Driven:
    """Make the run, or go on with it."""
    is_run = folder.exists()

    async def go() -> Ending:
        run = resume(setup, folder) if is_run else start(setup, folder=folder)
        try:
            return await drive(run)
        finally:
            await run.close()

    return Driven(folder=folder, ending=asyncio.run(go()))


def always(reply: str) -> Callable[[Candidate, Case, int], str]:
    """An agent with one answer."""

    def respond(candidate: Candidate, case: Case, draw: int) -> str:
        del candidate, case, draw
        return reply

    return respond


def scripted(
    respond: Callable[[Candidate, Case, int], Any],
    surfaces: tuple[Surface, ...],
    values: dict[str, Value],
    settings: CoordinateSettings,
    *,
    train: int = 4,
    holdout: int = 2,
    strategy: Coordinate | None = None,
    budget: Budget | None = None,
) -> Setup:
    """A run over an agent that is a function; a case wants the reply `yes`."""
    cases = tuple(Case.single(f"question {n}", "yes", name=f"q{n}") for n in range(train + holdout))
    return Setup(
        wait_minutes=0,  # who is away stays away
        target=ScriptedTarget(respond=respond, surfaces=surfaces, values=values),
        metrics=(ExpectedText(),),
        objective=Objective(weights={"expected_text": 1.0}),
        dataset=Dataset(train=cases[:train], holdout=cases[train:]),
        strategy=strategy or Coordinate(settings=settings),
        budget=budget or Budget(),
    )


def with_settings(setup: Setup, settings: CoordinateSettings) -> Setup:
    """The same run with other settings of the strategy."""
    assert isinstance(setup.strategy, Coordinate)
    return replace(setup, strategy=replace(setup.strategy, settings=settings))


def with_agent(setup: Setup, **changes: Any) -> Setup:
    """The same run with another agent."""
    assert isinstance(setup.target, ScriptedTarget)
    return replace(setup, target=replace(setup.target, **changes))
