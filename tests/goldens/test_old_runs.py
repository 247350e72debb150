"""What burnish 0.1.0 left is read by this version: runs, their adoption, a store with a queue."""

from pathlib import Path

import pytest

from burnish.server.manager import ServiceLimits
from burnish.server.stores import RunStatus, open_store
from tests.cli.console import Burnish, tree
from tests.goldens.harness import Goldens, shown
from tests.goldens.old_runs import enter, unpack, unpack_service
from tests.server.world import manager_of, toy_app, until

pytestmark = pytest.mark.slow

PAIRS = ("agent-coordinate", "optimizer-json", "graph-backprop", "task-edits")
COMMANDS = {
    "list.txt": ("runs", "list"),
    "show.txt": ("runs", "show", "run"),
    "show-trial.txt": ("runs", "show", "run", "--trial", "1"),
    "show-part.txt": ("runs", "show", "part"),
    "report.md": ("runs", "report", "run"),
    "report-part.md": ("runs", "report", "part"),
    "compare.txt": ("runs", "compare", "run", "part"),
    "diff.txt": ("adopt", "run", "--diff"),
    "adopt.txt": ("adopt", "run", "--yes"),
    "adopt-again.txt": ("adopt", "run", "--yes"),
    "undo.txt": ("adopt", "run", "--undo"),
}


@pytest.mark.parametrize("name", PAIRS)
def test_old_runs(name: str, tmp_path: Path, burnish: Burnish, goldens: Goldens) -> None:
    unpack(name, tmp_path)
    for run in ("part", "run"):
        enter(tmp_path / run)
    before = _of_the_user(tmp_path)
    made = {file: shown(burnish(*command)) for file, command in COMMANDS.items()}
    assert _of_the_user(tmp_path) == before, "adopting was not undone"
    goldens.check(f"old/{name}", made)


def _of_the_user(folder: Path) -> dict[str, bytes]:
    files = tree(folder).items()
    return {name: data for name, data in files if not name.startswith(("run/", "part/"))}


def test_an_old_delegation(
    tmp_path: Path, burnish: Burnish, goldens: Goldens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "nobody-is-asked")
    unpack("delegation-refine", tmp_path)
    commands = {
        "show.txt": ("runs", "show", "seed"),
        "plan.txt": ("refine", "seed", "--dry-run"),
        "resume.txt": ("delegate", "--resume", "seed"),
    }
    made = {file: shown(burnish(*command)) for file, command in commands.items()}
    goldens.check("old/delegation-refine", made)


@pytest.mark.usefixtures("toy_plugin")
async def test_an_old_store_with_a_queue(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{unpack_service(tmp_path)}")
    runs = (await store.list_runs()).runs
    assert {run.run_id: run.status for run in runs} == {
        "waiting": RunStatus.QUEUED,
        "begun": RunStatus.QUEUED,
        "done": RunStatus.SUCCEEDED,
    }
    assert (await store.get("toy", "done")).result is not None
    limits = ServiceLimits(running=1, grace_seconds=5.0)
    async with manager_of(tmp_path, toy_app(tmp_path), store=store, limits=limits) as manager:
        waiting = await until(manager, "toy", "waiting", RunStatus.SUCCEEDED, RunStatus.FAILED)
        begun = await until(manager, "toy", "begun", RunStatus.SUCCEEDED, RunStatus.FAILED)
    assert waiting.status == RunStatus.SUCCEEDED, waiting.error
    assert begun.status == RunStatus.FAILED
    assert begun.error == "run begun was started with another burnish version"
