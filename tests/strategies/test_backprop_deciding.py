"""How back-propagation decides: gates, guards, several candidates, memory, budgets."""

from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.cases import Case, Outcome
from burnish.core.surfaces import Candidate
from burnish.journal.limits import Budget
from burnish.strategies.backprop.packets import BackpropSettings, GateName, GuardSettings
from burnish.strategies.backprop.prompts import PatchAnswer, PatchRequest
from burnish.testing import CallCounter
from tests.strategies.backprop_world import (
    PLANNER,
    Roles,
    add_words,
    outcome,
    planned,
    run,
    world,
)

pytestmark = pytest.mark.slow


def test_rejected_patches_are_remembered_and_shown(tmp_path: Path) -> None:
    roles = Roles(patch=add_words)
    settings = BackpropSettings(max_rounds_without_acceptance=3, max_rounds=9)
    done = run(world(roles=roles, settings=settings), tmp_path)
    assert done.why == "max_rounds_without_acceptance"
    first, second, third = roles.of("patcher")
    assert first.rejected == "(none)"
    assert "Make a plan. Try 1000000." in second.rejected
    assert "a tie is no gain" in second.rejected
    assert third.rejected.count("tried:") == 2
    assert not any(row.trial.accepted for row in done.rows[1:])


def test_several_candidates_are_tried_and_the_best_of_them_leads(tmp_path: Path) -> None:
    def patch(request: PatchRequest, draw: int) -> PatchAnswer:
        word = "FIX" if draw == 1_000_002 else "same"
        return PatchAnswer(value=f"{request.surface.value} {word}", reason="try")

    settings = BackpropSettings(candidates_per_round=3, max_rounds=1)
    done = run(world(roles=Roles(patch=patch), settings=settings), tmp_path)
    trials = [row.trial for row in done.rows[1:]]
    assert [trial.accepted for trial in trials] == [False, False, True]
    assert "the same" in trials[1].problems[0].message
    assert ["losses" in trial.details for trial in trials] == [True, False, False]


def test_under_sigma_a_candidate_is_held_against_the_one_accepted_before_it(
    tmp_path: Path,
) -> None:
    def agent(candidate: Candidate, case: Case, draw: int) -> Outcome:
        del draw
        text, number = str(candidate.values[PLANNER]), int(case.id[1:])
        good = "ALL" in text or ("HALF" in text and number % 2 == 0) or number >= 50
        return outcome("yes" if good else "no")

    def patch(request: PatchRequest, draw: int) -> PatchAnswer:
        return PatchAnswer(value="ALL" if draw % 2 == 0 else "HALF", reason="try")

    settings = BackpropSettings(gate="sigma", candidates_per_round=2, max_rounds=1)
    done = run(world(agent, Roles(patch=patch), settings), tmp_path)
    decisions = [row.trial.decision for row in done.rows[1:]]
    assert [d.accepted for d in decisions if d] == [True, False]
    assert decisions[1] is not None
    assert "train got worse by 0.500" in decisions[1].reason


def test_under_strict_a_tie_is_held_against_the_best_so_far(tmp_path: Path) -> None:
    settings = BackpropSettings(gate="strict", max_rounds=1)
    done = run(world(roles=Roles(patch=add_words), settings=settings), tmp_path)
    decision = done.rows[1].trial.decision
    assert decision is not None
    assert decision.code == "tie"
    assert "also with the best so far" in decision.reason
    assert decision.numbers["primary_best"] == decision.numbers["primary_before"]


GUARDS = {
    "protected": GuardSettings(protected=("q50",)),
    "new failures": GuardSettings(no_new_failures=True),
    "floor": GuardSettings(floors={"expected_text": 0.9}),
}


@pytest.mark.parametrize("guard", GUARDS)
def test_a_gain_that_breaks_a_guard_is_turned_down(tmp_path: Path, guard: str) -> None:
    def agent(candidate: Candidate, case: Case, draw: int) -> Outcome:
        found = planned(candidate, case, draw)
        swapped = {"yes": "no", "no": "yes"}[found.output]
        return outcome(swapped if case.id == "q50" else found.output)

    roles = Roles()
    settings = BackpropSettings(guards=GUARDS[guard], max_rounds=2)
    done = run(world(agent, roles, settings), tmp_path)
    decision = done.rows[1].trial.decision
    assert decision is not None
    assert (decision.accepted, decision.code) == (False, "guard")
    # The patcher hears why, but not which of the held out cases it was.
    assert "q50" not in roles.of("patcher")[1].rejected


@pytest.mark.parametrize("gate", ["min_gain", "sigma", "strict"])
def test_every_gate_accepts_what_is_clearly_better(tmp_path: Path, gate: GateName) -> None:
    settings = BackpropSettings(gate=gate, max_rounds=1, repeats=2)
    decision = run(world(settings=settings), tmp_path).rows[1].trial.decision
    assert decision is not None
    assert (decision.gate, decision.accepted) == (gate, True)


def test_no_more_trials_than_the_budget_has_within_a_round_either(tmp_path: Path) -> None:
    settings = BackpropSettings(candidates_per_round=3, max_rounds=1)
    made = world(roles=Roles(patch=add_words), settings=settings, budget=Budget(max_trials=1))
    done = run(made, tmp_path)
    assert (len(done.rows), done.ending.reason.code) == (2, "max_trials")
    assert len(run(replace(made, budget=Budget()), tmp_path).rows) == 4


def test_the_score_that_is_good_enough_ends_it(tmp_path: Path) -> None:
    settings = BackpropSettings(target_score=1.0)
    assert run(world(settings=settings), tmp_path).why == "target_score"


@pytest.mark.parametrize("calls", [9, 15, 20])
def test_a_budget_is_looked_at_inside_a_round_and_more_of_it_goes_on(
    tmp_path: Path, calls: int
) -> None:
    counter = CallCounter(path=tmp_path / "calls")
    made = world(counter=counter, budget=Budget(max_calls=calls))
    done = run(made, tmp_path)
    assert done.ending.reason.code == "max_calls"
    assert len(counter.calls()) <= calls + 6
    assert len(done.rows) == 1
    more = run(replace(made, budget=Budget()), tmp_path)
    assert more.rows[1].trial.accepted
    assert len(counter.calls()) == more.ending.spent.calls
