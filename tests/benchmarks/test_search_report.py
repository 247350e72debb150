"""The comparison of searches: what its tables count, and what a search counts that got nowhere."""

import pytest
from benchmarks.search_burnish import search
from benchmarks.search_report import reached, report
from benchmarks.search_worlds import GEPA, WORLDS, Accept, Sealed, Searched, Step, world_of

from tests.strategies.reflection_world import baseline, best_score, true_score

OURS = "burnish reflective"


def searched(system: str, *steps: Step, seed: int = 1) -> Searched:
    return Searched(
        world="small",
        system=system,
        seed=seed,
        limit=4000,
        steps=(Step(calls=0, truth=0.2), *steps),
        calls=4000,
        reflections=100,
        accepts=(Accept(gain=0.0, led=True), Accept(gain=0.3, led=True)),
        claimed=0.9,
        best=0.8,
        seconds=4.0,
        all_calls=4000,
        sealed=Sealed(gain=0.5, low=0.4, high=0.6, truth=0.55) if system == OURS else None,
    )


def test_a_search_counts_from_when_its_leader_was_good_enough() -> None:
    slow = searched(GEPA, Step(calls=900, truth=0.7), Step(calls=2000, truth=0.75))
    assert slow.truth_at(1000) == 0.7
    assert reached(slow) == 2000
    assert reached(searched(GEPA, Step(calls=900, truth=0.7))) == 4000
    assert reached(searched(GEPA, Step(calls=4010, truth=0.8))) == 4000


def test_the_report_tells_how_many_times_fewer_calls_were_needed() -> None:
    found = [
        searched(system, Step(calls=calls * seed, truth=0.75), seed=seed)
        for seed in (1, 2)
        for system, calls in ((GEPA, 1200), (OURS, 600))
    ]
    told = report(found, "Made with `make bench PART=search`")
    assert "| small | +0.275 ± 0.275 | +0.000 ± 0.000 | 2.00 |" in told
    assert "**2.00** (95 %: 2.00 to 2.00)" in told
    assert f"| small | {OURS} | 2.0 | 50% | 50% | 0.150 ± 0.000 | -0.050 ± 0.000 | 100% |" in told
    assert "1,000 µs" in told


@pytest.mark.parametrize("name", WORLDS)
def test_every_world_leaves_something_to_be_found(name: str) -> None:
    world = world_of(name, seed=1)
    assert true_score(world, baseline(world)) < 0.5 * best_score(world)


def test_a_short_search_of_ours_can_be_reported() -> None:
    first = search(OURS, "no noise, pass or fail", 1, calls=150)
    assert first.calls <= 150
    assert 0 <= first.claimed <= 1
    assert first.sealed is not None
    assert OURS in report([first], "Made with `make bench PART=search`")
