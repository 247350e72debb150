"""Whole runs of every pair in docs/choose.md: plan, console, run folder, report, result files."""

import re
from pathlib import Path

import pytest

from tests.cli.console import Burnish, tree
from tests.goldens.harness import HOME, REPOSITORY, Goldens, Watching, left_behind, shown
from tests.goldens.pairs import PAIRS
from tests.projects.prompts.prompt_world import KEY

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", PAIRS)
def test_a_whole_run(
    name: str,
    tmp_path: Path,
    goldens: Goldens,
    watching: Watching,
    burnish: Burnish,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("P2B_TEST_API_KEY", KEY)
    pair = PAIRS[name](tmp_path)
    before = tree(tmp_path)
    made = {"dry-run.txt": shown(watching(pair.plan)), "console.txt": shown(watching(pair.run))}
    made |= left_behind(tmp_path, before)
    if pair.later:
        made["show.txt"] = shown(burnish("runs", "show", "run"))
        made["adopt.txt"] = shown(burnish("adopt", "run", "--diff"))
    made |= {f"{what}.txt": shown(watching(act)) for what, act in pair.later.items()}
    goldens.check(f"runs/{name}", made)


KINDS = {
    "agent file": "agent",
    "prompts of any agent": "prompts",
    "graph of agents": "graph",
    "files of a task": "task",
    "policy texts": "suite",
    "one delegation": "delegation",
}


def test_every_pair_of_the_docs_is_frozen() -> None:
    page = (REPOSITORY / "docs" / "choose.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z ]+) \| (`[^|]+`) \| `tests/", page, re.MULTILINE)
    # These have tests of their own, over a real socket and with the framework.
    apart = {"toy world", "agent in another process", "agent of a framework"}
    ours = [(kind, names) for kind, names in rows if kind not in apart]
    named = {f"{KINDS[kind]}-{name}" for kind, names in ours for name in re.findall(r"\w+", names)}
    assert named - {*PAIRS} == set()
    assert {folder.name for folder in (HOME / "runs").iterdir()} == {*PAIRS}
