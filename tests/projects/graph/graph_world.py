"""A graph of two agents: a planner that must name the unit, and a writer who repeats the plan.

Each does what its instructions say, and the planner's say too little. The scripted backwarder
reads what it is shown: it blames the first step whose instructions lack the rule.
"""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from burnish.cli.optimization import OptimizeRequest, RunOpening, optimize_project
from burnish.journal.outages import RetryPolicy
from burnish.models.chat import ChatRequest, Prices
from burnish.models.factory import Models
from burnish.models.providers import Price
from burnish.projects import LoadedProject, load_project
from burnish.testing.doubles import ScriptedBackend
from tests.projects.optimizer_world import written_for

RULE = "NAME THE UNIT"
PLAN, WRITE = "Plan the answer to the question.", "Write what the plan says."
BETTER = f"{PLAN} {RULE}."

GRAPH: dict[str, Any] = {
    "kind": "graph",
    "name": "shop",
    "nodes": {
        "planner": {"agent": "agents/planner.yaml"},
        "writer": {
            "model": {"provider": "openai", "name": "m", "temperature": 0.5},
            "instructions": {"inline": WRITE},
        },
    },
    "edges": ["planner -> writer"],
    "train": "cases/train.json",
    "holdout": "cases/holdout.json",
    "metrics": [{"type": "standard", "metric": "equality"}],
    "optimizer": {"max_rounds": 2},
}
PLANNER: dict[str, Any] = {
    "name": "planner",
    "model": {"provider": "openai", "name": "m"},
    "instructions": {"file": "planner.md"},
}

Change = Callable[[dict[str, Any]], None]


def write_world(folder: Path, *changes: Change) -> Path:
    """The folder of the graph; changes are made to the data of its file first."""
    data = copy.deepcopy(GRAPH)
    for change in changes:
        change(data)
    for name in ("agents", "cases"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "agents" / "planner.yaml").write_text(json.dumps(PLANNER), encoding="utf-8")
    (folder / "agents" / "planner.md").write_text(f"{PLAN}\n", encoding="utf-8")
    for split in ("train", "holdout", "sealed"):
        rows = [
            {"name": f"{split}-{n}", "input": f"{split} {n}?", "ground_truth": f"{split}{n} kg"}
            for n in range(3)
        ]
        (folder / "cases" / f"{split}.json").write_text(json.dumps(rows), encoding="utf-8")
    path = folder / "graph.yaml"
    path.write_text(json.dumps(data, indent=1), encoding="utf-8")
    return path


def optimizer(**values: Any) -> Change:
    """A change of the optimizer block."""
    return lambda data: data["optimizer"].update(values)


def file(**values: Any) -> Change:
    """A change of the file."""
    return lambda data: data.update(values)


def respond(request: ChatRequest, draw: int) -> str:
    """The agents and the roles, each by what it is shown."""
    del draw
    told = "".join(m.content for m in request.messages if m.role == "system")
    said = "".join(m.content for m in request.messages if m.role != "system")
    roles: dict[str, Any] = {
        "aggregator": {"gradients": [{"gradient": "ask for the unit", "sources": [1, 2]}]},
        "patcher": {"value": f"{_shown(said)} {RULE}.", "reason": "it is not said"},
        "reflector": {"diagnosis": "no unit", "new_text": BETTER},
        "critic": written_for("critic"),
        "applier": {**written_for("applier"), "new_text": BETTER},
    }
    if request.schema_name == "backwarder":
        return json.dumps(_backward(said, request))
    if request.schema_name in roles:
        return json.dumps(roles[request.schema_name])
    return _agent(told, said)


def _agent(told: str, said: str) -> str:
    question = next(line for line in said.splitlines() if line.strip().endswith("?"))
    answer = question.strip().rstrip("?").replace(" ", "")
    if WRITE in told:
        return f"{answer} kg" if "kg" in said else answer
    return f"say {answer} kg" if RULE in told else f"say {answer}"


def _backward(said: str, request: ChatRequest) -> dict[str, Any]:
    """Blame the planner where it is shown; the writer passes on what it is told."""
    schema = json.dumps(request.schema)
    surfaces = [name for name in ("shop/planner#instruction", "instructions") if name in schema]
    wanted = {"severity": "P1", "gradient": "the unit is never asked for"}
    if surfaces and "shop/writer" not in said:
        return {"gradients": [{"surface": surfaces[0], **wanted}], "upstream": []}
    return {"gradients": [], "upstream": [{"predecessor": "planner:1", "gradients": [wanted]}]}


def _shown(said: str) -> str:
    return PLAN if PLAN in said else "Answer."


def models(backend: ScriptedBackend | None = None) -> Models:
    """The scripted model behind every provider."""
    made = backend or ScriptedBackend(respond=respond)
    price = Price(input_per_million=1.0, output_per_million=2.0)
    return Models(
        backends={"openai": made},
        prices=Prices(overrides={"openai:m": price}),
        retries=RetryPolicy(attempts=1),
    )


def prepared(path: Path, backend: ScriptedBackend | None = None, **flags: Any) -> LoadedProject:
    """The project, with scripted models."""
    return load_project(path, flags, environ={}, models=models(backend))


def optimize(path: Path, backend: ScriptedBackend | None = None, **more: Any) -> None:
    """`burnish optimize`, with scripted models; the run lies in `run` beside the file."""
    flags = more.pop("flags", {})
    way = more.pop("way", RunOpening(output_dir=path.parent / "run"))
    optimize_project(
        OptimizeRequest(file=path, way=way, flags=flags, progress="lines", **more),
        models=models(backend),
    )
