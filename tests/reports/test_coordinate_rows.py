"""trials.jsonl and trajectory.csv of coordinate descent: HoloDeck's fields, true or null."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.content import Json
from burnish.core.errors import Problem
from burnish.core.evaluations import Measurement
from burnish.core.surfaces import Candidate, Origin
from burnish.core.trials import Decision, Proposal, SplitResult, Trial, TrialRow, Verdict
from burnish.journal.limits import Budget
from burnish.runs.directory import RunRecord
from burnish.runs.events import Event, Leader
from burnish.runs.ledger import EVENTS, TRAJECTORY, TRIALS, Ledger, audited
from burnish.runs.recorder import turned_away
from tests.reports.coordinate_world import TEXT, World, launched

FIELDS = {
    "trial_id",
    "timestamp",
    "cycle",
    "phase",
    "axis_target",
    "baseline_before_path",
    "proposal_source",
    "candidate_path",
    "repeats",
    "train",
    "holdout",
    "decision",
    "study_state",
}
DECISION = {
    "best_train_mean_before",
    "train_mean",
    "train_std",
    "train_improvement",
    "pooled_train_std",
    "accept_sigma",
    "noise_bar",
    "improvement_clears_noise",
    "holdout_mean",
    "best_holdout_mean_before",
    "holdout_regression",
    "holdout_noise_bar",
    "holdout_within_noise",
    "accepted",
    "reason",
}
SPLIT = {
    "report_summary",
    "loss_components",
    "penalty_components",
    "loss",
    "loss_std",
    "loss_runs",
    "errored_runs_excluded",
    "duration_sec",
    "trial_usd",
}
STUDY = {"cycle", "phase", "numeric_study_id", "tpe_n_observations_this_study", "best_trial_id"}
COLUMNS = (
    "trial_id,timestamp,cycle,phase,axis_target,train_mean,train_std,holdout_mean,best_train,"
    "best_holdout,noise_bar,accepted,trial_usd,duration_sec"
)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / TRIALS).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_every_row_has_the_seeds_fields_beside_burnishs_own(tuned: Path) -> None:
    rows = rows_of(tuned)
    assert len(rows) > 8
    for row in rows:
        more = {"schema", "number", "trial", "spend", "at", "seconds", "split_seconds"}
        assert set(row) == FIELDS | more
        assert set(row["study_state"]) == STUDY
        assert all(set(row[split]) == SPLIT for split in ("train", "holdout") if row[split])
        assert (row["decision"] is None) == (row["phase"] == "baseline")
        assert row["decision"] is None or set(row["decision"]) == DECISION


def test_the_numbers_are_those_that_are_kept(tuned: Path) -> None:
    for row in rows_of(tuned):
        assert (row["trial_id"], row["timestamp"]) == (row["number"], row["at"])
        for split in ("train", "holdout"):
            kept = row["trial"][split]
            assert (row[split] is None) == (kept is None)
            if kept is None:
                continue
            told, found = row[split], kept["measurement"]
            assert told["loss"] == found["loss"]
            assert told["loss_runs"] == found["runs"]
            assert told["report_summary"]["pass_rate_unit"] == "percent"
            assert told["report_summary"]["pass_rate"] == pytest.approx(100 * found["pass_rate"])
        if row["train"] is not None:
            assert row["repeats"] == 2
            assert row["train"]["trial_usd"] == pytest.approx(2 * 16 * 0.002)


def test_an_accepted_edit_tells_what_changed_and_why(tuned: Path) -> None:
    row = next(row for row in rows_of(tuned) if row["phase"] == "textual" and row["holdout"])
    assert row["axis_target"] == TEXT
    source = row["proposal_source"]
    assert source["kind"] == "textual"
    assert source["critic"]["failing_pattern"].startswith("It gets questions about order")
    assert source["critic"]["model"] is None
    assert source["applier"]["diff_lines_removed"] == 0
    assert source["applier"]["diff_lines_added"] == 2
    made = row["decision"]
    assert made["accepted"] is made["improvement_clears_noise"] is made["holdout_within_noise"]
    assert made["accepted"] is True
    assert made["pooled_train_std"] == pytest.approx(0.03125)
    assert made["noise_bar"] == pytest.approx(made["accept_sigma"] * made["pooled_train_std"])
    assert row["trial"]["candidate"]["values"][TEXT].endswith("Mind the order.")
    assert "Mind the order." in json.dumps(row["trial"]["proposals"])


def test_a_numeric_row_names_its_study_and_its_point(tuned: Path) -> None:
    row = next(row for row in rows_of(tuned) if row["phase"] == "numeric")
    assert row["study_state"]["numeric_study_id"] == "numeric-phase-1"
    assert row["study_state"]["tpe_n_observations_this_study"] == 1
    assert set(row["proposal_source"]["params"]) == set(row["axis_target"].split(", "))


def test_paths_lead_to_the_files_they_name(tuned: Path) -> None:
    leader: dict[str, Any] | None = None
    for row in rows_of(tuned):
        before, here = row["baseline_before_path"], row["candidate_path"]
        accepted = row["trial"]["decision"] is not None and row["decision"]["accepted"]
        assert (here is not None) == accepted
        if leader is None:
            assert before is None
            leader = row
            continue
        number = leader["trial_id"]
        assert before == f"candidates/iter-{number:02d}.yaml"
        assert (tuned / before).is_file()
        if accepted:
            assert here == f"candidates/iter-{row['trial_id']:02d}.yaml"
            assert (tuned / here).is_file()
            leader = row
        assert row["study_state"]["best_trial_id"] == leader["trial_id"]
    assert leader is not None
    assert (tuned / "best.yaml").resolve() == (tuned / leader["candidate_path"]).resolve()


def test_where_candidates_are_folders_a_path_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNISH_HOME", str(tmp_path))
    folder = launched(tmp_path, World(named=False, sealed=0, budget=Budget(max_trials=4)))
    paths = [row["candidate_path"] for row in rows_of(folder) if row["candidate_path"]]
    assert paths
    assert all((folder / path / "candidate.json").is_file() for path in paths)


def test_a_trial_that_was_not_measured_has_no_numbers(tuned: Path) -> None:
    row = next(row for row in rows_of(tuned) if row["phase"] == "textual" and not row["train"])
    assert row["repeats"] is row["candidate_path"] is row["holdout"] is None
    made = row["decision"]
    assert made.pop("reason") == "turned away: low confidence: 0.20"
    assert made.pop("accepted") is False
    assert set(made.values()) == {None}


def test_the_trajectory_has_the_seeds_columns(tuned: Path) -> None:
    lines = (tuned / TRAJECTORY).read_text(encoding="utf-8").splitlines()
    assert lines[0] == COLUMNS
    rows = rows_of(tuned)
    for flat, row in zip(csv.DictReader(lines), rows, strict=True):
        assert int(flat["trial_id"]) == row["trial_id"]
        assert flat["axis_target"] == (row["axis_target"] or "—")
        assert (
            flat["accepted"] == str(row["decision"] is None or row["decision"]["accepted"]).lower()
        )
        assert float(flat["trial_usd"]) == pytest.approx(row["spend"]["nano_usd"] / 1e9)
        assert (flat["holdout_mean"] == "") == (row["holdout"] is None)
        best = rows[int(row["study_state"]["best_trial_id"])]
        assert float(flat["best_train"]) == pytest.approx(best["train"]["loss"], abs=1e-6)
        assert float(flat["best_holdout"]) == pytest.approx(best["holdout"]["loss"], abs=1e-6)


def test_rule_13_whoever_goes_on_writes_the_same_files(tuned: Path, tmp_path: Path) -> None:
    """Killed after any row or event, opened again and driven on: byte for byte the same."""
    record = RunRecord.read(tuned)
    happened = _in_order(record)
    names = (TRIALS, EVENTS, TRAJECTORY)
    for cut in range(len(happened) + 1):
        ledger = Ledger(tmp_path)
        ledger.rebuild(
            [each for each in happened[:cut] if isinstance(each, TrialRow)],
            [each for each in happened[:cut] if isinstance(each, Event)],
        )
        for each in happened[cut:]:
            ledger.add_trial(each) if isinstance(each, TrialRow) else ledger.add_event(each)
        for name in names:
            assert (tmp_path / name).read_bytes() == (tuned / name).read_bytes(), (name, cut)


def _in_order(record: RunRecord) -> list[TrialRow | Event]:
    """Rows and events as they were written: a row stands before the event that tells of it."""
    rows = {f"trial:{row.number}": row for row in record.rows}
    order: list[TrialRow | Event] = []
    for event in record.events:
        order += [rows[event.id]] if event.id in rows else []
        order.append(event)
    return order


START = Candidate(values={"text": "Hello."}, origin=Origin(kind="baseline"))


def result(**changes: Any) -> SplitResult:
    given: dict[str, Any] = {"loss": 0.5, "runs": (0.5, 0.5), "values": {"cost_usd": 0.25}}
    errors = changes.pop("errors", {})
    return SplitResult(measurement=Measurement(**(given | changes)), scores={}, errors=errors)


@pytest.mark.parametrize(
    ("measured", "usd"),
    [
        (result(), 0.5),
        (result(values={}), None),
        (result(errors={"case-1": "boom"}), None),
        (result(runs=(), loss=None), None),
    ],
)
def test_a_cost_nobody_knows_is_null(measured: SplitResult, usd: float | None) -> None:
    row = TrialRow(number=1, trial=Trial(candidate=START, train=measured))
    told: Any = audited(row, Leader(), Leader())["train"]
    assert told["trial_usd"] == usd


def test_each_split_has_its_own_time_and_none_where_nobody_took_it() -> None:
    both = Trial(candidate=START, train=result(), holdout=result())
    row = TrialRow(number=1, trial=both, seconds=3.0, split_seconds={"holdout": 1.0})
    told: Any = audited(row, Leader(), Leader())
    assert told["holdout"]["duration_sec"] == 1.0
    assert told["train"]["duration_sec"] is None


def test_another_gate_leaves_out_what_it_has_no_word_for() -> None:
    made = Decision(gate="strict", verdict=Verdict.ACCEPT, code="better", reason="so", numbers={})
    row = TrialRow(number=1, trial=Trial(candidate=START, decision=made))
    told: Any = audited(row, Leader(), Leader(number=1))["decision"]
    assert (told["accepted"], told["reason"]) == (True, "so")
    assert {told[name] for name in DECISION - {"accepted", "reason"}} == {None}


@pytest.mark.parametrize(
    ("gain", "bar", "clears"),
    [
        (0.037, 0.013, True),
        (0.013, 0.021, False),
        (0.013, 0.013, True),
        (0.0, 0.0, False),
        (-0.1, 0.0, False),
    ],
)
def test_whether_a_gain_clears_the_noise(gain: float, bar: float, clears: bool) -> None:
    told = decided(train_improvement=gain, noise_bar=bar, train_std=0.3, best_train_std=0.4)
    assert told["improvement_clears_noise"] is clears
    assert told["pooled_train_std"] == pytest.approx(0.5)
    assert told["holdout_within_noise"] is None


@pytest.mark.parametrize(
    ("regression", "bar", "within"),
    [(0.012, 0.014, True), (0.014, 0.014, True), (0.02, 0.014, False), (-0.1, 0.0, True)],
)
def test_whether_holdout_stays_within_its_noise(
    regression: float, bar: float, within: bool
) -> None:
    told = decided(holdout_regression=regression, holdout_noise_bar=bar)
    assert told["holdout_within_noise"] is within


def decided(**numbers: float) -> Any:
    made = Decision(
        gate="sigma", verdict=Verdict.REJECT, code="noise", reason="so", numbers=numbers
    )
    row = TrialRow(number=1, trial=Trial(candidate=START, decision=made))
    return audited(row, Leader(), Leader())["decision"]


CRITIC: Json = {"critic": {}}
BOTH: Json = {"critic": {}, "applier": {}}
POINT: Json = {"params": {}}


@pytest.mark.parametrize(
    ("source", "where", "error", "word"),
    [
        (CRITIC, "", "", "crit"),
        (CRITIC, "", "the applier fell over", "turned away"),
        (BOTH, "text", "", "turned away"),
        (POINT, "", "", "seen"),
        (POINT, "agent.yaml", "", "turned away"),
        (None, "", "", "turned away"),
    ],
)
def test_the_word_for_what_was_turned_away(source: Json, where: str, error: str, word: str) -> None:
    trial = Trial(
        candidate=START,
        problems=(Problem(message="no", where=where),),
        proposals=(Proposal(role="applier", error=error),),
        details={"proposal_source": source},
    )
    assert turned_away(trial) == word
    assert turned_away(replace(trial, problems=())) == ""
