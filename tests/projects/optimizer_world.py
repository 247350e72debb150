"""An agent whose answers depend on its instructions, its temperature and its demonstrations.

Of every case the name says what it takes: `rule` a word in the instructions, `cold` a low
temperature, `shown` a demonstration.
"""

import copy
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from burnish.journal.outages import RetryPolicy
from burnish.models.chat import ChatReply, ChatRequest, Prices
from burnish.models.factory import Models
from burnish.models.providers import Price
from burnish.models.references import ModelRef
from burnish.testing.doubles import ScriptedBackend

RULE = "PLAINLY"
KINDS = ("rule", "cold", "shown")
COLD = 0.6

AGENT: dict[str, Any] = {
    "name": "echo",
    "model": {"provider": "openai", "name": "m", "temperature": 0.9, "top_p": 0.9},
    "instructions": {"file": "system.md"},
    "tools": [
        {
            "name": "archive",
            "type": "hierarchical_document",
            "description": "Search the notes",
            "source": "notes.md",
            "search_mode": "keyword",
            "enable_reranking": True,
        },
        {
            "name": "mixed",
            "type": "hierarchical_document",
            "description": "Search both ways",
            "source": "notes.md",
        },
        {
            "name": "near",
            "type": "vectorstore",
            "description": "Search by meaning",
            "source": "notes.md",
        },
    ],
    "evaluations": {
        "metrics": [{"type": "standard", "metric": "equality"}],
        "optimizer": {
            "loss": {"equality": 1.0},
            "train_cases_file": "train.yaml",
            "holdout_cases_file": "holdout.yaml",
            "min_holdout_cases": 3,
            "repeats": 2,
            "axes": {
                "numeric": [{"path": "model.temperature", "range": [0.0, 1.0]}],
                "textual": [{"path": "instructions.inline", "max_chars": 400}],
                "demonstrations": {"max_demos": 2},
            },
            "budget": {
                "global": {"max_cycles": 2},
                "numeric_phase": {"max_trials": 4, "patience": 3},
                "textual_phase": {"max_trials": 2, "patience": 2},
                "demonstration_phase": {"max_trials": 1, "patience": 1},
            },
        },
    },
}

Change = Callable[[dict[str, Any]], None]


def write_world(folder: Path, *changes: Change, tools: bool = False) -> Path:
    """The agent's folder; changes are made to the data of its file first."""
    data = copy.deepcopy(AGENT)
    if not tools:
        del data["tools"]
    for change in changes:
        change(data)
    (folder / "system.md").write_text("Answer {question}.\n", encoding="utf-8")
    (folder / "notes.md").write_text("# Notes\nNothing.\n", encoding="utf-8")
    write_cases(folder / "train.yaml", "learned", 2)
    write_cases(folder / "holdout.yaml", "held", 1)
    write_cases(folder / "sealed.yaml", "sealed", 1)
    path = folder / "agent.yaml"
    path.write_text(json.dumps(data, indent=1), encoding="utf-8")
    return path


def write_cases(path: Path, word: str, each: int, *, start: int = 0) -> None:
    """Some cases of every kind."""
    rows = [
        {"name": f"{word}-{kind}-{n}", "input": f"{kind} {word} {n}?", "ground_truth": f"{word}{n}"}
        for kind in KINDS
        for n in range(start, start + each)
    ]
    path.write_text(json.dumps(rows), encoding="utf-8")


def optimizer(data: dict[str, Any]) -> dict[str, Any]:
    """The optimizer block of the file's data."""
    return data["evaluations"]["optimizer"]


class EchoBackend(ScriptedBackend):
    """The agent, and the critic and the applier who know what is wrong with its instructions."""

    async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
        """An answer that also depends on the temperature."""
        self.asked.append(request)
        if request.schema_name in ("critic", "applier"):
            return ChatReply(text=json.dumps(written_for(request.schema_name)), model=ref.name)
        told = "".join(m.content for m in request.messages if m.role == "system")
        talk = [m.content for m in request.messages if m.role != "system"]
        return ChatReply(text=said_to(told, talk, ref.settings.temperature or 0), model=ref.name)


def echo() -> EchoBackend:
    """A backend that nobody has asked yet."""
    return EchoBackend(respond=lambda _, __: "")


def echo_models(backend: EchoBackend, *, priced: bool = True) -> Models:
    """The scripted agent behind every provider."""
    price = Price(input_per_million=1.0, output_per_million=2.0)
    return Models(
        backends=dict.fromkeys(("openai", "anthropic", "local"), backend),
        prices=Prices(overrides={"openai:m": price} if priced else {}),
        retries=RetryPolicy(attempts=1),
    )


def said_to(told: str, talk: Sequence[str], temperature: float) -> str:
    """What the agent says with these instructions, after what was said before."""
    kind, word, number = talk[-1].rstrip("?").split()
    able = {"rule": RULE in told, "cold": temperature <= COLD, "shown": len(talk) > 1}[kind]
    return f"{word}{number}" if able else "no idea"


def written_for(role: str) -> dict[str, Any]:
    """What the critic and the applier always say."""
    if role == "critic":
        return {
            "failing_pattern": "it says it has no idea",
            "root_cause_hypothesis": "nobody told it how to answer",
            "suggested_change_direction": "say how",
            "confidence": 0.9,
            "citations": [],
        }
    return {
        "edit_type": "insert",
        "rationale": "it has to know how",
        "new_text": f"Answer {{question}} {RULE}.\n",
        "diff_summary": "one word more",
    }
