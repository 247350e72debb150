"""The contracts of plug-ins, over all of ours."""

import json
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case, Outcome
from burnish.metrics.files import METRICS
from burnish.metrics.judges import MetricMaking
from burnish.models.references import ModelRef
from burnish.projects.dialects import GROUP as DIALECTS
from burnish.runs.plugins import STRATEGIES, TARGETS
from burnish.testing import (
    PluginProject,
    ScriptedBackend,
    check_dialect,
    check_metric_plugin,
    check_strategy_plugin,
    check_target_plugin,
)
from burnish.testing.plugin_contracts import (
    check_dialect_table,
    check_strategy_settings,
    check_target_spec,
)
from tests.conftest import toy_installed
from tests.delegation.refine import refining_world
from tests.goldens.pairs import PAIRS
from tests.projects.prompts import prompt_world

pytestmark = pytest.mark.usefixtures("toy_plugin")


def names(group: str) -> list[str]:
    with toy_installed():
        return sorted(point.name for point in entry_points(group=group))


def of_pair(name: str) -> Callable[[Path], PluginProject]:
    def project(folder: Path) -> PluginProject:
        made = PAIRS[name](folder).project
        assert made is not None
        return made

    return project


def toy(folder: Path) -> PluginProject:
    file = folder / "toy.yaml"
    world = "kind: toy\nworld: {train: 4, holdout: 3, test: 0}\n"
    file.write_text(f"{world}strategy: {{cycles: 1, trials_per_phase: 1}}\n", encoding="utf-8")
    return PluginProject(file=file)


FUNCTION = "def reply(query):\n    return query.upper()\n"
FRAMEWORK_AGENT = """
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

def model(messages, info):
    return ModelResponse(parts=[TextPart(messages[-1].parts[-1].content.upper())])

agent = Agent(FunctionModel(model), instructions="Shout.")
"""


def called(
    kind: str, agent: dict[str, Any], source: str = FUNCTION
) -> Callable[[Path], PluginProject]:
    def project(folder: Path) -> PluginProject:
        (folder / "contract_agent.py").write_text(source, encoding="utf-8")
        (folder / "cases.jsonl").write_text('{"input": "a", "expected": "A"}\n', encoding="utf-8")
        file = folder / f"{kind}.yaml"
        metrics = [{"type": "standard", "metric": "equality"}]
        data = {"kind": kind, "target": agent, "cases": "cases.jsonl", "metrics": metrics}
        file.write_text(json.dumps(data), encoding="utf-8")
        return PluginProject(file=file, flags={"strategy": "measure"})

    return project


def remote(folder: Path) -> PluginProject:
    """A file about an agent that is not there: its keys are read all the same."""
    (folder / "cases.jsonl").write_text('{"input": "a", "expected": "A"}\n', encoding="utf-8")
    file = folder / "remote.yaml"
    metrics = [{"type": "standard", "metric": "equality"}]
    cases = {"train": "cases.jsonl", "holdout": "cases.jsonl", "metrics": metrics}
    data = {"kind": "remote", "target": {"url": "http://127.0.0.1:9/nobody"}, **cases}
    file.write_text(json.dumps(data), encoding="utf-8")
    return PluginProject(file=file)


def workflow(folder: Path) -> PluginProject:
    world = refining_world.Place(folder=folder)
    flags = {"task": refining_world.TASK}
    return PluginProject(file=world.flow, flags=flags, models=world.world.models)


PYTHON = called("python", {"call": "contract_agent:reply"})
COMMAND = called("command", {"command": [sys.executable, "-c", "print(input().upper())"]})
FRAMEWORK = called("framework", {"call": "contract_agent:agent"}, FRAMEWORK_AGENT)
HTTP = called("http", {"url": "http://127.0.0.1:9/nobody"})
BY_STRATEGY = {
    "auto": of_pair("agent-auto"),
    "backprop": of_pair("graph-backprop"),
    "climb": toy,
    "coordinate": of_pair("prompts-coordinate"),
    "delegate": workflow,
    "edits": of_pair("task-edits"),
    "epochs": of_pair("suite-epochs"),
    "frugal": of_pair("agent-frugal"),
    "measure": PYTHON,
    "reflective": of_pair("prompts-reflective"),
}
BY_TARGET = {
    "agent": of_pair("agent-reflective"),
    "artifacts": of_pair("task-edits"),
    "command": COMMAND,
    "delegation": workflow,
    "framework": FRAMEWORK,
    "graph": of_pair("graph-backprop"),
    "policy": of_pair("suite-epochs"),
    "prompts": of_pair("prompts-reflective"),
    "python": PYTHON,
    "toy agent": toy,
}
BY_DIALECT = {
    "agent": of_pair("agent-coordinate"),
    "command": COMMAND,
    "framework": FRAMEWORK,
    "graph": of_pair("graph-backprop"),
    "http": HTTP,
    "optimizer": of_pair("optimizer-json"),
    "prompts": of_pair("prompts-reflective"),
    "python": PYTHON,
    "remote": remote,
    "suite": of_pair("suite-epochs"),
    "task": of_pair("task-edits"),
    "toy": toy,
    "workflow": workflow,
}


@pytest.fixture(autouse=True)
def _world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("P2B_TEST_API_KEY", prompt_world.KEY)
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield
    sys.path[:] = path
    sys.modules.pop("contract_agent", None)


@pytest.mark.parametrize("name", names(STRATEGIES))
def test_the_settings_of_our_strategies(name: str) -> None:
    check_strategy_settings(name)


@pytest.mark.parametrize("kind", names(TARGETS))
def test_the_descriptions_of_our_targets(kind: str) -> None:
    check_target_spec(kind)


@pytest.mark.parametrize("kind", names(DIALECTS))
def test_the_keys_of_our_files(kind: str) -> None:
    check_dialect_table(kind)


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_STRATEGY)
async def test_our_strategies(name: str, tmp_path: Path) -> None:
    await check_strategy_plugin(name, BY_STRATEGY[name](tmp_path), tmp_path / "contract")


@pytest.mark.slow
@pytest.mark.parametrize("kind", BY_TARGET)
async def test_our_targets(kind: str, tmp_path: Path) -> None:
    await check_target_plugin(kind, BY_TARGET[kind](tmp_path), tmp_path / "contract")


@pytest.mark.parametrize("kind", names(DIALECTS))
def test_our_dialects(kind: str, tmp_path: Path) -> None:
    check_dialect(kind, BY_DIALECT[kind](tmp_path), tmp_path)


BLOCKS: dict[str, dict[str, Any]] = {
    "standard": {"metric": "equality", "case_insensitive": True},
    "geval": {"name": "short", "criteria": "Is it short?", "evaluation_steps": ["Count."]},
    "rag": {"metric_type": "faithfulness", "threshold": 0.7},
    "code": {"grader": "contract_grader:loud"},
}


@pytest.mark.parametrize("kind", names(METRICS))
async def test_our_metrics(kind: str, tmp_path: Path) -> None:
    (tmp_path / "contract_grader.py").write_text(
        "def loud(ctx):\n    return ctx.actual_output.isupper()\n", encoding="utf-8"
    )
    backend = ScriptedBackend(respond=lambda _, __: '{"score": 7, "reasoning": "so so"}')
    making = MetricMaking(
        models=prompt_world.models(backend), folder=tmp_path, judge=ModelRef.parse("openai:m")
    )
    outcomes = [Outcome(replies=("A",)), Outcome(replies=("b",))]
    case = Case.single("a", "A")
    await check_metric_plugin(kind, BLOCKS[kind], case, outcomes, making=making)
