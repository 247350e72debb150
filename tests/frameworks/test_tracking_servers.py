"""Runs in the real MLflow and Weights & Biases: local stores, no network.

Both need an environment of their own: `make check PART=frameworks ARGS=tracking` makes it.
"""

import json
import os
import struct
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from burnish.core.trials import TrialRow
from burnish.journal.limits import Budget
from burnish.projects import launch_in
from burnish.runs.directory import RunRecord
from burnish.runs.spec import TrackingSpec
from burnish.tracking.trackers import ExportName, export_run, numbers_of, params_of, tracked_id
from tests.strategies import reflection_world

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
mlflow: Any = import_module("mlflow")
wandb: Any = import_module("wandb")  # it changes sys.path, which no test may


def searched(folder: Path, *, track: TrackingSpec | None = None, calls: int = 120) -> RunRecord:
    """A small search, tracked while it goes on if `track` says so."""
    setup = reflection_world.setup(budget=Budget(max_metric_calls=calls))
    launch_in(replace(setup, tracking=track or TrackingSpec()), folder)
    return RunRecord.read(folder)


class TestMlflow:
    """A store in a folder."""

    @pytest.fixture
    def store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Any]:
        uri = (tmp_path / "store").as_uri()
        monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        return uri, mlflow.MlflowClient(tracking_uri=uri)

    def only_run(self, client: Any) -> Any:
        experiment = client.get_experiment_by_name("burnish")
        (run,) = client.search_runs([experiment.experiment_id])
        return run

    def check(self, client: Any, record: RunRecord) -> None:
        run = self.only_run(client)
        assert run.info.status == "FINISHED"
        assert run.data.params == params_of(record.header)
        assert run.data.tags["burnish.run"] == tracked_id(record.header)
        assert run.data.tags["burnish.verdict"] == (record.claim and record.claim.verdict)
        for name in ("trial", "accepted", "holdout/loss"):
            history = client.get_metric_history(run.info.run_id, name)
            assert {point.step: point.value for point in history} == by_trial(record, name)
            assert len(history) == len(by_trial(record, name))
        assert run.data.metrics["result/trials"] == record.trials
        files = {each.path for each in client.list_artifacts(run.info.run_id)}
        assert {"report.md", "trials.jsonl", "run.json", "best", "changes.diff"} <= files

    def test_a_run_that_is_over(self, tmp_path: Path, store: tuple[str, Any]) -> None:
        uri, client = store
        record = searched(tmp_path / "run")
        send(record, "mlflow", uri)
        self.check(client, record)
        send(record, "mlflow", uri)  # nothing is there twice
        self.check(client, record)

    def test_while_it_goes_on_and_after_a_resume(
        self, tmp_path: Path, store: tuple[str, Any]
    ) -> None:
        uri, client = store
        track = TrackingSpec(to=("mlflow",), uri=uri)
        before = searched(tmp_path / "run", track=track)
        self.check(client, before)
        after = searched(tmp_path / "run", track=track, calls=200)
        assert len(after.rows) > len(before.rows)
        self.check(client, after)


class TestWandb:
    """Offline: everything stays in the folder of the run."""

    @pytest.fixture(autouse=True)
    def offline(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("WANDB_MODE", "offline")
        monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
        monkeypatch.setenv("WANDB_SERVICE", "")  # the library sets it
        monkeypatch.delenv("WANDB_SERVICE")

    def test_a_run_that_is_over(self, tmp_path: Path) -> None:
        record = searched(tmp_path / "run")
        send(record, "wandb", None)
        self.check(record)

    def test_while_it_goes_on(self, tmp_path: Path) -> None:
        self.check(searched(tmp_path / "run", track=TrackingSpec(to=("wandb",))))

    def check(self, record: RunRecord) -> None:
        wandb.teardown()  # waits for the process that writes the file
        (sent,) = (record.folder / "wandb").glob("offline-run-*/*.wandb")
        found = written(sent)
        params = params_of(record.header)
        assert {name: found["config"][name] for name in params} == params
        assert {step: row["trial"] for step, row in found["history"].items()} == by_trial(
            record, "trial"
        )
        assert found["summary"]["burnish.verdict"] == (record.claim and record.claim.verdict)
        assert {"report.md", "changes.diff"} <= found["files"]


def by_trial(record: RunRecord, name: str) -> dict[int, float]:
    def number(row: TrialRow) -> float | None:
        return numbers_of(row).get(name)

    return {row.number: value for row in record.rows if (value := number(row)) is not None}


def send(record: RunRecord, name: ExportName, uri: str | None) -> None:
    export_run(record.folder, name, TrackingSpec(to=(name,), uri=uri))


def logged(data: bytes) -> Iterator[bytes]:
    """The records of a log in LevelDB's format: blocks of 32 kB, in which a piece has a checksum,
    its length and whether it is whole (1), or the first, a middle or the last one (2, 3, 4)."""
    place, record, block = 7, b"", 32_768
    while place + 7 <= len(data):
        if block - place % block < 7:
            place += block - place % block
            continue
        length, kind = struct.unpack("<HB", data[place + 4 : place + 7])
        piece = data[place + 7 : place + 7 + length]
        record = piece if kind in (1, 2) else record + piece
        if kind in (1, 4):
            yield record
        place += 7 + length


def written(path: Path) -> dict[str, Any]:
    """What an offline run of wandb has in its file."""
    protocol: Any = import_module("wandb.proto.wandb_internal_pb2")
    found: dict[str, Any] = {"config": {}, "history": {}, "summary": {}, "files": set()}
    for data in logged(path.read_bytes()):
        record = protocol.Record()
        record.ParseFromString(data)
        for update in (*record.run.config.update, *record.config.update):
            found["config"][update.key or update.nested_key[0]] = json.loads(update.value_json)
        items = {
            item.key or item.nested_key[0]: json.loads(item.value_json)
            for item in record.history.item
        }
        if items:
            found["history"][record.history.step.num] = items
        for item in record.summary.update:
            found["summary"][item.key or item.nested_key[0]] = json.loads(item.value_json)
        found["files"] |= {each.path for each in record.artifact.manifest.contents}
    return found
