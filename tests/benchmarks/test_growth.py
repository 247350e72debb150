"""Whether long runs stay as quick as they began: how it is measured and drawn."""

from xml.etree import ElementTree

import pytest
from benchmarks.growth import Growth, measured, plot

from benchmarks import growth


def test_a_run_is_measured_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TRIALS": 16, "RESULTS": 80, "_PARTS": 8, "_SWEEP": 5}.items():
        monkeypatch.setattr(growth, name, value)
    trials, results = measured()
    assert (trials.units, len(trials.times)) == (2, 8)
    assert (results.units, len(results.times)) == (10, 8)
    assert all(each > 0 for each in (*trials.times, *results.times))


def test_growth_is_the_last_quarter_by_the_second() -> None:
    flat = Growth(what="a trial", units=10, times=[9.0, 9.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0])
    assert flat.ratio == 1.0
    assert [figure.mark for figure in flat.figures] == ["", "✓"]
    worse = Growth(what="a trial", units=10, times=[9.0, 9.0, 2.0, 2.0, 2.0, 2.0, 3.0, 3.0])
    assert worse.ratio == 1.5
    assert worse.figures[1].mark == "✗"


def test_both_are_drawn_side_by_side() -> None:
    each = Growth(what="a trial", units=250, times=[0.004] * 20)
    drawn = ElementTree.fromstring(plot([each, each]))
    lines = drawn.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2
    heights = {point.split(",")[1] for point in lines[0].get("points", "").split()}
    assert len(heights) == 1, "a flat cost is a flat line"
    texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("5,000") == 2
