"""report.md: every section, and every number as the ledger has it."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import Problem
from burnish.core.money import Spend
from burnish.core.trials import Proposal
from burnish.projects import launch, load_project
from burnish.reports.rendering import render, trial_page
from burnish.runs.claims import LOOKED_AT_BEFORE
from burnish.runs.directory import RunRecord
from burnish.runs.setup import start
from tests.conftest import toy_installed
from tests.reports.records import baseline, event, measured, record, tried

SECTIONS = [
    "Trajectory",
    "Where the gain came from",
    "Metrics on train",
    "What changed",
    "Every trial",
    "How to adopt",
    "Method",
]


def rows_of(text: str, section: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    body = text.split(f"## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in body.splitlines() if line.startswith("|")]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines[2:]]
    return [[cell.strip() for cell in row] for row in cells]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("report")
    (home / "toy.yaml").write_text(
        "kind: toy\nworld: {train: 8, holdout: 6, test: 6, outage_rate: 0.03}\n"
        "strategy: {cycles: 2, trials_per_phase: 3}\n"
    )
    with pytest.MonkeyPatch.context() as patch, toy_installed():
        patch.setenv("BURNISH_HOME", str(home))
        project = load_project(home / "toy.yaml", {})
        launch(lambda: start(project.setup, folder=home / "run"))
    return home / "run"


def loss_from_scores(result: Any) -> float:
    """The loss again, from the raw scores of the ledger: the mean of means over sweeps."""
    cases = [scores["rules_kept"] for scores in result["scores"].values()]
    sweeps = [[values[sweep] for values in cases] for sweep in range(len(cases[0]))]
    known = [[value for value in sweep if value is not None] for sweep in sweeps]
    return 1 - math.fsum(math.fsum(sweep) / len(sweep) for sweep in known) / len(known)


def test_the_numbers_are_those_of_the_ledger(run: Path) -> None:
    text = (run / "report.md").read_text(encoding="utf-8")
    ledger = [json.loads(line) for line in (run / "trials.jsonl").read_text().splitlines()]
    table = rows_of(text, "Every trial")
    assert [int(row[0]) for row in table] == [row["number"] for row in ledger]
    for row, kept in zip(table, ledger, strict=True):
        for cell, split in ((row[3], "train"), (row[4], "holdout")):
            result = kept["trial"][split]
            whole = result is not None and not result["measurement"]["missing_cases"]
            assert (cell == "—") == (result is None)
            if whole:
                assert float(cell) == pytest.approx(loss_from_scores(result), abs=6e-4)
        accepted = (kept["trial"]["decision"] or {"verdict": ""})["verdict"] == "accept"
        assert row[5].startswith("✓ ") == accepted
    assert text.count("✓ train improved") == sum(row[5].startswith("✓") for row in table)
    calls = sum(row["spend"]["calls"] for row in ledger)
    spent = re.search(r"\| spent \| ([\d,]+) calls", text)
    assert spent is not None
    test_calls = 2 * 6 * 2
    whole = RunRecord.read(run).spent.calls
    assert int(spent[1].replace(",", "")) == whole
    # What is tried again in an outage is paid again.
    assert calls + test_calls <= whole <= calls + 2 * test_calls


def test_the_gains_add_up_to_the_whole_fall_where_nothing_is_missing() -> None:
    text = render(
        record(
            baseline(train=0.8),
            tried(1, train=0.6, accepted=True),
            tried(2, train=0.9, phase="numbers"),
            tried(3, train=0.25, accepted=True, phase="numbers"),
        )
    )
    assert rows_of(text, "Where the gain came from") == [
        ["1", "words", "1", "1", "0.200"],
        ["1", "numbers", "2", "1", "0.350"],
    ]


def test_a_gain_is_what_the_gate_saw_and_unknown_when_nobody_did() -> None:
    seen = tried(1, train=0.6, accepted=True, numbers={"train_improvement": 0.15})
    unseen = tried(2, train=None, accepted=True, phase="later")
    told = rows_of(render(record(baseline(), seen, unseen)), "Where the gain came from")
    assert [row[4] for row in told] == ["0.150", "—"]


def test_the_sections_stand_in_order(run: Path) -> None:
    text = (run / "report.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.M) == SECTIONS
    assert re.findall(r"^# (.*)$", text, re.M) == ["run"]
    assert "**Sealed test, looked at once: score " in text
    assert "95 %" in text
    assert "missing" in text


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ((), ["Nothing was measured yet.", "| trials | 0, 0 accepted |", "nothing to adopt"]),
        (
            (baseline(),),
            ["no candidate was better than the baseline", "| train loss | 0.800 → 0.800 |"],
        ),
        ((baseline(), tried(1)), ["no candidate was better", "| trials | 1, 0 accepted |"]),
        (
            (baseline(), tried(1, accepted=True, holdout=0.4)),
            [
                "| train loss | 0.800 → 0.500 |",
                "| holdout loss | 0.700 → 0.400 |",
                "candidates/best",
            ],
        ),
        ((baseline(train=None, holdout=None),), ["| train loss | — → — |"]),
    ],
)
def test_a_run_at_any_stage_has_a_report(rows: tuple[Any, ...], words: list[str]) -> None:
    text = render(record(*rows))
    assert re.findall(r"^## (.*)$", text, re.M) == SECTIONS
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    ("test", "words"),
    [(0, "it was not measured again"), (5, "the sealed test was not read")],
)
def test_without_a_sealed_result_the_numbers_are_optimistic(test: int, words: str) -> None:
    header = {"cases": {"train": 1, "holdout": 1, "test": test}}
    text = render(record(baseline(), tried(1, accepted=True), header=header))
    assert f"optimistic since these scores chose the result; {words}**" in text
    assert "improved**" not in text


def test_a_killed_a_running_and_a_failed_run() -> None:
    started = event("run_started")
    assert "| status | killed |" in render(record(events=(started,)))
    assert "| status | running |" in render(record(events=(started,), driven=True))
    failed = event("run_failed", reason="no | space\nleft")
    assert "| status | failed (no \\| space left) |" in render(record(events=(started, failed)))


def test_a_fork_whose_test_is_spent_says_so() -> None:
    text = render(record(baseline(), header={"forked_from": "old", "sealed_test": "spent"}))
    assert "forked from `old`" in text
    assert LOOKED_AT_BEFORE in text
    assert LOOKED_AT_BEFORE not in render(record(baseline()))


def test_billed_is_told_where_it_differs() -> None:
    assert "| billed |" not in render(record(baseline()))
    assert "| billed | 99 calls · $0.00 (" in render(record(baseline(), billed=Spend(calls=99)))


def test_missing_cases_are_counted() -> None:
    text = render(record(baseline(), tried(1, missing=("a", "b"))))
    assert "| missing | 2 cases over all trials" in text
    assert "| missing |" not in render(record(baseline()))


def test_without_a_holdout_it_is_a_training_score() -> None:
    text = render(record(baseline(), header={"cases": {"train": 1, "holdout": 0, "test": 0}}))
    assert "a training score" in text


HOSTILE = "a | b\n| c |\n```\n\x1b[31m<script> \\| 日本語 " + "long " * 100


def test_no_text_breaks_out_of_its_table_or_fence() -> None:
    problems = (Problem(message=HOSTILE),)
    text = render(
        record(
            baseline(),
            tried(1, note=HOSTILE, reason=HOSTILE, text=f"{HOSTILE}\n````\n# not a title"),
            tried(2, note=HOSTILE, problems=problems),
            tried(3, note=HOSTILE, text=f"{HOSTILE}\n````\n# no title", accepted=True),
        )
    )
    assert "\x1b" not in text
    assert all(len(row) == 6 for row in rows_of(text, "Every trial"))
    assert "<script>" not in text.split("## Every trial")[1]
    fence = "`" * 5
    assert text.count(fence) == 2
    changed = text.split(f"{fence}diff\n")[1].split(f"\n{fence}")[0]
    assert "+# no title" in changed.splitlines()


def test_the_diff_keeps_every_blank() -> None:
    text = render(record(baseline(), tried(1, text="Hi.  \n\n  you", accepted=True)))
    assert "+Hi.  \n+\n+  you\n" in text


def test_a_page_about_a_trial() -> None:
    run = record(baseline(), tried(1, train=0.4, reason="better by far", accepted=True))
    page = list(trial_page(run, run.rows[1], width=80))
    assert page[0] == "trial 1 · cycle 1 · words · shorter"
    assert "+Hi." in page
    assert "  case-1 good 0.600" in page
    assert page[-1] == "\naccept: better by far"


def test_a_page_says_what_was_done_for_an_answer() -> None:
    run = record(baseline(), tried(1, accepted=True))
    row = run.rows[1]
    notes = ("asked again: it was cut off", "broken JSON syntax")
    said = Proposal(role="reflector", answer={"new_text": "Hi."}, mended=notes)
    changed = replace(row, trial=replace(row.trial, proposals=(said,)))
    page = list(trial_page(run, changed, width=80))
    assert "reflector asked again: it was cut off" in page
    assert "reflector repaired: broken JSON syntax" in page


def test_a_page_tells_what_is_missing_and_what_failed() -> None:
    lost = measured(None)
    row = baseline()
    trial = row.trial
    run = record(
        type(row)(number=0, trial=type(trial)(candidate=trial.candidate, phase="x", train=lost))
    )
    page = list(trial_page(run, run.rows[0], width=80))
    assert "  case-1 good — (1 of 1 missing)" in page
