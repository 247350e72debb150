"""Two commits beside each other: what counts as better, as worse, and as noise."""

from benchmarks.compare import Compared, compared
from benchmarks.figures import Figure


def figure(value: float, what: str = "a case", *, more: bool = False) -> Figure:
    return Figure(what=what, value=value, unit="µs", more=more)


def one(before: list[float], after: list[float], *, more: bool = False) -> Compared:
    rounds = [
        ([figure(b, more=more)], [figure(a, more=more)]) for b, a in zip(before, after, strict=True)
    ]
    (found,) = compared(rounds)
    return found


def test_the_best_round_of_each_side_counts() -> None:
    found = one([100, 90, 300], [200, 180, 500])
    assert found.ratio == 2
    assert (found.shown(found.before), found.shown(found.after)) == ("90.0 µs", "180 µs")


def test_rounds_that_overlap_are_noise() -> None:
    assert one([100, 300], [200, 250]).verdict == ""
    assert one([100, 110], [115, 120]).verdict == "worse"
    assert one([100, 101], [105, 106]).verdict == ""
    assert one([115, 120], [100, 90]).verdict == "better"


def test_of_a_rate_more_is_better() -> None:
    assert one([100, 110], [200, 220], more=True).verdict == "better"
    assert one([100, 110], [50, 60], more=True).verdict == "worse"


def test_a_figure_that_only_one_side_has_is_shown() -> None:
    found = compared([([figure(1, "old")], [figure(2, "new")])])
    rows = [(each.figure.what, each.shown(each.before), each.shown(each.after)) for each in found]
    assert rows == [("new", "–", "2.00 µs"), ("old", "1.00 µs", "–")]
    assert [each.verdict for each in found] == ["", ""]
