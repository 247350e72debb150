"""The trail: what did better is built on at once, and nothing it led to is left undecided."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from burnish.core.cases import Case
from burnish.core.surfaces import Candidate
from burnish.core.trials import TrialRow
from burnish.journal.limits import Budget
from burnish.reports.rendering import to_markdown
from burnish.runs.directory import RunRecord
from burnish.runs.setup import Setup
from burnish.strategies.reflective.attempts import ReflectiveSettings
from burnish.strategies.reflective.plugin import plan_lines, report
from burnish.strategies.reflective.search import Reflective
from tests.strategies.coordinate_runs import Driven, driven
from tests.strategies.reflection_world import World, setup
from tests.strategies.reflective_runs import START, Talk, scripted

pytestmark = pytest.mark.slow

WIDE = World(train=20, holdout=40, rules=6, idle_share=0.3, harmful_share=0.1)


def climbing(candidate: Candidate, case: Case, draw: int) -> str:
    """Right on as many cases of every ten as there are marks in the text."""
    del draw
    marks = str(candidate.values["system"]).count("!")
    return "yes" if int(case.id[1:]) % 10 < marks else "no"


def one_more(**changes: object) -> Setup:
    """Every rewrite is a little better; a look at holdout is dear."""
    talk = Talk(rewrite=lambda request, _: f"{request.current_text}!")
    settings = ReflectiveSettings(minibatch=10)
    made = scripted(climbing, talk, train=10, holdout=40, settings=settings)
    return replace(made, **changes)  # pyright: ignore[reportArgumentType]


def undecided(rows: list[TrialRow]) -> list[str]:
    """The last candidate that was built on, if holdout was not asked about it or a later one."""
    kept: list[str] = []
    for row in rows:
        if row.trial.kept:
            kept.append(row.trial.candidate.id)
        elif row.trial.holdout is not None:
            kept.clear()
    return kept


def codes(run: Driven) -> list[str]:
    return [row.trial.decision.code if row.trial.decision else "" for row in run.rows[1:]]


def test_the_tip_moves_until_as_much_was_spent_as_holdout_costs(tmp_path: Path) -> None:
    run = driven(one_more(budget=Budget(max_metric_calls=400)), tmp_path / "run")
    # Baseline 40; the first that is better is asked about, since nothing was asked since.
    assert codes(run)[:5] == ["better", "kept", "kept", "kept", "better"]
    known = [row.trial.candidate for row in run.rows]
    for before, after in pairwise(known[:6]):
        assert after.parents == (before.id,)
    spent = 0
    for row in run.rows[2:]:
        if row.trial.decision is not None and row.trial.decision.code == "kept":
            spent += row.spend.metric_calls
            assert spent <= 40 + 10
        else:
            spent = 0


@pytest.mark.parametrize(
    "budget",
    [
        *(Budget(max_metric_calls=limit) for limit in (413, 430, 455, 481)),
        *(Budget(max_trials=limit) for limit in (3, 4, 5)),
        *(Budget(patience=limit) for limit in (2, 3)),
        Budget(max_proposals=4),
        Budget(max_tracked_candidates=4),
    ],
)
def test_a_tip_is_decided_before_a_limit_that_can_be_foreseen(
    tmp_path: Path, budget: Budget
) -> None:
    run = driven(one_more(budget=budget), tmp_path / "run")
    assert any(row.trial.kept for row in run.rows)
    assert not undecided(run.rows)
    marks = max(str(row.trial.candidate.values["system"]).count("!") for row in run.rows)
    assert str(run.ending.best.values["system"]) == START + "!" * marks


def test_a_tip_that_waits_is_decided_when_nothing_new_comes(tmp_path: Path) -> None:
    talk = Talk(rewrite=lambda request, _: f"{request.current_text}!"[: len(START) + 3])
    made = scripted(climbing, talk, settings=ReflectiveSettings(minibatch=10))
    run = driven(
        replace(one_more(budget=Budget()), strategy=made.strategy),
        tmp_path / "run",
    )
    assert run.why == "nothing_new"
    assert not undecided(run.rows)
    assert str(run.ending.best.values["system"]) == f"{START}!!!"


def test_the_row_that_decides_a_tip_says_where_it_came_from(tmp_path: Path) -> None:
    run = driven(one_more(budget=Budget(max_trials=4)), tmp_path / "run")
    deciding, made = run.rows[4].trial, run.rows[3].trial
    assert made.kept
    assert deciding.candidate == made.candidate
    assert deciding.details["parents"] == made.details["parents"] == [*made.candidate.parents]
    assert deciding.touched == ("system",)
    assert not deciding.proposals
    assert deciding.accepted


def test_a_tip_that_is_far_behind_is_left(tmp_path: Path) -> None:
    def overfit(candidate: Candidate, case: Case, draw: int) -> str:
        marks = str(candidate.values["system"]).count("!")
        if int(case.id[1:]) >= 10:
            return "no" if marks else "yes"
        return climbing(candidate, case, draw)

    talk = Talk(rewrite=lambda request, draw: f"{request.current_text}! {draw}")
    settings = ReflectiveSettings(minibatch=10)
    made = scripted(
        overfit, talk, train=10, holdout=20, settings=settings, budget=Budget(max_trials=6)
    )
    run = driven(made, tmp_path / "run")
    start = run.rows[0].trial.candidate.id
    raced = [n for n, row in enumerate(run.rows) if n and row.trial.holdout is not None]
    assert raced
    for number in raced:
        assert run.rows[number].trial.decision is not None
        if number + 1 < len(run.rows):
            assert run.rows[number + 1].trial.candidate.parents == (start,)
    assert run.ending.best.id == start


def test_of_several_proposals_the_best_is_the_next_tip(tmp_path: Path) -> None:
    talk = Talk(rewrite=lambda request, draw: f"{request.current_text}{'!' * (1 + draw % 3)}")
    settings = ReflectiveSettings(minibatch=10, proposals_per_round=3)
    made = scripted(
        climbing, talk, train=10, holdout=60, settings=settings, budget=Budget(max_trials=6)
    )
    run = driven(made, tmp_path / "run")
    for first in (1, 4):
        found = [row.trial for row in run.rows[first : first + 3]]
        marks = [str(trial.candidate.values["system"]).count("!") for trial in found]
        best = found[marks.index(max(marks))]
        for trial in found:
            assert trial.decision is not None
            if trial is best:
                assert trial.decision.code in {"kept", "better"}
            else:
                assert trial.decision.code == "outdone"
                assert "another proposal of the round did better" in trial.decision.reason
    assert all("did better" not in request.rejected for request in talk.asked)


def test_a_resume_with_more_budget_goes_on_from_where_the_tip_was_decided(tmp_path: Path) -> None:
    small, large = (setup(WIDE, budget=Budget(max_metric_calls=n)) for n in (150, 420))
    first = driven(small, tmp_path / "run")
    before = first.rows
    again = driven(large, tmp_path / "run")
    assert again.rows[: len(before)] == before
    assert len(again.rows) > len(before)
    assert 150 < again.ending.spent.metric_calls <= 420
    assert again.ending.billed == again.ending.spent


def _report(run: Driven) -> str:
    return to_markdown(report(RunRecord.read(run.folder), ""))


def _held(row: TrialRow) -> set[str]:
    return set() if row.trial.holdout is None else set(row.trial.holdout.scores)


def test_small_limits_decide_on_a_part_of_holdout_and_a_resume_keeps_to_it(tmp_path: Path) -> None:
    world = World(rules=8, train=12, holdout=40, idle_share=0.2, harmful_share=0.1)
    small, large = (setup(world, budget=Budget(max_metric_calls=n)) for n in (120, 400))
    plan = "\n".join(plan_lines(small, cast("Reflective", small.strategy)))
    assert "decides   on 12 of 40 holdout cases" in plan
    first = driven(small, tmp_path / "run")
    before = first.rows
    decided = _held(before[0])
    assert len(decided) == 12  # beside 14 rounds of 6 runs: 84 + 3 · 12 = 120
    assert first.ending.spent.metric_calls <= 120
    assert any(row.trial.accepted for row in before[1:])
    assert "12 of 40 holdout cases decided" in _report(first)
    again = driven(large, tmp_path / "run")
    assert again.rows[: len(before)] == before
    assert len(again.rows) > len(before)
    assert all(_held(row) <= decided for row in again.rows)


def test_large_limits_decide_on_all_of_holdout(tmp_path: Path) -> None:
    world = World(rules=4, train=12, holdout=20)
    made = setup(world, budget=Budget(max_metric_calls=14 * 6 + 3 * 20))
    assert "decides" not in "\n".join(plan_lines(made, cast("Reflective", made.strategy)))
    run = driven(made, tmp_path / "run")
    assert len(_held(run.rows[0])) == 20
    assert "holdout cases decided" not in _report(run)
