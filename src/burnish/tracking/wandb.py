"""Weights & Biases: a run with its configuration, numbers by trial, files and diff."""

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from burnish.runs.directory import Header, RunRecord
from burnish.tracking.trackers import (
    CHANGES,
    TrialTracker,
    changes_of,
    files_of,
    params_of,
    result_numbers,
    result_words,
    tracked_id,
)

wandb: Any = import_module("wandb")


class WandbTracker(TrialTracker):
    """Sends a run to Weights & Biases; with `WANDB_MODE=offline` it stays in the run's folder."""

    _run: Any

    def open(self, header: Header, folder: Path) -> None:
        server = {} if self.settings.uri is None else {"base_url": self.settings.uri}
        self._run = wandb.init(
            project=self.project,
            id=tracked_id(header).replace(".", "_"),
            name=header.id,
            config=params_of(header),
            dir=os.environ.get("WANDB_DIR") or str(folder),
            resume="allow",
            reinit="create_new",
            settings=wandb.Settings(silent=True, console="off", **server),
        )

    def log(self, trial: int, numbers: Mapping[str, float]) -> None:
        # A step that is there already is left out by wandb itself.
        if trial >= self._run.step:
            self._run.log(dict(numbers), step=trial)

    def close(self, record: RunRecord) -> None:
        self._run.summary.update({**result_numbers(record), **result_words(record)})
        files = wandb.Artifact(f"run-{self._run.id}", type="burnish-run")
        for place, path in files_of(record).items():
            files.add_file(str(path), name=place)
        if changes := changes_of(record):
            with files.new_file(CHANGES, mode="w", encoding="utf-8") as file:
                file.write(changes)
        self._run.log_artifact(files)
        self._run.finish(exit_code=int(record.status in ("failed", "killed")))
