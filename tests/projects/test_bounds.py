"""Absurd numbers are refused at every door, with the bound: file, flag, variable, HTTP."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from burnish.compat.promptiter.requests import BurnishOptions, RunRequest
from burnish.core.content import MOST, MOST_PLACES, MOST_REPEATS
from burnish.core.errors import ConfigError
from burnish.delegation.workflow_spec import WorkflowOverrides
from burnish.projects import load_project
from burnish.projects.agent.plugin import AgentSpec
from burnish.runs.spec import BudgetSpec, ExecutionSpec
from burnish.server.shapes import EvaluationSettings, RunSettings
from burnish.strategies.backprop.packets import BackpropSettings
from burnish.strategies.coordinate.trials import CoordinateSettings
from burnish.strategies.reflective.attempts import ReflectiveSettings
from burnish.system import validate_config

pytestmark = pytest.mark.usefixtures("toy_plugin")

HUGE = 10**30
DOORS: tuple[type[BaseModel], ...] = (
    BurnishOptions,
    EvaluationSettings,
    AgentSpec,
    BackpropSettings,
    BudgetSpec,
    CoordinateSettings,
    ExecutionSpec,
    ReflectiveSettings,
    RunRequest,
    RunSettings,
    WorkflowOverrides,
)
OPEN = {"seed", "value", "min_score_gain", "min_delta", "target_score", "perfect_score"}
"""Numbers that count nothing and cost nothing, whatever they are."""

_OTHERS = ("dict", "Block", "Literal", "LossHint")


def numbers(model: type[BaseModel]) -> Iterator[str]:
    """The fields that hold a number."""
    for name, info in model.model_fields.items():
        kinds = str(info.annotation)
        is_number = re.search(r"\b(int|float)\b", kinds) is not None
        if is_number and name not in OPEN and not any(word in kinds for word in _OTHERS):
            yield name


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    path = tmp_path / "toy.yaml"
    path.write_text("kind: toy\n")
    return path


FIELDS = [(model, name) for model in DOORS for name in numbers(model)]


@pytest.mark.parametrize(("model", "name"), FIELDS, ids=str)
def test_a_number_has_a_bound_at_every_door(model: type[BaseModel], name: str) -> None:
    with pytest.raises(ConfigError) as error:
        validate_config({name: HUGE}, model, source="settings")
    assert f"{name}: expected at most" in str(error.value)


@pytest.mark.parametrize(
    ("name", "value", "bound"),
    [
        ("max_trials", HUGE, MOST),
        ("max_tokens", HUGE, MOST),
        ("max_calls", MOST + 1, MOST),
        ("max_usd", 1e30, MOST),
        ("max_minutes", 1e30, MOST),
        ("patience", HUGE, MOST),
        ("repeats", 10**9, MOST_REPEATS),
        ("concurrency", HUGE, MOST_PLACES),
    ],
)
def test_flag_variable_file_and_request_name_the_bound(
    toy: Path, name: str, value: Any, bound: int
) -> None:
    flag = f"--{name.replace('_', '-')}"
    with pytest.raises(ConfigError, match=f"{flag}: expected at most {bound}"):
        load_project(toy, {name: value}, environ={})
    variable = f"BURNISH_{name.upper()}"
    with pytest.raises(ConfigError, match=f"{variable}: expected at most {bound}"):
        load_project(toy, {}, environ={variable: str(value)})
    with pytest.raises(ConfigError, match=f"settings {name}: expected at most {bound}"):
        validate_config({name: value}, RunSettings, source="settings")


def test_the_bound_itself_is_allowed(toy: Path) -> None:
    flags = {"max_trials": MOST, "repeats": MOST_REPEATS, "concurrency": MOST_PLACES}
    setup = load_project(toy, {**flags}, environ={}).setup
    assert (setup.budget.max_trials, setup.concurrency) == (MOST, MOST_PLACES)
