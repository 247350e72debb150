"""Whole runs of every pair in docs/choose.md: plan, console, run folder, report, result files."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.cli.console import Burnish, tree
from tests.goldens.harness import Goldens, Watching, listing, shown, texts
from tests.goldens.pairs import PAIRS
from tests.projects.prompts.prompt_world import KEY

pytestmark = pytest.mark.slow

_NOT_FROZEN = (
    *("*.db", "*.db-*", "*.lock", ".lock", "journal.count", "run.json", "*.pyc"),
    *("states/*", "states/blobs/*"),
)
_HASH = re.compile(r"^(?:[0-9a-f]{16}|[0-9a-f]{64})$")


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
    made["files.txt"] = listing(tmp_path, before)
    left = texts(tmp_path, below=tmp_path, without=_NOT_FROZEN)
    made |= {n: text for n, text in left.items() if n not in before and not _is_nested(n)}
    header = tmp_path / "run" / "run.json"
    if header.exists():
        made["run.json.txt"] = "".join(
            f"{line}\n" for line in _flat(json.loads(header.read_text()))
        )
        made["show.txt"] = shown(burnish("runs", "show", "run"))
        made["adopt.txt"] = shown(burnish("adopt", "run", "--diff"))
    goldens.check(f"runs/{name}", made)


def _is_nested(name: str) -> bool:
    """Whether it is of a delegation inside of another run: one by itself is frozen already."""
    return "run/delegations/" in name or re.search(r"/iter_\d+/run/", name) is not None


def _flat(value: Any, path: str = "") -> Iterator[str]:
    """`a.b: 1` for every value; a hash is only there or not."""
    if isinstance(value, dict) and value:
        for key, below in cast("dict[str, Any]", value).items():
            yield from _flat(below, f"{path}.{key}" if path else key)
    else:
        is_hash = isinstance(value, str) and _HASH.match(value)
        yield f"{path}: {'<HASH>' if is_hash else json.dumps(value, ensure_ascii=False)}"
