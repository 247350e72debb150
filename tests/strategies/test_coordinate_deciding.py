"""What is accepted: holdout policies, missing cases, penalties and constraints."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case, Outcome
from burnish.core.evaluations import Constraint, Objective, Penalties
from burnish.core.surfaces import Candidate, ChoiceSurface
from burnish.core.trials import Verdict
from burnish.runs.setup import Setup
from burnish.strategies.coordinate.trials import CoordinateSettings, HoldoutPolicy, PhaseLimits
from tests.strategies.coordinate_runs import Driven, driven, scripted

pytestmark = pytest.mark.slow

WEIGHTS = {"expected_text": 1.0}


def made(
    respond: Callable[[str, Case], Any],
    *,
    start: str = "base",
    policy: HoldoutPolicy = "on_train_improve",
    errored: float = 0.25,
) -> Setup:
    """A run over the ways `base`, `one` and `two`, with 8 train and 4 holdout cases."""
    settings = CoordinateSettings(
        numbers=("way",),
        repeats=1,
        max_cycles=1,
        holdout_policy=policy,
        max_errored_fraction=errored,
        numeric_phase=PhaseLimits(max_trials=30, patience=30),
        numeric_convergence_eps=0,
    )
    way = ChoiceSurface(id="way", choices=("base", "one", "two"))

    def scripted_agent(candidate: Candidate, case: Case, draw: int) -> Any:
        del draw
        return respond(str(candidate.values["way"]), case)

    return scripted(scripted_agent, (way,), {"way": start}, settings, train=8, holdout=4)


def number(case: Case) -> int:
    return int(case.id[1:])


def on_train(case: Case) -> bool:
    return number(case) < 8


def by_way(run: Driven) -> dict[str, Any]:
    """The measured trials by what they tried."""
    measured = [row.trial for row in run.of_phase("numeric") if row.trial.train is not None]
    return {str(trial.candidate.values["way"]): trial for trial in measured}


def better_or_worse(way: str, case: Case) -> str:
    """`one` is better than the base, `two` is worse."""
    right = {"base": 4, "one": 6, "two": 2}[way]
    return "yes" if number(case) % 8 < right else "no"


def overfits(way: str, case: Case) -> str:
    """`one` is right on all of train and on nothing of holdout; `two` is the base."""
    return "yes" if (on_train(case) if way == "one" else number(case) % 2) else "no"


def test_holdout_is_run_only_where_train_improved(tmp_path: Path) -> None:
    run = driven(made(better_or_worse), tmp_path / "run")
    assert run.rows[0].trial.holdout is not None
    trials = by_way(run)
    assert trials["one"].accepted
    assert trials["one"].holdout is not None
    assert trials["two"].holdout is None


def test_holdout_is_run_every_time_where_the_policy_says_so(tmp_path: Path) -> None:
    run = driven(made(better_or_worse, policy="every_trial"), tmp_path / "run")
    trials = by_way(run)
    assert trials["two"].holdout is not None
    assert not trials["two"].accepted
    assert trials["one"].accepted


@pytest.mark.parametrize("policy", ["on_train_improve", "every_trial"])
def test_what_is_worse_on_holdout_is_not_accepted(tmp_path: Path, policy: HoldoutPolicy) -> None:
    run = driven(made(overfits, policy=policy), tmp_path / "run")
    decision = by_way(run)["one"].decision
    assert decision.code == "holdout"
    assert decision.numbers["train_improvement"] == pytest.approx(0.5)
    assert run.ending.best.values == {"way": "base"}


def test_without_holdout_train_alone_decides(tmp_path: Path) -> None:
    run = driven(made(overfits, policy="skip"), tmp_path / "run")
    assert run.ending.best.values == {"way": "one"}
    assert not any(row.trial.holdout for row in run.rows)
    assert run.ending.spent.calls == 8 * 2, "no holdout case was run"


def away(lost: int) -> Callable[[str, Case], str]:
    """Under `one` the endpoint is down for so many train cases; the others are all right."""

    def respond(way: str, case: Case) -> str:
        if way == "one" and on_train(case) and number(case) < lost:
            raise ConnectionError("the endpoint is down")
        return "yes" if way == "one" or number(case) % 2 else "no"

    return respond


@pytest.mark.parametrize(
    ("lost", "allowed", "verdict"),
    [
        (2, 0.25, Verdict.ACCEPT),
        (3, 0.25, Verdict.CANNOT_TELL),
        (3, 0.5, Verdict.ACCEPT),
        (8, 1.0, Verdict.CANNOT_TELL),
    ],
)
def test_too_much_missing_is_never_an_accept(
    tmp_path: Path, lost: int, allowed: float, verdict: Verdict
) -> None:
    run = driven(made(away(lost), errored=allowed), tmp_path / "run")
    assert by_way(run)["one"].decision.verdict is verdict
    accepted = verdict is Verdict.ACCEPT
    assert run.ending.best.values == {"way": "one" if accepted else "base"}


def test_a_crash_is_no_missing_case_it_scores_nothing(tmp_path: Path) -> None:
    def respond(way: str, case: Case) -> str:
        if way == "one" and number(case) % 2 == 0:
            raise ValueError("the answer was no JSON")
        return "yes" if number(case) % 2 else "no"

    decision = by_way(driven(made(respond), tmp_path / "run"))["one"].decision
    assert decision.code == "tie", "it was wrong there before, and is wrong there now"


def priced(way: str, case: Case) -> Outcome:
    """All ways are right on half of the cases; `one` costs half and takes twice as long."""
    cheap = way == "one"
    return Outcome(
        replies=("yes" if number(case) % 2 else "no",),
        nano_usd=1_000_000 if cheap else 2_000_000,
        seconds=2.0 if cheap else 1.0,
    )


@pytest.mark.parametrize(
    ("penalties", "best"),
    [
        (Penalties(), "base"),
        (Penalties(cost_per_usd=1.0), "one"),
        (Penalties(cost_per_usd=1.0, latency_per_sec=0.1), "base"),
    ],
    ids=["a tie is no gain", "half the cost is one", "not when it takes longer"],
)
def test_penalties_decide(tmp_path: Path, penalties: Penalties, best: str) -> None:
    objective = Objective(weights=WEIGHTS, penalties=penalties)
    run = driven(replace(made(priced), objective=objective), tmp_path / "run")
    assert run.ending.best.values == {"way": best}


def test_a_constraint_that_is_broken_is_no_accept(tmp_path: Path) -> None:
    def respond(way: str, case: Case) -> Outcome:
        right = way == "one" or (way == "two" and number(case) % 4 > 0)
        seconds = 3.0 if way == "one" else 1.0
        return Outcome(replies=("yes" if right else "no",), seconds=seconds)

    limit = Constraint(metric="latency_sec", op="<=", value=2.0)
    objective = Objective(weights=WEIGHTS, constraints=(limit,))
    run = driven(replace(made(respond), objective=objective), tmp_path / "run")
    assert by_way(run)["one"].decision.code == "constraint"
    assert "latency_sec <= 2 is broken" in by_way(run)["one"].decision.reason
    assert run.ending.best.values == {"way": "two"}


@pytest.mark.parametrize(("penalty", "reason"), [(0.0, "nothing_to_gain"), (1.0, "dry_cycle")])
def test_where_all_is_right_only_a_penalty_is_left_to_be_lowered(
    tmp_path: Path, penalty: float, reason: str
) -> None:
    def respond(way: str, case: Case) -> Outcome:
        del case
        return Outcome(replies=("yes",), nano_usd=1_000_000 if way == "base" else 2_000_000)

    objective = Objective(weights=WEIGHTS, penalties=Penalties(cost_per_usd=penalty))
    run = driven(replace(made(respond), objective=objective), tmp_path / "run")
    assert run.why == reason
