"""Flags, variables and `--set`: what each may say, which is stronger, and whose flag it is."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from burnish.core.errors import ConfigError
from burnish.projects import LoadedProject, launch_in, load_project, reload_project
from burnish.projects.description import Doors, owners_of

pytestmark = pytest.mark.usefixtures("toy_plugin")

LIMITS: dict[str, JsonValue] = {
    "max_trials": 3,
    "max_metric_calls": 30,
    "max_calls": 40,
    "max_tokens": 500,
    "max_usd": 1.5,
    "max_minutes": 2.5,
    "patience": 4,
    "score_threshold": 0.9,
}


def toy(folder: Path, more: str = "") -> Path:
    path = folder / "toy.yaml"
    path.write_text(f"kind: toy\nworld: {{train: 3, holdout: 2, test: 0}}\n{more}")
    return path


def load(path: Path, environ: dict[str, str] | None = None, /, **flags: Any) -> LoadedProject:
    return load_project(path, flags, environ=environ or {})


def problems(path: Path, environ: dict[str, str] | None = None, /, **flags: Any) -> dict[str, str]:
    with pytest.raises(ConfigError) as error:
        load(path, environ, **flags)
    return {problem.where: str(problem) for problem in error.value.problems}


@pytest.mark.parametrize("name", LIMITS)
def test_flag_then_file_then_environment(tmp_path: Path, name: str) -> None:
    plain, environ = toy(tmp_path), {f"BURNISH_{name.upper()}": "1"}
    assert getattr(load(plain).setup.budget, name) is None
    assert getattr(load(plain, environ).setup.budget, name) == 1
    said = toy(tmp_path, f"budget: {{{name}: 1}}\n")
    strong = {f"BURNISH_{name.upper()}": str(LIMITS[name])}
    assert getattr(load(said, strong).setup.budget, name) == 1
    assert getattr(load(said, environ, **{name: LIMITS[name]}).setup.budget, name) == LIMITS[name]


def test_every_limit_is_tried() -> None:
    fields = Doors.of_any_run().named().values()
    assert {each.name for each in fields if each.door.panel == "Limits"} == set(LIMITS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_usd", -1.0),
        ("max_usd", 0.0),
        ("max_usd", float("nan")),
        ("max_usd", float("inf")),
        ("max_minutes", float("-inf")),
        ("score_threshold", 1.01),
        ("patience", 0),
        ("concurrency", 0),
        ("concurrency", 10**9),
    ],
)
def test_a_flag_out_of_bounds_is_named_as_it_is_written(
    tmp_path: Path, name: str, value: float
) -> None:
    assert list(problems(toy(tmp_path), **{name: value})) == [f"--{name.replace('_', '-')}"]


def test_variables_are_read_and_named(tmp_path: Path) -> None:
    environ = {"BURNISH_SEED": "7", "BURNISH_MAX_USD": "0.5", "SEED": "8", "BURNISH_PATIENCE": ""}
    setup = load(toy(tmp_path), environ).setup
    assert (setup.seed, setup.budget.max_usd, setup.budget.patience) == (7, 0.5, None)
    wrong = {"BURNISH_SEED": "1.5", "BURNISH_PATIENCE": "many"}
    assert set(problems(toy(tmp_path), wrong)) == {"$BURNISH_SEED", "$BURNISH_PATIENCE"}


def test_set_reaches_what_has_no_flag(tmp_path: Path) -> None:
    path = toy(tmp_path)
    setup = load(
        path, set=["budget.max_trials=5", "target.world.train=2", "trials_per_phase=9"]
    ).setup
    assert setup.budget.max_trials == 5
    assert len(setup.dataset.train) == 2
    assert getattr(setup.strategy, "trials_per_phase") == 9  # noqa: B009
    assert load(path, set=["budget.max_usd=1"], max_usd=2).setup.budget.max_usd == 1


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("max_trials", "'max_trials' does not have the form path=value"),
        ("budget.max_trial=5", "there is no setting 'budget.max_trial' — did you mean"),
        ("source.file=x", "there is no setting 'source.file'"),
        ("target.kind=agent", "there is no setting 'target.kind'"),
        ("strategy.name=reflective", "there is no setting 'strategy.name'"),
    ],
)
def test_set_refuses_what_it_cannot_set(tmp_path: Path, assignment: str, message: str) -> None:
    assert message in problems(toy(tmp_path), set=[assignment])["--set"]


def test_set_names_the_place_of_a_bad_value(tmp_path: Path) -> None:
    assert "--set budget.patience" in problems(toy(tmp_path), set=["budget.patience=0"])


def test_a_flag_of_another_strategy_says_whose_it_is(tmp_path: Path) -> None:
    text = problems(toy(tmp_path), max_rounds=3)["--max-rounds"]
    assert "'climb' over 'toy agent' does not use it" in text
    assert "it is for the strategy 'backprop'" in text
    assert owners_of("--prompt") == ["a target of the kind 'prompts'"]
    assert owners_of("--nobody-has-this") == []


def test_newer_flags_stand_over_those_a_run_has(tmp_path: Path) -> None:
    launch_in(load(toy(tmp_path), max_trials=1, seed=3).setup, tmp_path / "run")
    setup = reload_project(tmp_path / "run", {"max_trials": 9}).setup
    assert (setup.budget.max_trials, setup.seed) == (9, 3)


def test_a_run_keeps_its_strategy(tmp_path: Path) -> None:
    launch_in(load(toy(tmp_path), max_trials=1).setup, tmp_path / "run")
    assert reload_project(tmp_path / "run", {"strategy": "climb"}).setup.strategy.name == "climb"
    with pytest.raises(ConfigError, match="--strategy: the run uses the strategy 'climb'"):
        reload_project(tmp_path / "run", {"strategy": "reflective"})


def test_what_is_about_prompts_is_said_by_flags_only() -> None:
    doors = Doors.of("prompts", "reflective")
    fields = doors.named()
    closed = {name for name, field in fields.items() if not field.door.environment}
    assert {"agent", "prompt", "train", "holdout", "update_source"} <= closed
    assert "reflector" not in closed


def test_a_switch_that_is_on_is_switched_off() -> None:
    doors = Doors.of("policy", "epochs")
    assert doors.named()["rollback"].flag == "--no-rollback"
