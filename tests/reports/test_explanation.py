"""`burnish why`: what the record of a run says about its result."""

from dataclasses import replace

import pytest

from burnish.core.content import codec
from burnish.core.errors import Problem
from burnish.core.statistics import Interval
from burnish.core.trials import SplitResult, TrialRow
from burnish.reports.explanation import Explanation, explain, explanation_sections
from burnish.reports.rendering import to_markdown
from burnish.runs.claims import NO_SPREAD
from burnish.runs.events import Claim
from tests.reports.records import baseline, event, record, tried

FINISHED = event("run_finished", reason="nothing left", code="finished")


def passing(row: TrialRow, *, holdout: str) -> TrialRow:
    """The trial with cases a, b, … of holdout that pass (`+`) or fail (`-`)."""
    names = "abcdefgh"[: len(holdout)]
    loss = holdout.count("-") / len(holdout)
    assert row.trial.holdout is not None
    result = SplitResult(
        measurement=replace(
            row.trial.holdout.measurement, loss=loss, pass_rate=1 - loss, cases=len(holdout)
        ),
        scores={
            name: {"good": [float(mark == "+")]} for name, mark in zip(names, holdout, strict=True)
        },
        failed_cases=tuple(n for n, mark in zip(names, holdout, strict=True) if mark == "-"),
    )
    return replace(row, trial=replace(row.trial, holdout=result))


def claimed(**data: object) -> Claim:
    return Claim(candidate=tried(2).trial.candidate.id, **data)  # type: ignore[arg-type]


def test_the_way_to_the_winner_and_what_became_of_the_cases() -> None:
    run = record(
        passing(baseline(0.8, 0.5), holdout="+--"),
        tried(1, text="Bad.", train=0.9, code="worse", reason="train got worse by 0.100"),
        passing(tried(2, train=0.5, holdout=0.3, accepted=True), holdout="-+-"),
        header={"cases": {"train": 1, "holdout": 3, "test": 0}},
        events=(FINISHED,),
    )
    found = explain(run)
    (step,) = found.steps
    assert (step.trial, step.what, step.reason) == (2, "shorter", "because")
    assert step.figures["train loss"] == (0.8, 0.5)
    assert {line.case: line.group for line in found.cases if line.split == "holdout"} == {
        "a": "broken",
        "b": "fixed",
        "c": "failing",
    }
    assert found.unsolved == ("c",)
    assert [(each.code, each.trials) for each in found.refused] == [("worse", (1,))]
    text = to_markdown(explanation_sections(found))
    assert "- trial 2, shorter: train loss 0.800 → 0.500" in text
    assert "**holdout**: 1 broken, 1 fixed, 1 still failing" in text
    assert "1 of 2 trials." in text
    assert codec(Explanation).decode(codec(Explanation).encode(found)) == found


def test_a_candidate_on_the_way_that_was_replaced_is_not_part_of_it() -> None:
    """Its text is not in the winner: both were made from the start."""
    rows = (baseline(), tried(1, text="Other.", accepted=True), tried(2, accepted=True))
    assert [step.trial for step in explain(record(*rows)).steps] == [2]


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (
            claimed(
                basis="sealed test",
                gain=Interval(mean=0.1, low=-0.1, high=0.3, cases=20),
                split="test",
            ),
            "measure it on about 80 cases",
        ),
        (claimed(basis="selected on holdout", split="holdout"), "keep some cases back"),
        (
            claimed(basis="sealed test", split="test", reason=NO_SPREAD),
            "run the cases of test more than once",
        ),
        (
            claimed(
                basis="sealed test",
                split="test",
                verdict="improved",
                gain=Interval(mean=0.1, low=0.05, high=0.15, cases=20),
            ),
            "adopt it",
        ),
    ],
)
def test_the_next_experiment_follows_the_claim(claim: Claim, words: str) -> None:
    run = record(
        baseline(),
        tried(2, accepted=True),
        events=(event("claim", **codec(Claim).encode(claim)), FINISHED),  # type: ignore[arg-type]
    )
    assert explain(run).next[0].what.startswith(words)


def test_refusals_say_what_was_missing() -> None:
    def noisy(number: int) -> TrialRow:
        numbers = {"noise_bar": 0.2, "train_improvement": 0.1}
        return tried(number, text=f"{number}.", code="noise", numbers=numbers)

    found = explain(record(baseline(), noisy(1), noisy(2), header={"cases": {"train": 6}}))
    assert any(each.what == "use about 24 training cases" for each in found.next)
    repeated = Problem(message="the same candidate was tried before")
    rows = (tried(n, text=f"{n}.", problems=(repeated,)) for n in (1, 2))
    found = explain(record(baseline(), *rows))
    assert [each.code for each in found.refused] == ["not run"]
    assert any(each.what == "use a stronger proposer" for each in found.next)


def test_a_run_at_its_limit_and_one_that_was_killed() -> None:
    limit = event("run_finished", reason="60 of 60 calls spent", code="max_calls")
    rows = (baseline(), tried(1, accepted=True))
    for events, words in (((limit,), "give it more budget"), ((), "go on with the run")):
        found = explain(record(*rows, events=events), resume="burnish runs resume run-1")
        (more,) = (each for each in found.next if each.what == words)
        flag = " --max-calls N" if events else ""
        assert more.command == f"burnish runs resume run-1{flag}"


def test_a_search_that_won_with_its_last_trial_is_worth_going_on_with() -> None:
    limit = event("run_finished", reason="2 of 2 trials", code="max_trials")
    rows = (baseline(), tried(1, code="worse"), tried(2, accepted=True))
    found = explain(record(*rows, events=(limit,)), resume="burnish runs resume run-1")
    (more,) = (each for each in found.next if each.what == "give it more budget")
    assert more.because == "its limit ended it (2 of 2 trials) 0 trials after the last accepted one"
    sealed = event("sealed_test", baseline_score=0.1, best_score=0.2, gain=None, missing=0)
    told = explain(record(*rows, events=(sealed, limit))).next
    (fork,) = (each for each in told if "--fork" in each.what)
    assert fork.what.startswith("search on in a new run, with `--fork run-1`")


def test_without_repeats_a_gain_may_be_chance() -> None:
    won = tried(1, accepted=True, numbers={"noise_bar": 0.0, "train_improvement": 0.02})
    assert won.trial.train is not None
    once = replace(won.trial.train.measurement, runs=(0.5,))
    trial = replace(won.trial, train=replace(won.trial.train, measurement=once))
    claim = claimed(basis="sealed test", split="test", verdict="not shown", reason=NO_SPREAD)
    rows = (baseline(), replace(won, trial=trial))
    events = (event("claim", **codec(Claim).encode(claim)), FINISHED)  # type: ignore[arg-type]
    found = explain(record(*rows, events=events))  # pyright: ignore[reportUnknownArgumentType]
    (repeat,) = (each for each in found.next if "--repeats 3" in each.what)
    assert "1 accepted gain, the smallest 0.020, may be chance" in repeat.because


def test_a_run_without_a_single_result() -> None:
    found = explain(record())
    assert (found.verdict, found.steps, found.cases) == ("nothing was measured", (), ())
    assert "start stays" in to_markdown(explanation_sections(found))
