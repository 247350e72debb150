"""Runs to which people send notes at chosen trials."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from burnish.runs.directory import NAME as HEADER
from burnish.runs.directory import RunRecord
from burnish.runs.driver import Ending, drive
from burnish.runs.events import Event, Steered, Tick, TrialRecorded, read_all
from burnish.runs.setup import Setup, resume, start
from burnish.runs.steering import Action, Note, send
from tests.strategies.coordinate_runs import Driven


def note(action: Action, *names: str, text: str = "", by: str = "alice", **values: str) -> Note:
    """A note of a person; its id follows from what it says, so that it is never sent twice."""
    told = "-".join([action, *names, *values, text[:8]])
    return Note(
        action=action, by=by, at="2026-01-01", id=told, text=text, surfaces=names, values=values
    )


@dataclass(frozen=True, kw_only=True)
class Sender:
    """Sends notes as soon as a trial is recorded."""

    folder: Path
    notes: Mapping[int, Sequence[Note]]

    def event(self, event: Event) -> None:
        if trial := event.read(TrialRecorded):
            for each in self.notes.get(trial.trial, ()):
                send(RunRecord.read(self.folder), each)

    def tick(self, tick: Tick) -> None:
        """Nothing depends on cases."""


async def steered_run(
    setup: Setup, folder: Path, notes: Mapping[int, Sequence[Note]] | None = None
) -> Ending:
    """Drive a run to its end, or go on with it, while notes come in."""
    run = resume(setup, folder) if (folder / HEADER).exists() else start(setup, folder=folder)
    run.listen(Sender(folder=folder, notes=notes or {}))
    try:
        return await drive(run)
    finally:
        await run.close()


def steered(
    setup: Setup, folder: Path, notes: Mapping[int, Sequence[Note]] | None = None
) -> Driven:
    """The same, outside an event loop."""
    return Driven(folder=folder, ending=asyncio.run(steered_run(setup, folder, notes)))


def taken(run: Driven) -> list[Steered]:
    """The notes that a run has taken in or refused."""
    return [*read_all(RunRecord.read(run.folder).events, Steered)]
