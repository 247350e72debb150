"""A small world for AgentOptimizer: an agent that obeys its prompt, and who rewrites it."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.compat import AgentOptimizer, OptimizeResult, TargetPrompt
from burnish.testing.servers import Answer, HttpRequest, ScriptedServer

RULE = "Begin with 'Answer:'."
BASELINE = "You add up the numbers that you are given.\n"
BETTER = f"{BASELINE}{RULE}\n"


def turn(asked: str, expected: str) -> dict[str, Any]:
    return {
        "user_content": {"role": "user", "parts": [{"text": asked}]},
        "final_response": {"role": "model", "parts": [{"text": expected}]},
    }


def write_set(path: Path, *turns: tuple[str, str]) -> None:
    cases = [
        {"eval_id": f"{path.stem[0]}{n}", "conversation": [turn(asked, expected)]}
        for n, (asked, expected) in enumerate(turns)
    ]
    whole = {"eval_set_id": path.stem.partition(".")[0], "eval_cases": cases}
    path.write_text(json.dumps(whole), encoding="utf-8")


def reflection(text: str = BETTER) -> str:
    return json.dumps({"diagnosis": "the answers lack a beginning", "new_text": text})


@dataclass(kw_only=True)
class World:
    """A folder with everything that `optimize` is given."""

    folder: Path
    server: ScriptedServer
    calls: list[str] = field(default_factory=list[str])
    agent: Callable[[str], Awaitable[str]] | None = None

    @property
    def prompt(self) -> Path:
        return self.folder / "system.md"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    async def call_agent(self, query: str) -> str:
        self.calls.append(query)
        total = sum(int(part) for part in query.split("+"))
        keeps = RULE in self.prompt.read_text(encoding="utf-8")
        return f"Answer: {total}" if keeps else str(total)

    def configure(self, *, evaluate: dict[str, Any] | None = None, **algorithm: Any) -> None:
        whole = {
            "evaluate": {
                "metrics": [{"metric_name": "final_response_avg_score"}],
                **(evaluate or {}),
            },
            "optimize": {
                "stop": {"required_metrics": algorithm.pop("required_metrics", "all")},
                "algorithm": {
                    "name": "gepa_reflective",
                    "reflection_lm": {
                        "model_name": "scripted",
                        "base_url": self.server.base_url,
                        "api_key": "${SCRIPTED_LOGIN}",
                    },
                    "reflection_minibatch_size": 2,
                    "max_candidate_proposals": 3,
                    **algorithm,
                },
            },
        }
        (self.folder / "optimizer.json").write_text(json.dumps(whole), encoding="utf-8")

    def target(self) -> TargetPrompt:
        return TargetPrompt().add_path("system", str(self.prompt))

    async def optimize(self, **changes: Any) -> OptimizeResult:
        given: dict[str, Any] = {
            "config_path": str(self.folder / "optimizer.json"),
            "call_agent": self.agent or self.call_agent,
            "target_prompt": self.target(),
            "train_dataset_path": str(self.folder / "train.evalset.json"),
            "validation_dataset_path": str(self.folder / "val.evalset.json"),
            "output_dir": str(self.out),
            "verbose": 0,
        }
        return await AgentOptimizer.optimize(**(given | changes))

    def told(self) -> dict[str, Any]:
        return json.loads((self.out / "result.json").read_text(encoding="utf-8"))


Answers = list[Answer] | Callable[[HttpRequest], Answer]


@asynccontextmanager
async def world(
    folder: Path, answers: Answers | None = None, *, refuses: Collection[str] = ()
) -> AsyncGenerator[World, None]:
    """The world with its reflection model behind a real socket.

    `refuses` are the types of `response_format` that it does not take.
    """
    script = [reflection()] if answers is None else answers
    async with ScriptedServer(protocol="openai", answers=script, refuses=refuses) as server:
        made = World(folder=folder, server=server)
        made.prompt.write_text(BASELINE, encoding="utf-8")
        sums = [(f"{n}+{n}", f"Answer: {2 * n}") for n in range(1, 7)]
        write_set(folder / "train.evalset.json", *sums[:3])
        write_set(folder / "val.evalset.json", *sums[3:])
        made.configure()
        yield made
