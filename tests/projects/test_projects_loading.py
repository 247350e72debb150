"""A project file becomes a Setup, and a run's header becomes its project again."""

from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError, ResumeRefused
from burnish.projects import launch_in, load_project, reload_project
from burnish.runs.setup import start
from burnish.testing.doubles import story

pytestmark = pytest.mark.usefixtures("toy_plugin")

SMALL = "kind: toy\nworld: {train: 3, holdout: 2, test: 2}\nstrategy: {cycles: 1}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "toy.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return path


def test_defaults_and_the_place_of_runs(file: Path) -> None:
    project = load_project(file, {}, environ={})
    assert (project.setup.seed, project.setup.concurrency) == (42, 8)
    assert project.root == file.parent / "results" / "optimizer"
    assert len(project.setup.dataset.train) == 3
    assert project.setup.project.kind == "toy"
    assert project.setup.project.file == str(file)


def test_flag_file_environment_default_for_seed_and_concurrency(file: Path) -> None:
    environ = {"BURNISH_SEED": "5", "BURNISH_CONCURRENCY": "3"}
    weak = load_project(file, {}, environ=environ).setup
    assert (weak.seed, weak.concurrency) == (5, 3)
    file.write_text(SMALL + "seed: 6\nconcurrency: 4\n", encoding="utf-8")
    middle = load_project(file, {}, environ=environ).setup
    assert (middle.seed, middle.concurrency) == (6, 4)
    strong = load_project(file, {"seed": 7, "concurrency": 5}, environ=environ).setup
    assert (strong.seed, strong.concurrency) == (7, 5)


def test_budget_and_concurrency_do_not_change_what_a_run_is(file: Path) -> None:
    one = load_project(file, {"max_trials": 1, "concurrency": 1}, environ={}).setup
    other = load_project(file, {"max_usd": 3.0, "concurrency": 9}, environ={}).setup
    assert one.inputs() == other.inputs()
    assert load_project(file, {"seed": 1}, environ={}).setup.inputs() != one.inputs()


def test_json_projects_load_too(tmp_path: Path) -> None:
    path = tmp_path / "toy.json"
    path.write_text('{"kind": "toy", "world": {"train": 2}}', encoding="utf-8")
    assert len(load_project(path, {}, environ={}).setup.dataset.train) == 2


def test_a_run_is_set_up_again_with_the_flags_it_had(file: Path, tmp_path: Path) -> None:
    project = load_project(file, {"max_trials": 2, "seed": 3}, environ={})
    folder = tmp_path / "run"
    launch_in(project.setup, folder)
    again = reload_project(folder, {"max_trials": 9})
    assert (again.setup.seed, again.setup.budget.max_trials) == (3, 9)
    assert reload_project(folder, {}).setup.budget.max_trials == 2


def test_what_cannot_be_set_up_again_says_why(file: Path, tmp_path: Path) -> None:
    setup = load_project(file, {"max_trials": 1}, environ={}).setup
    own = replace(setup, project=replace(setup.project, kind="python", spec={}))
    launch_in(own, tmp_path / "own-run")
    with pytest.raises(ResumeRefused, match="Python program"):
        reload_project(tmp_path / "own-run", {})


def test_a_run_is_set_up_again_without_its_file(file: Path, tmp_path: Path) -> None:
    setup = load_project(file, {"max_trials": 1}, environ={}).setup
    launch_in(setup, tmp_path / "run")
    file.unlink()
    assert reload_project(tmp_path / "run", {}).setup.inputs() == setup.inputs()


def test_a_program_goes_on_where_it_was(file: Path, tmp_path: Path) -> None:
    untested = file.read_text().replace("test: 2", "test: 0")
    file.write_text(untested, encoding="utf-8")
    setup = load_project(file, {}, environ={}).setup
    short = replace(setup, budget=replace(setup.budget, max_trials=2))
    assert launch_in(short, tmp_path / "run").reason.code == "max_trials"
    ending = launch_in(setup, tmp_path / "run")
    launch_in(setup, tmp_path / "whole")
    ours, theirs = (story(tmp_path / name / "trials.jsonl") for name in ("run", "whole"))
    assert ours == theirs
    assert launch_in(setup, tmp_path / "run").billed == ending.billed
    assert (tmp_path / "run" / "report.md").is_file()


def test_the_report_is_written_however_a_run_ends(file: Path, tmp_path: Path) -> None:
    from burnish.projects import launch
    from burnish.runs.events import Event, Tick

    class Breaks:
        def event(self, event: Event) -> None:
            if event.kind == "phase_started":
                raise LookupError("a listener of the user's own")

        def tick(self, tick: Tick) -> None: ...

    setup = load_project(file, {}, environ={}).setup
    with pytest.raises(LookupError):
        launch(lambda: start(setup, folder=tmp_path / "run"), [Breaks()])
    assert "| status | killed |" in (tmp_path / "run" / "report.md").read_text(encoding="utf-8")


def test_a_bad_file_raises_one_error_with_every_problem(file: Path) -> None:
    file.write_text("kind: toy\nseed: x\nbudgets: {}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        load_project(file, {}, environ={})
    assert [problem.where for problem in error.value.problems] == [
        "toy.yaml:2 seed",
        "toy.yaml:3 budgets",
    ]
