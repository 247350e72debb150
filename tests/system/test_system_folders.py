"""Folders that are whole or absent."""

from pathlib import Path

import pytest

from burnish.core.errors import FileTrouble
from burnish.system import make_folder, remove_stale_temporaries


def filled(spare: Path) -> None:
    (spare / "content").write_text("whole")


def test_a_folder_appears_with_its_content(tmp_path: Path) -> None:
    assert make_folder(tmp_path / "new", filled)
    assert (tmp_path / "new" / "content").read_text() == "whole"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine").write_text("mine")
    assert not make_folder(tmp_path / "taken", filled)
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["mine"]
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_a_file_in_its_place_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    assert not make_folder(tmp_path / "taken", filled)
    assert (tmp_path / "taken").read_text() == "mine"


def test_when_filling_fails_nothing_is_left(tmp_path: Path) -> None:
    def broken(spare: Path) -> None:
        filled(spare)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        make_folder(tmp_path / "new", broken)
    assert list(tmp_path.iterdir()) == []


def test_where_no_folder_can_be_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileTrouble):
        make_folder(tmp_path / "nowhere" / "new", filled)


def test_a_spare_folder_of_a_dead_process_is_removed(tmp_path: Path) -> None:
    dead = tmp_path / ".4194399-0123456789abcdef.burnish-tmp"
    dead.mkdir()
    filled(dead)
    remove_stale_temporaries(tmp_path, shared=True)
    assert list(tmp_path.iterdir()) == []
