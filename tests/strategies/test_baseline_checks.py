"""Constraints that can never hold, or that the start breaks, are named by every search."""

import json
from pathlib import Path

import pytest

from burnish.core.errors import BaselineUnmeasured, BurnishError
from burnish.projects.launch import launch
from burnish.runs.directory import RunRecord
from burnish.runs.events import Warned, read_all
from burnish.runs.setup import start
from tests.projects.artifacts.task_world import Change, prepared, put, top, write_task

pytestmark = pytest.mark.slow
SCORER = """
import json
size = json.load(open("config.json"))["size"]
print(json.dumps({"score": 1 / (1 + abs(size - 5)), "metrics": {"memory": 10 * size}}))
"""


def tuned(folder: Path, metric: str, value: float) -> Path:
    limit = {"metric": metric, "op": "<=", "value": value}
    changes: tuple[Change, ...] = (
        put("artifacts", include=["config.json"]),
        top(
            constraints=[limit],
            policy={},
            axes=[{"file": "config.json", "path": "size", "low": 1, "high": 8, "integer": True}],
            coordinate={"max_cycles": 1, "max_trials": 4, "patience": 4},
        ),
    )
    path = write_task(folder, *changes)
    (folder / "config.json").write_text('{"size": 4}', encoding="utf-8")
    (folder / "score.py").write_text(SCORER, encoding="utf-8")
    return path


@pytest.mark.parametrize("strategy", ["coordinate", "edits"])
def test_a_constraint_on_a_number_that_nobody_returns_ends_the_run(
    tmp_path: Path, strategy: str
) -> None:
    project = prepared(tuned(tmp_path / "task", "memmory", 100), strategy=strategy)
    with pytest.raises(BaselineUnmeasured, match="does not return 'memmory'") as raised:
        launch(lambda: start(project.setup, folder=tmp_path / "run"))
    assert "there are: " in raised.value.message
    assert "memory" in raised.value.message
    assert len(RunRecord.read(tmp_path / "run").rows) == 1, "nothing was tried"


def test_values_that_break_a_constraint_are_named_at_the_start(tmp_path: Path) -> None:
    project = prepared(tuned(tmp_path / "task", "memory", 30), strategy="coordinate")
    ending = launch(lambda: start(project.setup, folder=tmp_path / "run"))
    record = RunRecord.read(tmp_path / "run")
    (warning,) = [w.message for w in read_all(record.events, Warned) if "constraint" in w.message]
    assert warning.startswith(
        "the values as they are break a constraint (memory <= 30: memory is 40"
    )
    assert warning.endswith("only a candidate that keeps all constraints is accepted")
    assert float(str(ending.best.values["config.json#size"])) in (1, 2, 3, 4)


@pytest.mark.parametrize("strategy", ["coordinate", "edits"])
def test_a_missing_scorer_is_named_before_anything_runs(tmp_path: Path, strategy: str) -> None:
    file = tuned(tmp_path / "task", "memory", 100)
    (tmp_path / "task" / "score.py").unlink()
    with pytest.raises(BurnishError, match=r"there is no file 'score.py'"):
        prepared(file, strategy=strategy)


@pytest.mark.parametrize("strategy", ["coordinate", "edits"])
def test_a_file_of_the_runner_that_no_scorer_gets_is_named_at_the_start(
    tmp_path: Path, strategy: str
) -> None:
    file = tuned(tmp_path / "task", "memory", 100)
    data = json.loads(file.read_text(encoding="utf-8"))
    data["runner"] = {"command": "echo '{}' > sizes.json; echo '{}' > task.json"}
    file.write_text(json.dumps(data), encoding="utf-8")
    project = prepared(file, strategy=strategy, max_trials=1)
    launch(lambda: start(project.setup, folder=tmp_path / "run"))
    record = RunRecord.read(tmp_path / "run")
    (warning,) = [w.message for w in read_all(record.events, Warned) if "behind" in w.message]
    assert warning == (
        "of what the runner writes, left behind: sizes.json, task.json (neither an artifact nor a "
        "declared output: list it under `scratch` if the scorer needs it)"
    )
