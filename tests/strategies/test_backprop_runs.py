"""Whole rounds of back-propagation: repair, hints, turns and repeats, replay, refusals."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from burnish.core.cases import Case, Outcome, Trace, Turn
from burnish.core.errors import ConfigError, TargetMismatch
from burnish.core.surfaces import Candidate
from burnish.models.roles import in_force
from burnish.strategies.backprop.packets import BackpropSettings, GuardSettings, LossHint, Severity
from burnish.testing import CallCounter, check_strategy
from burnish.testing.doubles import story
from tests.strategies.backprop_world import (
    PLANNER,
    START,
    WRITER,
    Roles,
    add_words,
    planned,
    run,
    with_settings,
    world,
)

pytestmark = pytest.mark.slow


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
    asked = {(each.case, each.step) for each in roles.of("backwarder")}
    assert asked == {(f"q{n}", step) for n in range(4) for step in ("planner:1", "writer:1")}
    assert not {"case", "step"} & {*in_force("backwarder", tmp_path).fields}
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


def test_only_targets_are_blamed_and_the_others_are_shown(tmp_path: Path) -> None:
    roles = Roles()
    settings = BackpropSettings(targets=(WRITER,), max_rounds=1)
    run(world(roles=roles, settings=settings), tmp_path)
    writer, planner = roles.of("backwarder")[0], roles.of("backwarder")[-1]
    assert [each.id for each in writer.surfaces] == [WRITER]
    # The planner has nothing that may be blamed and nobody before it: it is not asked about.
    assert planner.node == "writer"
    assert not roles.of("patcher")


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


def test_hints_and_loss_targets_reach_the_backwarder(tmp_path: Path) -> None:
    hint = LossHint(case="q1", metric="expected_text", reason="ask me", severity=Severity.P0)
    roles = Roles()
    settings = BackpropSettings(loss_hints=(hint,), loss_targets={"expected_text": "planner"})
    done = run(world(roles=roles, settings=settings), tmp_path)
    asked = roles.of("backwarder")
    assert {request.node for request in asked} == {"planner"}
    assert [r.incoming[0].gradient for r in asked if len(r.incoming) == 2] == ["ask me"]
    assert done.rows[1].trial.accepted


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (BackpropSettings(targets=("plan",)), "no surface 'plan'"),
        (
            BackpropSettings(loss_hints=(LossHint(case="q50", metric="m", reason="x"),)),
            "no case of train 'q50'",
        ),
        (BackpropSettings(loss_targets={"m": "planner"}), "no metric 'm'"),
        (BackpropSettings(guards=GuardSettings(protected=("q0",))), "no case of holdout 'q0'"),
        (
            BackpropSettings(guards=GuardSettings(floors={"m": 1.0})),
            "guards.floors.m: there is no metric 'm'",
        ),
    ],
)
def test_what_does_not_exist_is_refused_before_anything_is_paid(
    tmp_path: Path, settings: BackpropSettings, words: str
) -> None:
    counter = CallCounter(path=tmp_path / "calls")
    with pytest.raises((ConfigError, TargetMismatch), match=words):
        run(world(settings=settings, counter=counter), tmp_path)
    assert not counter.calls()


@pytest.mark.parametrize("name", ["patch_parallelism", "max_rounds"])
def test_what_is_out_of_range_is_refused_when_the_settings_are_made(name: str) -> None:
    with pytest.raises(ValidationError, match=name):
        BackpropSettings.model_validate({name: 0})


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


def test_a_few_failing_cases_are_enough_where_it_is_said(tmp_path: Path) -> None:
    roles = Roles()
    done = run(world(roles=roles, settings=BackpropSettings(cases_per_round=2)), tmp_path)
    assert len({loss["case"] for loss in done.rows[1].trial.details["losses"]}) == 2  # pyright: ignore
    assert len(done.rows[1].trial.details["failure_classes"]) == 4  # pyright: ignore


def test_splits_without_cases_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holdout: back-propagation needs cases here"):
        run(world(holdout=()), tmp_path)
