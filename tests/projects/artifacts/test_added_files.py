"""Files that an adoption adds: written together with the others, or not at all."""

from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError, FileTrouble
from burnish.core.surfaces import Change
from burnish.projects.adopt_files import Adopted, AdoptedFile, write_together
from burnish.projects.artifacts.results import TaskHomes
from burnish.runs.homes import FileChange
from burnish.system.borrowed_files import Borrowing


def changes_in(folder: Path) -> tuple[FileChange, FileChange]:
    """A file that is added in a new folder, and one that is changed."""
    old = folder / "old.md"
    old.write_text("before\n")
    new = folder / "new/deep/note.md"
    return (
        FileChange(path=new, before=b"", after=b"added\n", adds=True),
        FileChange(path=old, before=b"before\n", after=b"after\n"),
    )


def test_a_file_is_added_with_its_folders_and_removed(tmp_path: Path) -> None:
    added, changed = changes_in(tmp_path)
    write_together([added, changed])
    assert added.path.read_text() == "added\n"
    assert added.path.stat().st_mode & 0o111 == 0
    assert changed.path.read_text() == "after\n"
    write_together([FileChange(path=added.path, before=b"added\n", after=b"", removes=True)])
    assert not added.path.exists()
    assert [change.verb for change in (added, changed)] == ["added", "changed"]


def test_nothing_stays_of_an_addition_if_another_file_cannot_be_changed(tmp_path: Path) -> None:
    added, changed = changes_in(tmp_path)
    changed.path.write_text("somebody else\n")
    with pytest.raises(ConfigError, match="someone has just changed the file"):
        write_together([added, changed])
    assert not (tmp_path / "new").exists()
    assert changed.path.read_text() == "somebody else\n"


def test_what_is_there_by_now_is_not_overwritten(tmp_path: Path) -> None:
    added, changed = changes_in(tmp_path)
    added.path.parent.mkdir(parents=True)
    added.path.write_text("mine\n")
    with pytest.raises(ConfigError, match="someone has just changed the file"):
        write_together([added, changed])
    assert added.path.read_text() == "mine\n"
    assert changed.path.read_text() == "before\n"
    (tmp_path / "file").write_text("")
    below = FileChange(path=tmp_path / "file/x.md", before=b"", after=b"x", adds=True)
    with pytest.raises(FileTrouble, match="not a folder"):
        write_together([below])


def test_a_killed_addition_is_taken_back(tmp_path: Path) -> None:
    """What the guard of a killed process does, and what the next command does."""
    new, kept = tmp_path / "new.md", tmp_path / "kept.md"
    borrowing = Borrowing({new: None, kept: None}, tmp_path / "records")
    borrowing.note({new: b"added\n", kept: b"added\n"})
    new.write_bytes(b"added\n")
    kept.write_bytes(b"somebody went on with it\n")
    fates = {Path(each.path).name: each.fate for each in borrowing.put_back()}
    assert fates == {"new.md": "put back", "kept.md": "left alone"}
    assert not new.exists()
    assert kept.exists()


def test_only_folders_of_removed_files_are_removed(tmp_path: Path) -> None:
    mine, others = tmp_path / "mine", tmp_path / "others"
    for folder in (mine, others):
        folder.mkdir()
    file = AdoptedFile(
        path=str(mine / "a.md"),
        before="",
        after="",
        hunks=(),
        added=True,
        folders=(str(others), str(mine)),
    )
    elsewhere = replace(file, path=str(others / "a.md"))
    record = Adopted(trial=1, candidate="", at="", files=(file, elsewhere))
    (others / "a.md").write_text("x")
    record.remove_folders()
    (others / "a.md").unlink()
    assert not mine.exists()
    assert others.exists()


@pytest.mark.parametrize(
    "name",
    ["../out.md", "/tmp/out.md", ".git/hooks/x.md", "a#b.md", "other.txt", "conftest.py", "l/x.md"],
)
def test_a_run_from_elsewhere_adds_only_what_its_patterns_admit(tmp_path: Path, name: str) -> None:
    away = tmp_path / "away"
    away.mkdir()
    home = tmp_path / "home"
    home.mkdir()
    (home / "l").symlink_to(away)
    homes = TaskHomes(homes={}, folder=home, new_files=("**/*.md", "*.py"))
    with pytest.raises(ConfigError):
        homes.file_added(Change(surface=name, before=None, after="text"))
    assert list(away.iterdir()) == []


def test_a_text_without_its_secret_is_not_added(tmp_path: Path) -> None:
    homes = TaskHomes(homes={}, folder=tmp_path, new_files=("*.md",))
    change = Change(surface="a.md", before=None, after="key = [redacted]\n")
    with pytest.raises(ConfigError, match="in place of what looked like a secret"):
        homes.file_added(change)
