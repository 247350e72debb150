"""Run folders of others: nothing outside of them is written, and nothing makes a command wait."""

import json
import os
import re
import socket
import sqlite3
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from burnish.core.content import Json
from burnish.runs.directory import RunRecord
from burnish.tracking.trackers import files_of
from tests.cli.console import Burnish, finish, forked, refused

pytestmark = pytest.mark.slow

_FILES = (
    "report.md",
    "report.html",
    "trials.jsonl",
    "events.jsonl",
    "trajectory.csv",
    "journal.count",
    "run.lock",
    "tags.json",
    "adopted.json",
    "adopt.lock",
)
_FOLDERS = ("candidates", "processes")
_ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e"


_LOOKS = """\
import sys
from burnish.cli.program import run
from tests.conftest import toy_installed
with toy_installed():
    for words in ("runs show", "runs report", "why", "adopt --diff", "adopt", "runs tag"):
        assert run([*words.split(), sys.argv[1]]) in (0, 1), words
"""


def _mine(tmp_path: Path) -> Path:
    """A folder of the user, with one file for each file of a run."""
    mine = tmp_path / "mine"
    for name in _FOLDERS:
        (mine / name).mkdir(parents=True)
        (mine / name / "keep.json").write_text("mine\n")
    for name in _FILES:
        (mine / name).write_text("mine\n")
    return mine


def _contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_run_never_writes_through_a_link_in_its_folder(
    burnish: Burnish,
    stopped: Path,
    tmp_path: Path,
    link: Callable[[Path, Path], None],
) -> None:
    mine = _mine(tmp_path)
    before = _contents(mine)
    for name in _FILES:
        (stopped / name).unlink(missing_ok=True)
        link(mine / name, stopped / name)
    if link is os.symlink:
        for name in _FOLDERS:
            if (stopped / name).exists():
                (stopped / name).rename(tmp_path / f"{name}-before")
            link(mine / name, stopped / name)
    burnish("runs", "report", "part")
    burnish("runs", "report", "--html", "part")
    burnish("adopt", "part", "--yes")
    (stopped / "tags.json").unlink()
    link(mine / "tags.json", stopped / "tags.json")
    burnish("runs", "tag", "part", "good")
    said = burnish("runs", "resume", "part", "--max-trials", "4")
    assert said.code == 0, said
    assert _contents(mine) == before
    assert (stopped / "report.md").read_text().startswith("#")
    for name in ("report.md", "trials.jsonl", "events.jsonl", "trajectory.csv"):
        assert (stopped / name).is_file()
        assert not (stopped / name).is_symlink()
    assert len((stopped / "trials.jsonl").read_text().splitlines()) == 5


@pytest.mark.parametrize("name", ["journal.db", "journal.db-wal", "journal.db-shm", "blobs"])
def test_a_journal_that_is_a_link_is_refused(
    burnish: Burnish, stopped: Path, tmp_path: Path, name: str
) -> None:
    place = stopped / name
    if place.exists():
        place.rename(tmp_path / "elsewhere")
    else:
        (tmp_path / "elsewhere").mkdir()
    place.symlink_to(tmp_path / "elsewhere")
    for command in (["runs", "show"], ["runs", "report"], ["why"], ["runs", "resume"]):
        refused(burnish(*command, "part"), name, "is a symbolic link")


def test_a_journal_that_others_share_is_read_but_not_continued(
    burnish: Burnish, stopped: Path, tmp_path: Path
) -> None:
    os.link(stopped / "journal.db", tmp_path / "backup.db")
    assert burnish("runs", "show", "part").code == 0
    refused(burnish("runs", "resume", "part", "--max-trials", "4"), "is a hard link")


@pytest.mark.parametrize(
    "name",
    [
        *("journal.db", "journal.json", "journal.count", "run.lock", "trials.jsonl"),
        *("events.jsonl", "report.md", "tags.json", "adopted.json"),
    ],
)
def test_a_pipe_in_place_of_a_file_makes_no_command_wait(stopped: Path, name: str) -> None:
    pipe = stopped / name
    pipe.unlink(missing_ok=True)
    pipe.parent.mkdir(exist_ok=True)
    os.mkfifo(pipe)
    said = finish(forked(str(stopped), cwd=stopped.parent, start=_LOOKS))
    assert said.code == 0, said
    assert "Traceback" not in said.err


