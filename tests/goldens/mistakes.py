"""Wrong configurations of every file kind: one mistake each, in a world that is right otherwise."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.cli.test_cli_optimize_prompts import FLAGS
from tests.delegation import delegation_world
from tests.delegation.delegation_world import REFINE_FLOW
from tests.delegation.training.suite_places import Place
from tests.projects import optimizer_world
from tests.projects.artifacts import task_world
from tests.projects.graph import graph_world
from tests.projects.prompts import prompt_world

Change = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """What is wrong: values of the file, a file's whole text, a missing file, or the flags."""

    changes: tuple[Change, ...] = ()
    flags: tuple[str, ...] = ()
    text: str | None = None
    without: str | None = None
    environ: Mapping[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A file kind: how its world is written, how its command is called, and its mistakes."""

    write: Callable[[Path, Sequence[Change]], Path]
    command: tuple[str, ...]
    """The file's name stands where it says FILE."""
    mistakes: Mapping[str, Mistake]

    def prepare(self, folder: Path, mistake: Mistake) -> list[str]:
        """Write the world with its mistake; the command line."""
        file = self.write(folder, mistake.changes)
        if mistake.text is not None:
            file.write_text(mistake.text, encoding="utf-8")
        if mistake.without is not None:
            (folder / mistake.without).unlink()
        words = [file.name if word == "FILE" else word for word in self.command]
        return [*words, *mistake.flags]


def put(path: str, value: Any) -> Mistake:
    """A value of the file; `a.0.b` goes through lists too."""
    return Mistake(changes=(_putting(path, value),))


def drop(path: str) -> Mistake:
    """A value of the file that is not there."""
    return Mistake(changes=(_dropping(path),))


def flags(*words: str) -> Mistake:
    """Flags that are wrong."""
    return Mistake(flags=words)


def text(whole: str) -> Mistake:
    """A file with this text."""
    return Mistake(text=whole)


def _putting(path: str, value: Any) -> Change:
    def change(data: dict[str, Any]) -> None:
        *way, last = path.split(".")
        _below(data, way)[last] = value

    return change


def _dropping(path: str) -> Change:
    def change(data: dict[str, Any]) -> None:
        *way, last = path.split(".")
        del _below(data, way)[last]

    return change


def _below(data: Any, way: Sequence[str]) -> Any:
    for step in way:
        data = data[int(step)] if step.isdigit() else data.setdefault(step, {})
    return data


# -- worlds ----------------------------------------------------------------------------------


def _dumped(path: Path, data: dict[str, Any], changes: Sequence[Change]) -> Path:
    for change in changes:
        change(data)
    path.write_text(json.dumps(data, indent=1), encoding="utf-8")
    return path


def _parsed(path: Path) -> dict[str, Any]:
    yaml: Any = YAML(typ="safe")
    return yaml.load(path.read_text(encoding="utf-8"))


def _prompts(folder: Path, changes: Sequence[Change]) -> Path:
    prompt_world.write_world(folder)
    data: dict[str, Any] = {
        "kind": "prompts",
        "target": {"python": "numbers_agent:call_agent"},
        "prompts": {"system": "prompts/system.md"},
        "train": "train.evalset.json",
        "holdout": "val.evalset.json",
        "metrics": [{"type": "standard", "metric": "equality"}],
        "strategy": "reflective",
        "reflector": "openai:m",
        "budget": {"max_trials": 2},
    }
    return _dumped(folder / "prompts.yaml", data, changes)


def _suite(folder: Path, changes: Sequence[Change]) -> Path:
    place = Place(folder=folder)
    place.write("heat", "rain", holdout=("snow", "wind"))
    return _dumped(place.suite, _parsed(place.suite), changes)


def _workflow(folder: Path, changes: Sequence[Change]) -> Path:
    path = folder / "workflow.yaml"
    path.write_text(REFINE_FLOW, encoding="utf-8")
    return _dumped(path, _parsed(path), changes)


# -- mistakes --------------------------------------------------------------------------------

_ANY_FLAGS: Mapping[str, Mistake] = {
    "no such flag": flags("--max-trails", "3"),
    "flag out of range": flags("--max-trials", "0"),
    "flag of a wrong type": flags("--max-usd", "much"),
    "flags that exclude each other": flags("--print-baseline"),
}
_BROKEN: Mapping[str, Mistake] = {
    "not valid": text('{"kind": \n'),
    "empty": text(""),
}
_OPTIMIZER = "evaluations.optimizer"
_NOBODY = "http://127.0.0.1:9/v1"
"""Where nobody listens: a mistake that is let through asks no model."""

AGENT = Kind(
    write=lambda folder, changes: optimizer_world.write_world(folder, *changes),
    command=("optimize", "FILE", "--dry-run"),
    mistakes={
        "unknown key": put("colour", "red"),
        "misspelled key": put(f"{_OPTIMIZER}.repeets", 2),
        "misspelled top key": put("instruction", {"inline": "x"}),
        "wrong type": put(f"{_OPTIMIZER}.repeats", "many"),
        "out of range": put(f"{_OPTIMIZER}.repeats", 0),
        "huge number": put(f"{_OPTIMIZER}.budget.global.max_trials", 10**30),
        "missing required": drop("instructions"),
        "no optimizer block": drop(_OPTIMIZER),
        "no loss": drop(f"{_OPTIMIZER}.loss"),
        "missing case file": Mistake(without="train.yaml"),
        "missing instructions file": Mistake(without="system.md"),
        "unknown strategy": put(f"{_OPTIMIZER}.strategy", "climbing"),
        "unknown strategy by flag": flags("--strategy", "climbing"),
        "strategy of another kind": flags("--strategy", "edits"),
        "unknown metric": put("evaluations.metrics.0.metric", "equalty"),
        "loss of an unknown metric": put(f"{_OPTIMIZER}.loss", {"beauty": 1.0}),
        "unknown provider": put("model.provider", "opnai"),
        "unknown provider by flag": flags("--critic", "opnai:m"),
        "model without a provider": flags("--critic", "m"),
        "base_url for endpoint": put("model.base_url", "http://127.0.0.1:9"),
        "unknown axis": put(f"{_OPTIMIZER}.axes.numeric.0.path", "model.warmth"),
        "range upside down": put(f"{_OPTIMIZER}.axes.numeric.0.range", [1.0, 0.0]),
        "flag of another kind": flags("--editor", "openai:m"),
        "flags of other kinds": flags("--epochs", "2", "--learning-rate", "0.5", "--in-place"),
        "no key": Mistake(environ={}),
        "bad variable": Mistake(environ={"BURNISH_MAX_TRIALS": "ten"}),
        **_ANY_FLAGS,
        **_BROKEN,
    },
)
OPTIMIZER_JSON = Kind(
    write=lambda folder, changes: prompt_world.write_world(folder, *changes),
    command=("optimize", "FILE", *FLAGS, "--dry-run"),
    mistakes={
        "unknown key": put("colour", "red"),
        "misspelled key": put("optimize.algorithm.max_metric_cals", 3),
        "wrong type": put("optimize.algorithm.max_metric_calls", "many"),
        "out of range": put("optimize.eval_case_parallelism", 0),
        "huge number": put("optimize.algorithm.max_metric_calls", 10**30),
        "missing required": drop("optimize"),
        "no metrics": drop("evaluate"),
        "no reflector": drop("optimize.algorithm.reflection_lm"),
        "missing case file": Mistake(without="train.evalset.json"),
        "missing prompt": Mistake(without="prompts/system.md"),
        "missing agent": Mistake(without="numbers_agent.py"),
        "unknown strategy": put("optimize.algorithm.name", "gepa_refective"),
        "unknown metric": put("evaluate.metrics.0.metric_name", "final_respons"),
        "unknown provider": put("optimize.algorithm.reflection_lm.provider_name", "opnai"),
        "unset variable": put("optimize.algorithm.reflection_lm.api_key", "${NOT_SET_ANYWHERE}"),
        "no such function": flags("--agent", "numbers_agent:call"),
        "flag of another kind": flags("--editor", "openai:m"),
        "flag of another strategy": flags("--max-cycles", "2"),
        "two files for a prompt": flags("--prompt", "system=x.md", "--prompt", "y"),
        **_ANY_FLAGS,
        **_BROKEN,
    },
)
PROMPTS = Kind(
    write=_prompts,
    command=("optimize", "FILE", "--dry-run"),
    mistakes={
        "unknown key": put("colour", "red"),
        "misspelled key": put("reflektor", "openai:m"),
        "wrong type": put("repeats", "many"),
        "out of range": put("repeats", 0),
        "huge number": put("budget.max_trials", 10**30),
        "missing target": drop("target"),
        "missing prompts": drop("prompts"),
        "missing metrics": drop("metrics"),
        "missing reflector": drop("reflector"),
        "missing holdout": drop("holdout"),
        "missing case file": Mistake(without="train.evalset.json"),
        "missing prompt file": Mistake(without="prompts/system.md"),
        "unknown strategy": put("strategy", "reflektive"),
        "strategy of another kind": put("strategy", "edits"),
        "settings of another strategy": put("coordinate", {"max_cycles": 1}),
        "unknown setting of the strategy": put("reflective", {"minibach": 2}),
        "unknown metric": put("metrics.0.metric", "equalty"),
        "unknown provider": put("reflector", "opnai:m"),
        "unknown kind": put("kind", "promts"),
        "flag of another kind": flags("--editor", "openai:m"),
        **_ANY_FLAGS,
        **_BROKEN,
    },
)
GRAPH = Kind(
    write=lambda folder, changes: graph_world.write_world(folder, *changes),
    command=("optimize", "FILE", "--dry-run"),
    mistakes={
        "unknown key": put("colour", "red"),
        "misspelled key": put("optimizer.max_round", 2),
        "wrong type": put("optimizer.max_rounds", "many"),
        "out of range": put("optimizer.max_rounds", 0),
        "missing nodes": drop("nodes"),
        "missing metrics": drop("metrics"),
        "missing holdout": drop("holdout"),
        "missing case file": Mistake(without="cases/train.json"),
        "missing agent file": Mistake(without="agents/planner.yaml"),
        "unknown node in an edge": put("edges", ["planner -> printer"]),
        "a circle": put("edges", ["planner -> writer", "writer -> planner"]),
        "unknown strategy": put("optimizer.strategy", "backprob"),
        "strategy of another kind": put("optimizer.strategy", "edits"),
        "unknown metric": put("metrics.0.metric", "equalty"),
        "unknown target": put("optimizer.targets", ["printer#instruction"]),
        "unknown provider": put("nodes.writer.model.provider", "opnai"),
        "flag of another kind": flags("--epochs", "2"),
        "missing request": flags("--request", "request.json"),
        **_ANY_FLAGS,
        **_BROKEN,
    },
)
TASK = Kind(
    write=lambda folder, changes: task_world.write_task(folder, *changes),
    command=("optimize", "FILE", "--dry-run"),
    mistakes={
        "unknown key": put("colour", "red"),
        "misspelled key": put("mutation.max_changed_line", 2),
        "wrong type": put("budget.max_iterations", "many"),
        "out of range": put("budget.max_iterations", 0),
        "missing scorer": drop("scorer"),
        "missing artifacts": drop("artifacts"),
        "missing editor": drop("mutation.editor"),
        "no such artifact": put("artifacts.include", ["absent.md"]),
        "missing artifact": Mistake(without="notes.md"),
        "unknown strategy": put("strategy", "edit"),
        "strategy of another kind": flags("--strategy", "backprop"),
        "coordinate without axes": flags("--strategy", "coordinate"),
        "unknown operator": put("constraints.0.op", "=~"),
        "unknown sandbox": put("sandbox", "maybe"),
        "unknown provider": put("mutation.editor", "opnai:m"),
        "flag of another kind": flags("--reflector", "openai:m"),
        "flags of other kinds": flags("--epochs", "2", "--update-source"),
        **_ANY_FLAGS,
        **_BROKEN,
    },
)
SUITE = Kind(
    write=_suite,
    command=("optimize", "FILE", "--dry-run"),
    mistakes={
        "unknown key": put("colour", "red"),
        "misspelled key": put("tasks.0.modell", "openai:x"),
        "wrong type": put("tasks.0.budget", "much"),
        "out of range": put("tasks.0.budget", {"max_loops": 0}),
        "no tasks": put("tasks", []),
        "two of a name": put("tasks.1.name", "heat"),
        "missing task": drop("tasks.0.task"),
        "missing workflow": Mistake(without="workflow.yaml"),
        "unknown text": put("baseline_artifacts", {"worker_pitfals": 0}),
        "unknown weight": put("tasks.0.weights", {"beauty": 1}),
        "unknown strategy": flags("--strategy", "epoch"),
        "strategy of another kind": flags("--strategy", "backprop"),
        "unknown provider": put("tasks.0.model", "opnai:x"),
        "flag of another kind": flags("--editor", "openai:m"),
        "flag of another strategy": flags("--strategy", "reflective", "--epochs", "2"),
        "epochs out of range": flags("--epochs", "0"),
        "no such experiment": flags("--target", "exp_unknown1"),
        "no key": Mistake(environ={}),
        **_ANY_FLAGS,
        **_BROKEN,
    },
)
WORKFLOW = Kind(
    write=_workflow,
    command=("delegate", "FILE", "--task", delegation_world.task("heat"), "--dry-run"),
    mistakes={
        "unknown key": put("workflow.nme", "x"),
        "misspelled key": put("orchestration.delegation_loop.budget.max_lops", 3),
        "wrong type": put("orchestration.delegation_loop.budget.max_loops", "many"),
        "out of range": put("orchestration.delegation_loop.budget.max_loops", 0),
        "missing models": drop("orchestration.delegation_loop.models"),
        "missing name": drop("workflow.name"),
        "unknown engine": put("orchestration.engine", "magic"),
        "unknown metric": put("observability.evaluation.metrics.0.kind", "wishes"),
        "metric without its file": drop("observability.evaluation.metrics.0.params"),
        "thresholds upside down": put("observability.evaluation.thresholds.fail", 0.95),
        "deliverable outside": put("deliverables", ["../out.md"]),
        "unknown sandbox": put("sandbox", "maybe"),
        "unknown provider": put("orchestration.delegation_loop.models.worker", "opnai:x"),
        "two tasks": flags("--task-file", "task.md"),
        "missing input": flags("--input", "absent.csv"),
        "no such flag": flags("--max-trials", "3"),
        "flag out of range": flags("--max-loops", "0"),
        "primary without target": flags("--primary", "001-x"),
        "no key": Mistake(environ={}),
        **_BROKEN,
    },
)
EVAL = Kind(
    write=lambda folder, changes: optimizer_world.write_world(
        folder, _putting("model.endpoint", _NOBODY), *changes
    ),
    command=("eval", "FILE", "--cases", "train.yaml"),
    mistakes={
        "unknown key": put("colour", "red"),
        "misspelled key": put("instruction", {"inline": "x"}),
        "wrong type": put("model.temperature", "warm"),
        "out of range": put("model.temperature", 9),
        "missing required": drop("instructions"),
        "missing metrics": drop("evaluations.metrics"),
        "missing case file": Mistake(without="train.yaml"),
        "missing instructions file": Mistake(without="system.md"),
        "unknown metric": put("evaluations.metrics.0.metric", "equalty"),
        "unknown metric by flag": flags("--metric", "no_such"),
        "unknown provider": put("model.provider", "opnai"),
        "unknown judge": flags("--metric", "relevance"),
        "flag of optimize": flags("--strategy", "coordinate"),
        "repeats out of range": flags("--repeats", "0"),
        "repeats of a wrong type": flags("--repeats", "many"),
        "flags that exclude each other": flags("--aa", "2", "--repeats", "2"),
        "missing baseline": flags("--baseline", "nobody"),
        "no key": Mistake(changes=(_dropping("model.endpoint"),), environ={}),
        **_BROKEN,
    },
)

KINDS: Mapping[str, Kind] = {
    "agent": AGENT,
    "optimizer-json": OPTIMIZER_JSON,
    "prompts": PROMPTS,
    "graph": GRAPH,
    "task": TASK,
    "suite": SUITE,
    "workflow": WORKFLOW,
    "eval": EVAL,
}
"""By the name of their goldens."""
