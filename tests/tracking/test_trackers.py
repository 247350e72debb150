"""What is sent of a run, and what happens when another system is absent or fails."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import ConfigError, MissingExtra
from burnish.projects import launch_in
from burnish.runs.directory import RunRecord
from burnish.runs.events import Event, Warned, read_all
from burnish.runs.run import Run
from burnish.runs.spec import TrackingSpec
from burnish.system.extras import install_command
from burnish.tracking import trackers
from burnish.tracking.trackers import (
    changes_of,
    files_of,
    numbers_of,
    params_of,
    result_numbers,
    result_words,
    tracked_id,
    tracker,
)
from tests.tracking.tracked_world import BETTER, SECRET, project


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    folder = tmp_path_factory.mktemp("tracked")
    launch_in(project(folder).setup, folder / "run")
    return RunRecord.read(folder / "run")


def test_parameters_are_flat_and_say_what_was_searched(record: RunRecord) -> None:
    params = params_of(record.header)
    assert params["strategy"] == "reflective"
    assert params["cases.holdout"] == "6"
    assert params["spec.budget.max_trials"] == "1"
    assert params["spec.roles.reflector.name"] == "writer"
    assert all(name == trackers.tracked_name(name) for name in params)


def test_numbers_by_trial(record: RunRecord) -> None:
    baseline, better = map(numbers_of, record.rows)
    assert (baseline["accepted"], better["accepted"]) == (0.0, 1.0)
    assert (baseline["holdout/loss"], better["holdout/loss"]) == (1.0, 0.0)
    assert better["holdout/metric/equality"] == 1.0
    assert "train/loss" not in baseline  # what was not measured is not there


def test_the_result(record: RunRecord) -> None:
    assert result_words(record) == {
        "burnish.status": "finished",
        "burnish.verdict": "improved",
        "burnish.basis": "sealed test",
    }
    numbers = result_numbers(record)
    assert numbers["result/gain"] == 1.0
    assert 0 < numbers["result/gain_low"] < 1
    assert "result/spent_usd" not in numbers  # an unknown price is not 0


def test_the_diff_and_the_files(record: RunRecord) -> None:
    changes = changes_of(record)
    assert "-Answer the visitors of the museum." in changes
    assert f"+{BETTER}" in changes
    files = files_of(record)
    assert {"report.md", "run.json", "trials.jsonl", "trajectory.csv"} <= {*files}
    best = [path for place, path in files.items() if place.startswith("best/")]
    assert any(BETTER in path.read_text(encoding="utf-8") for path in best)
    assert all(SECRET not in path.read_text(encoding="utf-8") for path in files.values())


def test_runs_in_folders_of_the_same_name_are_not_mixed_up(
    record: RunRecord, tmp_path: Path
) -> None:
    launch_in(project(tmp_path).setup, tmp_path / "run")
    assert tracked_id(RunRecord.read(tmp_path / "run").header) != tracked_id(record.header)


@pytest.mark.parametrize(
    ("name", "module"),
    [("mlflow", "mlflow"), ("wandb", "wandb"), ("otel", "opentelemetry.sdk")],
)
def test_an_absent_library_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, name: Any, module: str
) -> None:
    monkeypatch.delitem(sys.modules, f"burnish.tracking.{name}", raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra) as missing:
        tracker(name, TrackingSpec(to=(name,)))
    assert missing.value.remedy == install_command(name)


def test_one_server_for_one_system(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="uri is for one system"):
        project(tmp_path, track=["otel", "mlflow"], tracking_uri="http://127.0.0.1:1")


class Broken:
    """A tracker of a system that is down."""

    def __init__(self, settings: TrackingSpec) -> None:
        del settings
        self.heard = 0

    def begin(self, run: Run) -> None:
        """Works."""

    def event(self, event: Event) -> None:
        self.heard += 1
        raise ConnectionError(f"nobody answers at http://me:{SECRET}@tracking")

    def finish(self, record: RunRecord) -> None:
        raise AssertionError("it was left out")


def test_a_system_that_is_down_costs_a_warning_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(trackers._HOMES, "otel", f"{__name__}:Broken")  # pyright: ignore[reportPrivateUsage]
    ending = launch_in(project(tmp_path, track=["otel"]).setup, tmp_path / "run")
    assert ending.claim is not None
    assert ending.claim.verdict == "improved"
    (warning,) = (
        each.message
        for each in read_all(RunRecord.read(ending.folder).events, Warned)
        if "tracking" in each.message
    )
    assert "tracking with otel failed: ConnectionError" in warning
    assert "the run goes on without it" in warning
    assert SECRET not in warning


def test_nothing_is_stored_of_it_but_the_setting(tmp_path: Path) -> None:
    setup = project(tmp_path, track=["otel"]).setup
    assert json.loads(json.dumps(setup.project.spec))["tracking"] == {"to": ["otel"]}
    assert setup.inputs() == project(tmp_path).setup.inputs()
