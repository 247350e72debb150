"""`burnish data audit`: which cases are in doubt, and by what evidence."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.console import Burnish, Said

pytestmark = pytest.mark.slow

NAMES = [f"sum {n}" for n in range(6)]


@pytest.fixture(autouse=True)
def metrics(tmp_path: Path) -> None:
    (tmp_path / "metrics.yaml").write_text("- {type: standard, metric: equality}\n")


def measure(burnish: Burnish, run: str, **replies: str) -> str:
    """Measure an agent that is right but for these replies; the case `odd` expects 41."""
    expected = {case: "41" if case == "odd" else f"right {case}" for case in [*NAMES, "odd"]}
    rows = [
        {
            "name": case,
            "input": f"{case}?",
            "expected": right,
            "recorded": {"replies": [replies.get(case.replace(" ", "_"), right)]},
        }
        for case, right in expected.items()
    ]
    return measured(burnish, run, rows)


def measured(burnish: Burnish, run: str, rows: list[dict[str, Any]]) -> str:
    Path("cases.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    said = burnish("eval", "cases.jsonl", "--metrics", "metrics.yaml", "-q", "-o", run)
    assert said.code in (0, 1), said.err
    return run


def doubts(said: Said) -> dict[str, str]:
    data = json.loads(said.out)
    return {each["case"]: each["doubt"] for each in data["found"]}


def test_agents_that_agree_on_another_answer(burnish: Burnish) -> None:
    runs = [measure(burnish, name, odd=" 42 ") for name in ("first", "second")]
    runs.append(measure(burnish, "third", sum_0="wrong"))
    said = burnish("data", "audit", *runs)
    assert said.code == 0, said.err
    assert said.lines[0] == "audited  7 cases with a verdict in 3 measurements"
    assert any("odd" in line and "2 of 3 agents answer “42”" in line for line in said.lines)
    assert "easy     5 of 7 never fail here: sum 1, sum 2, sum 3, sum 4, sum 5" in said.lines
    found = doubts(burnish("data", "audit", *runs, "--json"))
    assert found["odd"] == "likely mislabelled"
    assert "sum 0" not in found  # one of three agents fails it: that is what cases are for


def test_agents_that_are_mostly_wrong_have_no_voice(burnish: Burnish) -> None:
    wrong = {name.replace(" ", "_"): "wrong" for name in NAMES}
    runs = [measure(burnish, name, odd="42", **wrong) for name in ("first", "second")]
    found = doubts(burnish("data", "audit", *runs, "--json"))
    assert set(found.values()) == {"always fails"}


def test_agents_that_are_wrong_in_different_ways(burnish: Burnish) -> None:
    runs = [measure(burnish, name, odd=name) for name in ("first", "second")]
    assert doubts(burnish("data", "audit", *runs, "--json"))["odd"] == "always fails"


def test_one_measurement_is_not_enough_for_a_label(burnish: Burnish) -> None:
    said = burnish("data", "audit", measure(burnish, "only", odd="42"))
    assert "no case is in doubt" in said.lines
    assert said.lines[-1].startswith("note     whether a case is mislabelled takes")


def test_cases_that_contradict_each_other(burnish: Burnish) -> None:
    rows = [
        {"name": name, "input": "6 x 7?", "expected": right, "recorded": {"replies": ["42"]}}
        for name, right in (("one", "42"), ("two", "41"))
    ]
    measured(burnish, "run", rows)
    data = json.loads(burnish("data", "audit", "run", "--json").out)
    found = {each["case"]: each["evidence"] for each in data["found"]}
    assert found == {"one": "“41” in two, “42” here", "two": "“42” in one, “41” here"}


def test_measurements_that_do_not_belong_together(burnish: Burnish) -> None:
    first = measure(burnish, "first")
    row = {"name": "b", "input": "b?", "expected": "b", "recorded": {"replies": ["b"]}}
    said = burnish("data", "audit", first, measured(burnish, "other", [row]))
    assert said.code == 1
    assert "name measurements over the same cases" in said.err
    assert "named twice" in burnish("data", "audit", first, first).err
    assert "there is no file 'nowhere'" in burnish("data", "audit", "nowhere").err
