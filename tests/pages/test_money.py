"""Costs by trial."""

from burnish.core.money import Spend
from burnish.pages.run_status import CostLine, RunCosts


def _costs(*calls: int) -> RunCosts:
    lines = (CostLine(name=str(n), spend=Spend(calls=each)) for n, each in enumerate(calls))
    return RunCosts(by_role=(), by_model=(), by_phase=(), by_trial=tuple(lines))


def test_costs_by_trial_are_in_the_order_of_the_trials() -> None:
    chart = _costs(3, 1, 2).trial_chart
    assert chart is not None
    assert (chart.title, chart.rows) == ("Calls by trial", (("0", "3"), ("1", "1"), ("2", "2")))
    assert _costs(3).trial_chart is None
    assert _costs(0, 0).trial_chart is None


def test_of_many_trials_those_that_cost_most_are_drawn() -> None:
    chart = _costs(*range(300)).trial_chart
    assert chart is not None
    assert [row[0] for row in chart.rows] == [str(n) for n in range(100, 300)]
    assert "of 300" in chart.note
