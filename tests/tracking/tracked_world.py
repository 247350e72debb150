"""A search with real model calls, scripted, for tests of trackers."""

import json
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from burnish.models.chat import ChatRequest
from burnish.models.errors import ModelRejected
from burnish.models.factory import Models
from burnish.projects.launch import LoadedProject, load_project
from burnish.testing.doubles import ScriptedBackend

AGENT = """\
name: clerk
model: {provider: openai, name: gpt-small}
instructions: {inline: Answer the visitors of the museum.}
evaluations:
  metrics: [{type: standard, metric: equality}]
  optimizer:
    loss: {equality: 1.0}
    axes: {textual: [{path: instructions}]}
test_cases:
  - {input: "Is it open?", ground_truth: "yes"}
"""
SECRET = "sk-proj-4Hf93kdkLmQ2xZ8vTtY7"  # looks like a key, and is none
BETTER = "Answer the visitors of the museum, and always confirm."


def respond(request: ChatRequest, draw: int) -> str:
    """The agent confirms once its instructions say so; the reflector finds that out."""
    del draw
    if request.schema is not None:
        diagnosis = f"It never confirms, not even with {SECRET}."
        return json.dumps({"diagnosis": diagnosis, "new_text": BETTER})
    return "yes" if "always confirm" in request.messages[0].content else "no idea"


def project(folder: Path, *, refusing: str = "", **flags: JsonValue) -> LoadedProject:
    """The search over the agent's instructions; it finds the better text in its first trial.

    The model rejects requests with the text `refusing`.
    """

    def answer(request: ChatRequest, draw: int) -> str:
        if refusing and request.messages[-1].content == refusing:
            raise ModelRejected(f"{refusing} is against the rules")
        return respond(request, draw)

    path = folder / "agent.yaml"
    path.write_text(AGENT, encoding="utf-8")
    for name in ("train", "holdout", "test"):
        rows = "\n".join(f'- {{input: "{name} {n}?", ground_truth: "yes"}}' for n in range(6))
        (folder / f"{name}.yaml").write_text(rows, encoding="utf-8")
    settings: dict[str, Any] = {
        "strategy": "reflective",
        "reflector": "openai:writer",
        **{name: str(folder / f"{name}.yaml") for name in ("train", "holdout", "test")},
        "max_trials": 1,
        **flags,
    }
    models = Models(backends={"openai": ScriptedBackend(respond=answer)})
    return load_project(path, settings, environ={}, models=models)
