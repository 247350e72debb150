"""An editor that is a program: what it did counts, and is held to the bounds of any edit."""

import json
from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import RoleFailed
from burnish.core.evaluations import Objective
from burnish.core.money import Spend
from burnish.journal.limits import Budget
from burnish.journal.once import DirectEffects
from burnish.runs.directory import RunRecord
from burnish.runs.setup import Setup
from burnish.strategies.edits.attempts import EditsSettings
from burnish.strategies.edits.editors import CommandEditor, Edit, EditRequest
from burnish.strategies.edits.strategy import Edits
from burnish.system.sandbox import Mode
from burnish.targets.artifacts.task import HeldOut, Task
from tests.strategies.edit_world import driven
from tests.targets.artifacts.task_folders import (
    FILE,
    PROBE,
    left_behind,
    opened,
    seen,
    task_in,
    write,
)

pytestmark = [pytest.mark.slow, pytest.mark.on_disk]
NEEDS_BWRAP = pytest.mark.skipif(not PROBE.works, reason=f"bubblewrap: {PROBE.reason}")
MODES = ["none", pytest.param("bwrap", marks=NEEDS_BWRAP)]


def request_for(task: Task) -> EditRequest:
    texts = {path: (task.folder / path).read_text() for path in opened(task).texts}
    return EditRequest(
        task="make it large",
        files="",
        feedback="score: 1",
        bounds="- at most 4 lines",
        turned_down="- a smaller number",
        texts=texts,
    )


async def edited(
    folder: Path, command: str, mode: Mode = "none", task: Task | None = None, **more: Any
) -> Edit:
    task = task or task_in(folder)
    before, lying = seen(folder), left_behind()
    target = opened(task, mode)
    editor = CommandEditor(command=command, target=target, **more)
    try:
        receipt = await editor.answer(request_for(task), draw=0, effects=DirectEffects())
    finally:
        await target.close()
        assert seen(folder) == before
        assert left_behind() <= lying
    assert receipt.spend == Spend(calls=1, unpriced=1)
    return receipt.value


@pytest.mark.parametrize("mode", MODES)
async def test_what_it_wrote_is_the_edit(tmp_path: Path, mode: Mode) -> None:
    edit = await edited(tmp_path, "echo 2 > value.txt; echo a larger one", mode)
    assert edit.rationale == "a larger one"
    assert edit.refused == []
    [file] = edit.files
    assert (file.path, file.content) == (FILE, "2\n")


async def test_it_reads_the_task_the_bounds_and_what_was_turned_down(tmp_path: Path) -> None:
    command = 'cat "$BURNISH_TASK_FILE"; echo "$BURNISH_FILES $BURNISH_MAX_FILES" '
    command += '"[$BURNISH_MAX_CHANGED_LINES]"'
    told = (await edited(tmp_path, command, max_files=1)).rationale
    for part in ("make it large", "score: 1", "at most 4 lines", "a smaller number", f"- {FILE}"):
        assert part in told
    assert f"{json.dumps([FILE])} 1 []" in told


async def test_it_sees_only_the_variables_that_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_KEY", "sk-agent")
    monkeypatch.setenv("OTHER_KEY", "sk-other")
    assert "sk-" not in (await edited(tmp_path, "env")).rationale
    told = (await edited(tmp_path, "env", env=("AGENT_KEY",))).rationale
    assert "sk-agent" in told
    assert "sk-other" not in told


async def test_it_finds_neither_held_out_files_nor_scratch(tmp_path: Path) -> None:
    write(tmp_path, {"held/out.txt": "the answer", "work/results.jsonl": "holdout 0.5"})
    task = task_in(tmp_path, holdout=HeldOut(files=("held/**",)), scratch=("work/**", "out.txt"))
    told = (await edited(tmp_path, "cat held/* work/*; true", task=task)).rationale
    assert told == "(it said nothing)"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("echo x >> score.py", "score.py"),
        ("echo x > notes.md", "notes.md"),
        ("echo x > value2.txt", "files cannot be added"),
        ("rm value.txt", "value.txt: the file is gone"),
        ("mv value.txt VALUE.txt", "the file is gone"),
        ("echo 2 > Value.txt", "Value.txt"),
        ("chmod 755 value.txt", "its mode is 755"),
        ("rm value.txt; ln -s score.py value.txt", "it became a link"),
        ("rm value.txt; ln -s /etc/passwd value.txt", "it became a link"),
        ("ln value.txt other.txt", "hard link"),
        ("rm value.txt; mkdir value.txt", "it became a folder"),
        ("printf 'a\\0b' > value.txt", "binary"),
        ("printf '\\377' > value.txt", "binary"),
        ("head -c 5000000 /dev/zero > value.txt", "5,000,000 bytes"),
        ("seq 2 30 > value.txt", "30 lines were changed"),
        ("echo 1 > value.txt; echo 1 > data/input.txt", "data/input.txt"),
        ('rm -rf "$PWD"', "removed the whole workspace"),
    ],
)
async def test_what_goes_beyond_the_bounds_is_refused(
    tmp_path: Path, command: str, reason: str
) -> None:
    task = task_in(tmp_path, include=("value*.txt",))
    edit = await edited(tmp_path, command, task=task, max_changed_lines=20)
    assert edit.files == []
    assert reason in "; ".join(edit.refused)


async def test_too_many_files_are_refused(tmp_path: Path) -> None:
    task = task_in(tmp_path, include=("value.txt", "data/*"))
    edit = await edited(tmp_path, "echo 2 | tee value.txt data/input.txt", task=task, max_files=1)
    assert "2 files were changed, 1 are allowed" in "; ".join(edit.refused)


async def test_files_of_other_types_are_refused(tmp_path: Path) -> None:
    task = task_in(tmp_path, include=("**",), allowed_file_types=(".txt",))
    edit = await edited(tmp_path, "echo x >> score.py", task=task)
    assert "files of this type" in "; ".join(edit.refused)


@pytest.mark.parametrize(
    ("command", "seconds", "reason"),
    [("sleep 60", 0.5, "ran for more than 0.5 s"), ("echo no key >&2; exit 3", 9, "no key")],
)
async def test_one_that_ends_badly(
    tmp_path: Path, command: str, seconds: float, reason: str
) -> None:
    with pytest.raises(RoleFailed, match=reason):
        await edited(tmp_path, command, timeout_seconds=seconds)


AGENT = """
case "$(cat "$BURNISH_TASK_FILE")" in
  *"score.py"*) echo 3 > value.txt; echo "the file only" ;;
  *"changes nothing"*) echo 9 >> score.py; echo "the scorer" ;;
  *) echo "nothing to do" ;;
esac
"""


async def test_reasons_of_refusal_reach_the_next_request(tmp_path: Path) -> None:
    write(tmp_path / "project", {"agent.sh": AGENT})
    target = opened(task_in(tmp_path / "project"))
    before = seen(tmp_path / "project")
    editor = CommandEditor(command="sh agent.sh", target=target)
    setup = Setup(
        target=target,
        metrics=(),
        objective=Objective(weights={}),
        dataset=target.dataset(),
        strategy=Edits(editor=editor, settings=EditsSettings(task="make it large")),
        budget=Budget(max_trials=3),
        resources=(target,),
    )
    ending = await driven(setup, tmp_path / "run")
    rows = RunRecord.read(tmp_path / "run").rows
    assert [row.trial.details.get("decision") for row in rows[1:]] == ["discard", "discard", "keep"]
    assert ending.best.values[FILE] == "3\n"
    assert seen(tmp_path / "project") == before
