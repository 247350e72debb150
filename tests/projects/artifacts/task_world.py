"""A small task: a list of words that a scorer counts, and an editor that adds one."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from burnish.cli.optimization import OptimizeRequest, RunOpening, optimize_project
from burnish.journal.outages import RetryPolicy
from burnish.models.chat import ChatRequest
from burnish.models.factory import Models
from burnish.projects import LoadedProject, load_project
from burnish.testing.doubles import ScriptedBackend

TEXT = "one\n"
SCORER = """
import json
from pathlib import Path

words = Path("notes.md").read_text(encoding="utf-8").split()
if "boom" in words:
    raise SystemExit("it blew up")
metrics = {"length": len(words), "doubled": len(words) != len(set(words))}
print(json.dumps({"score": min(1.0, len(set(words)) / 4), "metrics": metrics}))
"""
TASK: dict[str, Any] = {
    "id": "words",
    "description": "notes.md is a list of different words.",
    "artifacts": {"include": ["notes.md"], "exclude": ["work/**"]},
    "mutation": {"editor": "openai:m", "max_changed_lines": 6},
    "scorer": {"type": "command", "command": "python3 score.py"},
    "constraints": [{"metric": "doubled", "op": "==", "value": False}],
    "policy": {"tie_breakers": [{"lower": "length"}]},
    "budget": {"max_iterations": 3},
    "sandbox": "none",
}

Change = Callable[[dict[str, Any]], None]


def write_task(folder: Path, *changes: Change) -> Path:
    """The folder of the task; its task file, changed first."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "notes.md").write_text(TEXT, encoding="utf-8")
    (folder / "score.py").write_text(SCORER, encoding="utf-8")
    data = copy.deepcopy(TASK)
    for change in changes:
        change(data)
    path = folder / "task.json"
    path.write_text(json.dumps(data, indent=1), encoding="utf-8")
    return path


def put(block: str, **values: Any) -> Change:
    """A change of one block."""
    return lambda data: data.setdefault(block, {}).update(values)


def top(**values: Any) -> Change:
    """A change of the file itself."""
    return lambda data: data.update(values)


def adding(*words: str) -> ScriptedBackend:
    """An editor that writes these words into the file, one edit after the other."""
    said = list(words)

    def respond(request: ChatRequest, draw: int) -> str:
        del request, draw
        content = said.pop(0) if len(said) > 1 else said[0]
        files = [{"path": "notes.md", "content": content}]
        return json.dumps({"rationale": f"say {content.split()[-1]}", "files": files})

    return ScriptedBackend(respond=respond)


def prepared(file: Path, backend: ScriptedBackend | None = None, **flags: Any) -> LoadedProject:
    """The task ready to run, with a scripted editor."""
    models = scripted(backend or adding("one\ntwo\n"))
    return load_project(file, flags, environ={}, models=models)


def optimize(backend: ScriptedBackend, file: Path | None, **values: Any) -> None:
    """`burnish optimize … -o run` with a scripted editor."""
    more = {k: v for k, v in values.items() if k in OptimizeRequest.__dataclass_fields__}
    flags = {k: v for k, v in values.items() if k not in more}
    more.setdefault("way", RunOpening(output_dir=Path("run")))
    more.setdefault("quiet", True)
    request = OptimizeRequest(file=file, flags=flags, **more)
    optimize_project(request, models=scripted(backend))


def scripted(backend: ScriptedBackend) -> Models:
    """Models of which only a scripted one answers."""
    return Models(backends={"openai": backend}, retries=RetryPolicy(attempts=1))


def results(folder: Path) -> list[dict[str, Any]]:
    """The rows of results.jsonl."""
    text = (folder / "work" / "results.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]
