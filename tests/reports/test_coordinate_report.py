"""report.md of coordinate descent: eight parts, true numbers, at every stage and for any text."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.content import Json
from burnish.core.errors import Problem
from burnish.core.evaluations import Measurement
from burnish.core.money import Spend
from burnish.core.trials import SplitResult, TrialRow
from burnish.journal.limits import Budget
from burnish.reports.rendering import render
from burnish.runs.directory import RunRecord
from burnish.strategies.coordinate.search import Coordinate
from tests.reports.coordinate_world import SETTINGS, World, launched
from tests.reports.records import baseline, event, record, tried
from tests.reports.test_reports_report import rows_of

SECTIONS = [
    "Result",
    "Trajectory",
    "Where the gain came from",
    "Metrics",
    "What changed",
    "Why the texts changed",
    "How to adopt",
    "Method",
]


def page(*rows: TrialRow, **changes: Any) -> str:
    """The report of a run made by hand."""
    header = {"strategy": Coordinate.name} | changes.pop("header", {})
    return render(record(*rows, header=header, **changes))


def sealed(low: float, high: float) -> Any:
    gain: Json = {"mean": (low + high) / 2, "low": low, "high": high, "cases": 30}
    return event("sealed_test", baseline_score=0.03, best_score=0.97, gain=gain, missing=0)


def test_the_eight_parts_stand_in_order(tuned: Path) -> None:
    text = (tuned / "report.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.M) == SECTIONS
    headline = text.splitlines()[2]
    assert headline.startswith("**Sealed test, looked at once: score 0.000 → 1.000   gain 1.000 [")


def test_the_numbers_are_those_of_the_ledger(tuned: Path) -> None:
    text = (tuned / "report.md").read_text(encoding="utf-8")
    ledger = [json.loads(line) for line in (tuned / "trials.jsonl").read_text().splitlines()]
    first, last = ledger[0], ledger[ledger[-1]["study_state"]["best_trial_id"]]
    summary = dict(rows_of(text, "Result"))
    for split in ("train", "holdout"):
        losses = f"{first[split]['loss']:.3f} → {last[split]['loss']:.3f}"
        assert summary[f"{split} loss"].startswith(losses)
    accepted = [row for row in ledger[1:] if row["decision"]["accepted"]]
    assert summary["trials"] == f"{len(ledger) - 1}, {len(accepted)} accepted"
    assert summary["repeats"] == "2"
    won = {
        (str(cycle), phase): sum(
            row["decision"]["train_improvement"]
            for row in accepted
            if (row["cycle"], row["phase"]) == (cycle, phase)
        )
        for cycle, phase in {(row["cycle"], row["phase"]) for row in ledger[1:]}
    }
    table = [row for row in rows_of(text, "Where the gain came from") if len(row) == 6]
    assert len(table) == len(won) == 3
    for cycle, phase, trials, taken, fell, ended in table:
        assert float(fell.replace("−", "-")) == pytest.approx(-won[cycle, phase], abs=6e-4)
        assert int(taken) <= int(trials)
        assert ended.split(":")[0] in {"patience", "max_trials", "nothing_to_gain"}


def test_the_story_of_descent_by_turns_is_told(tuned: Path) -> None:
    text = (tuned / "report.md").read_text(encoding="utf-8")
    assert (
        "The numeric phase of cycle 2 gained 0.125 more after the textual phase of cycle 1 had "
        "changed the prompt." in text
    )


def test_the_diff_is_that_of_the_files(tuned: Path) -> None:
    text = (tuned / "report.md").read_text(encoding="utf-8")
    changed = text.split("```diff\n")[1].split("\n```")[0].splitlines()
    best = (tuned / "best.yaml").resolve().name
    assert changed[:2] == ["--- candidates/iter-00.yaml", f"+++ candidates/{best}"]
    assert "-  temperature: 0.3" in changed
    assert any(line.startswith("+++ instructions/system.iter-") for line in changed)
    assert " You are an analyst." in changed
    assert "+Mind the zürich 日本." in changed
    assert not any("version: 3" in line for line in changed), "the frontmatter did not change"


def test_an_accepted_text_comes_with_its_reasons(tuned: Path) -> None:
    part = (tuned / "report.md").read_text(encoding="utf-8").split("## Why the texts changed")[1]
    assert part.count("### Trial ") == 4
    assert "- what failed: It gets questions about order wrong \\| every time." in part
    assert "- the edit: One line about order is enough." in part
    assert "- cases: train-0" in part


def test_the_result_can_be_adopted_by_what_the_report_says(tuned: Path) -> None:
    text = (tuned / "report.md").read_text(encoding="utf-8")
    assert "$ burnish adopt tuned" in text
    assert f"burnish eval {tuned / 'best.yaml'}" in text


def test_without_the_baselines_file_the_surfaces_are_compared(tuned: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    shutil.copytree(tuned, kept, symlinks=True)
    (kept / "candidates" / "iter-00.yaml").unlink()
    text = render(RunRecord.read(kept))
    changed = text.split("```diff\n")[1].split("\n```")[0]
    assert "--- instructions.inline" in changed
    assert "-0.3" in changed
    assert "+Mind the zürich 日本." in changed


def test_a_key_that_is_written_out_stays_out_of_the_report(tuned: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    shutil.copytree(tuned, kept, symlinks=True)
    for path in (kept / "candidates").glob("*.yaml"):
        path.write_text(path.read_text().replace('"${ANALYST_KEY}"', "not-a-reference-42"))
    text = render(RunRecord.read(kept))
    assert "not-a-reference-42" not in text
    assert "api_key: [redacted]" in text
    assert "${ANALYST_KEY}" in render(RunRecord.read(tuned))


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.86, 1.0, "gain 0.930 [0.860, 1.000], improved**"),
        (-0.1, 0.2, "gain 0.050 [-0.100, 0.200], not distinguishable from noise**"),
        (-0.3, -0.1, "worse than the baseline**"),
    ],
)
def test_the_headline_says_plainly_what_the_test_is_worth(
    low: float, high: float, words: str
) -> None:
    text = page(baseline(), tried(1, accepted=True), events=(sealed(low, high),))
    assert words in text.splitlines()[2]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ((), ["Nothing was measured yet.", "| exit reason | — |", "nothing to adopt"]),
        ((baseline(),), ["no candidate was better", "| train loss | 0.800 → 0.800 (+0.0 %) |"]),
        ((baseline(train=None, holdout=None),), ["| train loss | — → — |"]),
        ((baseline(train=0.0), tried(1, train=0.0)), ["| train loss | 0.000 → 0.000 |"]),
        (
            (baseline(), tried(1, train=None, accepted=True, phase="numeric")),
            ["| 1 | numeric | 1 | 1 | — | under way |"],
        ),
    ],
)
def test_a_run_at_any_stage_has_a_report(rows: tuple[TrialRow, ...], words: list[str]) -> None:
    text = page(*rows)
    assert re.findall(r"^## (.*)$", text, re.M) == SECTIONS
    for word in words:
        assert word in text


def test_a_phase_that_tried_nothing_is_told_and_the_last_end_counts() -> None:
    events = (
        event("phase_started", cycle=1, phase="demonstrations"),
        event("phase_ended", cycle=1, phase="demonstrations", reason="no_examples"),
        event("phase_started", cycle=1, phase="numeric"),
        event("phase_ended", cycle=1, phase="numeric", reason="stopped"),
        event("phase_ended", cycle=1, phase="numeric", reason="converged"),
    )
    table = rows_of(page(baseline(), tried(1, phase="numeric"), events=events), SECTIONS[2])
    assert [row[1:4] for row in table[:2]] == [["demonstrations", "0", "0"], ["numeric", "1", "0"]]
    assert table[0][5] == "no_examples: train has no example to show"
    assert table[1][5] == "converged: nothing promising is left to try"


def test_why_the_search_ended() -> None:
    finished = event("run_finished", code="finished", reason="nothing left")
    ended = event("search_ended", cycle=2, reason="dry_cycle")
    text = page(baseline(), events=(ended, finished))
    assert "| exit reason | dry_cycle: a whole cycle brought no gain |" in text
    limit = event("run_finished", code="max_usd", reason="$2.00 of $2.00")
    assert "| exit reason | max_usd: $2.00 of $2.00 |" in page(baseline(), events=(limit,))


def test_a_skipped_holdout_is_warned_of_loudly() -> None:
    start = replace(baseline(), trial=replace(baseline().trial, holdout=None))
    text = page(start, tried(1, accepted=True))
    assert text.splitlines()[4].startswith("**⚠ Holdout was skipped: ")
    assert "- holdout policy: `skip`" in text
    assert "a training score" in text
    assert "⚠" not in page(baseline(), tried(1, accepted=True))


@pytest.mark.parametrize(
    ("rows", "policy"),
    [
        ((tried(1), tried(2, accepted=True, holdout=0.4)), "`on_train_improve`"),
        ((tried(1, holdout=0.9, code="worse"),), "`every_trial`"),
        ((tried(1, accepted=True, holdout=0.4),), "`on_train_improve` or `every_trial`"),
    ],
)
def test_the_policy_is_told_as_the_trials_show_it(rows: tuple[TrialRow, ...], policy: str) -> None:
    assert f"- holdout policy: {policy}" in page(baseline(), *rows)


def test_one_repeat_measures_no_noise() -> None:
    once = SplitResult(measurement=Measurement(loss=0.5, runs=(0.5,), cases=20), scores={})
    start = replace(baseline(), trial=replace(baseline().trial, train=once, holdout=once))
    text = page(start)
    assert "one repeat measures no spread" in text
    assert "one of the 20 cases of this holdout is worth 0.050" in text


def test_hundreds_of_trials_are_drawn_in_lines_with_their_phases() -> None:
    rows = [baseline()]
    for number in range(1, 301):
        phase = "numeric" if number % 60 < 40 else "textual"
        row = tried(number, train=1 - number / 400, phase=phase, accepted=number % 50 == 0)
        rows.append(replace(row, trial=replace(row.trial, cycle=1 + number // 60)))
    text = page(*rows)
    drawing = text.split("```\n")[1].splitlines()
    assert max(map(len, drawing)) <= 80
    trains = [line[9:] for line in drawing if line.startswith("train")]
    assert sum(len(re.findall("[▁▂▃▄▅▆▇█]", line)) for line in trains) == 301
    ticks = [line for line in drawing if line.startswith("accepted")]
    assert sum(line.count("✓") for line in ticks) == 6
    phases = " ".join(line for line in drawing if line.startswith("phase"))
    assert "c1 numeric" in phases
    assert "c5 textual" in phases
    assert drawing[-1].split() == ["scale", "▁", "0.250", "█", "0.998"]
    assert len(text) < 20_000


def test_many_short_phases_fit_too() -> None:
    rows = [tried(n, phase="numeric" if n % 2 else "textual") for n in range(1, 200)]
    drawing = page(baseline(), *rows).split("```\n")[1].splitlines()
    assert max(map(len, drawing)) <= 73
    assert sum(line[9:].count("n") for line in drawing if line.startswith("phase")) == 100


def test_numbers_that_found_nothing_more_are_not_praised() -> None:
    rows = [
        tried(1, phase="numeric"),
        tried(2, phase="textual", accepted=True),
        tried(3, phase="numeric"),
    ]
    rows[2] = replace(rows[2], trial=replace(rows[2].trial, cycle=2))
    assert "found" not in page(baseline(), *rows).split("## Metrics")[0]


def test_boundaries_stand_at_the_same_place_in_every_line() -> None:
    rows = [baseline(), *(tried(n, phase="numeric") for n in (1, 2, 3)), tried(4, phase="textual")]
    drawing = page(*rows).split("```\n")[1].splitlines()
    places = {
        tuple(at for at, sign in enumerate(line.ljust(20)) if sign == "│")
        for line in drawing
        if line.startswith(("train", "holdout", "accepted", "phase"))
    }
    assert places == {(10, 14)}


HOSTILE = "a | b\n| c |\n```\n\x1b[31m<script> \\| 日本語 # title " + "long " * 400


def test_no_text_breaks_out() -> None:
    source: Json = {
        "critic": {"failing_pattern": HOSTILE, "confidence": 0.9, "citations": [HOSTILE]},
        "applier": {"rationale": HOSTILE},
    }
    row = tried(1, text=f"{HOSTILE}\n````\n# no title", accepted=True, phase="textual")
    details: dict[str, Json] = {"axis_target": HOSTILE, "proposal_source": source}
    row = replace(row, trial=replace(row.trial, details=details))
    turned = tried(2, problems=(Problem(message=HOSTILE),), phase=HOSTILE)
    text = page(baseline(), row, turned)
    assert "\x1b" not in text
    assert re.findall(r"^## (.*)$", text, re.M) == SECTIONS
    outside = re.sub(r"(?s)`{5}diff.*?`{5}", "", text)
    assert "<script>" not in outside
    assert all(len(cells) in {4, 6} for cells in rows_of(text, "Where the gain came from"))
    assert text.count("`````") == 2


def test_a_long_diff_is_cut_and_says_so() -> None:
    text = "\n".join(f"line {n}" for n in range(2000))
    told = page(baseline(), tried(1, text=text, accepted=True))
    assert "1404 more lines are not shown" in told


def test_a_run_that_a_limit_ended_has_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNISH_HOME", str(tmp_path))
    world = World(
        budget=Budget(max_trials=2), settings=SETTINGS.model_copy(update={"holdout_policy": "skip"})
    )
    text = (launched(tmp_path, world) / "report.md").read_text(encoding="utf-8")
    assert "| exit reason | max_trials: 2 of 2 trials |" in text
    assert "⚠ Holdout was skipped" in text
    assert "stopped: the run was stopped" in text


def test_missing_and_billed_are_told_where_there_is_something_to_tell() -> None:
    text = page(baseline(), tried(1, missing=("a", "b")), billed=Spend(calls=99))
    assert "| missing | 2 cases over all trials" in text
    assert "| billed | 99 calls" in text
    plain = page(baseline())
    assert "| missing |" not in plain
    assert "| billed |" not in plain
