"""Coding agents as editors: what their recipes give them, and what is no part of an edit."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import RoleFailed
from burnish.core.evaluations import Objective
from burnish.journal.limits import Budget
from burnish.journal.once import DirectEffects
from burnish.runs.directory import RunRecord
from burnish.runs.setup import Setup
from burnish.strategies.edits.attempts import EditsSettings
from burnish.strategies.edits.editors import RECIPES, CommandEditor, Edit, EditorHome, EditRequest
from burnish.strategies.edits.strategy import Edits
from burnish.system.sandbox import Mode, probe_landlock
from burnish.system.workspaces import copy_workspace
from burnish.targets.artifacts.task import Task
from tests.strategies.coding_agents import AGENTS, KEYS, install
from tests.strategies.edit_world import driven
from tests.targets.artifacts.task_folders import FILE, PROBE, opened, task_in

pytestmark = [pytest.mark.slow, pytest.mark.on_disk]
NEEDS_BWRAP = pytest.mark.skipif(not PROBE.works, reason=f"bubblewrap: {PROBE.reason}")
NEEDS_LANDLOCK = pytest.mark.skipif(not probe_landlock().works, reason="no Landlock")
MODES = [
    "none",
    pytest.param("bwrap", marks=NEEDS_BWRAP),
    pytest.param("landlock", marks=NEEDS_LANDLOCK),
]
ISOLATED = MODES[1:]


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """The agents on the PATH, keys for all, temporary files elsewhere than in /tmp."""
    bin_folder = install(tmp_path)
    monkeypatch.setenv("PATH", f"{bin_folder}{os.pathsep}{os.environ['PATH']}")
    for name in KEYS.values():
        monkeypatch.setenv(name, f"key-of-{name}")
    monkeypatch.setenv("BURNISH_HOME", str(tmp_path / "state"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    yield
    assert not list((tmp_path / "temporary").iterdir())


def project(folder: Path, **more: Any) -> Task:
    """A task in a repository, with installed packages."""
    task = task_in(folder, copy_git=True, **more)
    (folder / "node_modules/left-pad").mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    subprocess.run(["git", "add", FILE], cwd=folder, check=True)
    # The index is older than its file, so that `git status` refreshes it.
    os.utime(folder / FILE, (1, 1))
    return task


async def edits(task: Task, name: str, mode: Mode, count: int = 1, **more: Any) -> list[Edit]:
    target = opened(task, mode)
    editor = CommandEditor(command=name, target=target, recipe=RECIPES[name], network=True, **more)
    request = EditRequest(
        task="make it large",
        files="",
        feedback="",
        bounds="",
        turned_down="",
        texts=dict(target.texts),
    )
    try:
        answers = [
            await editor.answer(request, draw=draw, effects=DirectEffects())
            for draw in range(count)
        ]
    finally:
        await target.close()
    return [each.value for each in answers]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", AGENTS)
async def test_each_edits_and_its_own_files_are_no_part_of_it(
    tmp_path: Path, name: str, mode: Mode
) -> None:
    [edit] = await edits(project(tmp_path / "project"), name, mode)
    assert edit.refused == []
    assert [(file.path, file.content) for file in edit.files] == [(FILE, "2\n")]


@pytest.mark.parametrize("mode", ISOLATED)
async def test_installed_packages_can_be_read(tmp_path: Path, mode: Mode) -> None:
    [edit] = await edits(project(tmp_path / "project"), "claude", mode)
    assert "packages ['left-pad']" in edit.rationale


async def test_their_own_sandbox_is_used_where_there_is_no_other(tmp_path: Path) -> None:
    [edit] = await edits(project(tmp_path / "project"), "codex", "none")
    assert edit.rationale.endswith("workspace-write")


@NEEDS_BWRAP
async def test_sandboxes_do_not_nest(tmp_path: Path) -> None:
    [edit] = await edits(project(tmp_path / "project"), "codex", "bwrap")
    assert edit.rationale.endswith("danger-full-access")


@pytest.mark.parametrize("name", AGENTS)
async def test_without_its_key_it_says_so(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in {*KEYS.values()}:
        monkeypatch.delenv(key)
    with pytest.raises(RoleFailed, match="the editing command failed"):
        await edits(project(tmp_path / "project"), name, "none")


@pytest.mark.parametrize("mode", MODES)
async def test_home_lasts_from_edit_to_edit_and_can_be_seeded(tmp_path: Path, mode: Mode) -> None:
    seed = tmp_path / "seed"
    seed.mkdir()
    (seed / "login").write_text("me")
    home = EditorHome(seed)
    home.open(tmp_path / "run")
    first, second = await edits(project(tmp_path / "project"), "claude", mode, 2, home=home)
    assert first.rationale.startswith("edit 1;")
    assert second.rationale.startswith("edit 2;")
    assert "login me" in second.rationale
    assert [each.name for each in seed.iterdir()] == ["login"]
    assert home.folder is not None
    assert home.folder.stat().st_mode & 0o777 == 0o700
    again = EditorHome(seed)
    again.open(tmp_path / "run")
    assert (home.folder / "edits").read_text() == "2"
    again.remove()
    assert not list((tmp_path / "state/homes").iterdir())


async def test_a_whole_run_keeps_one_home_and_removes_it(tmp_path: Path) -> None:
    target = opened(project(tmp_path / "project"), "auto")
    editor = CommandEditor(
        command="claude", target=target, recipe=RECIPES["claude"], home=EditorHome()
    )
    settings = EditsSettings(recipe="claude")
    assert settings.mode == "command"
    ending = await driven(
        Setup(
            target=target,
            metrics=(),
            objective=Objective(weights={}),
            dataset=target.dataset(),
            strategy=Edits(editor=editor, settings=settings),
            budget=Budget(max_trials=2),
            resources=(target,),
        ),
        tmp_path / "run",
    )
    assert ending is not None
    rows = RunRecord.read(tmp_path / "run").rows
    said = [str(row.trial.details.get("rationale")) for row in rows[1:]]
    assert [each.split(";")[0] for each in said] == ["edit 1", "edit 2"]
    assert not list((tmp_path / "state/homes").iterdir())


def _let_it_add_a_file(name: str) -> None:
    program = shutil.which(name)
    assert program is not None
    adding = "\n(here / 'extra').mkdir()\n(here / 'extra/note.md').write_text('new\\n')\n"
    Path(program).write_text(Path(program).read_text() + adding)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", AGENTS)
async def test_each_adds_a_file_where_the_task_allows_it(
    tmp_path: Path, name: str, mode: Mode
) -> None:
    _let_it_add_a_file(name)
    [edit] = await edits(project(tmp_path / "project", new_files=("extra/*.md",)), name, mode)
    assert edit.refused == []
    assert {file.path: file.content for file in edit.files} == {
        "extra/note.md": "new\n",
        FILE: "2\n",
    }


async def test_a_new_file_is_refused_for_being_new(tmp_path: Path) -> None:
    task = task_in(tmp_path / "project", include=("*.txt",))
    target = opened(task)
    editor = CommandEditor(command="echo text > other.txt", target=target)
    request = EditRequest(
        task="", files="", feedback="", bounds="", turned_down="", texts=dict(target.texts)
    )
    receipt = await editor.answer(request, draw=0, effects=DirectEffects())
    await target.close()
    assert receipt.value.refused == ["other.txt: files cannot be added"]


def test_packages_are_not_copied(tmp_path: Path) -> None:
    project(tmp_path / "project")
    copy = copy_workspace(tmp_path / "project", tmp_path / "copy")
    assert not (copy.folder / "node_modules").exists()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"recipe": "claude", "command": "x"}, "a recipe has its own command"),
        ({"mode": "command"}, "needs a command or a recipe"),
        ({"mode": "command", "command": "x", "arguments": "y"}, "write them into the command"),
        ({"mode": "direct_edit", "recipe": "claude"}, "recipe can only be set with mode: command"),
    ],
)
def test_settings_that_contradict_each_other(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        EditsSettings.model_validate(fields)
