"""The registry of policy texts: versions, pointers, pins, and what training leaves in it."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError, FileTrouble
from burnish.delegation import policy
from burnish.delegation.policy import (
    MOST_CHARS,
    NAMES,
    PolicyRegistry,
    PolicyTexts,
    add_version,
    registry_path,
    writing,
)
from burnish.delegation.training.epochs import TaskRun
from burnish.delegation.training.target import Epoch, TrainingLog, TrialSource

TEXT, OTHER = "worker_pitfalls", "pattern_library"
START: dict[str, int] = dict.fromkeys(NAMES, 0)


@pytest.fixture
def registry(tmp_path: Path) -> PolicyRegistry:
    return PolicyRegistry(tmp_path / "deep" / "policy.db")


def test_version_0_is_the_shipped_text_and_stored_nowhere(registry: PolicyRegistry) -> None:
    assert registry.texts() == PolicyTexts(texts=PolicyTexts.shipped().texts, versions=START)
    assert [each.number for each in registry.history(TEXT)] == [0]
    assert not registry.path.exists(), "looking makes no file"
    assert registry.add(TEXT, PolicyTexts.shipped()[TEXT]) == 0


def test_what_is_active_is_what_runs_read(registry: PolicyRegistry) -> None:
    assert registry.add(TEXT, "one\n") == 1
    assert registry.texts()[TEXT] == PolicyTexts.shipped()[TEXT]
    assert registry.add(TEXT, "two\n", activate=True) == 2
    assert (registry.texts()[TEXT], registry.texts().versions[TEXT]) == ("two\n", 2)
    assert registry.add(TEXT, "one\n") == 1, "the same text is the same version"
    registry.activate({TEXT: 1})
    assert registry.texts()[TEXT] == "one\n"
    assert [(v.number, v.parent, v.active) for v in registry.history(TEXT)] == [
        (0, None, False),
        (1, 0, True),
        (2, 0, False),
    ]
    registry.activate({TEXT: 0})
    assert registry.texts()[TEXT] == PolicyTexts.shipped()[TEXT]
    assert registry.diff(TEXT, 1, 2)[2:] == ["@@ -1 +1 @@", "-one", "+two"]


def test_pointers_move_together_or_not_at_all(registry: PolicyRegistry) -> None:
    registry.add(TEXT, "one\n")
    with pytest.raises(ConfigError, match="pattern_library: no version 7"):
        registry.activate({TEXT: 1, OTHER: 7})
    assert registry.active() == START


def test_a_pin_is_read_whatever_is_active(registry: PolicyRegistry) -> None:
    registry.add(TEXT, "one\n", activate=True)
    assert registry.pin(TEXT) == 1
    registry.add(TEXT, "two\n", activate=True)
    assert (registry.active()[TEXT], registry.texts()[TEXT]) == (2, "one\n")
    assert registry.pin(TEXT, 0) == 0
    assert registry.texts()[TEXT] == PolicyTexts.shipped()[TEXT]
    registry.unpin(TEXT)
    assert registry.texts()[TEXT] == "two\n"


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("nobody", "x", "no such policy text"),
        (TEXT, " \n", "needs 1 to 20,000"),
        (TEXT, "x" * (MOST_CHARS + 1), "needs 1 to 20,000"),
        ("experiment_context_hint_template", "no place for files", "{{ inputs }} is gone"),
    ],
)
def test_what_is_no_policy_text(
    registry: PolicyRegistry, name: str, content: str, told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        registry.add(name, content)


def test_where_it_lies(tmp_path: Path) -> None:
    both = {"BURNISH_POLICY_DB": "/a/own.db", "AWP_OUTER_LOOP_DB": "/a/other.db"}
    assert registry_path(tmp_path / "x.db", both) == tmp_path / "x.db"
    assert registry_path(None, both) == Path("/a/own.db")
    assert registry_path(None, {"AWP_OUTER_LOOP_DB": "/a/other.db"}) == Path("/a/other.db")
    assert registry_path(None, {"BURNISH_HOME": "/h"}) == Path("/h/policy.db")


def test_many_writers_lose_nothing(registry: PolicyRegistry) -> None:
    def add(number: int) -> None:
        registry.add(TEXT, f"text {number}\n", activate=True)

    writers = [threading.Thread(target=add, args=(number,)) for number in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [each.number for each in registry.history(TEXT)] == list(range(7))
    assert sum(each.active for each in registry.history(TEXT)) == 1


def test_a_writer_waits_for_one_that_came_before_the_change_to_wal(
    registry: PolicyRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.path.parent.mkdir()
    use_wal = policy._use_wal  # pyright: ignore[reportPrivateUsage]
    with closing(sqlite3.connect(registry.path, isolation_level=None)) as first:
        first.execute("BEGIN IMMEDIATE")

        def then_the_first_is_done(db: sqlite3.Connection) -> None:
            use_wal(db)
            first.execute("COMMIT")

        monkeypatch.setattr(policy, "_use_wal", then_the_first_is_done)
        assert registry.add(TEXT, "text\n") == 1
    monkeypatch.setattr(policy, "_use_wal", use_wal)
    registry.add(TEXT, "another\n")
    with closing(sqlite3.connect(registry.path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_registry_that_stays_locked_says_who_must_wait(
    registry: PolicyRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.add(TEXT, "text\n")
    monkeypatch.setattr(policy, "_PATIENCE", 0.0)
    with closing(sqlite3.connect(registry.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(FileTrouble, match="another process is writing it") as caught:
            registry.add(TEXT, "another\n")
    assert caught.value.remedy == "try again when it is done"


def test_a_registry_of_the_other_system_is_read_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "outer_loop.db"
    with sqlite3.connect(path) as db:
        db.execute(
            "CREATE TABLE artifact_versions (id INTEGER PRIMARY KEY, artifact_name TEXT, version"
            " INTEGER, content TEXT, parent_version INTEGER, created_at TEXT, epoch_id INTEGER,"
            " is_active INTEGER, UNIQUE (artifact_name, version))"
        )
        row = (TEXT, 3, "theirs\n", 2, "2026-01-01", 1)
        db.execute("INSERT INTO artifact_versions VALUES (NULL, ?, ?, ?, ?, ?, NULL, ?)", row)
    db.close()
    before = path.read_bytes()
    assert PolicyRegistry(path).texts()[TEXT] == "theirs\n"
    assert path.read_bytes() == before
    assert PolicyRegistry(path).add(TEXT, "ours\n", activate=True) == 4


def test_what_is_no_database_is_said(tmp_path: Path) -> None:
    path = tmp_path / "policy.db"
    path.write_text("this is no database, and long enough to be looked at\n" * 40)
    with pytest.raises(FileTrouble, match="cannot be used"):
        PolicyRegistry(path).texts()


def test_a_full_disk_is_said_and_what_was_there_stays(registry: PolicyRegistry) -> None:
    registry.add(TEXT, "ours\n", activate=True)

    def fill() -> None:
        with writing(registry.path) as db:
            # A database that may not grow answers as one on a full disk does.
            db.execute("PRAGMA max_page_count = 1")
            for number in range(9):
                add_version(db, TEXT, f"{number} " * 5_000)

    with pytest.raises(FileTrouble, match="the disk is full"):
        fill()
    assert [each.number for each in registry.history(TEXT)] == [0, 1]


def test_an_edited_suite_is_a_new_version_of_it(registry: PolicyRegistry) -> None:
    log = TrainingLog(registry.path)
    first = log.suite("weather", [{"name": "heat"}], {})
    assert log.suite("weather", [{"name": "heat"}], {}) == first
    assert log.suite("weather", [{"name": "rain"}], {}) != first
    assert log.suite("weather", [{"name": "rain"}], {TEXT: 0}) == first + 2


def test_what_a_run_brings_is_kept_once(registry: PolicyRegistry) -> None:
    log, source = TrainingLog(registry.path), TrialSource(run="r", trial=3)
    suite = log.suite("weather", [], {})
    runs = tuple(TaskRun(run_id=f"run-{n}", task="heat", loss=None) for n in range(2))
    epoch = Epoch(suite=suite, number=1, started_at="a", completed_at="b", mean_loss=0.25,
                  parents=START, runs=runs)  # fmt: skip
    for _ in range(2):
        log.epoch(source, epoch)
    assert [(row["epoch_num"], row["mean_loss"]) for row in log.epochs("weather")] == [(1, 0.25)]
    put = log.put(source, {**PolicyTexts.shipped().texts, TEXT: "better\n"}, expected=START)
    assert (put.versions, put.active) == ({TEXT: 1}, True)
    registry.activate({TEXT: 0})
    assert log.put(source, {TEXT: "better\n"}, expected=START) == put
    assert registry.active()[TEXT] == 0, "the user's rollback stays"


def test_what_somebody_else_made_active_stays(registry: PolicyRegistry) -> None:
    log = TrainingLog(registry.path)
    first = log.put(TrialSource(run="r", trial=1), {TEXT: "one\n"}, expected=START)
    second = log.put(TrialSource(run="r", trial=2), {TEXT: "two\n"}, expected=START)
    assert (first.active, second.active) == (True, True), "its own changes are not another's"
    registry.add(OTHER, "by hand\n", activate=True)
    third = log.put(TrialSource(run="r", trial=3), {TEXT: "three\n"}, expected=START)
    assert (third.active, third.versions) == (False, {TEXT: 3})
    assert not log.put(TrialSource(run="r", trial=4), {TEXT: "four\n"}, expected=START).active
    assert registry.active()[TEXT] == 2
