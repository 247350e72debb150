"""A run as it lies on disk: its status, its best, what it spent."""

from dataclasses import replace

import pytest

from burnish.core.money import Spend
from burnish.reports.rendering import compare_cases
from burnish.runs.directory import RunRecord, loss_of, result_of
from burnish.runs.events import Event
from burnish.runs.plugins import StrategyPlugin
from tests.reports.records import baseline, event, record, tried

STARTED, RESUMED = event("run_started"), event("run_resumed")
FINISHED = event("run_finished", code="max_trials", reason="9 of 9 trials", spent={"calls": 7})
INTERRUPTED = event("run_interrupted", code="signal", reason="asked")
FAILED = event("run_failed", reason="no space")


@pytest.mark.parametrize(
    ("events", "status", "reason"),
    [
        ((), "killed", ""),
        ((STARTED,), "killed", ""),
        ((STARTED, FINISHED), "finished", "max_trials: 9 of 9 trials"),
        ((STARTED, INTERRUPTED), "interrupted", "signal: asked"),
        ((STARTED, FAILED), "failed", "no space"),
        ((STARTED, FINISHED, RESUMED), "killed", ""),
        ((STARTED, INTERRUPTED, RESUMED, FINISHED), "finished", "max_trials: 9 of 9 trials"),
        ((STARTED, event("run_finished", code="finished", reason="done")), "finished", "done"),
    ],
)
def test_the_last_session_says_how_it_stands(
    events: tuple[Event, ...], status: str, reason: str
) -> None:
    run = record(baseline(), events=events)
    assert (run.status, StrategyPlugin().reason(run)) == (status, reason)
    driven = record(baseline(), events=events, driven=True)
    assert (driven.status, StrategyPlugin().reason(driven)) == ("running", "")


def test_spent_is_what_the_end_said_or_what_the_trials_add_up_to() -> None:
    assert record(baseline(), events=(STARTED, FINISHED)).spent == Spend(calls=7)
    killed = record(baseline(), tried(1), events=(STARTED,))
    assert killed.spent == Spend(calls=15, nano_usd=1_500_000)


def test_the_best_is_the_last_accepted_or_the_baseline() -> None:
    assert record().best is None
    assert record().best_candidate is None
    assert record(baseline(), tried(1)).best == baseline()
    run = record(baseline(), tried(1, accepted=True), tried(2, accepted=True), tried(3))
    assert run.best is not None
    assert (run.best.number, run.trials, run.accepted) == (2, 3, 2)
    assert loss_of(run.best, "train") == 0.5
    assert (loss_of(None, "train"), result_of(run.best, "holdout")) == (None, None)


def test_cases_are_compared_where_both_have_them() -> None:
    left, right = record(baseline(train=0.8)), record(baseline(train=0.3))
    [delta] = compare_cases(left, right, "train")
    assert (delta.case, delta.word) == ("case-1", "up")
    assert [d.word for d in compare_cases(right, left, "train")] == ["down"]
    assert [d.word for d in compare_cases(left, left, "holdout")] == ["same"]
    assert compare_cases(left, record(), "train") == []
    assert compare_cases(left, record(baseline(train=None)), "train") == []


def test_a_metric_that_one_side_lacks_on_a_case_makes_no_difference() -> None:
    def run(**scores: float) -> RunRecord:
        row = baseline(train=0.5)
        assert row.trial.train is not None
        train = replace(row.trial.train, scores={"case-1": {m: [v] for m, v in scores.items()}})
        return record(replace(row, trial=replace(row.trial, train=train)))

    left, right = run(equality=0.6, faithful=0.1), run(equality=0.6)
    assert [delta.word for delta in compare_cases(left, right, "train")] == ["same"]
    assert compare_cases(run(faithful=0.1), run(equality=0.6), "train") == []
