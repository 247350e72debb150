"""States of a workspace: kept by content, put back exactly, whatever lies there."""

import os
from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import FileTrouble, JournalTrouble
from burnish.delegation.answers import Assignment, ManagerDecision
from burnish.delegation.evaluation import BadExpression, evaluate, parse
from burnish.delegation.tools import ToolRefused, file_tools
from burnish.delegation.workspace import StateStore


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "deep/er").mkdir(parents=True)
    (folder / "deep/er/run.sh").write_text("echo hi\n")
    (folder / "deep/er/run.sh").chmod(0o755)
    (folder / "empty").mkdir()
    (folder / "link").symlink_to("deep/er")
    (folder / "sp ace %41 é.txt").write_text("odd")
    Path(os.fsdecode(os.fsencode(folder) + b"/bad\xffname")).write_bytes(b"\0\1")
    return folder


def test_a_state_is_put_back_exactly(place: Path, tmp_path: Path) -> None:
    store = StateStore(tmp_path / "states")
    state = store.keep(place)
    (place / "deep/er/run.sh").write_text("rm everything\n")
    (place / "new").write_text("new")
    (place / "__pycache__").mkdir()
    (place / "__pycache__/planted.pyc").write_bytes(b"x")
    (place / "link").unlink()
    (place / "empty").rmdir()
    os.mkfifo(place / "empty")
    assert store.keep(place) != state
    again = StateStore(tmp_path / "states")
    again.restore(state, place)
    assert again.keep(place) == state
    assert not (place / "__pycache__").exists()
    assert (place / "link").readlink() == Path("deep/er")
    assert (place / "deep/er/run.sh").stat().st_mode & 0o777 == 0o755
    assert again.read(state, os.fsdecode(b"bad\xffname")) == b"\0\1"
    untouched = (place / "deep/er/run.sh").stat().st_ino
    again.restore(state, place)
    assert (place / "deep/er/run.sh").stat().st_ino == untouched, "the same is left alone"


def test_equal_contents_are_one_state_and_one_blob(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "states")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for file in ("one", "two"):
            (tmp_path / name / file).write_text("same")
    assert store.keep(tmp_path / "a") == store.keep(tmp_path / "b")
    assert len(list((tmp_path / "states/blobs").iterdir())) == 1


def test_rights_that_a_command_took_away_do_not_lose_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    (folder / "shut").mkdir(parents=True)
    (folder / "shut/file").write_text("kept")
    (folder / "shut/file").chmod(0)
    (folder / "shut").chmod(0)
    store = StateStore(tmp_path / "states")
    assert store.read(store.keep(folder), "shut/file") == b"kept"


def test_a_damaged_state_is_said(place: Path, tmp_path: Path) -> None:
    store = StateStore(tmp_path / "states")
    state = store.keep(place)
    blob = next((tmp_path / "states/blobs").iterdir())
    blob.write_bytes(b"something else")
    (place / "new").write_text("new")
    with pytest.raises(JournalTrouble, match="damaged"):
        StateStore(tmp_path / "states").restore(state, place)
    (tmp_path / f"states/{state}.json").unlink()
    with pytest.raises(FileTrouble):
        StateStore(tmp_path / "states").restore(state, place)


@pytest.mark.parametrize(
    "path",
    [
        "../out.txt",
        "/etc/passwd",
        "a/../../out",
        "way/out.txt",
        "loop/x",
        "",
        "a\\b",
        "a\nb",
        "~/x",
    ],
)
@pytest.mark.parametrize("tool", ["file_read", "file_write", "file_delete"])
async def test_no_path_leads_out_of_the_workspace(tmp_path: Path, tool: str, path: str) -> None:
    folder, outside = tmp_path / "w", tmp_path / "outside"
    for each in (folder, outside):
        each.mkdir()
    (outside / "out.txt").write_text("mine")
    (folder / "way").symlink_to(outside)
    (folder / "loop").symlink_to("loop")
    with pytest.raises(ToolRefused):
        await file_tools(folder)[tool].use({"path": path, "content": "taken"})
    assert (outside / "out.txt").read_text() == "mine"
    assert sorted(p.name for p in folder.iterdir()) == ["loop", "way"]


async def test_files_are_written_listed_read_and_deleted(tmp_path: Path) -> None:
    tools = file_tools(tmp_path)
    await tools["file_write"].use({"path": "./a/b.txt", "content": "hé"})
    assert "a/b.txt (3 bytes)" in await tools["file_list"].use({})
    assert await tools["file_list"].use({"path": "c"}) == "(no files)"
    assert await tools["file_read"].use({"path": "a/b.txt"}) == "hé"
    await tools["file_delete"].use({"path": "a/b.txt"})
    with pytest.raises(ToolRefused, match="there is no file"):
        await tools["file_read"].use({"path": "a/b.txt"})
    with pytest.raises(ToolRefused, match="stays as it is"):
        await tools["file_write"].use({"path": "input/given.txt", "content": "x"})
    with pytest.raises(ToolRefused, match="'path' must be a text"):
        await tools["file_read"].use({"path": 3})
    with pytest.raises(ToolRefused, match="no valid text"):
        await tools["file_write"].use({"path": "c", "content": "\ud800"})


def test_names_of_workers_lead_nowhere() -> None:
    for name in ("../../etc", "a/b", "..", "", "x" * 500):
        made = Assignment(worker_id=name, instructions="go").worker_id
        assert "/" not in made
        assert "." not in made
        assert 0 < len(made) <= 60


def test_decisions_are_read_leniently() -> None:
    read = ManagerDecision.model_validate
    assert read({"subtasks": [{"id": 1}]}).decision == "plan"
    assert read({"workers": [{"worker_id": "a", "instructions": "b"}]}).delegations
    assert read({"decision": "I want to COMPLETE", "final_result": {"a": 1}}).decision == "complete"
    assert read({"decision": "complete", "final_result": {"a": 1}}).final_result == '{"a": 1}'
    with pytest.raises(ValueError, match="decision"):
        read({"decision": "dance"})
    with pytest.raises(ValueError, match="confidence"):
        read({"decision": "complete", "final_result": "x", "confidence": float("nan")})


NAMES: dict[str, Any] = {
    "result": {"confidence": 0.7, "text": "hot"},
    "size": {"a": 10}.get,
    "len": len,
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("result.confidence > 0.6", 1.0),
        ('"hot" in result.text and not size("a") < 5', 1.0),
        ("1 - result.confidence", pytest.approx(0.3)),
        ("0 < len(result.text) <= 2 or False", 0.0),
    ],
)
def test_expressions(text: str, value: float) -> None:
    assert evaluate(text, NAMES) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')", "result.__class__", "[x for x in y]", "lambda: 1", "result.text",
        "'x' * 99999999", "result.nothing > 1", "1 / 0", "open('x')", "1 +",
        "f'{result}'", "9" * 600,
    ],
)  # fmt: skip
def test_expressions_that_are_refused(text: str) -> None:
    with pytest.raises(BadExpression):
        evaluate(text, NAMES)


def test_what_cannot_be_parsed_is_said_before_a_run() -> None:
    with pytest.raises(BadExpression, match="ListComp is not known"):
        parse("[x for x in y]")