_READ = {"note", "reason", "message", "detail", "words", "title", "error", "phase"}


def _with_escapes(value: Json, name: str = "") -> Json:
    """Escape codes at the end of every text that people read, and of the names of cases."""
    if isinstance(value, dict):
        return {_hostile_case(key): _with_escapes(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_escapes(each) for each in value]
    return f"{value}{_ESCAPES}" if name in _READ and isinstance(value, str) else value


def _hostile_case(name: str) -> str:
    return f"{name}{_ESCAPES}" if re.fullmatch(r"t\d+", name) else name


def test_no_escape_code_of_a_run_reaches_the_terminal(burnish: Burnish, stopped: Path) -> None:
    db = sqlite3.connect(stopped / "journal.db")
    for number, body in db.execute("SELECT number, body FROM trials").fetchall():
        plain = body[1:] if body[:1] == b"j" else zlib.decompress(body[1:])
        spelled = json.dumps(_with_escapes(json.loads(plain)), separators=(",", ":")).encode()
        db.execute("UPDATE trials SET body = ? WHERE number = ?", (b"j" + spelled, number))
    db.commit()
    db.close()
    header = json.loads((stopped / "run.json").read_text())
    header["id"] += _ESCAPES
    header["project"]["file"] += _ESCAPES
    (stopped / "run.json").write_text(json.dumps(header))
    (stopped / "tags.json").write_text(json.dumps([f"good{_ESCAPES}"]))
    shown = [
        *(["runs", "show", "part", *more] for more in ([], ["--trial", "1"], ["--calls"])),
        *(["runs", command, "part"] for command in ("report", "tag")),
        *(["runs", "compare", "part", "part"], ["runs", "list"], ["why", "part"]),
        *(["adopt", "part", *more] for more in ([], ["--diff"], ["--undo"])),
    ]
    facts = [
        *(["runs", "show", "part", *more, "--json"] for more in ([], ["--trial", "1"])),
        *(["runs", "compare", "part", "part", "--json"], ["runs", "list", "--json"]),
    ]
    for command in (*shown, *facts):
        said = burnish(*command)
        assert not set("\x1b\x07\x9b\u202e") & set(said.out + said.err), command
        assert said.out + said.err
        if command in facts:
            assert "\\u001b[2J" in said.out
            assert "\\u009b" in said.out
            assert said.json


def _hangs_up(listener: socket.socket, sent: list[bytes]) -> None:
    """Take what the first client sends, as a database would that asks for a password."""
    with suppress(OSError):
        client, _ = listener.accept()
        with client:
            sent.append(client.recv(4096))


@pytest.mark.parametrize("command", [["runs", "show"], ["runs", "report"], ["why"], ["adopt"]])
def test_a_run_from_elsewhere_names_no_database_to_connect_to(
    burnish: Burnish, stopped: Path, tmp_path: Path, command: list[str]
) -> None:
    theirs = stopped.rename(tmp_path / "theirs")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port, sent = listener.getsockname()[1], list[bytes]()
        taking = threading.Thread(target=_hangs_up, args=(listener, sent))
        taking.start()
        pointer = {
            "database": f"postgresql://${{PATH}}:${{HOME}}@127.0.0.1:{port}/runs",
            "name": "x",
            "prefix": "burnish_",
            "create_schema": True,
            "lease_seconds": 30,
        }
        (theirs / "journal.json").write_text(json.dumps(pointer))
        refused(burnish(*command, str(theirs)), "not from this machine", "names a database")
        refused(burnish("view", str(tmp_path), "--no-browser"), "there is no run in")
        socket.create_connection(("127.0.0.1", port)).close()
        taking.join()
    assert sent == [b""]


@pytest.mark.parametrize("name", ["/dev/stdin", "../run.json", "x\0"])
def test_a_value_of_a_journal_is_in_no_other_file(
    burnish: Burnish, stopped: Path, name: str
) -> None:
    db = sqlite3.connect(stopped / "journal.db")
    db.execute("UPDATE trials SET body = ?", (b"f" + name.encode(),))
    db.commit()
    db.close()
    refused(burnish("runs", "show", "part"), "no value has such a name")


@pytest.mark.parametrize(
    "schema",
    [
        "ALTER TABLE trials RENAME TO t; CREATE VIEW trials AS WITH RECURSIVE c(number, body) AS "
        "(SELECT 0, x'' UNION ALL SELECT number + 1, body FROM c) SELECT * FROM c WHERE number < 0",
        "CREATE TRIGGER more AFTER INSERT ON sessions BEGIN DELETE FROM trials; END",
        "CREATE VIRTUAL TABLE more USING fts5(text)",
        "DROP TABLE checks; CREATE TABLE checks (label, number AS (zeroblob(1000000000)))",
    ],
)
def test_a_journal_that_computes_is_refused(burnish: Burnish, stopped: Path, schema: str) -> None:
    db = sqlite3.connect(stopped / "journal.db")
    db.executescript(schema)
    db.commit()
    db.close()
    for command in (["runs", "show"], ["runs", "report"], ["why"], ["runs", "resume"]):
        refused(burnish(*command, "part"), "journal.db is damaged", "is not a table of a journal")


def test_a_candidate_whose_links_form_a_loop_is_not_copied(
    burnish: Burnish, stopped: Path, tmp_path: Path
) -> None:
    for file in (stopped / "candidates").rglob("candidate.json"):
        file.unlink()
        file.symlink_to(file.name)
    refused(burnish("adopt", "part", "--to", str(tmp_path / "copy")), "candidate.json")
    assert not (tmp_path / "copy").exists()


def test_no_file_outside_of_a_run_is_sent_to_a_tracker(stopped: Path, tmp_path: Path) -> None:
    (tmp_path / "id_key").write_text("secret")
    for file in (stopped / "report.md", *(stopped / "candidates").rglob("candidate.json")):
        file.unlink()
        file.symlink_to(tmp_path / "id_key")
    sent = files_of(RunRecord.read(stopped))
    assert "run.json" in sent
    assert not any(path.read_text() == "secret" for path in sent.values())


def test_rows_of_a_journal_with_values_of_other_types_are_one_error(
    burnish: Burnish, stopped: Path
) -> None:
    db = sqlite3.connect(stopped / "journal.db")
    db.execute("UPDATE effects SET nano_usd = 'x', kind = x'ff'")
    db.commit()
    db.close()
    for command in (["--calls"], ["--calls", "--json"]):
        said = burnish("runs", "show", "part", *command)
        assert (said.code, "is damaged" in said.err) == (1, True), said
    refused(burnish("runs", "report", "part", "--html"), "journal.db is damaged")


def test_scores_of_a_wrong_type_are_one_error_in_json_too(burnish: Burnish, stopped: Path) -> None:
    db = sqlite3.connect(stopped / "journal.db")
    for number, body in db.execute("SELECT number, body FROM trials").fetchall():
        plain = body[1:] if body[:1] == b"j" else zlib.decompress(body[1:])
        broken = b"j" + re.sub(rb'"scores":\{"', b'"scores":{"x":7,"', plain)
        db.execute("UPDATE trials SET body = ? WHERE number = ?", (broken, number))
    db.commit()
    db.close()
    refused(burnish("runs", "show", "part", "--trial", "1", "--json"), "journal.db is damaged")


def test_a_description_of_a_wrong_type_is_one_error(burnish: Burnish, stopped: Path) -> None:
    header = json.loads((stopped / "run.json").read_text())
    header["project"]["spec"]["target"] = 1.5
    (stopped / "run.json").write_text(json.dumps(header))
    refused(burnish("runs", "resume", "part"), "run.json")
