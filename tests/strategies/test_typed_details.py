"""Details and events of runs that burnish 0.1.0 made: read as types, and written back the same.

A resume compares what it records with what is kept, so no key may come or go.
"""

from pathlib import Path

import pytest

from burnish.core.trials import TrialDetails
from burnish.runs.directory import RunRecord
from burnish.runs.events import (
    Advanced,
    EventData,
    PhaseEnded,
    PhaseStarted,
    RunFinished,
    SealedResult,
    SearchEnded,
    SessionBegun,
    Stopping,
    TrialRecorded,
    Warned,
)
from burnish.strategies.backprop.rounds import BackpropDetails
from burnish.strategies.backprop.search import StageBegun
from burnish.strategies.coordinate.phases import DeadAxis, Headroom
from burnish.strategies.edits.attempts import EditDetails
from burnish.strategies.edits.strategy import StageReached
from burnish.strategies.reflective.attempts import ReflectiveDetails
from tests.goldens.old_runs import unpack

COMMON: tuple[type[EventData], ...] = (
    *(SessionBegun, RunFinished, SearchEnded, TrialRecorded, Advanced, SealedResult),
    *(Warned, Stopping),
)
OLD: dict[str, tuple[type[TrialDetails], tuple[type[EventData], ...]]] = {
    "agent-coordinate": (TrialDetails, (PhaseStarted, PhaseEnded, Headroom, DeadAxis)),
    "optimizer-json": (ReflectiveDetails, ()),
    "graph-backprop": (BackpropDetails, (StageBegun,)),
    "task-edits": (EditDetails, (StageReached,)),
}


@pytest.mark.parametrize("name", OLD)
def test_old_journals_are_read_and_written_as_they_are(name: str, tmp_path: Path) -> None:
    details, kinds = OLD[name]
    unpack(name, tmp_path)
    for folder in ("part", "run"):
        run = RunRecord.read(tmp_path / folder)
        for row in run.rows:
            if row.trial.details:
                assert details.of(row.trial).to_json() == row.trial.details
        for event in run.events:
            said = next(d for kind in (*COMMON, *kinds) if (d := event.read(kind)) is not None)
            assert said.to_json() == event.data
