"""Damaged run folders: one message, exit code 1, nothing changed; the others stay usable."""

import json
import random
import shutil
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from burnish.runs.directory import index_folder
from tests.cli.console import Burnish, refused, tree
from tests.conftest import toy_installed

pytestmark = pytest.mark.slow


def noise(size: int) -> bytes:
    return random.Random(7).randbytes(size)


def newer_journal(folder: Path) -> None:
    with sqlite3.connect(folder / "journal.db") as db:
        db.execute("UPDATE meta SET value = '99' WHERE name = 'schema'")
    db.close()


def newer_header(folder: Path) -> None:
    path = folder / "run.json"
    path.write_text(path.read_text().replace('"schema": 2', '"schema": 99, "novel": []'))


def without_row(folder: Path) -> None:
    with sqlite3.connect(folder / "journal.db") as db:
        db.execute("UPDATE trials SET body = x'00ff' WHERE number = 1")
    db.close()


def without_last_trial(folder: Path) -> None:
    with sqlite3.connect(folder / "journal.db") as db:
        db.execute("DELETE FROM trials WHERE number = (SELECT MAX(number) FROM trials)")
    db.close()


def with_other_scores(folder: Path) -> None:
    """Still a trial, whose scores of cases nobody reads before they are looked at."""
    with sqlite3.connect(folder / "journal.db") as db:
        for number, body in db.execute("SELECT number, body FROM trials").fetchall():
            plain = body[1:] if body[:1] == b"j" else zlib.decompress(body[1:])
            broken = b"j" + plain.replace(b'"scores":{"', b'"scores":{"x" "')
            db.execute("UPDATE trials SET body = ? WHERE number = ?", (broken, number))
    db.close()


def with_other_event(folder: Path) -> None:
    with sqlite3.connect(folder / "journal.db") as db:
        for number, body in db.execute("SELECT id, body FROM events").fetchall():
            event = json.loads(body)
            if event["kind"] == "run_finished":
                event["data"] = {"reason": {"code": "x"}}
                row = (json.dumps(event).encode(), number)
                db.execute("UPDATE events SET body = ? WHERE id = ?", row)
    db.close()


def without_table(folder: Path) -> None:
    with sqlite3.connect(folder / "journal.db") as db:
        db.execute("DROP TABLE trials")
    db.close()


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty header": (lambda f: (f / "run.json").write_bytes(b""), "run.json"),
    "cut header": (lambda f: (f / "run.json").write_bytes(b'{"id": "x'), "run.json"),
    "random header": (lambda f: (f / "run.json").write_bytes(noise(200)), "run.json"),
    "another header": (lambda f: (f / "run.json").write_bytes(b"[1]"), "run.json"),
    "newer header": (newer_header, "another version"),
    "empty journal": (lambda f: (f / "journal.db").write_bytes(b""), "journal.db"),
    "cut journal": (
        lambda f: (f / "journal.db").write_bytes((f / "journal.db").read_bytes()[:9000]),
        "journal.db",
    ),
    "random journal": (lambda f: (f / "journal.db").write_bytes(noise(20_000)), "journal.db"),
    "newer journal": (newer_journal, "another version"),
    "no journal": (lambda f: (f / "journal.db").unlink(), "journal"),
    "a damaged row": (without_row, "journal"),
    "no table": (without_table, "journal"),
    "a lost trial": (without_last_trial, "its last trial is 1, and trials.jsonl shows trial 2"),
}
LOOKING = (("show",), ("show", "--json"), ("show", "--trial", "1"), ("report",))


