"""The headroom check: told by the measured baseline, before the first trial is paid for."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case
from burnish.core.content import codec
from burnish.core.money import Spend
from burnish.core.surfaces import Candidate, NumberSurface
from burnish.datasets.checks import smallest_difference
from burnish.journal.limits import Budget
from burnish.runs.setup import Setup
from burnish.strategies.coordinate.trials import CoordinateSettings, PhaseLimits
from tests.strategies.coordinate_runs import Driven, always, driven, scripted, with_agent

pytestmark = pytest.mark.slow

PRICE = Spend(calls=1, nano_usd=2_000_000)


def made(respond: Callable[[Candidate, Case, int], str], **settings: Any) -> Setup:
    limits = PhaseLimits(max_trials=3, patience=3)
    usual = CoordinateSettings(numbers=("x",), repeats=2, numeric_phase=limits)
    chosen = usual.model_copy(update=settings)
    surface = NumberSurface(id="x", low=0.0, high=1.0)
    setup = scripted(respond, (surface,), {"x": 0.5}, chosen, train=6, holdout=20)
    return with_agent(setup, price=PRICE)


def wavering(candidate: Candidate, case: Case, draw: int) -> str:
    """Right on all questions in the first sweep, on the even ones in the second."""
    del candidate
    return "yes" if draw == 0 or int(case.id[1:]) % 2 == 0 else "no"


def told(run: Driven) -> dict[str, Any]:
    (event,) = run.events("headroom")
    return event


def spend(data: Any) -> Spend:
    return codec(Spend).decode(data)


def test_the_noise_floor_is_the_spread_of_the_baseline(tmp_path: Path) -> None:
    run = driven(made(wavering), tmp_path / "run")
    found, baseline = told(run), run.rows[0].trial
    assert baseline.train is not None
    assert baseline.holdout is not None
    assert found["train_std"] == baseline.train.measurement.std > 0
    assert found["holdout_std"] == baseline.holdout.measurement.std > 0
    assert found["bar"] == pytest.approx(2**0.5 * found["train_std"])
    rate = baseline.holdout.measurement.pass_rate
    assert rate is not None
    assert found["least_shown"] == smallest_difference(20, pass_rate=rate)


def test_where_nothing_helps_the_run_costs_what_was_told(tmp_path: Path) -> None:
    run = driven(made(always("no")), tmp_path / "run")
    costs = told(run)["costs"]
    assert costs["least_trials"] == len(run.rows) - 1 == 3
    assert spend(costs["least"]) == run.ending.spent
    assert spend(costs["train"]).calls == 12
    assert spend(costs["most"]).calls > run.ending.spent.calls


def test_one_repeat_measures_no_noise(tmp_path: Path) -> None:
    found = told(driven(made(always("no"), repeats=1), tmp_path / "run"))
    assert found["train_std"] is None
    assert found["bar"] is None


def test_a_perfect_baseline_has_nothing_to_gain(tmp_path: Path) -> None:
    run = driven(made(always("yes")), tmp_path / "run")
    assert told(run)["outlook"] == "nothing_to_gain"
    assert len(run.rows) == 1


def test_a_loss_below_its_own_noise_is_said_to_be_hopeless(tmp_path: Path) -> None:
    hopeless = told(driven(made(wavering, accept_sigma=3.0), tmp_path / "hopeless"))
    assert hopeless["outlook"] == "within_noise"
    assert told(driven(made(wavering), tmp_path / "run"))["outlook"] == ""


def test_it_is_told_before_the_first_trial_and_once(tmp_path: Path) -> None:
    setup = made(always("no"))
    driven(replace(setup, budget=Budget(max_trials=1)), tmp_path / "run")
    again = driven(setup, tmp_path / "run")
    lines = (again.folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
    kinds = [line.split('"kind":"')[1].split('"')[0] for line in lines]
    assert kinds.count("headroom") == 1
    assert kinds.index("headroom") < kinds.index("phase_started")
    assert len(again.rows) == 4
