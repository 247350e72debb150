"""Folders of finished runs, as awp-agents and burnish leave them."""

import json
from pathlib import Path
from typing import Any

RUN_ID = "2026-11-15_00-00-53_afde41fd"
DEFECT = {
    "category": "incomplete",
    "location": "report.md:Section 3",
    "description": "Section 3 gives no unit",
    "severity": "warning",
}
REJECTED = {
    "ts": "2026-11-15T00:00:54.308+00:00",
    "level": "WARNING",
    "category": "gate",
    "msg": "l0 REJECTED completion",
    "fields": {
        "gate": "l0",
        "triggered": True,
        "reason": "no_placeholder: found placeholder token 'TODO'",
        "iteration": 3,
    },
}
COUNTER = {
    "category": "gate",
    "fields": {"gate": "completion_rejection_counter", "triggered": False, "reason": "count=1/2"},
}


def put(path: Path, data: Any) -> Path:
    """A file of JSON, of text, or of lines of JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(data, bytes):
        path.write_bytes(data)
    elif isinstance(data, str):
        path.write_text(data, encoding="utf-8")
    elif path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in data), encoding="utf-8")
    else:
        path.write_text(json.dumps(data), encoding="utf-8")
    return path


def critiques(*defects: Any, score: float = 0.62) -> dict[str, Any]:
    """A critique.json."""
    return {"critiques": [{"worker_id": "writer", "score": score, "defects": list(defects)}]}


def awp_run(workspace: Path, *, run_id: str = RUN_ID) -> Path:
    """A run of awp-agents 1.0.x: the files and fields of the real system, no more."""
    run = workspace / "workspace" / "runs" / run_id
    budget = {
        "loops": {"used": 5, "max": 12},
        "workers": {"spawned": 2, "max": 8},
        "tokens": {"consumed": 45625, "max": 200001},
        "tool_calls": {"used": 2, "max": 41},
        "wall_time": {"elapsed_s": 1.4, "max_s": 120},
        "budget_remaining_pct": 58.3,
    }
    completion: dict[str, Any] = {
        "run_id": run_id,
        "status": "complete",
        "reason": "complete",
        "total_iterations": 5,
        "final_budget": budget,
        "completed": "2026-11-15T00:00:54.975681+00:00",
        "parent_run_id": None,
        "tags": [],
        "task": "Write a report.",
        "induced_tools": [],
    }
    put(run / "run_completion.json", completion)
    limits = {"max_loops": 12, "max_total_workers": 8, "max_depth": 2}
    models = {"manager": "openai/gpt-5-mini", "worker": "ollama/qwen:7b"}
    manifest = {"run_id": run_id, "task": "Write a report.", "models": models, "budget": limits}
    put(run / "run_manifest.json", manifest)
    put(run / "iterations" / "002" / "critique.json", critiques(DEFECT))
    gate = {"kind": "metric.gate", "iteration": 3, "gate": "l0", "verdict": "rejected"}
    rows = [
        {"kind": "metric.eval", "score": 0.975},
        {"kind": "metric.critique", "score": 0.62},
        gate,
        gate,
    ]
    put(run / "metrics.jsonl", rows)
    put(workspace / "logs" / run_id / "events.jsonl", [REJECTED, COUNTER])
    for place in (run_id, "FINAL"):
        put(workspace / "output" / place / "report.md", "# The report\n")
    put(workspace / "output" / run_id / "scratch.txt", "not delivered\n")
    return run


def run_id_of(folder: Path) -> str:
    """An id for a run in this folder; all iterations are called `run`."""
    return folder.name if folder.name != "run" else ".".join(folder.parts[-3:-1])


def plain_run(
    folder: Path,
    *,
    files: dict[str, str] | None = None,
    critique: float | None = 0.5,
    evaluation: float | None = 0.5,
    status: str = "complete",
    seconds: float = 600.0,
    defects: tuple[str, ...] = ("it has no unit",),
    **more: Any,
) -> Path:
    """A run in the fewest files that say all that the loss and the gradient are made of."""
    told = [{"description": each, "severity": "warning"} for each in defects]
    completion: dict[str, Any] = {
        "run_id": run_id_of(folder),
        "task": "Write a report.",
        "status": status,
        "final_budget": {"wall_time": {"elapsed_s": seconds, "max_s": 3600}},
        "critique": {"score": critique, "defects": told},
    }
    if evaluation is not None:
        completion["eval"] = {"score": evaluation}
    put(folder / "run_completion.json", {**completion, **more})
    for name, text in ({"report.md": "draft\n"} if files is None else files).items():
        put(folder / "FINAL" / name, text)
    return folder