def damage(folder: Path, how: str) -> None:
    for leftover in ("journal.db-wal", "journal.db-shm"):
        (folder / leftover).unlink(missing_ok=True)
    DAMAGE[how][0](folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run to damage copies of."""
    from burnish.projects import launch, load_project
    from burnish.runs.setup import start

    home = tmp_path_factory.mktemp("whole")
    (home / "toy.yaml").write_text("kind: toy\nworld: {train: 3, holdout: 2, test: 0}\n")
    with toy_installed(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("BURNISH_HOME", str(home))
        project = load_project(home / "toy.yaml", {"max_trials": 2})
        launch(lambda: start(project.setup, folder=home / "run"))
    return home / "run"


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_run_is_refused_and_left_alone(
    burnish: Burnish, tmp_path: Path, whole: Path, how: str
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder, symlinks=True)
    damage(folder, how)
    before = tree(folder)
    for command in LOOKING:
        refused(burnish("runs", command[0], "run", *command[1:]), DAMAGE[how][1])
    refused(burnish("why", "run"), DAMAGE[how][1])
    refused(burnish("runs", "compare", str(whole), "run"), DAMAGE[how][1])
    if how != "a damaged row":
        refused(burnish("runs", "resume", "run"), DAMAGE[how][1])
        refused(burnish("runs", "show", "run", "--calls"), DAMAGE[how][1])
    after = tree(folder)
    assert {k: v for k, v in after.items() if k in before} == before
    assert set(after) - set(before) <= {"journal.db-wal", "journal.db-shm"}
    assert burnish("runs", "rm", "-y", "run").code == 0
    assert not folder.exists()


def test_damaged_scores_are_refused_where_they_are_looked_at(
    burnish: Burnish, tmp_path: Path, whole: Path
) -> None:
    shutil.copytree(whole, tmp_path / "run", symlinks=True)
    with_other_scores(tmp_path / "run")
    assert burnish("runs", "list").code == 0
    assert burnish("runs", "show", "run").code == 0
    refused(burnish("why", "run"), "journal.db is damaged")
    refused(burnish("runs", "show", "run", "--trial", "2"), "journal.db is damaged")
    refused(burnish("runs", "compare", str(whole), "run"), "journal.db is damaged")
    refused(burnish("runs", "resume", "run"), "journal.db is damaged")


def test_a_damaged_event_is_refused_where_it_is_looked_at(
    burnish: Burnish, tmp_path: Path, whole: Path
) -> None:
    shutil.copytree(whole, tmp_path / "run", symlinks=True)
    with_other_event(tmp_path / "run")
    for command in (["runs", "show"], ["runs", "report"], ["why"]):
        refused(burnish(*command, "run"), "the event 'session:1:end' of the journal is damaged")


def test_a_run_with_a_lost_trial_can_be_forked(
    burnish: Burnish, tmp_path: Path, whole: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder, symlinks=True)
    damage(folder, "a lost trial")
    refused(burnish("runs", "resume", "run"), "or continue from trial 1 with --fork run")
    file = str(whole.parent / "toy.yaml")
    said = burnish("optimize", file, "--fork", "run", "-o", "forked", "--max-trials", "2")
    assert said.code == 0, said
    assert "the journal of run run has lost something" in said.out + said.err
    assert len((tmp_path / "forked" / "trials.jsonl").read_text().splitlines()) == 3


def test_a_broken_run_does_not_break_the_list(burnish: Burnish, toy: Path) -> None:
    for name in ("good", "bad"):
        assert burnish("optimize", str(toy), "-q", "-o", name, "--max-trials", "1").code == 0
    damage(toy.parent / "bad", "random journal")
    (index_folder() / "zzz.json").write_text("not an entry")
    said = burnish("runs", "list")
    assert said.code == 0
    assert [line.split()[0] for line in said.lines] == ["run", "good"]
    assert "bad" in said.err
    listed = burnish("runs", "list", "--json")
    assert [record["id"] for record in listed.records] == ["good"]


def test_a_folder_of_the_user_is_never_removed(burnish: Burnish, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "run.json").write_text("{}")
    (mine / "precious.txt").write_text("x")
    refused(burnish("runs", "rm", "-y", "mine"), "not a burnish run")
    assert (mine / "precious.txt").exists()


def test_a_damaged_description_in_the_header_is_named(burnish: Burnish, stopped: Path) -> None:
    header = stopped / "run.json"
    header.write_text(header.read_text().replace('"max_trials": 2', '"max_trials": -2'))
    refused(burnish("runs", "resume", "part"), "run.json budget.max_trials", "at least 1")
