"""Searches where texts, numbers and demonstrations matter, with their truth."""

import pytest
from benchmarks.mixed import AUTO, COORDINATE, REFLECTIVE, WORLDS, MixedSearch, Place, report


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_lacks_something_and_has_a_best(name: str) -> None:
    place = Place.of(WORLDS[name], 5)
    start, best = place.worth(place.target.baseline), place.worth(place.best)
    assert start + 0.2 < best
    assert not {case.id for case in place.new} & {case.id for case in place.plain.dataset.train}


@pytest.mark.slow
def test_searches_stay_in_their_budget_and_are_told_side_by_side() -> None:
    results = [
        MixedSearch(system=system, world="demonstrations", seed=3, budget=90).make()
        for system in (AUTO, REFLECTIVE, COORDINATE)
    ]
    assert all(0 < each.cost <= 90 for each in results)
    found, texts, _ = results
    assert found.truth > found.start + 0.2, "demonstrations are found"
    assert texts.truth == pytest.approx(texts.start, abs=0.05), "a text does not replace them"
    (row,) = [
        line
        for line in report(results, "Made with `make bench PART=mixed`").splitlines()
        if "| demonstrations" in line
    ]
    assert f"{found.start:.3f}" in row
