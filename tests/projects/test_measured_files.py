"""A file that says how it is searched can still be measured: no strategy has a part in that."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import ConfigError
from burnish.models.chat import ChatRequest
from burnish.models.factory import Models
from burnish.projects.dialects import (
    Dialect,
    Document,
    dialect_named,
    dialect_names,
    dialect_of,
)
from burnish.projects.grid_axes import GridAxes
from burnish.projects.grids import load_grid
from burnish.projects.measurements import (
    MeasureSettings,
    describe_measurement,
    load_measurement,
    measure,
    measurement_doors,
)
from burnish.runs.plugins import fitting, strategy_names, target_plugin
from burnish.testing.doubles import ScriptedBackend
from tests.projects.graph.graph_world import optimizer, write_world

_AGENT = {"model": {"provider": "openai", "name": "m"}, "instructions": {"inline": "Answer."}}
FILES: dict[str, dict[str, Any]] = {
    "agent": {
        **_AGENT,
        "evaluations": {"metrics": [{"type": "standard", "metric": "equality"}], "optimizer": {}},
    },
    "command": {"target": ["cat"]},
    "framework": {"target": "module:agent"},
    "graph": {"nodes": {"one": _AGENT}, "optimizer": {}},
    "http": {"target": "http://127.0.0.1:9/"},
    "prompts": {"target": {"python": "module:call"}, "prompts": {"p": "p.md"}},
    "python": {"target": "module:call"},
    "remote": {"target": "http://127.0.0.1:9/", "optimizer": {}},
}
"""For each kind of file that can be measured, what one must say."""


def reply(request: ChatRequest, draw: int) -> str:
    return "train0 kg"


def _dialects() -> Iterator[Dialect]:
    every = (dialect_named(kind) for kind in dialect_names())
    return (each for each in every if each.evaluates and not each.kind.startswith("toy"))


PAIRS = [
    (dialect.kind, strategy)
    for dialect in _dialects()
    for target in [target_plugin(dialect.target)]
    for strategy in fitting(target.surfaces, target.abilities)
]


def test_every_kind_is_here() -> None:
    assert FILES.keys() == {each.kind for each in _dialects()}


@pytest.mark.parametrize(("kind", "strategy"), PAIRS)
def test_a_file_that_names_its_strategy(kind: str, strategy: str, tmp_path: Path) -> None:
    data = json.loads(json.dumps({"kind": kind, "name": "a", **FILES[kind]}))
    *above, last = dialect_named(kind).strategy_at
    block = data
    for step in above:
        block = block[step]
    block[last] = strategy
    block[strategy] = {"repeats": 3}
    file = tmp_path / "file.yaml"
    file.write_text(json.dumps(data), encoding="utf-8")
    described = describe_measurement(file, {}, environ={}).spec.strategy
    assert described.name == "measure"
    assert isinstance(described.settings, MeasureSettings)
    assert described.settings.repeats == 1, "those of the strategy are for its searches"


@pytest.mark.parametrize("strategy", strategy_names())
@pytest.mark.parametrize("kind", FILES)
def test_a_strategy_in_the_environment(kind: str, strategy: str, tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(json.dumps({"kind": kind, "name": "a", **FILES[kind]}), encoding="utf-8")
    environ = {"BURNISH_STRATEGY": strategy}
    assert describe_measurement(file, {}, environ=environ).spec.strategy.name == "measure"


def _examples() -> Iterator[Path]:
    root = Path(__file__).parents[2] / "examples"
    every = (each for suffix in ("yaml", "json") for each in sorted(root.rglob(f"*.{suffix}")))
    return (each for each in every if "own_strategy" not in each.parts)  # it is not installed


def test_every_file_of_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MODEL", "BASE_URL", "API_KEY"):
        monkeypatch.setenv(f"EXAMPLE_{name}", "http://127.0.0.1:9/v1")
    measured = set[str]()
    for file in _examples():
        try:
            dialect = dialect_of(Document.read(file))
        except ConfigError:
            continue  # it describes no run
        if not dialect.evaluates:
            with pytest.raises(ConfigError, match="cannot be measured on their own"):
                describe_measurement(file, {}, environ={})
            continue
        described = describe_measurement(file, {}, environ=os.environ)
        assert described.spec.strategy.name == "measure", file
        measured.add(dialect.kind)
    assert {"agent", "framework", "graph", "prompts", "python"} <= measured


@pytest.mark.parametrize("strategy", fitting(target_plugin("graph").surfaces, ()))
def test_a_graph_with_a_strategy_is_measured_and_compared(strategy: str, tmp_path: Path) -> None:
    file = write_world(tmp_path, optimizer(strategy=strategy))
    models = Models(backends={"openai": ScriptedBackend(respond=reply)})
    done = measure(load_measurement(file, {}, environ={}, models=models))
    assert done.report is not None
    assert len(done.report.cases) == 3
    axes = GridAxes(settings={"shop/writer#instruction": ("Write.", "Write it.")})
    grid = load_grid(file, {}, axes, models=models, doors=measurement_doors(file))
    prepared = [each.measurement for each in grid.columns if each.measurement is not None]
    assert [each.setup.strategy.name for each in prepared] == ["measure", "measure"]
