"""Costs by trial, and what checks found out about the judges of a run."""

import json
from pathlib import Path
from typing import Any

from burnish.core.money import Spend
from burnish.pages.run_status import CostLine, RunCosts
from burnish.pages.served import checked_judges
from burnish.runs.directory import RunRecord, look_into


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


def test_a_check_of_the_same_judge_is_shown_and_of_another_is_not(
    shown: RunRecord, tmp_path: Path
) -> None:
    with look_into(shown.folder) as journal:
        row = next(iter(journal.values({0, 1}, kinds=("score",))))
    request: Any = row.request
    ((name, fingerprint),) = request["metrics"]
    stored = [
        {"metric": name, "fingerprint": each, "labels": "l.csv", "sentences": ["agrees"]}
        for each in (fingerprint, "another")
    ]
    (tmp_path / "agreement.json").write_text(json.dumps(stored), encoding="utf-8")
    (judge,) = checked_judges(shown, [tmp_path, shown.folder])
    assert judge.fingerprint == fingerprint
    (tmp_path / "agreement.json").write_text("[{", encoding="utf-8")
    assert checked_judges(shown, [tmp_path]) == ()
