"""`strategy: auto`: proposers share one incumbent, and the budget goes to what pays."""

import random
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from burnish.core.cases import Case, Dataset
from burnish.core.errors import ConfigError, ProposerFailed, TargetMismatch
from burnish.core.formatting import Table
from burnish.core.surfaces import Candidate, NumberSurface, TextSurface
from burnish.journal.limits import Budget
from burnish.runs.directory import RunRecord
from burnish.runs.setup import ProposerOffer, Setup, start
from burnish.strategies.auto.plugin import AutoPlugin
from burnish.strategies.auto.search import (
    Auto,
    AutoDetails,
    AutoSettings,
    Bandit,
    ProposerStopped,
    ProposerTry,
)
from burnish.strategies.backprop.strategy import Backprop, BackpropProposer
from burnish.testing import ScriptedTarget, check_strategy
from tests.strategies import auto_runs, backprop_world, reflection_world, reflective_runs
from tests.strategies.coordinate_runs import Driven, driven
from tests.strategies.tuning_world import DEMOS, TEMPERATURE, TEXT, TOP_K, rules_in

# -- The bandit -----------------------------------------------------------------------------------


def played(bandit: Bandit, pays: dict[str, tuple[float, int]], rounds: int) -> dict[str, int]:
    """How often each is first, where `pays` has the gain and the calls of each; 0 is no accept."""
    first = dict.fromkeys(pays, 0)
    for number in range(rounds):
        name = bandit.order(random.Random(number))[0]
        gain, calls = pays[name]
        bandit.count(name, ProposerTry(calls=calls, gain=gain or None))
        first[name] += 1
    return first


def test_everybody_has_a_try_before_anybody_has_two() -> None:
    bandit = Bandit(("a", "b", "c"), patience=9)
    assert sorted(played(bandit, {"a": (0, 9), "b": (0, 9), "c": (0, 9)}, 3).values()) == [1, 1, 1]


@pytest.mark.parametrize(
    "pays",
    [
        {"good": (0.1, 10), "bad": (0.0, 10)},
        {"good": (0.1, 10), "bad": (0.01, 10)},
        {"good": (0.1, 10), "bad": (0.1, 100)},
    ],
    ids=["never accepted", "gains less", "costs more"],
)
def test_what_pays_more_for_a_call_is_asked_more_often(pays: dict[str, tuple[float, int]]) -> None:
    often = played(Bandit(tuple(pays), patience=50), pays, 40)
    assert often["good"] > 3 * often["bad"]


def test_a_choice_follows_from_the_tries_and_the_generator_alone() -> None:
    pays = {"a": (0.1, 10), "b": (0.05, 5), "c": (0.0, 1)}
    one, two = (played(Bandit(tuple(pays), patience=4), pays, 30) for _ in range(2))
    assert one == two


def test_who_paid_long_ago_is_not_preferred_for_ever() -> None:
    bandit = Bandit(("old", "new"), patience=100)
    for _ in range(20):
        bandit.count("old", ProposerTry(calls=10, gain=0.3))
    for _ in range(20):
        bandit.count("old", ProposerTry(calls=10))
        bandit.count("new", ProposerTry(calls=10, gain=0.1))
    assert played(bandit, {"old": (0.0, 10), "new": (0.1, 10)}, 20)["new"] > 15


def test_who_does_not_pay_stops_and_all_begin_again_with_twice_the_patience() -> None:
    bandit = Bandit(("a", "b"), patience=2)
    assert [bandit.count("a", ProposerTry(calls=1)) for _ in range(2)] == [False, True]
    assert bandit.order(random.Random(1)) == ["b"]
    assert not bandit.count("b", ProposerTry(calls=1))
    assert not bandit.count("b", ProposerTry(calls=1, gain=0.1)), "an accept starts the count again"
    for _ in range(2):
        bandit.count("b", ProposerTry(calls=1))
    assert sorted(bandit.order(random.Random(1))) == ["a", "b"]
    assert [bandit.count("a", ProposerTry(calls=1)) for _ in range(4)] == [
        False,
        False,
        False,
        True,
    ]


