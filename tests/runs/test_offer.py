"""What a run offers is not worse than its baseline, whatever the single accepts allowed."""

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.truth.cheats_ties import drifting_setup

from burnish.core.cases import Case, Failure, FailureKind, Outcome, Split
from burnish.core.comparisons import Pair
from burnish.core.evaluations import CaseResult, Constraint, Evaluation, Objective
from burnish.core.gates import OfferRule, not_worse
from burnish.core.trials import Verdict
from burnish.journal.limits import Budget
from burnish.projects.adopt import chosen_trial
from burnish.runs.candidate_checks import IncumbentResults
from burnish.runs.directory import RunRecord
from burnish.runs.events import Withheld, read_all
from tests.strategies.coordinate_runs import driven

pytestmark = pytest.mark.slow

SPEED = OfferRule(primary="seconds", accept_sigma=0.0)
PLAIN = Objective(weights={})


def measured(*values: float, failed: bool = False, **more: float) -> Evaluation:
    failure = Failure(kind=FailureKind.AGENT, message="boom") if failed else None
    results = tuple(
        CaseResult(
            case="task",
            draw=draw,
            outcome=Outcome(measures={"seconds": v, **more}, failure=failure),
        )
        for draw, v in enumerate(values)
    )
    return Evaluation(candidate="c", split=Split.HOLDOUT, results=results)


def verdict(
    new: Evaluation, old: Evaluation, rule: OfferRule = SPEED, objective: Objective = PLAIN
) -> Verdict:
    pair = Pair(candidate=new, incumbent=old)
    return not_worse(rule=rule, objective=objective, pair=pair).verdict


@pytest.mark.parametrize(
    ("new", "rule", "expected"),
    [
        (0.9, SPEED, Verdict.ACCEPT),
        (1.0, SPEED, Verdict.ACCEPT),
        (1.04, SPEED, Verdict.REJECT),
        (1.04, replace(SPEED, tolerance=0.05), Verdict.ACCEPT),
        (1.06, replace(SPEED, tolerance=0.05), Verdict.REJECT),
        (0.9, replace(SPEED, direction="maximize"), Verdict.REJECT),
    ],
)
def test_a_winner_may_be_worse_by_one_tie_at_most(
    new: float, rule: OfferRule, expected: Verdict
) -> None:
    assert verdict(measured(new), measured(1.0), rule) is expected


def test_noise_counts_as_often_as_the_rule_says() -> None:
    new, old = measured(1.2, 1.0), measured(1.0, 0.8)  # 0.2 apart, with a noise of 0.141
    assert verdict(new, old, replace(SPEED, accept_sigma=1.0)) is Verdict.REJECT
    assert verdict(new, old, replace(SPEED, accept_sigma=1.5)) is Verdict.ACCEPT


def test_a_baseline_that_does_not_run_or_breaks_a_limit_is_worse() -> None:
    limit = Objective(weights={}, constraints=(Constraint(metric="size", op="<=", value=5),))
    assert verdict(measured(2.0), measured(1.0, failed=True)) is Verdict.ACCEPT
    assert verdict(measured(0.5, failed=True), measured(1.0)) is Verdict.REJECT
    small, large = measured(2.0, size=5.0), measured(1.0, size=6.0)
    assert verdict(small, large, objective=limit) is Verdict.ACCEPT
    assert verdict(large, small, objective=limit) is Verdict.REJECT


def test_only_repeats_of_all_cases_count() -> None:
    kept = IncumbentResults()
    cases = [Case.single("a", name="a"), Case.single("b", name="b")]
    results = [CaseResult(case=name, draw=d, outcome=Outcome()) for d in (0, 1) for name in "ab"]
    kept.add("c", Split.TRAIN, results[:3])
    whole = kept.evaluation("c", Split.TRAIN, cases)
    assert whole is not None
    assert [(r.case, r.draw) for r in whole.results] == [("a", 0), ("b", 0)]
    assert kept.evaluation("c", Split.HOLDOUT, cases) is None
    kept.forget("c")
    assert kept.evaluation("c", Split.TRAIN, cases) is None


def test_the_last_incumbent_that_is_not_worse_is_offered(tmp_path: Path) -> None:
    run = driven(drifting_setup(), tmp_path / "run")
    record = RunRecord.read(run.folder)
    assert [row.trial.accepted for row in record.rows[1:]] == [True] * 5
    assert run.ending.best.values["prompt"] == "version 2"
    assert record.best is record.rows[2]
    assert chosen_trial(record, None) is record.rows[2]
    assert (run.folder / "candidates" / "best").readlink().name == "iter-02"
    (withheld,) = read_all(record.events, Withheld)
    assert (withheld.trial, withheld.offered) == (5, 2)
    (warning,) = run.events("warning")
    assert warning["message"].startswith("trial 5 is not offered: compared with the baseline")
    assert run.events("run_finished")[0]["best"] == run.ending.best.id
    assert run.events("run_finished")[0]["best_score"] == pytest.approx(14 / 20)


def test_a_resume_searches_on_from_the_incumbent_and_decides_anew(tmp_path: Path) -> None:
    setup = drifting_setup()
    cut = driven(replace(setup, budget=Budget(max_trials=3)), tmp_path / "run")
    assert cut.ending.best.values["prompt"] == "version 2"
    again = driven(setup, tmp_path / "run")
    assert len(again.rows) == 6
    assert again.rows[4].trial.candidate.values["prompt"] == "version 4"
    record = RunRecord.read(again.folder)
    assert [w.trial for w in read_all(record.events, Withheld)] == [3, 5]
    assert record.best is record.rows[2]
