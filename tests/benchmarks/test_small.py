"""The small worlds, frozen by their hash, and the searches that are compared in them."""

import hashlib
from pathlib import Path

import pytest
from benchmarks.small import drawn, report
from benchmarks.small_searches import BURNISH, GEPA, RANDOM, Result, Task
from benchmarks.small_worlds import (
    REPORT,
    TUNING,
    WORLDS,
    Bill,
    best_score,
    cases_of,
    chances,
    judged_answer,
    reflect,
    rewrite,
    run,
    start_of,
    texts_with,
    true_score,
    world_of,
)

from benchmarks import small_worlds

GENERATOR = Path(small_worlds.__file__)


def test_the_worlds_are_those_that_were_frozen() -> None:
    written, name = GENERATOR.with_suffix(".sha256").read_text(encoding="utf-8").split()
    assert (hashlib.sha256(GENERATOR.read_bytes()).hexdigest(), GENERATOR.name) == (written, name)


def test_no_world_is_both_tuned_on_and_reported() -> None:
    assert len(REPORT) >= 10
    assert not set(REPORT) & set(TUNING)
    assert not set(REPORT.values()) & set(TUNING.values())


@pytest.mark.parametrize("name", WORLDS)
def test_the_mean_of_many_runs_is_the_true_score(name: str) -> None:
    world = world_of(name, 3)
    train, holdout = cases_of(world)
    assert (len(train), len(holdout)) == (world.train, world.holdout)
    start = start_of(world)
    assert true_score(world, start) < best_score(world)
    kinds = small_worlds.population(world)
    sample = [
        judged_answer(world, start, small_worlds.SmallCase(name=str(n), question="", rules=k), 0)
        for n, k in enumerate(kinds * 10)
    ]
    mean = sum(each.score for each in sample) / len(sample)
    truth = true_score(world, start)
    if not world.continuous:
        truth = (1 - 2 * world.misjudged) * truth + world.misjudged
    assert mean == pytest.approx(truth, abs=0.04)


def test_rules_in_conflict_spoil_each_other() -> None:
    world = world_of("conflicting rules", 1)
    alone, both = texts_with(world, ["r01"]), texts_with(world, ["r01", "r02"])
    assert chances(world, both)["r01"] == chances(world, alone)["r01"] / 2


def test_rewrites_are_idle_harmful_and_helpful_as_often_as_the_world_says() -> None:
    world = world_of("60 % idle rewrites", 1)
    start = start_of(world)
    made = [
        rewrite(world, "planner", start["planner"], ["the planner lacks [r03]"], draw)
        for draw in range(2000)
    ]
    texts = [text for _, text in made]
    unchanged = sum(text == start["planner"] for text in texts) / len(texts)
    worth = [true_score(world, {"planner": text}) for text in texts]
    before = true_score(world, start)
    assert unchanged == pytest.approx(0.3, abs=0.04)
    assert sum(each > before for each in worth) / len(worth) == pytest.approx(0.25, abs=0.04)
    assert sum(each < before for each in worth) / len(worth) == pytest.approx(0.15, abs=0.04)


def test_a_bill_counts_calls_reflections_and_tokens() -> None:
    world = world_of("additive", 1)
    train, _ = cases_of(world)
    bill, start = Bill(), start_of(world)
    judged = [run(world, start, case, bill) for case in train]
    used = bill.tokens
    reflect(world, "planner", start["planner"], [each.reason for each in judged], bill)
    assert (bill.calls, bill.reflections, bill.cost(3)) == (20, 1, 23)
    assert bill.tokens > used > 0


@pytest.mark.parametrize(("price", "tokens", "most"), [(0, 0, 60), (3, 0, 60), (3, 45, 64)])
@pytest.mark.parametrize("system", [BURNISH, RANDOM])
def test_a_search_stays_within_its_budget_and_repeats_itself(
    system: str, price: float, tokens: int, most: int
) -> None:
    """Tokens are known only after a call, so that the last ones may go over."""
    task = Task(system=system, world="tuning: rough", seed=5, budget=60, price=price, tokens=tokens)
    result = task.search()
    assert 12 <= result.cost <= most
    assert result.truth == result.returned
    assert task.search() == result


def test_seeds_come_from_a_phrase() -> None:
    assert drawn("a", 3) == drawn("a", 5)[:3]
    assert drawn("a", 3) != drawn("b", 3)


def _result(system: str, seed: int, truth: float) -> Result:
    task = Task(system=system, world="additive", seed=seed, budget=60, price=3.0)
    return Result(
        task=task,
        start=0.2,
        best=0.9,
        truth=truth,
        returned=truth + 0.1 * (system == GEPA),
        calls=40,
        reflections=5,
        tokens=1000,
    )


def test_the_report_shows_wins_and_losses_seed_by_seed() -> None:
    ours = [_result(BURNISH, seed, truth) for seed, truth in enumerate([0.5, 0.3, 0.2])]
    theirs = [_result(GEPA, seed, truth) for seed, truth in enumerate([0.3, 0.3, 0.4])]
    text = report([*ours, *theirs], "Made with `make bench PART=small`")
    assert "| additive | 0.200 | 0.900 | 0.333 ± 0.088 | 0.333 ± 0.033 |" in text
    assert "| 1 | 1 | 1 | – | -0.100 ± 0.115 |" in text
    assert "| 60 | gepa 0.1.4 | 40.0 | 5.0 | 55.0 | 55.0 | 1,000 |" in text
