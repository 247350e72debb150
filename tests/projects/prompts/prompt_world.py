"""An agent that answers when its prompt tells it how, and a reflector that finds the words."""

import copy
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from burnish.cli.optimization import OptimizeRequest, RunOpening, optimize_project
from burnish.journal.outages import RetryPolicy
from burnish.models.chat import ChatRequest
from burnish.models.factory import Models
from burnish.testing.doubles import ScriptedBackend
from tests.projects.optimizer_world import written_for

RULE = "PLAINLY"
PROMPT = "You are a careful assistant for numbers.\n"
BETTER = f"You are a careful assistant for numbers. Answer {RULE}.\n"
KEY = "sk-a-very-secret-key-0123456789"

AGENT = f'''
"""The agent of a test."""

from pathlib import Path

PROMPTS = Path(__file__).parent / "prompts"


async def call_agent(query: str) -> str:
    told = (PROMPTS / "system.md").read_text(encoding="utf-8")
    return query.split()[-1] if "{RULE}" in told else "no idea"
'''

OPTIMIZER: dict[str, Any] = {
    "evaluate": {"metrics": [{"metric_name": "final_response_avg_score", "threshold": 1.0}]},
    "optimize": {
        "eval_case_parallelism": 2,
        "algorithm": {
            "name": "gepa_reflective",
            "reflection_lm": {"model_name": "m", "api_key": "${P2B_TEST_API_KEY}"},
            "max_metric_calls": 30,
            "max_candidate_proposals": 4,
        },
    },
}

Change = Callable[[dict[str, Any]], None]


def write_world(folder: Path, *changes: Change) -> Path:
    """The agent, its prompt, its cases and an optimizer.json, changed first; its path."""
    (folder / "prompts").mkdir()
    (folder / "prompts" / "system.md").write_text(PROMPT, encoding="utf-8")
    (folder / "numbers_agent.py").write_text(AGENT, encoding="utf-8")
    write_cases(folder / "train.evalset.json", "learned", 4)
    write_cases(folder / "val.evalset.json", "held", 3)
    write_cases(folder / "sealed.evalset.json", "sealed", 2)
    return write_config(folder, *changes)


def write_config(folder: Path, *changes: Change) -> Path:
    """An optimizer.json."""
    data = copy.deepcopy(OPTIMIZER)
    for change in changes:
        change(data)
    path = folder / "optimizer.json"
    path.write_text(json.dumps(data, indent=1), encoding="utf-8")
    return path


def write_cases(path: Path, word: str, many: int) -> None:
    """An EvalSet of one-turn cases."""
    cases = [
        {
            "eval_id": f"{word}_{number}",
            "conversation": [
                {
                    "user_content": {"role": "user", "parts": [{"text": f"say {word}{number}"}]},
                    "final_response": {"role": "model", "parts": [{"text": f"{word}{number}"}]},
                }
            ],
        }
        for number in range(many)
    ]
    path.write_text(json.dumps({"eval_set_id": word, "eval_cases": cases}), encoding="utf-8")


def algorithm(data: dict[str, Any]) -> dict[str, Any]:
    """The algorithm block of a config's data."""
    return data["optimize"]["algorithm"]


def set_algorithm(**values: Any) -> Change:
    """A change of the algorithm block."""
    return lambda data: algorithm(data).update(values)


def set_optimize(**values: Any) -> Change:
    """A change of the optimize section."""
    return lambda data: data["optimize"].update(values)


def set_evaluate(**values: Any) -> Change:
    """A change of the evaluate section."""
    return lambda data: data["evaluate"].update(values)


def flags(folder: Path, **more: Any) -> dict[str, Any]:
    """What `--agent … --prompt … --train … --val …` say of the world."""
    return {
        "agent": "numbers_agent:call_agent",
        "prompt": {"system": str(folder / "prompts" / "system.md")},
        "train": str(folder / "train.evalset.json"),
        "holdout": str(folder / "val.evalset.json"),
        **more,
    }


def reflector(*texts: str) -> ScriptedBackend:
    """A model that proposes these texts, one after the other, the last again and again."""
    said: list[str] = list(texts or (BETTER,))

    def respond(request: ChatRequest, draw: int) -> str:
        del draw
        if request.schema_name in ("critic", "applier"):
            told = written_for(request.schema_name)
            return json.dumps({**told, "new_text": BETTER} if "new_text" in told else told)
        text = said.pop(0) if len(said) > 1 else said[0]
        return json.dumps({"diagnosis": "nobody told it how", "new_text": text})

    return ScriptedBackend(respond=respond)


def models(backend: ScriptedBackend) -> Models:
    """The scripted model behind every provider."""
    backends = {"openai": backend, "anthropic": backend}
    return Models(backends={**backends}, retries=RetryPolicy(attempts=1))


def optimize(backend: ScriptedBackend, **values: Any) -> None:
    """`burnish optimize … -o run` with scripted models."""
    more = {k: v for k, v in values.items() if k in OptimizeRequest.__dataclass_fields__}
    flags = {k: v for k, v in values.items() if k not in more}
    more.setdefault("way", RunOpening(output_dir=Path("run")))
    more.setdefault("quiet", True)
    optimize_project(OptimizeRequest(flags=flags, **more), models=models(backend))


def contents(folder: Path) -> Sequence[bytes]:
    """What every file below a folder holds."""
    return [path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()]
