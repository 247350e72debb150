"""Editors that add files: a program in its copy, a model in its answer, and what is refused."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from burnish.core.errors import Problem
from burnish.journal.once import DirectEffects
from burnish.strategies.edits.editors import (
    CommandEditor,
    Edit,
    EditRequest,
    Replacement,
    WholeFile,
    carried_out,
)
from burnish.system.sandbox import Mode
from burnish.targets.artifacts.task import Task
from tests.targets.artifacts.task_folders import FILE, PROBE, opened, task_in

NEEDS_BWRAP = pytest.mark.skipif(not PROBE.works, reason=f"bubblewrap: {PROBE.reason}")
MODES = ["none", pytest.param("bwrap", marks=NEEDS_BWRAP)]
NOTE = "extra/note.md"


async def edit_by(
    task: Task,
    command: str,
    *,
    mode: Mode = "none",
    added: Mapping[str, str] | None = None,
) -> Edit:
    """What a program did to the files of a task, and to those that were added before."""
    target = opened(task, mode)
    editor = CommandEditor(
        command=command,
        target=target,
        max_files=2,
        max_changed_lines=20,
    )
    texts = {**target.texts, **(added or {})}
    request = EditRequest(
        task="more", files="", feedback="", bounds="", turned_down="", texts=texts
    )
    try:
        receipt = await editor.answer(request, draw=0, effects=DirectEffects())
    finally:
        await target.close()
    return receipt.value


def files_of(edit: Edit) -> dict[str, str]:
    assert edit.refused == []
    return {file.path: file.content for file in edit.files}


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
async def test_a_program_adds_a_file(tmp_path: Path, mode: Mode) -> None:
    task = task_in(tmp_path, new_files=("extra/**",))
    edit = await edit_by(task, f"mkdir extra; echo new > {NOTE}; echo 2 > {FILE}", mode=mode)
    assert files_of(edit) == {NOTE: "new\n", FILE: "2\n"}
    assert not (tmp_path / "extra").exists()


@pytest.mark.slow
async def test_a_program_edits_and_removes_what_was_added(tmp_path: Path) -> None:
    task = task_in(tmp_path, new_files=("extra/**",))
    before = {NOTE: "one\n"}
    edit = await edit_by(task, f"echo two >> {NOTE}", added=before)
    assert files_of(edit) == {NOTE: "one\ntwo\n"}
    edit = await edit_by(task, f"rm {NOTE}", added=before)
    assert files_of(edit) == {NOTE: ""}


@pytest.mark.slow
async def test_a_program_is_told_what_it_may_add(tmp_path: Path) -> None:
    task = task_in(tmp_path, new_files=("extra/**",))
    assert (await edit_by(task, "echo $BURNISH_NEW_FILES")).rationale == '["extra/**"]'
    assert "new files may be added, as whole files: extra/**" in opened(task).rules[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("echo x > other.md", "other.md"),
        ("mkdir extra; ln -s /etc/passwd extra/x.md", "link"),
        ("mkdir extra; ln score.py extra/x.md", "hard link"),
        ("mkdir extra; mkfifo extra/x.md", "extra/x.md"),
        ("mkdir extra; echo x > extra/x.sh; chmod +x extra/x.sh", "its mode is 755"),
        ("mkdir extra; printf 'a\\0b' > extra/x.md", "binary"),
        ("mkdir extra; head -c 5000000 /dev/zero > extra/x.md", "5,000,000 bytes"),
        ("mkdir extra; touch extra/$(seq -s ' extra/' 200)", "200 files were added"),
        ("mkdir extra; seq 30 > extra/x.md", "30 lines were changed"),
        ("mkdir extra; echo x | tee extra/1 extra/2 extra/3", "3 files were changed"),
        ("mkdir extra; echo x > extra/conftest.py", "must name it exactly"),
        ("mkdir -p extra/.git; echo x > extra/.git/config", "extra/.git"),
        ("echo x >> data/input.txt", "data/input.txt"),
        (f"rm {FILE}", "the file is gone"),
        (f"mkdir extra; mv {FILE} extra/", "the file is gone"),
    ],
)
async def test_what_a_program_may_not_add(tmp_path: Path, command: str, reason: str) -> None:
    task = task_in(tmp_path, new_files=("extra/**", "data/*"))
    edit = await edit_by(task, command)
    assert edit.files == []
    assert reason in "; ".join(edit.refused)


def test_a_model_adds_a_whole_file_where_it_may() -> None:
    def addable(path: str) -> str:
        return "" if path.startswith("extra/") else "not there"

    new, blank = WholeFile(path=NOTE, content="new"), WholeFile(path="extra/b.md", content="\n")
    edit = Edit(rationale="", files=[new, blank])
    assert carried_out(edit, {"a": "1"}, addable=addable) == ({"a": "1", NOTE: "new"}, [])
    outside = Edit(rationale="", files=[WholeFile(path="b", content="")])
    _, problems = carried_out(outside, {"a": "1"}, addable=addable)
    assert problems == [Problem(where="b", message="not there")]
    place = Replacement(path="extra/none.md", search="a", replace="b")
    _, problems = carried_out(Edit(rationale="", replacements=[place]), {}, addable=addable)
    assert "not one of the files" in problems[0].message
