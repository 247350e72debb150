"""How back-propagation looks: its lines, why it ended, and the report."""

from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.content import Json
from burnish.models.chat import ChatRequest
from burnish.projects import launch_in
from burnish.reports.rendering import render, to_markdown
from burnish.runs.directory import RunRecord
from burnish.strategies.backprop.plugin import BackpropPlugin, crashes
from burnish.testing.doubles import ScriptedBackend
from tests.projects.graph.graph_world import BETTER, RULE, optimizer, prepared, respond, write_world
from tests.reports.records import baseline, event, record, tried

ROW: dict[str, Json] = {
    "trial": 1,
    "index": 1,
    "cycle": 1,
    "phase": "backprop",
    "touched": ["shop/planner#instruction"],
    "note": "patch shop/planner#instruction",
    "accepted": True,
    "code": "better",
    "reason": "score gain 0.460 > required 0.000",
    "numbers": {"score": 0.81, "best_score_before": 0.35, "score_delta": 0.46},
    "train": None,
    "train_score": 0.25,
    "holdout": 0.19,
    "usd": 0.0024,
    "seconds": 12.0,
}


@pytest.mark.parametrize(
    ("row", "line"),
    [
        (
            {},
            "[r1] planner#instruction train 0.250 hold 0.350→0.810 (▲0.460) accept ✓ $0.0024 12s",
        ),
        (
            {"index": 2, "touched": ["a/b#skill.x", "c#instruction"], "accepted": False,
             "code": "below", "holdout": 0.7},
            "[r1.2] b#skill.x +1 train 0.250 hold 0.350→0.300 (▼0.050) below ✗ $0.0024 12s",
        ),
        (
            {"holdout": 0.65, "accepted": False, "code": "tie"},
            "[r1] planner#instruction train 0.250 hold 0.350→0.350 (=) tie ✗ $0.0024 12s",
        ),
        (
            {"holdout": 0.9, "holdout_cases": 8, "part_of_holdout": True, "accepted": False,
             "code": "futile"},
            "[r1] planner#instruction train 0.250 hold —— after 8 cases futile ✗ $0.0024 12s",
        ),
        (
            {"holdout": None, "accepted": False, "code": "turned away", "reason": "nothing new"},
            "[r1] planner#instruction turned away ✗ nothing new",
        ),
    ],
)  # fmt: skip
def test_a_round_in_one_line(row: dict[str, Json], line: str) -> None:
    told = BackpropPlugin().progress().lines(event("trial_recorded", **{**ROW, **row}), 100)
    assert [" ".join(each.split()) for each in told] == [line]


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_a_line_fits_where_it_is_shown(width: int) -> None:
    (line,) = BackpropPlugin().progress().lines(event("trial_recorded", **ROW), width)
    assert len(line) <= width
    assert "hold 0.350→0.810" in line
    assert "accept ✓" in line


@pytest.mark.parametrize(
    "code",
    [
        *("no_losses", "max_rounds", "max_rounds_without_acceptance", "target_score"),
        *("baseline_missing", "train_missing", "nothing_to_blame"),
    ],
)
def test_every_end_has_words(code: str) -> None:
    assert BackpropPlugin().ended_words(code).startswith(f"{code}: ")


def _stumbling(request: ChatRequest, draw: int) -> str:
    """The first patch does nothing, and the backwarder is silent about one case."""
    said = "".join(m.content for m in request.messages)
    if request.schema_name == "backwarder" and "train2" in said:
        return "no idea"
    told = respond(request, draw)
    if request.schema_name == "patcher" and "- tried: " not in said:
        return told.replace(f" {RULE}.", " Think.")
    return told


def test_a_patch_that_a_race_stopped_shows_no_gain() -> None:
    row = tried(1, phase="backprop")
    details: dict[str, Json] = {**row.trial.details, "alone": True, "whole_holdout": False}
    run = record(baseline(), replace(row, trial=replace(row.trial, details=details)))
    told = to_markdown(BackpropPlugin().report(run))
    table = told.partition("## Rounds")[2].partition("## Where")[0]
    (line,) = [line for line in table.splitlines() if line.startswith("| 1 |")]
    assert [cell.strip() for cell in line.split("|")][4:6] == ["—", "—"]
    assert "its patches were tried alone" in told


def test_what_the_agent_raised_is_in_the_report_once_with_its_cases() -> None:
    row = tried(1, phase="backprop")
    failed: dict[str, Json] = {"oslo": "ValueError: boom", "rome": "ValueError: boom"}
    details = {**row.trial.details, "train_failed": failed}
    run = record(baseline(), replace(row, trial=replace(row.trial, details=details)))
    told = to_markdown(crashes(run))
    assert "## Where the agent itself failed" in told
    assert told.endswith("- ValueError: boom: oslo, rome\n")


@pytest.mark.slow
def test_the_report_tells_what_was_patched_why_and_where_losses_led(tmp_path: Path) -> None:
    path = write_world(tmp_path, optimizer(max_rounds=2))
    setup = prepared(path, ScriptedBackend(respond=_stumbling)).setup
    launch_in(setup, tmp_path / "run")
    page = render(RunRecord.read(tmp_path / "run"))
    assert "| holdout score | 0.000 → 1.000 |" in page
    assert "| rounds | 2, with 2 candidates, 1 accepted |" in page
    assert "- round 1, `shop/planner#instruction`, rejected: it is not said" in page
    assert "- round 2, `shop/planner#instruction`, accepted: it is not said" in page
    assert f"+{BETTER}" in page
    assert "| 1 | planner#instruction | 0.000 | 0.000 | +0.000 |" in page
    assert "| 2 | planner#instruction | 0.000 | 1.000 | +1.000 | ✓ " in page
    assert "| `shop/planner#instruction` | 4 | · | 4 | · | · | 2 |" in page
    assert "| final answer | 3 | 3 | train-0, train-1, train-2 |" in page
    assert "| 2 | 3: holdout-0, holdout-1, holdout-2 | — |" in page
    assert "2 requests to a role had no usable answer" in page
    assert "backwarder, train-2, writer:1" in page
    assert "## Where the agent itself failed" not in page
    # Cases of holdout are named and nothing of them is told.
    assert "holdout 0?" not in page