def test_who_has_nothing_left_waits_for_another_incumbent() -> None:
    bandit = Bandit(("a", "b"), patience=2)
    bandit.exhaust("a")
    assert bandit.order(random.Random(1)) == ["b"]
    bandit.exhaust("b")
    assert bandit.order(random.Random(1)) == []
    bandit.renew()
    assert sorted(bandit.order(random.Random(1))) == ["a", "b"]


def test_the_steps_of_a_trail_share_what_it_gained_or_count_as_unpaid() -> None:
    bandit = Bandit(("a", "b"), patience=2)
    steps = [(name, ProposerTry(calls=1, open=True)) for name in ("a", "b", "a")]
    assert not any(bandit.count(*step) for step in steps), "an open step is neither"
    assert bandit.decide(steps, 0.3) == []
    assert [step.gain for _, step in steps] == pytest.approx([0.1, 0.1, 0.1])
    steps = [(name, ProposerTry(calls=1, open=True)) for name in ("a", "a")]
    assert not any(bandit.count(*step) for step in steps)
    assert bandit.decide(steps, None) == ["a"], "two steps of a led nowhere"
    assert bandit.order(random.Random(1)) == ["b"]


def test_who_fails_early_is_not_cheap_because_holdout_never_decides_on_it() -> None:
    """Half of what one proposes is accepted, which takes runs of holdout; of the other nothing."""
    bandit = Bandit(("pays", "fails"), patience=100)
    for _ in range(4):
        bandit.count("pays", ProposerTry(calls=26, deciding=20, gain=0.1))
        bandit.count("pays", ProposerTry(calls=6))
        bandit.count("fails", ProposerTry(calls=6))
    first = [bandit.order(random.Random(seed))[0] for seed in range(200)]
    assert first.count("pays") > 150


def test_a_step_may_still_be_accepted_until_holdout_has_decided() -> None:
    bandit = Bandit(("step", "fails"), patience=100)
    steps = [("step", ProposerTry(calls=6, open=True)) for _ in range(3)]
    for step in steps:
        bandit.count(*step)
        bandit.count("fails", ProposerTry(calls=6))
    first = [bandit.order(random.Random(seed))[0] for seed in range(200)]
    assert first.count("step") > 170
    bandit.decide(steps, None)
    first = [bandit.order(random.Random(seed))[0] for seed in range(200)]
    assert 60 < first.count("step") < 140, "neither has paid"


# -- Searches -------------------------------------------------------------------------------------


def tries(run: Driven) -> dict[str, int]:
    names = [row.trial.phase for row in run.rows[1:]]
    return {name: names.count(name) for name in dict.fromkeys(names)}


def test_texts_numbers_and_demonstrations_are_found_in_one_search(tmp_path: Path) -> None:
    """Each alone leaves most of the loss."""
    run = driven(auto_runs.setup(), tmp_path / "run")
    start, best = run.rows[0].trial.candidate.values, run.ending.best.values
    assert len(rules_in(best[TEXT])) == 4
    assert best[DEMOS]
    assert (best[TEMPERATURE], best[TOP_K]) != (start[TEMPERATURE], start[TOP_K])
    accepted = {row.trial.phase for row in run.rows if row.trial.accepted}
    assert accepted == {"reflection", "numbers", "demonstrations"}
    holdout = next(row.trial.holdout for row in reversed(run.rows) if row.trial.accepted)
    assert holdout is not None
    assert (holdout.measurement.score or 0) > 0.9


def test_the_report_says_who_found_what(tmp_path: Path) -> None:
    run = driven(auto_runs.setup(budget=Budget(max_trials=16)), tmp_path / "run")
    record = RunRecord.read(run.folder)
    tables = [each for each in AutoPlugin().report(record) if isinstance(each, Table)]
    (table,) = (each for each in tables if each.head[0] == "proposer")
    rows = {row[0]: row[1:] for row in table.rows}
    assert {name: int(row[0]) for name, row in rows.items()} == tries(run)
    gains = sum(float(row[3]) for row in rows.values() if row[3] != "—")
    baseline, best = (row.trial.holdout for row in (run.rows[0], record.best) if row is not None)
    assert baseline is not None
    assert best is not None
    total = (best.measurement.score or 0) - (baseline.measurement.score or 0)
    assert gains == pytest.approx(total, abs=0.002)
    (drawing,) = AutoPlugin().drawings(record)
    shown = dict(zip(drawing.labels, drawing.series["gain"], strict=True))
    assert {name: f"{gain:+.3f}" if gain else "—" for name, gain in shown.items()} == {
        name: row[3] for name, row in rows.items()
    }
    assert rows["numbers"][5] == "0", "a study asks no model"
    assert int(rows["reflection"][5]) == tries(run)["reflection"]
    assert all(
        row.trial.candidate.origin.note.startswith(f"{row.trial.phase}: ") for row in run.rows[1:]
    )


