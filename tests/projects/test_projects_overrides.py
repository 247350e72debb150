"""Flags and environment variables: bounds, precedence, keeping them in run.json."""

import pytest

from burnish.core.errors import ConfigError
from burnish.projects import BudgetSettings, Overrides
from burnish.projects.overrides import (
    AgentOverrides,
    BackpropOverrides,
    PromptOverrides,
    SuiteOverrides,
    TaskOverrides,
)

VALUES = {
    "max_trials": 3,
    "max_metric_calls": 30,
    "max_calls": 40,
    "max_tokens": 500,
    "max_usd": 1.5,
    "max_minutes": 2.5,
    "patience": 4,
    "score_threshold": 0.9,
}


def test_every_override_has_a_value_here() -> None:
    blocks = (AgentOverrides, PromptOverrides, BackpropOverrides, TaskOverrides, SuiteOverrides)
    special = {name for block in blocks for name in block.model_fields}
    known = {*VALUES, "seed", "concurrency", *special}
    assert known == set(Overrides.model_fields)


@pytest.mark.parametrize("name", VALUES)
def test_flag_then_file_then_environment(name: str) -> None:
    flags, nothing = Overrides.from_flags(**{name: VALUES[name]}), Overrides()
    weaker = Overrides.from_environment({f"BURNISH_{name.upper()}": "1"})
    in_file = BudgetSettings.model_validate({name: 1})
    assert getattr(in_file.budget(flags, weaker), name) == VALUES[name]
    assert getattr(in_file.budget(nothing, flags), name) == 1
    assert getattr(BudgetSettings().budget(nothing, weaker), name) == 1
    assert getattr(BudgetSettings().budget(nothing, nothing), name) is None


def test_what_only_a_file_says_stays() -> None:
    settings = BudgetSettings(max_proposals=5, required_metrics=("a",), max_tracked_candidates=6)
    budget = settings.budget(Overrides(), Overrides())
    assert (budget.max_proposals, budget.required_metrics) == (5, ("a",))
    assert budget.max_tracked_candidates == 6


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
def test_a_flag_out_of_bounds_is_named_as_it_is_written(name: str, value: float) -> None:
    with pytest.raises(ConfigError) as error:
        Overrides.from_flags(**{name: value})
    assert error.value.problems[0].where == f"--{name.replace('_', '-')}"


def test_variables_are_read_and_named() -> None:
    read = Overrides.from_environment({"BURNISH_SEED": "7", "BURNISH_MAX_USD": "0.5", "SEED": "8"})
    assert read.to_json() == {"seed": 7, "max_usd": 0.5}
    assert Overrides.from_environment({"BURNISH_SEED": ""}) == Overrides()
    with pytest.raises(ConfigError) as error:
        Overrides.from_environment({"BURNISH_SEED": "1.5", "BURNISH_PATIENCE": "many"})
    wheres = {problem.where for problem in error.value.problems}
    assert wheres == {"$BURNISH_SEED", "$BURNISH_PATIENCE"}


def test_they_survive_run_json() -> None:
    flags = Overrides.from_flags(**VALUES, seed=9)
    assert Overrides.from_json(flags.to_json()) == flags
    assert Overrides.from_json({"from_a_newer_version": 1}) == Overrides()


def test_newer_flags_stand_over_earlier_ones() -> None:
    newer = Overrides.from_flags(max_trials=9)
    assert newer.over(Overrides.from_flags(max_trials=3, seed=1)).to_json() == {
        "max_trials": 9,
        "seed": 1,
    }


def test_what_is_about_prompts_is_said_by_flags_only() -> None:
    said = {"BURNISH_AGENT": "a:b", "BURNISH_TRAIN_CASES": "x", "BURNISH_REFLECTOR": "openai:m"}
    assert Overrides.from_environment(said).to_json() == {"reflector": "openai:m"}
    flags = Overrides.from_flags(agent="a:b", prompt_files={"system": "/p.md"}, update_source=True)
    assert Overrides.from_json(flags.to_json()) == flags
