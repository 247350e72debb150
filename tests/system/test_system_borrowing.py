"""Borrowed files: what goes back, what is left alone, and whose borrower is gone."""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.system.borrowed_files import Borrowing
from burnish.system.processes import SILENT, Owner, process_entry
from burnish.system.restoration import borrower_of, put_back, restore_abandoned


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "prompt.md"
    found.write_bytes(b"own\r\n")
    return found


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return tmp_path / "records"


def borrow(path: Path, records: Path, *contents: bytes) -> Borrowing:
    """A file on loan that has had these contents; the last is still to be written."""
    borrowing = Borrowing({path: path.read_bytes()}, records)
    for content in contents:
        borrowing.note({path: content})
    return borrowing


def owned_by(record: Path, **changes: Any) -> None:
    """Let the record say that somebody else wrote it."""
    told = json.loads(record.read_text())
    told["owner"] = {**told["owner"], **changes}
    record.write_text(json.dumps(told))


def gone() -> int:
    """The number of a process that is gone."""
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    child.wait()
    return child.pid


def test_what_was_written_goes_back_and_nothing_else(path: Path, records: Path) -> None:
    path.chmod(0o640)
    borrowing = borrow(path, records, b"one", b"two")
    for content, after in ((b"one", b"own\r\n"), (b"two", b"own\r\n"), (b"mine", b"mine")):
        path.write_bytes(content)
        borrowing.note({path: b"one"})
        record = borrowing.record.read_bytes()
        fates = borrowing.put_back()
        assert path.read_bytes() == after
        assert [fate.fate for fate in fates] == ["left alone" if content == b"mine" else "put back"]
        borrowing.record.write_bytes(record)
    assert path.stat().st_mode & 0o777 == 0o640
    borrowing.put_back()
    assert list(records.iterdir()) == []


def test_the_record_is_there_before_anything_is_written(path: Path, records: Path) -> None:
    borrowing = borrow(path, records, b"one")
    told = json.loads(borrowing.record.read_text())
    assert told["owner"]["pid"] == os.getpid()
    assert [file["path"] for file in told["files"]] == [str(path)]
    assert borrowing.record.stat().st_mode & 0o777 == 0o600
    assert borrowing.knows(path, b"own\r\n")
    assert borrowing.knows(path, b"one")
    assert not borrowing.knows(path, b"two")
    assert borrowing.put_back() == []
    assert path.read_bytes() == b"own\r\n"


def test_a_guard_that_was_killed_is_replaced_and_none_stays(path: Path, records: Path) -> None:
    borrowing = borrow(path, records, b"one")
    first = _guards(borrowing)
    assert len(first) == 1
    os.kill(first[0], 9)
    _until_gone(first[0])
    borrowing.note({path: b"one"})
    second = _guards(borrowing)
    assert len(second) == 1
    borrowing.put_back()
    assert process_entry(second[0]) is None


def test_where_nothing_was_borrowed_nothing_is_done(records: Path) -> None:
    assert restore_abandoned(records) == []
    assert not records.exists()


def test_a_living_borrower_is_left_alone(path: Path, records: Path) -> None:
    borrowing = borrow(path, records, b"one")
    path.write_bytes(b"one")
    assert restore_abandoned(records) == []
    assert path.read_bytes() == b"one"
    owner = borrower_of(path, records)
    assert owner is not None
    assert owner.pid == os.getpid()
    borrowing.put_back()
    assert borrower_of(path, records) is None


@pytest.mark.parametrize("changes", [{"pid": 0}, {"started": "1"}, {"boot": "another"}])
def test_a_borrower_that_is_gone(changes: dict[str, Any], path: Path, records: Path) -> None:
    borrowing = borrow(path, records, b"one")
    path.write_bytes(b"one")
    owned_by(borrowing.record, **({"pid": gone()} if "pid" in changes else changes))
    [fate] = restore_abandoned(records)
    assert (fate.path, fate.fate) == (str(path), "put back")
    assert path.read_bytes() == b"own\r\n"
    assert list(records.iterdir()) == []
    borrowing.put_back()


def test_what_the_killed_one_was_writing_is_removed(path: Path, records: Path) -> None:
    borrowing, dead = borrow(path, records, b"one"), gone()
    for name in (f".{dead}-0123456789abcdef.burnish-tmp", ".1-notours.burnish-tmp"):
        (path.parent / name).write_bytes(b"on")
    owned_by(borrowing.record, pid=dead)
    assert restore_abandoned(records) == []
    left = sorted(entry.name for entry in path.parent.iterdir())
    assert left == [".1-notours.burnish-tmp", "prompt.md", "records"]
    borrowing.put_back()


def test_a_borrower_on_another_machine_is_gone_when_it_is_silent(path: Path, records: Path) -> None:
    borrowing = borrow(path, records, b"one")
    path.write_bytes(b"one")
    owned_by(borrowing.record, host="elsewhere", boot="another")
    assert restore_abandoned(records) == []
    long_ago = time.time() - SILENT - 1
    os.utime(borrowing.record, (long_ago, long_ago))
    assert len(restore_abandoned(records)) == 1
    assert path.read_bytes() == b"own\r\n"
    borrowing.put_back()


def test_another_space_of_process_numbers_is_another_machine(tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    sign.touch()
    assert not replace(Owner.here(), space="pid:[1]", pid=gone()).is_gone(sign)
    assert replace(Owner.here(), pid=gone()).is_gone(sign)
    assert not Owner.here().is_gone(sign)


def test_a_file_that_cannot_be_put_back_keeps_its_record(path: Path, records: Path) -> None:
    other = path.parent / "other.md"
    other.write_bytes(b"own")
    borrowing = Borrowing({path: path.read_bytes(), other: b"own"}, records)
    borrowing.note({path: b"one", other: b"one"})
    path.unlink()
    path.mkdir()
    other.write_bytes(b"one")
    fates = put_back(borrowing.record)
    assert [fate.fate for fate in fates] == ["failed", "put back"]
    assert borrowing.record.exists()
    path.rmdir()
    path.write_bytes(b"one")
    assert [fate.fate for fate in borrowing.put_back()] == ["put back"]
    assert not borrowing.record.exists()


def test_records_that_say_nothing_are_passed_over(path: Path, records: Path) -> None:
    records.mkdir()
    (records / "1-torn.json").write_text('{"schema": 1, "own')
    (records / "2-newer.json").write_text('{"schema": 99}')
    (records / "3-list.json").write_text("[]")
    assert restore_abandoned(records) == []
    assert len(list(records.iterdir())) == 3


def _guards(borrowing: Borrowing) -> list[int]:
    """A process that has just been started does not tell its command line at once."""
    limit = time.monotonic() + 120
    while not (found := _guards_now(borrowing)):
        assert time.monotonic() < limit
    return found


def _guards_now(borrowing: Borrowing) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(borrowing.record).encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
    return found


def _until_gone(pid: int) -> None:
    limit = time.monotonic() + 120
    while (entry := process_entry(pid)) is not None and entry.is_running:
        assert time.monotonic() < limit
