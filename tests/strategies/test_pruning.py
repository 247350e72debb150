"""The pruning pass: idle parts leave, helpful ones stay, within a tenth of the budget."""

from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.cases import Case
from burnish.core.gates import OfferRule
from burnish.core.surfaces import Candidate
from burnish.datasets.checks import smallest_difference
from burnish.journal.limits import Budget
from burnish.runs.events import PRUNE, PhaseEnded, PhaseStarted, read_all
from burnish.runs.stoppers import STOP_FILE
from burnish.strategies.pruning import ALL_TRIED, NO_NOISE, OUT_OF_BUDGET
from burnish.testing import CallCounter, ScriptedTarget
from tests.strategies.pruning_world import SPLITS, Effects, Told, made, pruned, rules_of, setup

pytestmark = pytest.mark.slow

HELP = {"Look it up.": 0.4, "Say please.": 0.0, "Check it.": 0.3, "Be bold.": 0.0}


def test_what_does_nothing_leaves_and_what_helps_stays(tmp_path: Path) -> None:
    ending, record = made(setup(Effects(rules=HELP, noisy=False)), tmp_path / "run")
    assert rules_of(ending) == ["Look it up.", "Check it."]
    tried = pruned(record)
    assert tried[:2] == [("Say please.", True), ("Be bold.", True)], "the least supported first"
    assert {name for name, left in tried if not left} == {"Look it up.", "Check it."}
    assert record.best is not None
    assert record.best.trial.phase == PRUNE
    assert ending.reason.code == "finished"


def test_a_target_that_repeats_itself_is_not_paid_for_twice(tmp_path: Path) -> None:
    counter = CallCounter(path=tmp_path / "calls")
    world = setup(Effects(rules={"Say please.": 0.0}, noisy=False), counter=counter)
    _, record = made(world, tmp_path / "run")
    # Without its only rule the winner is the baseline, which is measured.
    assert pruned(record) == [("Say please.", True)]
    assert sum(row.spend.metric_calls for row in record.rows if row.trial.phase == PRUNE) == 0
    assert len(counter.calls()) == record.spent.metric_calls == 2 * 3 * 40


def test_what_got_in_by_luck_is_measured_anew(tmp_path: Path) -> None:
    """The baseline's old results cannot be what decides: they let the rule in."""
    _, record = made(setup(Effects(rules={"Say please.": 0.0})), tmp_path / "run")
    (row,) = [row for row in record.rows if row.trial.phase == PRUNE]
    assert row.spend.metric_calls in (2 * 3 * 20, 4 * 3 * 20)
    assert row.trial.candidate.id == record.rows[0].trial.candidate.id


@pytest.mark.parametrize("worlds", [3, pytest.param(6, marks=pytest.mark.breadth)])
def test_over_many_worlds_idle_rules_leave_and_helpful_ones_stay(
    tmp_path: Path, worlds: int
) -> None:
    """A helpful rule is worth twice what so many cases can show."""
    cases = 40
    worth = 2 * smallest_difference(cases)
    helped = idle = 0
    for seed in range(100, 100 + worlds):
        effects = Effects(rules={"Help.": worth, "Idle.": 0.0}, seed=seed)
        ending, _ = made(setup(effects, cases=cases), tmp_path / f"{seed}")
        helped += "Help." in rules_of(ending)
        idle += "Idle." not in rules_of(ending)
    assert helped == worlds
    assert idle >= 2 / 3 * worlds


def test_many_small_losses_do_not_add_up(tmp_path: Path) -> None:
    """Each rule is worth less than the tolerance; all together they are worth much more."""
    rules = {f"Rule {n}.": 0.05 for n in range(8)}
    strategy = Told(
        rules=tuple(rules), rule=OfferRule(tolerance=0.1, accept_sigma=0, splits=SPLITS)
    )
    world = setup(Effects(rules=rules, noisy=False), strategy, cases=40)
    _, record = made(world, tmp_path / "run")
    before = next(row for row in reversed(record.rows) if row.trial.phase == "told").trial
    assert record.best is not None
    after = record.best.trial
    assert any(left for _, left in pruned(record))
    for old, new in ((before.train, after.train), (before.holdout, after.holdout)):
        assert old is not None
        assert new is not None
        assert (new.measurement.loss or 0) - (old.measurement.loss or 0) <= 0.1 + 1e-9


@pytest.mark.parametrize("limit", ["max_metric_calls", "max_calls"])
def test_the_pass_keeps_to_a_tenth_of_the_budget_and_the_search_leaves_it(
    tmp_path: Path, limit: str
) -> None:
    rules = {f"Rule {n}.": 0.05 for n in range(12)}
    whole = 4_000
    world = setup(Effects(rules=rules), budget=Budget(**{limit: whole}), test=10)  # pyright: ignore[reportArgumentType]
    ending, record = made(world, tmp_path / "run")
    amount = limit.removeprefix("max_")
    spent = {
        phase: sum(
            getattr(row.spend, amount) for row in record.rows if (row.trial.phase == PRUNE) is phase
        )
        for phase in (True, False)
    }
    assert 0 < spent[True] <= whole / 10
    assert spent[False] <= 0.9 * whole
    assert getattr(ending.spent, amount) <= whole
    assert ending.sealed is not None
    assert [each.reason for each in read_all(record.events, PhaseEnded)] == [OUT_OF_BUDGET]


