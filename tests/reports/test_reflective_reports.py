"""How a reflective search looks: its lines, the panel, the page of a trial, and the report."""

import io
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from burnish.core.content import Json
from burnish.journal.limits import Budget
from burnish.reports.progress import LiveView
from burnish.reports.rendering import render, trial_page
from burnish.runs.directory import RunRecord, loss_of, whole_loss
from burnish.strategies.reflective.attempts import ReflectiveSettings
from burnish.strategies.reflective.plugin import ReflectivePlugin
from tests.reports.records import event, recorded
from tests.strategies.coordinate_runs import driven
from tests.strategies.reflection_world import World, setup

ROW: dict[str, Json] = {
    "trial": 17,
    "index": 1,
    "cycle": 17,
    "phase": "reflective",
    "touched": ["planner"],
    "note": "rewrite planner",
    "accepted": False,
    "kept": False,
    "code": "tie",
    "reason": "sum over 3 cases 1.000 = parent's 1.000",
    "numbers": {"candidate_sum": 1.0, "parent_sum": 1.0},
    "train": 0.667,
    "train_std": 0.0,
    "parent_train": 0.667,
    "holdout": None,
    "usd": 0.0024,
    "seconds": 1.0,
}


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ({}, "[r 17.1] rewrite planner batch 0.667 → 0.667 —— tie ✗ $0.0024 1.0s"),
        (
            {"kept": True, "code": "kept", "train": 0.333},
            "[r 17.1] rewrite planner batch 0.667 → 0.333 —— kept ↗ $0.0024 1.0s",
        ),
        (
            {"holdout": 0.875, "holdout_cases": 8, "part_of_holdout": True, "code": "futile"},
            "[r 17.1] rewrite planner batch 0.667 → 0.667 hold 0.875 of 8 cases futile ✗ $0.0024 "
            "1.0s",
        ),
        (
            {"holdout": 0.5, "holdout_cases": 30, "accepted": True},
            "[r 17.1] rewrite planner batch 0.667 → 0.667 hold 0.500 accept ✓ $0.0024 1.0s",
        ),
        (
            {"phase": "merge", "train": None, "parent_train": None, "holdout": 0.5, "code": "luck"},
            "[m 17.1] rewrite planner —— hold 0.500 luck ✗ $0.0024 1.0s",
        ),
        (
            {"train": None, "parent_train": None, "code": "skipped", "reason": "subsample perfect"},
            "[r 17.1] rewrite planner skipped · subsample perfect",
        ),
    ],
)
def test_each_kind_of_round_has_its_line(row: dict[str, Json], line: str) -> None:
    progress = ReflectivePlugin().progress()
    whole = progress.trial(recorded({**ROW, **row}), 100)
    assert " ".join(whole.split()) == line
    for width in (100, 80, 60):
        assert cell_len(progress.trial(recorded({**ROW, **row}), width)) <= width


def test_a_baseline_without_train_says_nothing_of_train() -> None:
    first = event("trial_recorded", phase="baseline", holdout=0.5, holdout_cases=20)
    told = ReflectivePlugin().progress().lines(first, 100)
    assert told == ["baseline          hold 0.500   one case of holdout is worth 0.050"]


@pytest.mark.parametrize("code", ["nothing_new", "reflector_failed", "no_failures"])
def test_why_a_search_ended_has_words(code: str) -> None:
    assert len(ReflectivePlugin().ended_words(code)) > len(code) + 10


def test_the_panel_says_which_trial_is_under_way_where_there_are_no_phases() -> None:
    console = Console(file=io.StringIO(), width=80)
    view = LiveView(console, Budget(max_metric_calls=100))
    view.event(event("trial_recorded", **{**ROW, "best_score": 0.5}))
    console.print(view.panel())
    assert "trial 18 · thinking" in str(console.file.getvalue())  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType]


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    """A search with failures of the reflector, races, and more than one accept."""
    world = World(train=10, holdout=24, rules=5, noise=0.1, role_failure_rate=0.1, fields=2)
    settings = ReflectiveSettings().model_copy(update={"proposals_per_round": 2})
    folder: Path = tmp_path_factory.mktemp("reflective") / "run"
    driven(setup(world, settings, budget=Budget(max_metric_calls=300)), folder)
    return RunRecord.read(folder)


@pytest.mark.slow
def test_the_report_tells_the_way_and_every_trial(record: RunRecord) -> None:
    page = render(record)
    assert "| holdout loss | " in page
    assert "## How it came about" in page
    assert "train loss" not in page
    assert page.count("\n| ") >= len(record.rows)
    assert record.best is not None
    assert f"- trial {record.best.number}, " in page or record.best.trial.decision is not None
    for row in record.rows:
        assert f"| {row.number} | {row.trial.cycle} | " in page
    kept = sum(row.trial.kept for row in record.rows)
    assert page.count("| ↗ ") == kept
    assert page.count("| ✓ ") == record.accepted


@pytest.mark.slow
def test_a_row_without_a_proposal_is_not_called_after_its_parents_rewrite(
    record: RunRecord,
) -> None:
    empty = [
        row.trial
        for row in record.rows
        if row.trial.proposals and all(each.answer is None for each in row.trial.proposals)
    ]
    assert empty
    assert all(not trial.candidate.origin.note for trial in empty)


@pytest.mark.slow
def test_the_page_of_a_trial_names_its_round_and_its_minibatch(record: RunRecord) -> None:
    row = next(row for row in record.rows if row.trial.train is not None)
    lines = list(trial_page(record, row, width=100))
    assert lines[0].startswith(f"trial {row.number} · round {row.trial.cycle} · reflective · ")
    assert any(line.startswith("minibatch case-") and "parent" in line for line in lines)
    assert row.trial.train is not None
    few = row.trial.train.measurement.cases
    assert any(line.startswith(f"\n{few} cases of train: loss ") for line in lines)
    assert not any(line.startswith("\ntrain: ") for line in lines)
    assert whole_loss(record, row, "train") is None
    assert whole_loss(record, record.best, "holdout") == loss_of(record.best, "holdout")
