"""`burnish optimize --dry-run`: every pair of strategy and file kind is planned or refused."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from burnish.cli.optimization import OptimizeRequest, RunOpening, optimize_project
from burnish.models.factory import Models
from burnish.projects.dialects import GROUP as DIALECTS
from burnish.projects.launch import load_project
from burnish.runs.plugins import strategy_names, strategy_plugin
from burnish.runs.progress import opening_words
from burnish.testing.doubles import ScriptedBackend
from tests.cli.console import SMALL, Burnish, refused, tree
from tests.conftest import toy_installed
from tests.delegation.training.suite_places import Place
from tests.projects import optimizer_world
from tests.projects.artifacts import task_world
from tests.projects.graph import graph_world
from tests.projects.prompts import prompt_world

CHOOSE = Path(__file__).parents[2] / "docs" / "choose.md"
CALLED = """\
from pathlib import Path

async def call_agent(query: str) -> str:
    Path(__file__).with_name("called").touch()
    return query
"""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is looked at: a file, its flags, and who would be asked."""

    file: Path
    models: Models
    flags: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    calls: Callable[[], list[Any]]
    """What was asked of models so far."""


def nobody() -> ScriptedBackend:
    return ScriptedBackend(respond=lambda _, __: "")


def agent_file(folder: Path, strategy: str) -> Plan:
    def texts_only(data: dict[str, Any]) -> None:
        block = optimizer_world.optimizer(data)
        block["strategy"] = strategy
        block["budget"] = {"global": {"max_trials": 2}}
        block["axes"] = {"textual": [{"path": "instructions.inline"}]}
        if strategy != "coordinate":
            role = "reflector" if strategy == "reflective" else "proposer"
            block[role] = {"provider": "openai", "name": "m"}

    backend = optimizer_world.echo()
    file = optimizer_world.write_world(folder, texts_only)
    models = optimizer_world.echo_models(backend)
    return Plan(file=file, models=models, calls=lambda: backend.asked)


def prompts(folder: Path, strategy: str) -> Plan:
    prompt_world.write_world(folder)
    (folder / "numbers_agent.py").write_text(CALLED, encoding="utf-8")
    writers = {"reflective": "reflector", "coordinate": "critic"}
    data = {
        "kind": "prompts",
        "target": {"python": "numbers_agent:call_agent"},
        "prompts": {"system": "prompts/system.md"},
        "train": "train.evalset.json",
        "holdout": "val.evalset.json",
        "metrics": [{"type": "standard", "metric": "equality"}],
        "strategy": strategy,
        writers.get(strategy, "proposer"): "openai:m",
    }
    file = folder / "prompts.yaml"
    file.write_text(json.dumps(data), encoding="utf-8")
    backend = nobody()
    return Plan(file=file, models=prompt_world.models(backend), calls=lambda: backend.asked)


def graph(folder: Path, strategy: str) -> Plan:
    change = graph_world.optimizer(strategy=strategy, targets=["planner#instruction"])
    backend = nobody()
    return Plan(
        file=graph_world.write_world(folder, change),
        models=graph_world.models(backend),
        calls=lambda: backend.asked,
    )


def task(folder: Path, strategy: str) -> Plan:
    axis = {"file": "c.yaml", "path": "size", "low": 1, "high": 9}
    numbers = (
        task_world.put("artifacts", include=["c.yaml"]),
        task_world.top(axes=[axis], strategy=strategy, policy={}),
        task_world.top(objective={"worst": 0, "best": 1}, constraints=[], budget={}),
    )
    file = task_world.write_task(folder, *(numbers if strategy in ("auto", "coordinate") else ()))
    (folder / "c.yaml").write_text("size: 4\n", encoding="utf-8")
    (folder / "score.py").write_text("open('called', 'w')\n", encoding="utf-8")
    backend = nobody()
    return Plan(file=file, models=task_world.scripted(backend), calls=lambda: backend.asked)


def suite(folder: Path, strategy: str) -> Plan:
    place = Place(folder=folder)
    place.write("heat", "rain", holdout=("snow", "wind"))
    flags: dict[str, JsonValue] = {"strategy": strategy, "repeats": 1}
    if strategy == "epochs":
        flags |= {"epochs": 2, "with_textgrad": True}
    return Plan(
        file=place.suite,
        models=place.world.models(),
        flags=flags,
        calls=lambda: place.world.turns,
    )


def optimizer(folder: Path, strategy: str) -> Plan:
    backend = nobody()
    return Plan(
        file=prompt_world.write_world(folder),
        models=prompt_world.models(backend),
        flags=prompt_world.flags(folder, strategy=strategy),
        calls=lambda: backend.asked,
    )


def toy(folder: Path, strategy: str) -> Plan:
    (folder / "toy.yaml").write_text(SMALL, encoding="utf-8")
    roles = {"reflective": "reflector", "coordinate": "critic"}
    backend = nobody()
    return Plan(
        file=folder / "toy.yaml",
        models=prompt_world.models(backend),
        flags={"strategy": strategy, roles.get(strategy, "proposer"): "openai:m"},
        calls=lambda: backend.asked,
    )


