"""What a command loads: the modules of what its file names, and little else."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from burnish.models.embedded.files import KNOWN
from tests.example_copies import copy_example
from tests.models.gguf_files import gguf

MOST = 350
"""Modules of burnish that a dry run of an agent file may load."""
FOREIGN = (
    "burnish.compat",
    "burnish.delegation",
    "burnish.metrics.eval_factory",
    "burnish.metrics.graders",
    "burnish.models.wire",
    "burnish.projects.artifacts",
    "burnish.projects.graph",
    "burnish.projects.optimizer_config",
    "burnish.projects.prompts",
    "burnish.retrieval",
    "burnish.server",
    "burnish.strategies.backprop.strategy",
    "burnish.strategies.edits",
    "burnish.strategies.reflective.search",
    "burnish.targets.agent.office_documents",
    "burnish.targets.artifacts",
    "burnish.targets.callables",
    "burnish.targets.graph",
    "burnish.targets.prompts",
    "burnish.testing",
)
"""What an agent file that names nothing of it has no use for."""
LIBRARIES = (
    "agents",
    "crewai",
    "dspy",
    "gepa",
    "google.adk",
    "IPython",
    "langchain_core",
    "langgraph",
    "litellm",
    "mcp",
    "mlflow",
    "opentelemetry.sdk",
    "wandb",
)
"""Libraries of others that are loaded when something of them is used, and not before."""
DRY_RUN = """
import gc, sys
from burnish.cli import main
searches = []
gc.callbacks.append(lambda phase, _: phase == "start" and searches.append(phase))
try:
    main(["optimize", "agent.yaml", "--dry-run"])
except SystemExit as end:
    print(end.code, len(searches), *sys.modules)
"""
QUIET_SEARCH = """
import sys
from burnish.cli import main
from burnish.core.money import Spend
from burnish.models.chat import ModelClient

async def reach(client):
    return Spend(calls=1)

async def ask(client, request, *, draw, effects):
    print(*sys.modules, flush=True)
    sys.exit(0)

ModelClient.reach, ModelClient.ask = reach, ask
main(["optimize", "prompts.yaml", "--quiet", "-o", "run"])
"""
PROMPTS = """\
kind: prompts
target: {python: "agent:answer"}
prompts: {words: prompt.md}
train: train.jsonl
holdout: holdout.jsonl
metrics: [{type: geval, name: Brief, criteria: Short, evaluation_steps: [Read it.]}]
judge: openai:stand-in
reflector: openai:stand-in
confirm: false
"""
UNUSED_BY_PROMPTS = (
    "burnish.cluster",
    "burnish.delegation",
    "burnish.projects.called_agents",
    "burnish.reports.progress",
    "burnish.reports.terminal",
    "burnish.targets.frameworks",
    "rich.console",
)
"""What a quiet search of a prompts file has no use for before its first answer."""
EVERYTHING = """
import importlib, pkgutil, sys
wanted = []
class Notes:
    def find_spec(name, path=None, target=None):
        wanted.append(name)  # also of libraries that are not installed
sys.meta_path.insert(0, Notes)
import burnish
from burnish.targets.frameworks import adapter_for
from burnish.tracking import trackers
rooms = [room.name for room in pkgutil.iter_modules(burnish.__path__, "burnish.")]
for room in rooms:
    importlib.import_module(room)
assert adapter_for(print) is None
print(*wanted)
"""


@pytest.fixture(scope="module")
def dry_run(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """How often a dry run of examples/extract looked for garbage, and the modules it loaded."""
    pytest.importorskip("xllamacpp", reason="the example's model runs on this machine")
    home = tmp_path_factory.mktemp("home")
    (home / "models").mkdir()
    (home / "models" / KNOWN["smollm2"].name).write_bytes(gguf())
    done = subprocess.run(
        [sys.executable, "-c", DRY_RUN],
        cwd=copy_example("extract", tmp_path_factory.mktemp("example") / "extract"),
        env={**os.environ, "BURNISH_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    code, *found = done.stdout.splitlines()[-1].split()
    assert code == "0", done.stderr
    return found


@pytest.fixture(scope="module")
def modules(dry_run: list[str]) -> list[str]:
    return dry_run[1:]


def test_a_dry_run_looks_for_garbage_once_at_most(dry_run: list[str]) -> None:
    assert int(dry_run[0]) <= 1


def test_a_dry_run_loads_few_modules(modules: list[str]) -> None:
    own = _loaded(modules, ("burnish",))
    rooms = Counter(".".join(name.split(".")[1:3]) for name in own)
    assert len(own) <= MOST, rooms.most_common(30)


def test_a_dry_run_loads_nothing_that_its_file_does_not_name(modules: list[str]) -> None:
    assert _loaded(modules, (*FOREIGN, *LIBRARIES)) == []


def test_a_quiet_search_asks_its_first_model_before_it_loads_what_it_does_not_use(
    tmp_path: Path,
) -> None:
    (tmp_path / "agent.py").write_text("def answer(question): return question")
    (tmp_path / "prompt.md").write_text("Answer.")
    (tmp_path / "prompts.yaml").write_text(PROMPTS)
    for split in ("train", "holdout"):
        cases = (json.dumps({"input": f"{split} {n}?", "expected": "yes"}) for n in range(20))
        (tmp_path / f"{split}.jsonl").write_text("\n".join(cases))
    done = subprocess.run(
        [sys.executable, "-c", QUIET_SEARCH],
        cwd=tmp_path,
        env={**os.environ, "OPENAI_API_KEY": "k"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    names = done.stdout.splitlines()[0].split()
    assert "burnish.metrics.geval" in names
    assert _loaded(names, UNUSED_BY_PROMPTS) == []


def test_no_room_loads_a_library_before_it_is_used() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EVERYTHING], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert _loaded(done.stdout.split(), LIBRARIES) == []


def _loaded(modules: Sequence[str], packages: Sequence[str]) -> list[str]:
    return [name for name in modules if f"{name}.".startswith(tuple(f"{p}." for p in packages))]
