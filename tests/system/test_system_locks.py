"""One process holds a lock, and it dies with that process."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from burnish.core.errors import FileTrouble, RunLocked
from burnish.system import FileLock, is_held

HOLD = (
    "import sys, time; from pathlib import Path; from burnish.system import FileLock\n"
    "lock = FileLock.acquire(Path(sys.argv[1]), holding='run 7')\n"
    "print('held', flush=True); time.sleep(60)"
)
HOLD_WITH_CHILD = (
    "import subprocess, sys, time; from pathlib import Path; from burnish.system import FileLock\n"
    "lock = FileLock.acquire(Path(sys.argv[1]), holding='run 7')\n"
    "child = subprocess.Popen(['sleep', '60'], close_fds=False)\n"
    "print(child.pid, flush=True); time.sleep(60)"
)


@contextmanager
def holder(path: Path, code: str = HOLD) -> Generator[tuple[subprocess.Popen[str], str]]:
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_a_second_process_is_told_who_holds_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path) as (process, _):
        with pytest.raises(RunLocked) as caught:
            FileLock.acquire(path, holding="run 7")
        assert is_held(path)
    assert f"run 7 is in use by process {process.pid} on {os.uname().nodename}" in str(caught.value)
    assert "since 20" in caught.value.message
    assert f"kill -INT {process.pid}" in caught.value.remedy


def test_a_killed_holder_frees_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path) as (process, _):
        process.kill()
        process.wait()
        assert not is_held(path)
        with FileLock.acquire(path, holding="run 7"):
            assert json.loads(path.read_text())["pid"] == os.getpid()


def test_a_program_that_the_holder_started_does_not_keep_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path, HOLD_WITH_CHILD) as (process, child):
        process.kill()
        process.wait()
        try:
            FileLock.acquire(path, holding="run 7").release()
        finally:
            os.kill(int(child), 9)


def test_a_released_lock_can_be_taken_again(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = FileLock.acquire(path, holding="run 7")
    assert is_held(path)
    lock.release()
    lock.release()
    assert not is_held(path)
    with FileLock.acquire(path, holding="run 7"):
        assert is_held(path)


def test_a_second_lock_in_one_process_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with FileLock.acquire(path, holding="run 7"), pytest.raises(RunLocked):
        FileLock.acquire(path, holding="run 7")


def test_an_unsigned_lock_is_still_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with FileLock.acquire(path, holding="run 7"):
        path.write_text("")
        with pytest.raises(RunLocked, match="run 7 is in use by another process"):
            FileLock.acquire(path, holding="run 7")


def test_looking_at_a_lock_does_not_take_or_create_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_held(path)
    assert not path.exists()


def test_a_lock_in_a_missing_folder_is_trouble(tmp_path: Path) -> None:
    with pytest.raises(FileTrouble, match="it does not exist"):
        FileLock.acquire(tmp_path / "missing" / "lock", holding="run 7")