def test_where_a_tenth_pays_for_nothing_there_is_no_pass(tmp_path: Path) -> None:
    ending, record = made(
        setup(Effects(rules=HELP), budget=Budget(max_metric_calls=1200)), tmp_path / "run"
    )
    assert not pruned(record)
    assert not list(read_all(record.events, PhaseStarted))
    assert ending.spent.metric_calls == 600, "nothing was held back from the search"


MANY = {**HELP, **{f"Rule {n}.": 0.0 for n in range(8)}}


@pytest.mark.parametrize(
    ("most", "searched", "ended"), [(5, 5, []), (10, 9, [OUT_OF_BUDGET]), (40, 12, [ALL_TRIED])]
)
def test_numbers_of_trials_bound_the_pass_too(
    tmp_path: Path, most: int, searched: int, ended: list[str]
) -> None:
    effects = Effects(rules=MANY, noisy=False)
    ending, record = made(setup(effects, budget=Budget(max_trials=most)), tmp_path / "run")
    assert [row.trial.phase for row in record.rows].count("told") == searched
    assert searched < len(record.rows) <= 1 + most
    assert [each.reason for each in read_all(record.events, PhaseEnded)] == ended
    assert bool(pruned(record)) is bool(ended)
    assert ending.reason.code == ("max_trials" if searched < len(MANY) else "finished")


def test_a_search_that_the_user_stops_is_not_pruned(tmp_path: Path) -> None:
    world = setup(Effects(rules=HELP, noisy=False))
    world = replace(world, stop_callbacks={"enough": lambda: True})
    _, record = made(world, tmp_path / "run")
    assert not pruned(record)


def test_without_the_setting_nothing_is_pruned_or_reserved(tmp_path: Path) -> None:
    strategy = Told(rules=tuple(HELP), prune=False)
    world = setup(Effects(rules=HELP, noisy=False), strategy, budget=Budget(max_metric_calls=600))
    ending, record = made(world, tmp_path / "run")
    assert not pruned(record)
    assert ending.spent.metric_calls == 600


def test_a_pass_that_is_stopped_goes_on_when_the_run_is_resumed(tmp_path: Path) -> None:
    effects, folder = Effects(rules=HELP, noisy=False), tmp_path / "run"
    _, whole = made(setup(effects), tmp_path / "whole")
    world = setup(effects)
    looks = {"left": 3}

    def stop() -> bool:
        looks["left"] -= (folder / "candidates" / "iter-05").exists()
        return looks["left"] < 0

    _, cut = made(replace(world, stop_callbacks={"enough": stop}), folder)
    assert 0 < len(pruned(cut)) < len(pruned(whole))
    _, record = made(world, folder, again=True)
    assert [row.trial for row in record.rows] == [row.trial for row in whole.rows]
    assert record.spent == whole.spent


def test_a_resume_with_more_budget_searches_on_and_prunes_again(tmp_path: Path) -> None:
    effects, folder = Effects(rules=MANY, noisy=False), tmp_path / "run"
    _, first = made(setup(effects, budget=Budget(max_trials=10)), folder)
    _, same = made(setup(effects, budget=Budget(max_trials=10)), folder, again=True)
    assert same.rows == first.rows, "with the same budget there is nothing to do"
    more = setup(effects, budget=Budget(max_trials=60))
    made(more, folder, again=True)
    ending, record = made(more, folder, again=True)
    assert record.rows[: len(first.rows)] == first.rows
    assert rules_of(ending) == ["Look it up.", "Check it."]
    later = pruned(record)[len(pruned(first)) :]
    assert ("Be bold.", True) in later
    assert [each.phase for each in read_all(record.events, PhaseStarted)] == [PRUNE, PRUNE]


def test_a_stop_file_ends_the_pass_like_any_trial(tmp_path: Path) -> None:
    effects, folder = Effects(rules=HELP, noisy=False), tmp_path / "run"

    def respond(candidate: Candidate, case: Case, draw: int) -> str:
        if (folder / "candidates" / "iter-05").exists():
            (folder / STOP_FILE).touch()
        return effects.respond(candidate, case, draw)

    world = setup(effects)
    assert isinstance(world.target, ScriptedTarget)
    target = replace(world.target, respond=respond)
    ending, record = made(replace(world, target=target), folder)
    assert ending.reason.code == "stop_file"
    assert pruned(record)
    assert not (folder / STOP_FILE).exists()


def test_where_nobody_measures_the_noise_of_varying_answers_nothing_leaves(tmp_path: Path) -> None:
    strategy = Told(rules=("Say please.",), rule=OfferRule(accept_sigma=0, splits=SPLITS))
    _, record = made(setup(Effects(rules={"Say please.": 0.0}), strategy), tmp_path / "run")
    assert not pruned(record)
    assert [each.reason for each in read_all(record.events, PhaseEnded)] == [NO_NOISE]
