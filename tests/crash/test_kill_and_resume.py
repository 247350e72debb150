"""With real processes and a real SIGKILL, at any instant: a run loses nothing."""

import random
from pathlib import Path

import pytest

from tests.crash.chains import Chain, Ended

pytestmark = pytest.mark.crash

Reference = tuple[Chain, Ended]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """The run that nobody interrupts."""
    chain = Chain(tmp_path_factory.mktemp("reference") / "run")
    ended = chain.until_it_ends([])
    chain.check_money(ended)
    assert len(chain.calls) > 150, "the toy must be worth killing"
    return chain, ended


def test_killed_at_its_calls(reference: Reference, tmp_path: Path) -> None:
    chain = Chain(tmp_path / "run")
    every = (("--call", str(n)) for n in [1, 2, 3, 5, 8, 13, 21, 13, 8, 21, 34, 5, 3, 40, 60, 90])
    ended = chain.until_it_ends(every)
    assert chain.kills >= 14
    chain.check(ended, *reference)


def test_killed_at_its_file_operations(reference: Reference, tmp_path: Path) -> None:
    chain = Chain(tmp_path / "run")
    ended = chain.until_it_ends(("--file", str(n)) for n in range(1, 41))
    assert chain.kills >= 30
    chain.check(ended, *reference)


def test_killed_at_any_time(reference: Reference, tmp_path: Path) -> None:
    chain = Chain(tmp_path / "run")
    times = random.Random(5)
    ended = chain.until_it_ends(
        ("--seconds", f"{times.uniform(0.001, 0.06):.4f}") for _ in range(30)
    )
    assert chain.kills >= 12
    chain.check(ended, *reference)


def test_killed_with_another_concurrency_each_time(reference: Reference, tmp_path: Path) -> None:
    chain = Chain(tmp_path / "run")
    for concurrency, call in ((1, 30), (16, 25), (3, 40), (7, 20), (2, 35)):
        chain.attempt("--call", str(call), concurrency=concurrency)
    ended = chain.attempt(concurrency=5)
    assert ended.code == 0, ended.errors
    assert chain.kills >= 4
    chain.check(ended, *reference)


def test_killed_while_the_infrastructure_fails_too(tmp_path: Path) -> None:
    rough = ("--outages", "0.08")
    whole = Chain(tmp_path / "whole")
    expected = whole.until_it_ends([], *rough)
    assert '"infrastructure"' not in expected.errors
    chain = Chain(tmp_path / "run")
    every = (("--call", str(n)) for n in (9, 33, 27, 50))
    ended = chain.until_it_ends(every, *rough)
    assert chain.kills >= 3
    chain.check(ended, whole, expected)


def test_killed_while_the_winner_is_measured_again(tmp_path: Path) -> None:
    flags = ("--trials", "6", "--no-test", "--confirm")
    whole = Chain(tmp_path / "whole")
    expected = whole.until_it_ends([], *flags)
    assert expected.told["claim"]["basis"] == "fresh draws"
    chain = Chain(tmp_path / "run")
    # The last 20 calls measure baseline and winner: the kills come in both, and in between.
    calls = len(whole.calls)
    kills = [calls - 24, 5, 9, 3, 2]
    ended = chain.until_it_ends([("--call", str(n)) for n in kills], *flags)
    assert chain.kills == len(kills)
    chain.check(ended, whole, expected)
    assert ended.told["claim"] == expected.told["claim"]


def test_a_run_that_spent_its_budget_keeps_its_best(tmp_path: Path) -> None:
    limited = ("--trials", "6", "--no-test")
    chain = Chain(tmp_path / "run")
    first = chain.until_it_ends([("--call", "40")], *limited)
    assert first.told["code"] == "max_trials"
    calls = len(chain.calls)
    again = chain.attempt(*limited)
    assert again.told == first.told
    assert len(chain.calls) == calls, "a finished run pays for nothing when it is resumed"
    best = (chain.folder / "candidates" / "best").readlink()
    killed = chain.attempt("--trials", "9", "--no-test", "--call", "5")
    assert killed.killed
    assert (chain.folder / "candidates" / best).is_dir()


def test_a_strategy_edited_in_between_is_caught_with_no_call_paid(tmp_path: Path) -> None:
    chain = Chain(tmp_path / "run")
    assert chain.attempt("--call", "90").killed
    calls = len(chain.calls)
    ended = chain.attempt("--edited")
    assert ended.code == 1
    assert "ReplayDiverged" in ended.errors
    assert len(chain.calls) == calls
    fixed = chain.attempt()
    assert fixed.code == 0, fixed.errors
