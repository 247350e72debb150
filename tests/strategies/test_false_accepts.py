"""How often gates accept an edit that changes nothing."""

import random
from dataclasses import replace

import pytest

from burnish.core.cases import Outcome, Split
from burnish.core.comparisons import Pair
from burnish.core.content import stream
from burnish.core.evaluations import CaseResult, Evaluation, Objective, Score
from burnish.core.gates import min_gain, sigma, strict
from burnish.strategies.requirements import AIM, NullRuns, false_accepts

RUNS = NullRuns(train=12, holdout=8, repeats=3, trials=10)
OBJECTIVE = Objective(weights={"right": 1.0})


@pytest.mark.parametrize(("repeats", "share"), [(2, 0.20), (3, 0.10), (5, 0.04)])
def test_the_rates_at_one_sigma(repeats: int, share: float) -> None:
    assert replace(RUNS, repeats=repeats).per_trial(1.0) == pytest.approx(share, abs=0.02)


@pytest.mark.slow
def test_the_simulation_agrees_with_the_gate_itself() -> None:
    """The gate, asked about evaluations in which every case is a coin."""
    rng = stream(1, "coins")

    def coins(split: Split, cases: int) -> Evaluation:
        results = [
            CaseResult(
                case=f"c{case}",
                draw=draw,
                outcome=Outcome(replies=("x",)),
                scores=(Score(metric="right", value=float(rng.random() < 0.5)),),
            )
            for draw in range(RUNS.repeats)
            for case in range(cases)
        ]
        return Evaluation(candidate="c", split=split, results=tuple(results))

    def accepted() -> bool:
        train, holdout = (
            Pair(candidate=coins(split, cases), incumbent=coins(split, cases))
            for split, cases in ((Split.TRAIN, RUNS.train), (Split.HOLDOUT, RUNS.holdout))
        )
        return sigma(objective=OBJECTIVE, train=train, holdout=holdout).accepted

    share = sum(accepted() for _ in range(1500)) / 1500
    assert share == pytest.approx(RUNS.per_trial(1.0), abs=0.025)


def test_a_run_of_many_trials_is_more_often_wrong_than_one_trial() -> None:
    assert RUNS.per_run(1.0) > 3 * RUNS.per_trial(1.0)
    assert RUNS.per_run(1.0) == RUNS.per_run(1.0) == replace(RUNS).per_run(1.0)


def test_the_settings_it_names_give_what_it_promises() -> None:
    found = false_accepts(RUNS, 1.0)
    assert found.per_run > AIM
    assert found.sigma is not None
    assert RUNS.per_run(found.sigma) <= AIM < RUNS.per_run(found.sigma - 0.25)
    assert found.repeats is not None
    assert replace(RUNS, repeats=found.repeats).per_run(1.0) <= AIM
    assert f"accept_sigma {found.sigma:g} or repeats {found.repeats}" in found.words


def test_one_repeat_shows_no_noise_so_no_sigma_helps() -> None:
    found = false_accepts(replace(RUNS, repeats=1), 1.0)
    assert found.sigma is None
    assert found.repeats is not None


def test_a_strict_setting_has_nothing_to_advise() -> None:
    assert false_accepts(replace(RUNS, trials=1), 4.0).words.endswith("of runs of 1 trial")


def noisy(rng: random.Random, repeats: int) -> Evaluation:
    """One case whose number wavers."""
    results = [
        CaseResult(case="task", draw=n, outcome=Outcome(measures={"score": rng.gauss(7.0, 2.0)}))
        for n in range(repeats)
    ]
    return Evaluation(candidate="c", split=Split.TRAIN, results=tuple(results))


@pytest.mark.slow
@pytest.mark.parametrize(("repeats", "holdout"), [(1, 0), (3, 0), (3, 1)])
def test_one_noisy_number_is_decided_as_often_as_the_strict_gate_does(
    repeats: int, holdout: int
) -> None:
    runs = NullRuns(
        train=1, holdout=holdout, repeats=repeats, trials=20, normal=True, holdout_gains=True
    )
    rng = stream(2, "numbers")

    def better() -> bool:
        pair = Pair(candidate=noisy(rng, repeats), incumbent=noisy(rng, repeats))
        return strict(
            objective=Objective(weights={}),
            pair=pair,
            primary="score",
            direction="maximize",
            accept_sigma=1.0,
        ).accepted

    tries = 500
    share = sum(all(better() for _ in range(1 + holdout)) for _ in range(tries)) / tries
    assert runs.per_trial(1.0) == pytest.approx(share, abs=0.06)


def coins(rng: random.Random, cases: int, repeats: int) -> Evaluation:
    results = [
        CaseResult(
            case=f"c{case}",
            draw=draw,
            outcome=Outcome(replies=("x",)),
            scores=(Score(metric="right", value=float(rng.random() < 0.5)),),
        )
        for draw in range(repeats)
        for case in range(cases)
    ]
    return Evaluation(candidate="c", split=Split.HOLDOUT, results=tuple(results))


ON_HOLDOUT = NullRuns(train=0, holdout=8, repeats=2, trials=10, holdout_gains=True)


@pytest.mark.slow
@pytest.mark.parametrize("bar", [0.0, 1.0, 2.0])
def test_the_strict_gate_on_holdout(bar: float) -> None:
    rng = stream(3, "coins")

    def accepted() -> bool:
        pair = Pair(candidate=coins(rng, 8, 2), incumbent=coins(rng, 8, 2))
        return strict(objective=OBJECTIVE, pair=pair, accept_sigma=bar).accepted

    share = sum(accepted() for _ in range(1200)) / 1200
    assert ON_HOLDOUT.per_trial(bar) == pytest.approx(share, abs=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("bar", [-0.1, 0.0, 0.125, 0.2])
def test_the_gate_min_gain(bar: float) -> None:
    rng, runs = stream(4, "coins"), replace(ON_HOLDOUT, unit="score")

    def accepted() -> bool:
        pair = Pair(candidate=coins(rng, 8, 2), incumbent=coins(rng, 8, 2))
        return min_gain(objective=OBJECTIVE, validation=pair, gain=bar).accepted

    share = sum(accepted() for _ in range(1200)) / 1200
    assert runs.per_trial(bar) == pytest.approx(share, abs=0.06)
    enough = false_accepts(runs, max(0.0, bar)).sigma
    assert enough is not None
    assert runs.per_run(enough) <= AIM
    assert f"min_score_gain {enough:g}" in false_accepts(runs, max(0.0, bar)).words
