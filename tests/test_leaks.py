"""The check after every test sees what a test left behind, and puts it back."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.leaks import ProcessState


def test_nothing_left_is_no_leak(tmp_path: Path) -> None:
    assert ProcessState.now().leaks(tmp_path) == []


def test_the_import_path(tmp_path: Path) -> None:
    before, entries = ProcessState.now(), [*sys.path]
    gone = sys.path.pop()
    sys.path.insert(0, "/somewhere")
    assert before.leaks(tmp_path) == [
        f"sys.path has lost {gone}",
        "sys.path has gained /somewhere",
    ]
    assert sys.path == entries


def test_the_folder_of_a_project_is_taken_off_the_import_path(tmp_path: Path) -> None:
    before, entries = ProcessState.now(), [*sys.path]
    sys.path.insert(0, str(tmp_path / "project"))
    assert before.leaks(tmp_path) == []
    assert sys.path == entries


def test_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEAKS_NEW", raising=False)
    monkeypatch.setenv("LEAKS_OLD", "as it was")
    monkeypatch.setenv("LEAKS_OTHER", "as it was")
    before = ProcessState.now()
    os.environ |= {"LEAKS_NEW": "1", "LEAKS_OLD": "2"}
    del os.environ["LEAKS_OTHER"]
    assert before.leaks(tmp_path) == [
        "the variable LEAKS_NEW is set",
        "the variable LEAKS_OLD is changed",
        "the variable LEAKS_OTHER is gone",
    ]
    assert before.variables == ProcessState.now().variables


def test_a_working_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = ProcessState.now()
    (tmp_path / "away").mkdir()
    os.chdir(tmp_path / "away")
    (tmp_path / "away").rmdir()
    assert before.leaks(tmp_path) == ["the working directory is one that is gone"]
    assert Path.cwd() == tmp_path


def test_signal_handlers(tmp_path: Path) -> None:
    before = ProcessState.now()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    assert before.leaks(tmp_path) == ["the handler of SIGTERM is 1"]
    assert ProcessState.now() == before
