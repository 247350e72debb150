"""How long it takes to start, and what a run takes whose models answer at once."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figures import Figure

BURNISH = str(Path(sys.executable).with_name("burnish"))
CALLS = 300

_ENDPOINT = """
import asyncio, json, sys
from burnish.testing.servers import ScriptedServer

def answer(asked):
    schema = asked.json["response_format"]["json_schema"]["schema"]
    text = f"Answer in {len(server.requests)} words."
    score = len(server.requests) * 7 % 11
    return json.dumps({name: score if name == "score" else text for name in schema["properties"]})

server = ScriptedServer(answers=answer)

async def main():
    async with server:
        print(server.base_url, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""

_RUN = """
import gc, json, re, resource, sys, time
from pathlib import Path
gc.set_threshold(200_000)  # as `main` does, before it loads what is loaded here for the watch
from burnish.cli import main
from burnish.models.wire import WireBackend

plain, first = WireBackend.complete, []

async def complete(self, ref, request, *, draw):
    reply = await plain(self, ref, request, draw=draw)
    first.append(time.process_time()) if not first else None
    return reply

WireBackend.complete = complete
try:
    main(["optimize", "prompts.yaml", "--quiet", "-o", sys.argv[1]])
except SystemExit:
    usage, status = resource.getrusage(resource.RUSAGE_SELF), Path("/proc/self/status")
    # Linux counts as ru_maxrss what the process had that started this one, too.
    peak = int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1]) if status.is_file() else 0
    peak = peak or usage.ru_maxrss
    print(json.dumps([first[0], usage.ru_utime + usage.ru_stime, peak / 1024]))
"""

_AGENT = """
from pathlib import Path

def call_agent(question):
    return Path("prompt.md").read_text() + question
"""

_PROJECT = f"""\
kind: prompts
target: {{python: "agent:call_agent"}}
prompts: {{words: prompt.md}}
train: train.jsonl
holdout: holdout.jsonl
metrics:
  - {{type: geval, name: Brief, criteria: Short, evaluation_steps: [Read it.], threshold: 0.6}}
judge: {{ref: "openai:stand-in", base_url: "${{ENDPOINT}}"}}
reflector: {{ref: "openai:stand-in", base_url: "${{ENDPOINT}}"}}
budget: {{max_calls: {CALLS}, patience: {CALLS}}}
confirm: false
"""


def figures() -> list[Figure]:
    """Everything this file measures."""
    bare = _best([sys.executable, "-c", "pass"])
    return [
        Figure(what="import burnish (beyond bare Python)",
               value=max(0.0, _best([sys.executable, "-c", "import burnish"]) - bare),
               unit="s", goal=0.1),
        Figure(what="burnish --version", value=_best([BURNISH, "--version"]), unit="s", goal=0.1),
        Figure(what="burnish --help", value=_best([BURNISH, "--help"]), unit="s", goal=0.25),
        *_run_figures(),
    ]  # fmt: skip


def _run_figures() -> list[Figure]:
    """A reflective search with a judge, up to its limit of calls."""
    with _endpoint() as base_url:
        runs = [_run(base_url) for _ in range(3)]
    first, whole, memory = map(min, zip(*runs, strict=True))
    what = f"a search of {CALLS} calls"
    return [
        Figure(what=f"{what}: CPU to its first answer", value=first, unit="s", goal=1.0),
        Figure(what=f"{what}: CPU", value=whole, unit="s"),
        Figure(what=f"{what}: peak memory", value=memory, unit="MB", goal=90),
    ]


@contextmanager
def _endpoint() -> Generator[str]:
    """A model that answers at once, in a process of its own; its address."""
    with subprocess.Popen(
        [sys.executable, "-c", _ENDPOINT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


def _run(base_url: str) -> tuple[float, float, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "agent.py").write_text(_AGENT)
        (folder / "prompt.md").write_text("Answer.")
        (folder / "prompts.yaml").write_text(_PROJECT)
        for split in ("train", "holdout"):
            cases = [{"input": f"{split} {number}?", "expected": "yes"} for number in range(20)]
            (folder / f"{split}.jsonl").write_text("\n".join(map(json.dumps, cases)))
        done = subprocess.run(
            [sys.executable, "-c", _RUN, str(folder / "run")],
            check=True,
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, "ENDPOINT": base_url},
        )
    first, whole, memory = json.loads(done.stdout.splitlines()[-1])
    return first, whole, memory


def _best(command: list[str]) -> float:
    """The best of several: the others measured whatever else the machine was doing."""
    times: list[float] = []
    for _ in range(7):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return min(times)
