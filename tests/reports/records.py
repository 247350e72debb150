"""Runs made by hand, for reports to read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from burnish.core.content import Json, codec
from burnish.core.errors import Problem
from burnish.core.evaluations import Measurement
from burnish.core.money import Spend
from burnish.core.surfaces import Candidate, Origin
from burnish.core.trials import Decision, SplitResult, Trial, TrialRow, Verdict
from burnish.runs.directory import Header, RunRecord
from burnish.runs.events import Event, TrialRecorded

START = Candidate(values={"text": "Hello."}, origin=Origin(kind="baseline"))


def measured(loss: float | None, *, missing: tuple[str, ...] = ()) -> SplitResult:
    """A result whose one case scored 1 − loss."""
    score = None if loss is None else 1 - loss
    known = {} if score is None else {"good": score}
    measurement = Measurement(loss=loss, components=known, missing_cases=missing, cases=1)
    return SplitResult(measurement=measurement, scores={"case-1": {"good": [score]}})


def baseline(train: float | None = 0.8, holdout: float | None = 0.7) -> TrialRow:
    """The trial that starts a run."""
    return TrialRow(
        number=0,
        trial=Trial(
            candidate=START, phase="baseline", train=measured(train), holdout=measured(holdout)
        ),
        spend=Spend(calls=10, nano_usd=1_000_000),
    )


def tried(
    number: int,
    *,
    text: str = "Hi.",
    note: str = "shorter",
    train: float | None = 0.5,
    holdout: float | None = None,
    accepted: bool = False,
    reason: str = "because",
    code: str = "better",
    numbers: dict[str, float] | None = None,
    problems: tuple[Problem, ...] = (),
    phase: str = "words",
    missing: tuple[str, ...] = (),
) -> TrialRow:
    """A trial after the baseline."""
    verdict = Verdict.ACCEPT if accepted else Verdict.REJECT
    decision = Decision(
        gate="sigma", verdict=verdict, code=code, reason=reason, numbers=numbers or {}
    )
    return TrialRow(
        number=number,
        trial=Trial(
            candidate=START.child({"text": text}, origin=Origin(by="proposer", note=note)),
            cycle=1,
            phase=phase,
            touched=("text",),
            problems=problems,
            train=None if problems else measured(train, missing=missing),
            holdout=None if holdout is None else measured(holdout),
            decision=None if problems else decision,
        ),
        spend=Spend(calls=5, nano_usd=500_000),
    )


def event(kind: str, **data: Json) -> Event:
    """Something that happened."""
    return Event(id=kind, kind=kind, at="2026-01-01T00:00:00+00:00", data=data)


def record(*rows: TrialRow, events: tuple[Event, ...] = (), **changes: Any) -> RunRecord:
    """A run with these trials."""
    header: dict[str, Any] = {
        "id": "run-1",
        "strategy": "climb",
        "seed": 42,
        "started_at": "2026-01-01T00:00:00+00:00",
        "burnish": "0.1.0",
        "cases": {"train": 1, "holdout": 1, "test": 0},
    }
    header |= changes.pop("header", {})
    given: dict[str, Any] = {
        "folder": Path("/runs/run-1"),
        "header": Header(**header),
        "rows": rows,
        "events": events,
        "billed": sum((row.spend for row in rows), Spend()),
        "active_seconds": 61.0,
        "driven": False,
    }
    return RunRecord(**(given | changes))


def recorded(data: Mapping[str, Json]) -> TrialRecorded:
    """What the event of a trial says."""
    return codec(TrialRecorded).decode(dict(data))
