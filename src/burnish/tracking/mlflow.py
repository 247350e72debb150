"""MLflow: a run with its parameters, numbers by trial, files and diff."""

import time
from collections.abc import Mapping
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from burnish.runs.directory import Header, RunRecord
from burnish.tracking.trackers import (
    CHANGES,
    PROJECT,
    TrialTracker,
    changes_of,
    files_of,
    params_of,
    result_numbers,
    result_words,
    tracked_id,
)

mlflow: Any = import_module("mlflow")
_RUN = "burnish.run"
"""The tag that a run is found by, so that a resume and a second export go on in it."""
_AT_ONCE = 100
"""Parameters that MLflow takes in one request."""
_LONGEST = 500
"""Characters of a parameter that every version of MLflow takes."""
_STATUS = {"running": "RUNNING", "finished": "FINISHED", "failed": "FAILED"}


class MlflowTracker(TrialTracker):
    """Sends a run to a tracking server, or to the folder or database that stands in for one."""

    _client: Any
    _run: str
    _logged = -1
    """The last trial whose numbers are there."""

    def open(self, header: Header, folder: Path) -> None:
        del folder
        self._client = mlflow.MlflowClient(tracking_uri=self.settings.uri)
        known = self._client.get_experiment_by_name(self.project)
        home = known.experiment_id if known else self._client.create_experiment(self.project)
        found = self._client.search_runs(
            [home], f"tags.`{_RUN}` = '{tracked_id(header)}'", max_results=1
        )
        if found:
            self._run = found[0].info.run_id
            self._logged = int(found[0].data.metrics.get("trial", -1))
            self._client.update_run(self._run, status="RUNNING")
            return
        started = int(datetime.fromisoformat(header.started_at).timestamp() * 1000)
        tags = {_RUN: tracked_id(header), "mlflow.source.name": PROJECT}
        run = self._client.create_run(home, start_time=started, tags=tags, run_name=header.id)
        self._run = run.info.run_id
        entities = mlflow.entities
        params = [entities.Param(k, v[:_LONGEST]) for k, v in params_of(header).items()]
        for start in range(0, len(params), _AT_ONCE):
            self._client.log_batch(self._run, params=params[start : start + _AT_ONCE])

    def log(self, trial: int, numbers: Mapping[str, float]) -> None:
        if trial > self._logged:
            self._log(trial, numbers)
            self._logged = trial

    def close(self, record: RunRecord) -> None:
        self._log(max(0, self._logged), result_numbers(record))
        for name, word in result_words(record).items():
            self._client.set_tag(self._run, name, word)
        for place, path in files_of(record).items():
            folder = str(Path(place).parent)
            self._client.log_artifact(self._run, str(path), None if folder == "." else folder)
        if changes := changes_of(record):
            self._client.log_text(self._run, changes, CHANGES)
        status = _STATUS.get(record.status, "KILLED")
        if status == "RUNNING":
            return
        self._client.set_terminated(self._run, status=status)

    def _log(self, step: int, numbers: Mapping[str, float]) -> None:
        now, metric = int(time.time() * 1000), mlflow.entities.Metric
        metrics = [metric(name, value, now, step) for name, value in numbers.items()]
        self._client.log_batch(self._run, metrics=metrics)
