"""Coordinate descent in a world with a known best: every kind of win, stacked."""

from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.surfaces import Value
from burnish.strategies.coordinate.trials import CritiqueRequest, PhaseLimits
from tests.strategies import tuning_world
from tests.strategies.coordinate_runs import Driven, driven
from tests.strategies.tuning_world import DEMOS, RULES, TEMPERATURE, TEXT, TOP_K, TuningWorld

pytestmark = pytest.mark.slow

QUICK = tuning_world.AXES.model_copy(
    update={"repeats": 1, "numeric_phase": PhaseLimits(max_trials=25, patience=12)}
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Driven:
    """A run in the world without noise."""
    setup = tuning_world.setup(TuningWorld(test=4), QUICK)
    return driven(setup, tmp_path_factory.mktemp("tuning") / "run")


def off(values: dict[str, Value]) -> float:
    """What the numbers of a candidate cost it."""
    temperature, top_k = values[TEMPERATURE], values[TOP_K]
    assert isinstance(temperature, int | float)
    assert isinstance(top_k, int)
    return tuning_world.slip(temperature, top_k, len(tuning_world.rules_in(values[TEXT])))


def shown(values: dict[str, Value]) -> int:
    demos = values[DEMOS]
    assert isinstance(demos, tuple)
    return len(demos)


def test_the_run_finds_the_stacked_optimum(whole: Driven) -> None:
    best = {**whole.ending.best.values}
    assert tuning_world.rules_in(best[TEXT]) == list(RULES), "texts"
    assert off(best) < 0.02 < off({**whole.rows[0].trial.candidate.values}), "numbers"
    assert shown(best) >= 4, "demonstrations"
    last = [row.trial for row in whole.rows if row.trial.accepted][-1]
    assert last.train is not None
    assert last.holdout is not None
    assert last.train.measurement.loss == pytest.approx(0)
    assert last.holdout.measurement.loss == pytest.approx(0)
    assert whole.why == "nothing_to_gain"
    assert whole.ending.sealed is not None
    assert whole.ending.sealed.best_score == pytest.approx(1)


@pytest.mark.parametrize("phase", ["demonstrations", "numeric", "textual"])
def test_each_kind_of_phase_has_its_part_in_it(whole: Driven, phase: str) -> None:
    assert any(row.trial.accepted for row in whole.of_phase(phase))


def test_every_trial_builds_on_all_wins_before_it(whole: Driven) -> None:
    ahead = whole.rows[0].trial.candidate
    wins = 0
    for row in whole.rows[1:]:
        trial = row.trial
        kept = set(trial.candidate.values) - set(trial.touched)
        assert all(trial.candidate.values[name] == ahead.values[name] for name in kept), row.number
        if trial.accepted:
            ahead, wins = trial.candidate, wins + 1
    assert wins >= 6
    assert whole.ending.best.id == ahead.id


def test_wins_of_one_phase_are_there_in_the_next(whole: Driven) -> None:
    numeric, textual = whole.of_phase("numeric", 1), whole.of_phase("textual", 1)
    assert all(shown({**row.trial.candidate.values}) for row in numeric)
    assert all(row.trial.candidate.values[TOP_K] != 3 for row in textual)
    assert all(shown({**row.trial.candidate.values}) for row in textual)
    accepted = [row.trial.candidate.values[TEXT] for row in textual if row.trial.accepted]
    stated = [len(tuning_world.rules_in(text)) for text in accepted]
    assert stated == [2, 3, 4], "each rule on top of the one before"


def test_the_best_numbers_move_with_the_text_so_the_next_cycle_finds_more(whole: Driven) -> None:
    again = whole.of_phase("numeric", 2)
    assert any(row.trial.accepted for row in again)
    assert all(len(tuning_world.rules_in(r.trial.candidate.values[TEXT])) == 4 for r in again)


def test_no_request_holds_text_of_holdout_or_test(whole: Driven) -> None:
    data = tuning_world.dataset(TuningWorld(test=4))
    asked = [str(p.request) for row in whole.rows for p in row.trial.proposals]
    assert len(asked) >= 6
    assert any(case.input in request for case in data.train for request in asked)
    hidden = [case.input for case in (*data.holdout, *data.test)]
    assert not [text for text in hidden if any(text in request for request in asked)]


def test_the_critic_names_only_what_the_failures_reveal() -> None:
    def says(traces: str, *, text: str = "", before: str = "(none)") -> tuple[str, float]:
        request = CritiqueRequest(
            axis=TEXT, current_text=text, failing_traces=traces, previous_gradients=before
        )
        found = tuning_world.critic(TuningWorld()).respond(request, 0)
        return found.suggested_change_direction, found.confidence

    assert says("complete: the note lacks [date]") == ("ask for [date]", 0.9)
    assert says("nothing is known of why it failed") == ("no idea", 0.1)
    assert says("complete: the note lacks [parcel-form]") == ("no idea", 0.1)
    assert says("the note lacks [date]", text=RULES["date"]) == ("no idea", 0.1)
    both = "the note lacks [date] the note lacks [step] the note lacks [date]"
    assert says(both) == ("ask for [date]", 0.9)
    assert says(both, before="ask for [date]") == ("ask for [step]", 0.9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.breadth)])
def test_with_noise_and_failing_roles_the_wins_are_found_too(tmp_path: Path, seed: int) -> None:
    world = TuningWorld(noise=0.02, role_failure_rate=0.1)
    settings = QUICK.model_copy(update={"repeats": 3})
    run = driven(replace(tuning_world.setup(world, settings), seed=seed), tmp_path / "run")
    best = {**run.ending.best.values}
    assert tuning_world.rules_in(best[TEXT]) == list(RULES)
    assert off(best) < 0.06
    assert shown(best) >= 2


@pytest.mark.slow
def test_with_crashes_and_outages_nothing_is_accepted_for_them(tmp_path: Path) -> None:
    world = TuningWorld(crash_rate=0.03, outage_rate=0.03)
    run = driven(
        tuning_world.setup(world, QUICK.model_copy(update={"repeats": 2})), tmp_path / "run"
    )
    accepted = [row.trial for row in run.rows if row.trial.accepted]
    assert accepted
    for trial in accepted:
        assert trial.decision is not None
        assert trial.decision.missing.share <= 0.25
        assert trial.decision.numbers["train_improvement"] > 0
    assert any(row.trial.train and row.trial.train.errors for row in run.rows)
