"""Whole runs of every pair in docs/choose.md: plan, console, run folder, report, result files."""

from pathlib import Path

import pytest

from tests.cli.console import Burnish, tree
from tests.goldens.harness import Goldens, Watching, left_behind, shown
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
    if pair.is_run:
        made["show.txt"] = shown(burnish("runs", "show", "run"))
        made["adopt.txt"] = shown(burnish("adopt", "run", "--diff"))
    goldens.check(f"runs/{name}", made)