@pytest.mark.parametrize("calls", [60, 150, 400])
def test_reflection_alone_searches_as_the_strategy_reflective_does(
    calls: int, tmp_path: Path
) -> None:
    plain = reflection_world.setup(
        reflection_world.World(train=12, holdout=20), budget=Budget(max_metric_calls=calls)
    )
    offer = auto_runs.reflection_of(plain)
    same = driven(plain, tmp_path / "reflective")
    run = driven(replace(plain, strategy=Auto(offers=(offer,))), tmp_path / "auto")
    assert [row.trial.candidate.id for row in run.rows] == [
        row.trial.candidate.id for row in same.rows
    ]
    assert run.ending.best.id == same.ending.best.id
    assert run.ending.spent == same.ending.spent


def test_a_patch_of_back_propagation_leads(tmp_path: Path) -> None:
    plain = backprop_world.world()
    strategy = plain.strategy
    assert isinstance(strategy, Backprop)
    offer = ProposerOffer(
        name="back-propagation",
        surfaces=tuple(strategy.targets(plain.target)),
        begin=partial(BackpropProposer, strategy=strategy),
        roles=tuple(strategy.roles),
    )
    run = driven(replace(plain, strategy=Auto(offers=(offer,))), tmp_path / "run")
    (accepted,) = (row.trial for row in run.rows[1:] if row.trial.accepted)
    assert accepted.touched == (backprop_world.PLANNER,)
    assert accepted.candidate.origin.note == f"back-propagation: patch {backprop_world.PLANNER}"
    assert "FIX" in str(run.ending.best.values[backprop_world.PLANNER])
    assert AutoDetails.of(accepted).steps == ("back-propagation",)
    assert len(accepted.proposals) > 2, "losses are walked back, merged and patched"


def test_a_leader_names_the_proposers_of_its_steps(tmp_path: Path) -> None:
    run = driven(auto_runs.setup(budget=Budget(max_trials=16)), tmp_path / "run")
    open_steps: list[str] = []
    accepted = lost = 0
    for row in run.rows[1:]:
        steps = AutoDetails.of(row.trial).steps
        if not steps:
            continue
        if lost and steps[:-1] != tuple(open_steps):
            open_steps = []  # holdout has ended the trail
        assert list(steps) == [*open_steps, row.trial.phase]
        open_steps = [] if row.trial.accepted else list(steps)
        lost = row.trial.holdout is not None and not row.trial.accepted
        accepted += row.trial.accepted
    assert accepted > 1


def one_pays(name: str, *, budget: int = 260, high: int = 400) -> Setup:
    """A world with a text and a number, of which only one matters: a case at a time."""

    def answer(candidate: Candidate, case: Case, draw: int) -> str:
        del draw
        level, text = candidate.values["level"], str(candidate.values["system"])
        assert isinstance(level, int)
        reached = 20 - abs(level - 330) // 16 if name == "numbers" else 2 * text.count("more")
        return "yes" if int(case.id[1:]) % 20 < reached else "no"

    talk = reflective_runs.Talk(rewrite=lambda request, draw: f"{request.current_text} more {draw}")
    plain = reflective_runs.scripted(answer, talk, train=20, holdout=20)
    values = {"system": reflective_runs.START, "level": 1}
    target = ScriptedTarget(
        respond=answer,
        surfaces=(
            TextSurface(id="system"),
            NumberSurface(id="level", low=0, high=high, integer=True),
        ),
        values=values,
    )
    plain = replace(plain, target=target, budget=Budget(max_metric_calls=budget))
    role = talk.role()
    reflection = ProposerOffer(
        name="reflection",
        surfaces=("system",),
        begin=lambda run: auto_runs.ReflectionProposer(run, reflector=role, fields=("system",)),
        roles=(role,),
    )
    offers = (reflection, *auto_runs.points(plain))
    return replace(plain, strategy=Auto(offers=offers, settings=AutoSettings(unpaid_tries=3)))


