"""A whole run with a model in it: over a real socket with canary keys, and the embedded one."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from burnish.testing.servers import Answer, HttpRequest, ScriptedServer, Status
from tests.cli.console import Said, finish, forked
from tests.journal.journals import files_in
from tests.models.smollm2 import HERE, needs_smollm2

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("toy_plugin")]

CANARY = "canary-4f1e77-key"
PATIENCE = 600
WORLD = "kind: toy\nworld: {train: 4, holdout: 3, test: 2}\n"


async def burnish(folder: Path, *words: str, **environ: str) -> Said:
    """What a process of its own says, while this one answers it."""
    home = str(folder / "home")
    process = forked(*words, cwd=folder, **{"BURNISH_HOME": home, **environ})
    return await asyncio.to_thread(finish, process, seconds=PATIENCE)


def project(folder: Path, proposer: Mapping[str, object], **models: object) -> None:
    blocks = {"strategy": {"cycles": 1, "proposer": proposer}, "models": models}
    lines = [f"{name}: {json.dumps(block)}" for name, block in blocks.items()]
    (folder / "toy.yaml").write_text(WORLD + "\n".join(lines), encoding="utf-8")


class Gossip:
    """An endpoint that fails now and then and repeats the key wherever it can."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, asked: HttpRequest) -> Answer:
        self.asked += 1
        key = asked.headers["authorization"]
        if self.asked % 3 == 1:
            return Status(429, retry_after=0, message=f"slow down, {key}")
        if self.asked % 3 == 2:
            return json.dumps({"text": f"Answer {{shop}} politely. {key}", "why": f"said {key}"})
        return Status(400, message=f"no: https://user:{CANARY}@host/?api_key={CANARY}")


@pytest.mark.parametrize("where", ["environment", "dotenv"])
async def test_law_6_canary_keys_reach_no_file_and_no_output(tmp_path: Path, where: str) -> None:
    environ = {"TOY_KEY": CANARY} if where == "environment" else {}
    if where == "dotenv":
        (tmp_path / ".env").write_text(f"TOY_KEY='{CANARY}'\n", encoding="utf-8")
    gossip = Gossip()
    async with ScriptedServer(protocol="openai", answers=gossip) as server:
        model = {"ref": "openai:toy", "base_url": server.base_url, "api_key": "${TOY_KEY}"}
        price = {"input_per_million": 1, "output_per_million": 2}
        project(tmp_path, model, prices={"openai:toy": price})
        said = await burnish(tmp_path, "optimize", "toy.yaml", "--progress", "json", **environ)
        shown = await burnish(tmp_path, "runs", "list", "--json", **environ)
    assert said.code == 0, said.err
    assert gossip.asked >= 3
    assert CANARY not in said.out + said.err + shown.out
    leaked = [p for p in files_in(tmp_path) if CANARY.encode() in p.read_bytes()]
    assert leaked == ([tmp_path / ".env"] if where == "dotenv" else [])
    (trials,) = (p for p in files_in(tmp_path) if p.name == "trials.jsonl")
    assert "[redacted]" in trials.read_text(encoding="utf-8"), (
        "the endpoint's gossip was kept, without the key"
    )


async def test_a_model_that_cannot_be_asked_is_said_before_anything_is_made(
    tmp_path: Path,
) -> None:
    project(tmp_path, {"ref": "anthropic:claude-sonnet-4-6"})
    said = await burnish(tmp_path, "optimize", "toy.yaml", ANTHROPIC_API_KEY="")
    assert said.code == 1
    assert said.err.startswith("error: ")
    assert "ANTHROPIC_API_KEY" in said.err
    assert "Traceback" not in said.err
    assert [path.name for path in files_in(tmp_path)] == ["toy.yaml"]


async def test_what_is_no_key_is_refused_and_not_repeated(tmp_path: Path) -> None:
    project(tmp_path, {"ref": "openai:gpt-4o", "api_key": f"${CANARY}"})
    said = await burnish(tmp_path, "optimize", "toy.yaml")
    assert said.code == 1
    assert "neither a key nor the name of a variable" in said.err
    assert CANARY not in said.err


async def test_an_unknown_price_is_said_and_a_usd_limit_refused(tmp_path: Path) -> None:
    async with ScriptedServer(protocol="openai", answers=['{"text": "x", "why": "y"}']) as server:
        project(tmp_path, {"ref": "openai:toy", "base_url": server.base_url})
        plain = await burnish(tmp_path, "optimize", "toy.yaml", "--max-trials", "2")
        limited = await burnish(tmp_path, "optimize", "toy.yaml", "--max-usd", "1")
    assert plain.code == 0, plain.err
    assert "the price of openai:toy is unknown" in plain.out
    assert limited.code == 1
    assert "the price of a call is not known for: proposer" in limited.err


@pytest.mark.model
@needs_smollm2
async def test_the_embedded_model_proposes(tmp_path: Path) -> None:
    assert HERE is not None
    project(tmp_path, {"ref": f"local:{HERE}", "temperature": 0, "max_tokens": 16})
    # So small a model may never give a whole answer: a number is tried beside its words.
    words = ("optimize", "toy.yaml", "-o", "run", "--max-trials", "5")
    first = await burnish(tmp_path, *words)
    assert first.code == 0, first.err
    rows = (tmp_path / "run" / "trials.jsonl").read_text(encoding="utf-8").splitlines()
    proposals = [json.loads(row)["trial"]["proposals"] for row in rows]
    asked = [proposal for of_trial in proposals for proposal in of_trial]
    assert asked
    assert all(proposal["answer"] or proposal["error"] for proposal in asked)
