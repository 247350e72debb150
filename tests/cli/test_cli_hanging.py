"""Agents that hang, as processes: the time limit, the stop file and the first signal end them."""

import json
import re
import signal
import subprocess
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from burnish.testing.servers import ScriptedServer
from tests.cli.console import START, Burnish, finish, forked, tree
from tests.cli.served_echo import hosted
from tests.projects.prompts.prompt_world import KEY, set_algorithm, set_optimize, write_world

pytestmark = pytest.mark.slow

PATIENCE = 600
AGENT = '''
"""Agents that never answer. Each says that it is at it."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def at_it():
    with Path("inside").open("a") as file:
        file.write("x")


async def waits(query: str) -> str:
    at_it()
    await asyncio.Event().wait()


async def blocks(query: str) -> str:
    at_it()
    time.sleep(3600)


async def spins(query: str) -> str:
    at_it()
    while True:
        pass


async def waits_for_a_thread(query: str) -> str:
    at_it()
    await asyncio.to_thread(time.sleep, 3600)


async def waits_in_a_thread_of_its_own(query: str) -> str:
    threading.Thread(target=time.sleep, args=(3600,)).start()
    at_it()
    await asyncio.Event().wait()


POOL = ThreadPoolExecutor(4)


async def waits_for_a_pool_of_its_own(query: str) -> str:
    at_it()
    await asyncio.get_running_loop().run_in_executor(POOL, time.sleep, 3600)


async def does_not_leave(query: str) -> str:
    at_it()
    while True:
        try:
            await asyncio.sleep(3600)
        except BaseException:
            pass


def sleeps(query: str) -> str:
    at_it()
    time.sleep(3600)
'''
CASES = """\
{"input": "Which one?", "expected": "this"}
{"input": "And then?", "expected": "that"}
"""
EVAL = """\
kind: python
target: hanging:{agent}
cases: cases.jsonl
metrics: [{{type: standard, metric: equality}}]
time_limit: {limit}
"""
PROMPTS = """\
kind: prompts
target: {{python: hanging:{agent}}}
prompts: {{system: prompts/system.md}}
train: train.evalset.json
holdout: val.evalset.json
metrics: [{{type: standard, metric: equality}}]
reflector: {{ref: "openai:gpt-4o-mini", base_url: "{url}"}}
time_limit: {limit}
"""
DRIVEN = """
import asyncio, sys
from burnish import Case, Dataset, Objective, Setup
from burnish.projects import launch_in
from burnish.strategies.measure import Measure
from burnish.targets.callables import CallableTarget
from burnish.testing.doubles import ExpectedText
import hanging

setup = Setup(
    target=CallableTarget(agent=getattr(hanging, sys.argv[1])),
    metrics=(ExpectedText(),),
    objective=Objective(weights={"expected_text": 1.0}),
    dataset=Dataset(train=(Case.single("Which one?", "this"),)),
    strategy=Measure(),
    grace_seconds=0.5,
)
from pathlib import Path
ending = launch_in(setup, Path("run"))
print(ending.reason.code, ending.interrupted)
"""
OPTIMIZED = """
import asyncio, sys
from burnish import AgentOptimizer, TargetPrompt
import hanging

result = asyncio.run(
    AgentOptimizer.optimize(
        config_path="optimizer.json",
        call_agent=getattr(hanging, sys.argv[1]),
        target_prompt=TargetPrompt().add_path("system", "prompts/system.md"),
        train_dataset_path="train.evalset.json",
        validation_dataset_path="val.evalset.json",
        output_dir="run",
        verbose=0,
    )
)
print(result.status, result.stop_reason)
"""


@pytest.fixture(scope="module")
def endpoint() -> Generator[str, None, None]:
    """Models that can be reached, and that nobody comes to ask."""
    with hosted(ScriptedServer()) as url:
        yield url


@pytest.fixture
def world(tmp_path: Path, endpoint: str) -> Path:
    """Prompts, cases and agents that hang."""
    model = {"model_name": "m", "api_key": "${P2B_TEST_API_KEY}", "base_url": endpoint}
    write_world(tmp_path, set_optimize(time_limit=1), set_algorithm(reflection_lm=model))
    (tmp_path / "endpoint").write_text(endpoint, encoding="utf-8")
    (tmp_path / "hanging.py").write_text(AGENT, encoding="utf-8")
    (tmp_path / "cases.jsonl").write_text(CASES, encoding="utf-8")
    return tmp_path


def project(world: Path, text: str, agent: str, limit: float = 1) -> str:
    path = world / "project.yaml"
    url = (world / "endpoint").read_text(encoding="utf-8")
    path.write_text(text.format(agent=agent, limit=limit, url=url), encoding="utf-8")
    return path.name