def called(kind: str, agent: JsonValue) -> Callable[[Path, str], Plan]:
    def plan(folder: Path, strategy: str) -> Plan:
        (folder / "called_agent.py").write_text(CALLED, encoding="utf-8")
        (folder / "cases.jsonl").write_text('{"input": "a", "expected": "A"}\n', encoding="utf-8")
        metrics = [{"type": "standard", "metric": "equality"}]
        data = {"kind": kind, "target": agent, "cases": "cases.jsonl", "metrics": metrics}
        file = folder / f"{kind}.yaml"
        file.write_text(json.dumps(data), encoding="utf-8")
        flags: dict[str, JsonValue] = {"strategy": strategy}
        return Plan(file=file, models=prompt_world.models(nobody()), flags=flags, calls=list)

    return plan


WORLDS: Mapping[str, Callable[[Path, str], Plan]] = {
    "agent": agent_file,
    "command": called("command", {"command": ["false"]}),
    "graph": graph,
    "http": called("http", {"url": "http://127.0.0.1:9/nobody"}),
    "optimizer": optimizer,
    "prompts": prompts,
    "python": called("python", {"call": "called_agent:call_agent"}),
    "suite": suite,
    "task": task,
    "toy": toy,
}
"""A project of each kind of file."""
ROWS = {
    "agent file": "agent",
    "prompts of any agent": "prompts",
    "optimizer.json": "optimizer",
    "graph of agents": "graph",
    "files of a task": "task",
    "policy texts": "suite",
    "toy world": "toy",
}
"""What the page calls the kinds of files that can be searched."""
APART = {"one delegation", "agent in another process", "agent of a framework"}
"""The first has a command of its own; the plan of the second asks that process, which its tests
start; the third has examples that tests run."""
with toy_installed():
    STRATEGIES = sorted(name for name in strategy_names() if strategy_plugin(name).proposes)
TASKS = {"delegate", "refine"}
"""Strategies that do one task, with a command of their own."""
pytestmark = pytest.mark.usefixtures("toy_plugin")


def pairs_of_the_page() -> set[tuple[str, str]]:
    rows = re.findall(r"^\| ([a-z. ]+) \| (`[^|]+`) \| `tests/", CHOOSE.read_text(), re.MULTILINE)
    named = {(kind, name) for kind, names in rows for name in re.findall(r"`(\w+)`", names)}
    return {(ROWS[kind], name) for kind, name in named if kind not in APART}


PAIRS = sorted(pairs_of_the_page())
REFUSED = [(kind, name) for kind in WORLDS for name in STRATEGIES if (kind, name) not in PAIRS]


def test_every_kind_of_file_is_looked_at() -> None:
    assert {*WORLDS, "framework", "workflow", "remote"} == {
        point.name for point in entry_points(group=DIALECTS)
    }
    assert {name for _, name in PAIRS} == {*STRATEGIES} - TASKS


@pytest.mark.parametrize(("kind", "strategy"), PAIRS)
def test_a_dry_run_prints_a_plan_and_pays_nothing(
    kind: str,
    strategy: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = WORLDS[kind](tmp_path, strategy)
    before = tree(tmp_path)
    way = RunOpening(output_dir=tmp_path / "run")
    request = OptimizeRequest(file=plan.file, way=way, flags=plan.flags, dry_run=True)
    optimize_project(request, models=plan.models)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(f"strategy  {strategy}") for line in lines), lines
    assert any(line.split(" ")[0] in {"cases", "tasks", "files", "train"} for line in lines), lines
    assert lines[-1].startswith("nothing was "), lines
    assert not plan.calls()
    left = {name for name in tree(tmp_path) if "__pycache__" not in name}
    assert left == {*before}


def test_a_trial_over_numbers_of_a_task_counts_its_repeats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = task(tmp_path, "coordinate")
    request = OptimizeRequest(file=plan.file, flags={"repeats": 3}, dry_run=True)
    optimize_project(request, models=plan.models)
    assert "a trial   3 runs of the task" in capsys.readouterr().out


@pytest.mark.parametrize(("kind", "strategy"), REFUSED)
def test_every_other_pair_is_refused_with_what_to_do(
    kind: str, strategy: str, tmp_path: Path, burnish: Burnish
) -> None:
    file = WORLDS[kind](tmp_path, strategy).file
    before = tree(tmp_path)
    said = burnish("optimize", str(file), "--strategy", strategy, "-o", "run")
    refused(said)
    (message,) = said.err.splitlines()
    problem, _, remedy = message.partition(" — ")
    assert f"'{strategy}' needs " in problem or f"no algorithm '{strategy}'" in problem, message
    fitting = [name for each, name in PAIRS if each == kind]
    assert all(name in remedy for name in fitting or ["burnish eval"]), message
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        ("reflective", "a round of the search up to "),
        ("coordinate", "the run "),
        ("backprop", "a round of the search about "),
    ],
)
def test_the_start_of_a_run_says_what_its_search_may_cost(
    tmp_path: Path, strategy: str, words: str
) -> None:
    plan = prompts(tmp_path, strategy)
    setup = load_project(plan.file, plan.flags, models=plan.models).setup
    cost = strategy_plugin(strategy).search_cost(setup)
    assert cost.startswith(words)
    assert " calls" in cost
    assert f"{cost}; Ctrl-C stops" in opening_words(setup, search=cost)
    assert plan.calls() == []
