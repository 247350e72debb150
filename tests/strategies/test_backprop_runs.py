"""Whole rounds of back-propagation: repair, early ends, memory, replay, budgets, refusals."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.candidates import Candidate
from burnish.core.cases import Case, Turn
from burnish.core.errors import ConfigError, ProposerFailed, RoleFailed, TargetMismatch
from burnish.core.gates import Guards
from burnish.core.outcomes import Outcome, Step, Trace
from burnish.core.surfaces import TextSurface
from burnish.effects.budget import Budget
from burnish.strategies.backprop.packets import Severity
from burnish.strategies.backprop.settings import BackpropSettings, GateName, LossHint
from burnish.strategies.backprop.strategy import Backprop
from burnish.strategies.backprop.wording import (
    BackwardAnswer,
    BackwardRequest,
    MergeAnswer,
    MergeRequest,
    PatchAnswer,
    PatchRequest,
    SurfaceRemark,
)
from burnish.testing import CallCounter, check_strategy
from burnish.testing.stories import story
from tests.strategies.backprop_world import (
    PLANNER,
    START,
    WRITER,
    Roles,
    add_fix,
    add_words,
    blame_the_plan,
    missing,
    outcome,
    planned,
    run,
    with_settings,
    world,
)

pytestmark = pytest.mark.slow


def silent(request: object, draw: int) -> Any:
    del request, draw
    raise RoleFailed("no valid answer")


def test_a_fault_is_walked_back_patched_and_accepted(tmp_path: Path) -> None:
    roles = Roles()
    done = run(world(roles=roles), tmp_path)
    _, trial = (row.trial for row in done.rows)
    assert trial.accepted
    assert done.ending.best.values == {**START, PLANNER: "Make a plan. FIX"}
    assert trial.touched == (PLANNER,)
    assert done.why == "no_losses"
    writer, planner = (r for r in roles.of("backwarder")[:2])
    assert [writer.node, planner.node] == ["writer", "writer"]
    loss = writer.incoming[0].gradient
    assert "score 0.000" in loss
    assert "Expected: yes" in loss
    (merge,) = roles.of("aggregator")
    assert len(merge.gradients) == 4
    assert trial.details["merged"] == {
        PLANNER: [{"severity": "P1", "gradient": "plan better", "cases": ["q0", "q1", "q2", "q3"]}]
    }
    assert trial.details["changes"]["new_pass"] == ["q50", "q51", "q52", "q53"]  # pyright: ignore
    assert trial.details["failure_classes"] == {f"q{n}": "final answer" for n in range(4)}
    assert {p.role for p in trial.proposals} == {"backwarder", "aggregator", "patcher"}


def test_nothing_that_fails_costs_a_validation(tmp_path: Path) -> None:
    counter = CallCounter(path=tmp_path / "calls")
    values = {**START, PLANNER: "FIX"}
    done = run(world(values=values, counter=counter), tmp_path)
    assert done.why == "no_losses"
    assert len(counter.calls()) == 8
    assert len(done.rows) == 1


def test_a_round_without_patches_pays_for_no_validation(tmp_path: Path) -> None:
    counter = CallCounter(path=tmp_path / "calls")
    roles = Roles(patch=lambda request, _: PatchAnswer(value=request.surface.value, reason="x"))
    settings = BackpropSettings(max_rounds=2, candidates_per_round=2)
    done = run(world(roles=roles, settings=settings, counter=counter), tmp_path)
    trials = [row.trial for row in done.rows[1:]]
    assert [trial.problems[0].message for trial in trials] == ["there is no patch to try"] * 4
    assert sum(call.startswith("run") for call in counter.calls()) == 8
    assert "the patch changes nothing" in str(trials[0].details["lost"])
    assert "changes nothing" in roles.of("patcher")[-1].rejected


def test_what_one_round_lost_is_not_told_again_in_the_next(tmp_path: Path) -> None:
    def merge(request: MergeRequest, draw: int) -> MergeAnswer:
        if draw < 2_000_000:
            raise RoleFailed("gone")
        return MergeAnswer()

    roles = Roles(merge=merge, patch=add_words)
    settings = BackpropSettings(max_rounds=3)
    done = run(world(roles=roles, settings=settings), tmp_path)
    lost = [row.trial.details["lost"] for row in done.rows[1:]]
    whys = [[each["why"] for each in found] for found in lost]  # pyright: ignore
    assert whys == [["gone"], ["the answer says nothing"], ["the answer says nothing"]]
    # The remarks as they were said stand, with all their cases.
    merged = done.rows[2].trial.details["merged"][PLANNER]  # pyright: ignore
    assert merged[0]["cases"] == ["q0", "q1", "q2", "q3"]  # pyright: ignore


def test_a_failing_role_costs_its_packet_and_not_the_run(tmp_path: Path) -> None:
    def back(request: BackwardRequest, draw: int) -> BackwardAnswer:
        if "002" in request.input + str(request.incoming) or draw % 8 < 2:
            raise RoleFailed("not today")
        return blame_the_plan(request, draw)

    done = run(world(roles=Roles(back=back)), tmp_path)
    assert done.rows[1].trial.accepted
    lost = done.rows[1].trial.details["lost"]
    assert [(each["where"], each["why"]) for each in lost] == [("q0, writer:1", "not today")]  # pyright: ignore


@pytest.mark.parametrize("dumb", ["backwarder", "patcher"])
def test_a_role_that_never_answers_fails_the_run(tmp_path: Path, dumb: str) -> None:
    roles = Roles(back=silent) if dumb == "backwarder" else Roles(patch=silent)
    made = world(roles=roles)
    with pytest.raises(ProposerFailed, match=f"the {dumb} never gave a usable answer: no valid"):
        run(made, tmp_path)
    rows = (tmp_path / "run" / "trials.jsonl").read_text(encoding="utf-8")
    assert "no valid answer" in rows
    asked = len(roles.seen)
    with pytest.raises(ProposerFailed):
        run(made, tmp_path)
    assert len(roles.seen) == asked


def test_nobody_is_asked_where_nothing_can_be_blamed(tmp_path: Path) -> None:
    def agent(candidate: Candidate, case: Case, draw: int) -> Outcome:
        del candidate, case, draw
        return Outcome(replies=("no",), trace=Trace(steps=(Step(id="a", node="a"),)))

    roles = Roles()
    done = run(world(agent, roles), tmp_path)
    assert (done.why, roles.seen) == ("nothing_to_blame", [])


def test_only_targets_are_blamed_and_the_others_are_shown(tmp_path: Path) -> None:
    roles = Roles()
    settings = BackpropSettings(targets=(WRITER,), max_rounds=1)
    run(world(roles=roles, settings=settings), tmp_path)
    writer, planner = roles.of("backwarder")[0], roles.of("backwarder")[-1]
    assert [each.id for each in writer.surfaces] == [WRITER]
    # The planner has nothing that may be blamed and nobody before it: it is not asked about.
    assert planner.node == "writer"
    assert not roles.of("patcher")


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


def test_a_patch_with_held_out_text_is_turned_away_and_never_shown(tmp_path: Path) -> None:
    secret = "Question number 050 of somebody"

    def patch(request: PatchRequest, draw: int) -> PatchAnswer:
        if draw < 2_000_000:
            return PatchAnswer(value=f"FIX for: {secret}", reason="guess")
        return add_fix(request, draw)

    roles = Roles(patch=patch)
    done = run(world(roles=roles), tmp_path)
    assert done.rows[1].trial.problems[0].message == "there is no patch to try"
    assert "held out" in str(done.rows[1].trial.details["lost"])
    assert done.rows[2].trial.accepted
    assert secret not in roles.of("patcher")[1].rejected


def test_remarks_with_held_out_text_are_lost_and_the_run_goes_on(tmp_path: Path) -> None:
    secret = "Question number 050 of somebody"

    def agent(candidate: Candidate, case: Case, draw: int) -> Outcome:
        found = planned(candidate, case, draw)
        told = secret if case.id == "q1" and found.output == "no" else "a plan"
        return outcome(found.output, told)

    def back(request: BackwardRequest, draw: int) -> BackwardAnswer:
        answer = blame_the_plan(request, draw)
        if draw % 8 == 0:
            bad = SurfaceRemark(surface=PLANNER, gradient=f"answer {secret} better")
            return BackwardAnswer(gradients=[*answer.gradients, bad])
        return answer

    roles = Roles(back=back)
    done = run(world(agent, roles), tmp_path)
    assert done.rows[1].trial.accepted
    told: Any = done.rows[1].trial.details["lost"]
    assert ["q50" in each["why"] for each in told] == [True, True]
    assert secret not in str(roles.seen)


def test_missing_train_cases_are_said_and_are_no_losses(tmp_path: Path) -> None:
    def agent(candidate: Candidate, case: Case, draw: int) -> Outcome:
        return missing() if case.id == "q1" else planned(candidate, case, draw)

    done = run(world(agent), tmp_path)
    assert done.rows[1].trial.details["train_missing"] == ["q1"]
    assert {loss["case"] for loss in done.rows[1].trial.details["losses"]} == {"q0", "q2", "q3"}  # pyright: ignore
    assert (done.ending.reason.code, done.why) == ("finished", "train_missing")
    assert "1 of 4 are missing" in done.events("warning")[0]["message"]


def test_a_holdout_that_is_missing_is_no_gain(tmp_path: Path) -> None:
    def agent(candidate: Candidate, case: Case, draw: int) -> Outcome:
        found = planned(candidate, case, draw)
        gone = found.output == "yes" and case.id in ("q50", "q51")
        return missing() if gone else found

    done = run(world(agent, settings=BackpropSettings(max_rounds=1)), tmp_path)
    decision = done.rows[1].trial.decision
    assert decision is not None
    assert (decision.verdict.value, decision.code) == ("cannot tell", "missing")


def test_losses_of_each_turn_begin_in_their_turn_and_every_repeat_is_walked(
    tmp_path: Path,
) -> None:
    def agent(candidate: Candidate, case: Case, draw: int) -> Outcome:
        found = planned(candidate, case, draw)
        return replace(found, trace=Trace(), replies=("fine", found.output))

    turns = (Turn(input="Hello there, who is asking me?"), Turn(input="And now?", expected="yes"))
    roles = Roles()
    done = run(
        world(
            agent,
            roles,
            BackpropSettings(repeats=2),
            train=[Case(turns=turns, name="talk")],
        ),
        tmp_path,
    )
    trial = done.rows[1].trial
    assert trial.accepted
    losses = [(each["draw"], each["step"]) for each in trial.details["losses"]]  # pyright: ignore
    assert losses == [(0, "agent-2"), (1, "agent-2")]
    assert roles.of("backwarder")[0].input == "And now?"


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


GUARDS = {
    "protected": Guards(protected=("q50",)),
    "new failures": Guards(no_new_failures=True),
    "floor": Guards(floors={"expected_text": 0.9}),
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


def test_the_stages_are_told_in_their_order(tmp_path: Path) -> None:
    done = run(world(settings=BackpropSettings(max_rounds=1)), tmp_path)
    told = [event["stage"] for event in done.events("stage")]
    assert told == [
        "structure_snapshot",
        "baseline_validation",
        "round_started",
        "round_train_evaluation",
        "round_losses",
        "round_backward",
        "round_aggregation",
        "round_patch_set",
        "round_output_profile",
        "round_validation",
        "round_completed",
    ]


def test_no_more_trials_than_the_budget_has_within_a_round_either(tmp_path: Path) -> None:
    settings = BackpropSettings(candidates_per_round=3, max_rounds=1)
    made = world(roles=Roles(patch=add_words), settings=settings, budget=Budget(max_trials=1))
    done = run(made, tmp_path)
    assert (len(done.rows), done.ending.reason.code) == (2, "max_trials")
    assert len(run(replace(made, budget=Budget()), tmp_path).rows) == 4


def test_the_score_that_is_good_enough_ends_it(tmp_path: Path) -> None:
    settings = BackpropSettings(target_score=1.0)
    assert run(world(settings=settings), tmp_path).why == "target_score"


def test_hints_and_loss_targets_reach_the_backwarder(tmp_path: Path) -> None:
    hint = LossHint(case="q1", metric="expected_text", reason="ask me", severity=Severity.P0)
    roles = Roles()
    settings = BackpropSettings(loss_hints=(hint,), loss_targets={"expected_text": "planner"})
    done = run(world(roles=roles, settings=settings), tmp_path)
    asked = roles.of("backwarder")
    assert {request.node for request in asked} == {"planner"}
    assert [r.incoming[0].gradient for r in asked if len(r.incoming) == 2] == ["ask me"]
    assert done.rows[1].trial.accepted


def test_a_loss_whose_node_did_not_run_is_told_as_lost(tmp_path: Path) -> None:
    settings = BackpropSettings(loss_targets={"expected_text": "reviewer"})
    found: list[Any] = []
    made = world(settings=settings)
    assert isinstance(made.strategy, Backprop)

    def watch(stage: str, seen: object) -> None:
        if stage == "round_losses":
            found.append(seen)

    run(replace(made, strategy=replace(made.strategy, watch=watch)), tmp_path)
    assert "did not run" in found[0].lost[0].why


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (BackpropSettings(targets=("plan",)), "plan: there is no such surface"),
        (BackpropSettings(patch_parallelism=0), "must be at least 1, found 0"),
        (BackpropSettings(max_rounds=0), "max_rounds: must be at least 1"),
        (
            BackpropSettings(loss_hints=(LossHint(case="q50", metric="m", reason="x"),)),
            "no train case 'q50'",
        ),
        (BackpropSettings(loss_targets={"m": "planner"}), "no metric 'm'"),
        (BackpropSettings(guards=Guards(protected=("q0",))), "no holdout case 'q0'"),
        (BackpropSettings(guards=Guards(floors={"m": 1.0})), "floor: there is no metric 'm'"),
    ],
)
def test_what_does_not_exist_is_refused_before_anything_is_paid(
    tmp_path: Path, settings: BackpropSettings, words: str
) -> None:
    counter = CallCounter(path=tmp_path / "calls")
    with pytest.raises((ConfigError, TargetMismatch), match=words):
        run(world(settings=settings, counter=counter), tmp_path)
    assert not counter.calls()


@pytest.mark.parametrize("bad", ["", "no room", "no placeholder"])
def test_patches_out_of_bounds_are_lost_and_told(tmp_path: Path, bad: str) -> None:
    values = {**START, PLANNER: "Plan for {who}."}
    text = TextSurface(id=PLANNER, max_chars=60, placeholders=("{who}",))

    def patch(request: PatchRequest, draw: int) -> PatchAnswer:
        if draw >= 2_000_000:
            return add_fix(request, draw)
        return PatchAnswer(value="x" * 99 + "{who}" if bad == "no room" else bad, reason="shorter")

    roles = Roles(patch=patch)
    made = world(roles=roles, values=values, surfaces=(text, TextSurface(id=WRITER)))
    done = run(made, tmp_path)
    assert done.rows[1].trial.problems[0].message == "there is no patch to try"
    assert done.rows[2].trial.accepted
    assert "turned down" in roles.of("patcher")[1].rejected


def everything() -> Callable[[], Any]:
    return lambda: world(
        roles=Roles(patch=add_words),
        settings=BackpropSettings(max_rounds=3, candidates_per_round=2, repeats=2),
    )


def test_the_contract_of_strategies(tmp_path: Path) -> None:
    asyncio.run(check_strategy(everything(), tmp_path, cut_at=2))


def test_going_on_with_other_widths_replays_the_same_story(tmp_path: Path) -> None:
    made = everything()()
    first = run(with_settings(made, max_rounds=2), tmp_path)
    before = story(first.folder / "trials.jsonl")
    narrow = with_settings(
        made, backward_parallelism=1, aggregation_parallelism=1, patch_parallelism=1
    )
    again = run(narrow, tmp_path)
    assert story(again.folder / "trials.jsonl")[: len(before)] == before
    assert len(again.rows) == len(before) + 2


def test_draws_are_never_used_twice_for_different_things(tmp_path: Path) -> None:
    roles = Roles(patch=add_words)
    run(world(roles=roles, settings=BackpropSettings(max_rounds=3)), tmp_path)
    for role in ("backwarder", "patcher"):
        draws = [draw for name, _, draw in roles.seen if name == role]
        assert len(draws) == len(set(draws)) >= 3


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


def test_a_few_failing_cases_are_enough_where_it_is_said(tmp_path: Path) -> None:
    roles = Roles()
    done = run(world(roles=roles, settings=BackpropSettings(cases_per_round=2)), tmp_path)
    assert len({loss["case"] for loss in done.rows[1].trial.details["losses"]}) == 2  # pyright: ignore
    assert len(done.rows[1].trial.details["failure_classes"]) == 4  # pyright: ignore


def test_splits_without_cases_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holdout: back-propagation needs cases here"):
        run(world(holdout=()), tmp_path)