def inside(world: Path, *args: str, start: str = START) -> "subprocess.Popen[str]":
    """A process whose agent is in its hanging call."""
    env = {"P2B_TEST_API_KEY": KEY, "OPENAI_API_KEY": KEY, "PYTHONPATH": str(world)}
    process = forked(*args, cwd=world, start=start, **env)
    latest = time.monotonic() + PATIENCE
    while not (world / "inside").exists():
        assert process.poll() is None, finish(process)
        assert time.monotonic() < latest, process.kill()
        time.sleep(0.02)
    return process


@pytest.mark.parametrize(
    "agent",
    [
        "blocks",
        "spins",
        "waits_for_a_thread",
        "waits_in_a_thread_of_its_own",
        "waits_for_a_pool_of_its_own",
        "does_not_leave",
        "sleeps",
    ],
)
def test_past_its_time_limit_an_agent_has_failed_and_the_program_ends(
    world: Path, agent: str
) -> None:
    file = project(world, EVAL, agent)
    said = finish(inside(world, "eval", file, "-q", "--json", "report.json"), seconds=PATIENCE)
    assert said.code == 1, said
    report = json.loads((world / "report.json").read_text(encoding="utf-8"))
    assert "the agent ran past the case's time limit of 1 s" in json.dumps(report)
    assert "2 cases in which the agent itself failed" in said.out
    assert "Traceback" not in said.err


@pytest.mark.parametrize("agent", ["waits", "blocks", "sleeps"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_ends_a_run_whose_agent_hangs(
    world: Path, agent: str, number: signal.Signals
) -> None:
    process = inside(world, agent, start=DRIVEN)
    process.send_signal(number)
    said = finish(process, seconds=PATIENCE)
    assert (said.code, said.out) == (0, "signal True\n"), said


@pytest.mark.parametrize(
    "agent", ["waits", "blocks", "waits_for_a_thread", "waits_in_a_thread_of_its_own"]
)
def test_the_first_signal_ends_a_search_over_prompts(world: Path, agent: str) -> None:
    file, before = project(world, PROMPTS, agent), tree(world / "prompts")
    process = inside(world, "optimize", file, "-o", "run")
    process.send_signal(signal.SIGTERM)
    said = finish(process, seconds=PATIENCE)
    assert said.code == 2, said
    _, stopped, told = said.out.partition("stopped  signal")
    assert stopped
    assert len(re.findall(r"\d calls?\b", told)) == 1, "not what was used beside what was paid"
    assert "burnish runs resume run" in told
    assert tree(world / "prompts") == before
    assert (world / "run" / "report.md").exists()
    assert not (world / "run" / "report.html").exists(), "nobody waits for it"


def test_the_first_signal_ends_a_search_by_an_optimizer_json(world: Path) -> None:
    before = tree(world / "prompts")
    flags = ("--agent", "hanging:blocks", "--prompt", "system=prompts/system.md")
    cases = ("--train", "train.evalset.json", "--val", "val.evalset.json")
    process = inside(world, "optimize", "optimizer.json", *flags, *cases, "-o", "run")
    process.send_signal(signal.SIGINT)
    said = finish(process, seconds=PATIENCE)
    assert said.code == 2, said
    assert "stopped  signal" in said.out
    assert tree(world / "prompts") == before


def test_the_first_signal_ends_an_agent_optimizer(world: Path) -> None:
    before = tree(world / "prompts")
    process = inside(world, "blocks", start=OPTIMIZED)
    process.send_signal(signal.SIGINT)
    said = finish(process, seconds=PATIENCE)
    assert (said.code, said.out) == (0, "CANCELED user_requested_stop\n"), said
    assert tree(world / "prompts") == before


def test_the_stop_file_ends_a_search_whose_agent_hangs(world: Path) -> None:
    process = inside(world, "optimize", project(world, PROMPTS, "waits"), "-o", "run")
    (world / "run" / "optimize.stop").touch()
    said = finish(process, seconds=PATIENCE)
    assert said.code == 0, said
    assert "stopped  stop_file" in said.out
    assert not (world / "run" / "optimize.stop").exists()


def test_the_second_signal_ends_an_agent_that_blocks_at_once(world: Path) -> None:
    process = inside(world, "optimize", project(world, PROMPTS, "blocks", 3600), "-o", "run")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    said = finish(process, seconds=PATIENCE)
    assert said.code == 2, said
    assert "stopped at once" in said.err
    assert "burnish runs resume run" in said.err


def test_a_dry_run_says_how_long_a_call_may_take(
    world: Path, burnish: Burnish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    limited = project(world, PROMPTS, "waits", 7)
    plan = burnish("optimize", limited, "--dry-run").out
    assert "time_limit 7 s per case" in plan
    assert "answers   openai:gpt-4o-mini: the first request finds their form" in plan
    usual = world / "usual.yaml"
    text = (world / limited).read_text(encoding="utf-8").replace("time_limit: 7\n", "")
    usual.write_text(text, encoding="utf-8")
    said = burnish("optimize", usual.name, "--dry-run")
    assert "time_limit 300 s per call" in said.out, said
