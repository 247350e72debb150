"""Experiments: their files, their tasks, and the BEST of a task."""

import json
from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import ConfigError, FileTrouble, RunNotFound, SeedRefused
from burnish.delegation.experiments import (
    Experiment,
    ExperimentTask,
    TaskBest,
    experiments_root,
    find_task,
    summary,
    summary_lines,
)
from burnish.delegation.plugin import attach, attachment, offer
from tests.delegation.refine.run_folders import plain_run


@pytest.fixture(autouse=True)
def _root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNISH_EXPERIMENTS_ROOT", str(tmp_path / "all"))


@pytest.fixture
def experiment() -> Experiment:
    return Experiment.new("Heat", goal="know it")


@pytest.fixture
def task(experiment: Experiment) -> ExperimentTask:
    return experiment.add_task("Write a report.")


def manifest_of(task: ExperimentTask) -> dict[str, Any]:
    return json.loads((task.folder / "BEST" / "manifest.json").read_text(encoding="utf-8"))


def test_where_experiments_lie() -> None:
    assert experiments_root({}) == Path("results/experiments")
    assert experiments_root({"AWP_EXPERIMENTS_ROOT": "/old"}) == Path("/old")
    both = {"AWP_EXPERIMENTS_ROOT": "/old", "BURNISH_EXPERIMENTS_ROOT": "/new"}
    assert experiments_root(both) == Path("/new")


def test_the_files_of_an_experiment(experiment: Experiment) -> None:
    names = ["Heat & Cold!", "Wärme 報告", "x" * 80]
    tasks = [experiment.add_task(name) for name in names]
    assert [task.id for task in tasks] == ["001-heat-cold", "002-w-rme", f"003-{'x' * 50}"]
    said = json.loads((experiment.folder / "experiment.json").read_text(encoding="utf-8"))
    assert said["experiment_id"] == experiment.folder.name
    assert said["task_order"] == [task.id for task in tasks]
    assert (said["name"], said["goal"]) == ("Heat", "know it")
    told = json.loads((tasks[1].folder / "task.json").read_text(encoding="utf-8"))
    assert told.pop("created_at")
    assert told == {
        "task_id": "002-w-rme",
        "experiment_id": experiment.folder.name,
        "task_number": 2,
        "mode": "seed",
        "user_prompt": "Wärme 報告",
        "user_feedback": None,
        "inputs": [],
    }
    assert [each.folder for each in Experiment.all()] == [experiment.folder]


@pytest.mark.parametrize("name", ["exp_nothere1", "../all", "exp_a/../b", ""])
def test_an_experiment_that_is_not_there(name: str) -> None:
    with pytest.raises(RunNotFound, match="there is no experiment"):
        Experiment.find(name)


def test_a_target_that_names_no_task(experiment: Experiment, task: ExperimentTask) -> None:
    assert find_task(task.target) == task
    name = experiment.folder.name
    for target in (name, f"{name}:", f"{name}:002-no", f"exp_nothere1:{task.id}", f"{name}:../x"):
        with pytest.raises(SeedRefused) as refusal:
            find_task(target)
        assert refusal.value.exit_code == 2


def test_damage_is_said(experiment: Experiment) -> None:
    (experiment.folder / "experiment.json").write_text('{"name": 3}')
    with pytest.raises(FileTrouble, match="is damaged"):
        _ = experiment.record


def test_the_lowest_loss_is_best_and_ties_change_nothing(task: ExperimentTask) -> None:
    best = TaskBest(task)
    assert best.offer(plain_run(task.runs / "a", critique=0.5)) == ""
    assert "already" in best.offer(plain_run(task.runs / "b", critique=0.5))
    assert "nothing" in best.offer(plain_run(task.runs / "c", critique=1, files={}))
    assert "nothing" in best.offer(plain_run(task.runs / "d", critique=1, status="failed"))
    assert manifest_of(task)["winner_run_id"] == "a"
    assert best.offer(plain_run(task.runs / "e", critique=0.9)) == ""
    said = manifest_of(task)
    assert said.pop("updated_at")
    breakdown = {"eval": 0.2, "critique": 0.03, "gate_reject": 0, "budget_burn": 0, "terminal": 0}
    assert said == {
        "winner_run_id": "e",
        "winner_source": "runs/e",
        "reason": "auto_loss",
        "loss": pytest.approx(0.23),
        "loss_breakdown": {**breakdown, "total": 0.23},
        "raw_signals": {
            "eval_score": 0.5,
            "critique_score": 0.9,
            "rejections": 0,
            "max_rejections": 2,
            "budget_remaining": None,
            "status": "complete",
        },
    }


def test_a_choice_by_hand_stays(task: ExperimentTask) -> None:
    best = TaskBest(task)
    for name, score in (("a", 0.9), ("b", 0.2)):
        best.offer(plain_run(task.runs / name, critique=score, files={"r.md": name}))
    best.choose("b")
    assert (task.folder / "BEST" / "r.md").read_text() == "b"
    better = plain_run(task.runs / "c", critique=1.0)
    assert "chosen by hand" in best.offer(better)
    assert manifest_of(task)["reason"] == "user_override"
    best.choose_by_loss()
    assert manifest_of(task)["winner_run_id"] == "c"
    with pytest.raises(RunNotFound, match="has no run 'z'"):
        best.choose("z")


def test_a_task_without_a_best_or_whose_best_is_gone(task: ExperimentTask) -> None:
    best = TaskBest(task)
    with pytest.raises(SeedRefused, match="no BEST yet"):
        best.winner()
    run = plain_run(task.runs / "a")
    best.offer(run)
    assert best.winner() == run
    run.rename(task.runs / "moved")
    with pytest.raises(SeedRefused, match="is gone"):
        best.winner()


def test_a_continuation_starts_from_the_best(experiment: Experiment, task: ExperimentTask) -> None:
    run = plain_run(task.runs / "a")
    TaskBest(task).offer(run)
    for primary in (task.id, task.target):
        next_one = attach(experiment.folder.name, "Shorter, please.", primary=primary)
        assert next_one.seed_deliverable == run / "FINAL"
        assert "Write a report." in next_one.steer
        made = ExperimentTask(next_one.folder.parent.parent).record
        assert (made.mode, made.user_feedback) == ("continuation", "Shorter, please.")
        assert made.inputs[0].task_id == task.id
        plain_run(next_one.folder)
        assert "its BEST" in offer(attachment(str(next_one.task)), next_one.folder)
    assert offer({}, run) == ""
    with pytest.raises(ConfigError, match="adds a task"):
        attach(task.target, "x")
    with pytest.raises(SeedRefused, match="no BEST yet"):
        attach(experiment.folder.name, "x", primary=experiment.add_task("empty").id)


def test_an_experiment_at_a_glance(experiment: Experiment, task: ExperimentTask) -> None:
    TaskBest(task).offer(plain_run(task.runs / "a"))
    lines = list(summary_lines(experiment))
    assert lines[0].endswith("Heat")
    assert "best a with loss 0.3500 (auto_loss)" in lines[-1]
    data = json.loads(json.dumps(summary(experiment)))
    assert data["tasks"][0]["runs"] == ["runs/a"]
    assert data["tasks"][0]["best"]["winner_run_id"] == "a"