@pytest.mark.parametrize(("pays", "vain"), [("numbers", "reflection"), ("reflection", "numbers")])
def test_the_budget_goes_to_what_pays(pays: str, vain: str, tmp_path: Path) -> None:
    run = driven(one_pays(pays), tmp_path / "run")
    accepted = {row.trial.phase for row in run.rows if row.trial.accepted}
    assert accepted == {pays}
    calls = {
        name: sum(AutoDetails.of(row.trial).calls for row in run.of_phase(name))
        for name in (pays, vain)
    }
    assert calls[pays] > 2 * calls[vain]
    stops = run.events(ProposerStopped.kinds[0])
    assert any(stop["proposer"] == vain for stop in stops)


async def test_a_run_that_was_cut_records_the_same_and_pays_nothing_twice(tmp_path: Path) -> None:
    """Cut after a decision on holdout: a trail that limits ended early stays decided."""
    await check_strategy(lambda: auto_runs.setup(budget=Budget(max_trials=14)), tmp_path, cut_at=8)


def test_a_minibatch_that_is_paid_for_is_shown_to_the_others_too(tmp_path: Path) -> None:
    run = driven(one_pays("numbers"), tmp_path / "run")
    names = {row.trial.phase for row in run.rows[1:3]}
    assert names == {"numbers", "reflection"}, "everybody has one try first"
    first, second, third = (AutoDetails.of(row.trial).minibatch for row in run.rows[1:4])
    assert first == second
    assert second != third, "both have been shown it"


def test_the_search_ends_when_holdout_is_solved(tmp_path: Path) -> None:
    run = driven(one_pays("numbers", budget=500), tmp_path / "run")
    assert run.why == "nothing_to_gain"


def test_the_search_ends_when_nobody_has_anything_left(tmp_path: Path) -> None:
    setup = one_pays("reflection", budget=300, high=5)
    strategy = setup.strategy
    assert isinstance(strategy, Auto)
    numbers = tuple(each for each in strategy.offers if each.name == "numbers")
    run = driven(replace(setup, strategy=replace(strategy, offers=numbers)), tmp_path / "run")
    assert run.why == "nothing_left"
    (stop,) = run.events(ProposerStopped.kinds[0])[-1:]
    assert stop["reason"] in ("space_exhausted", "converged")


def test_a_silent_reflector_stops_and_the_others_go_on(tmp_path: Path) -> None:
    world = replace(auto_runs.WORLD, role_failure_rate=1.0)
    run = driven(auto_runs.setup(world, budget=Budget(max_trials=30)), tmp_path / "run")
    stops = run.events(ProposerStopped.kinds[0])
    assert {s["reason"] for s in stops if s["proposer"] == "reflection"} == {"reflector_failed"}
    assert tries(run)["reflection"] == 3
    assert any(row.trial.accepted for row in run.rows)


def test_a_silent_reflector_alone_fails_the_run(tmp_path: Path) -> None:
    world = replace(auto_runs.WORLD, role_failure_rate=1.0)
    with pytest.raises(ProposerFailed):
        driven(auto_runs.setup(world, only=("reflection",)), tmp_path / "run")


# -- What does not fit ----------------------------------------------------------------------------


def test_without_a_proposer_there_is_no_run(tmp_path: Path) -> None:
    setup = replace(auto_runs.setup(), strategy=Auto(offers=()))
    with pytest.raises(TargetMismatch, match="no proposer can work on this target"):
        start(setup, folder=tmp_path / "run")


def test_cases_to_learn_from_and_to_decide_on_are_needed(tmp_path: Path) -> None:
    setup = auto_runs.setup()
    with pytest.raises(ConfigError, match="the strategy 'auto' needs cases here"):
        driven(replace(setup, dataset=Dataset(train=setup.dataset.train)), tmp_path / "run")
