"""Copies, snapshots, writes and removals: what happens on a real disk."""

import os
import socket
import stat
from pathlib import Path

import pytest

from burnish.core.errors import FileTrouble
from burnish.system.workspaces import (
    DEFAULT_EXCLUDE,
    copy_workspace,
    diff_snapshots,
    read_contents,
    remove_tree,
    snapshot,
    write_files,
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src/main.py").write_text("print(1)\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    return folder


def kinds(before: Path, after: Path) -> dict[str, str]:
    return {c.path: c.kind for c in diff_snapshots(snapshot(before), snapshot(after))}


def test_a_copy_is_the_folder_as_it_is(source: Path, tmp_path: Path) -> None:
    (source / "empty").mkdir(mode=0o750)
    (source / "odd\nname \udcff").write_text("x")
    (source / "main").symlink_to("src/main.py")
    copy = copy_workspace(source, tmp_path / "copy")
    assert kinds(source, copy.folder) == {}
    assert (copy.files, copy.bytes, copy.notes) == (3, 20, ())
    assert (copy.folder / "main").readlink() == Path("src/main.py")
    assert (copy.folder / "run.sh").stat().st_mode & 0o111
    before, after = (f / "src/main.py" for f in (source, copy.folder))
    assert after.stat().st_mtime_ns == before.stat().st_mtime_ns


def test_histories_caches_and_runs_stay_behind(source: Path, tmp_path: Path) -> None:
    for name in (".git/config", "src/__pycache__/main.pyc", ".venv/bin/python", "work/log"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("x")
    run = source / "results/2026"
    run.mkdir(parents=True)
    for name in ("run.json", "journal.db"):
        (run / name).write_text("x")
    copy = copy_workspace(source, tmp_path / "copy", exclude=(*DEFAULT_EXCLUDE, "work"))
    assert set(snapshot(copy.folder).entries) == {"src", "src/main.py", "run.sh", "results"}


def test_a_copy_inside_its_original_does_not_hold_itself(source: Path) -> None:
    copy = copy_workspace(source, source / "work/copy")
    assert "work/copy" not in snapshot(copy.folder).entries


def test_no_link_of_a_copy_leads_back(source: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "data").write_text("theirs")
    (outside / "back").symlink_to(source / "src/main.py")
    (source / "absolute").symlink_to(source / "src/main.py")
    (source / "round").symlink_to("../outside/back")
    (source / "file").symlink_to(outside / "data")
    (source / "folder").symlink_to(outside)
    (source / "src/up").symlink_to("../run.sh")
    (source / "dangling").symlink_to("/nowhere/at/all")
    copy = copy_workspace(source, tmp_path / "elsewhere" / "copy")
    for path in copy.folder.rglob("*"):
        assert path.resolve().is_relative_to(copy.folder)
    assert (copy.folder / "absolute").readlink() == Path("src/main.py")
    assert (copy.folder / "round").read_text() == "print(1)\n"
    (copy.folder / "file").write_text("ours")
    assert (outside / "data").read_text() == "theirs"
    assert sorted(note.split(":")[0] for note in copy.notes) == ["dangling", "file", "folder"]


def test_hard_links_are_broken(source: Path, tmp_path: Path) -> None:
    (source / "twin").hardlink_to(source / "src/main.py")
    copy = copy_workspace(source, tmp_path / "copy")
    (copy.folder / "twin").write_text("changed")
    assert (copy.folder / "src/main.py").read_text() == "print(1)\n"
    assert (source / "twin").read_text() == "print(1)\n"
    assert {e.links for e in snapshot(copy.folder).entries.values() if e.kind == "file"} == {1}


def test_what_is_no_file_is_noted(source: Path, tmp_path: Path) -> None:
    os.mkfifo(source / "pipe")
    (source / ".git").write_text("gitdir: /elsewhere/.git")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(source / "s"))
        copy = copy_workspace(source, tmp_path / "copy", exclude=())
    assert len(copy.notes) == 3
    assert not (copy.folder / "pipe").exists()
    assert not (copy.folder / ".git").exists()
    assert any("a repository elsewhere" in note for note in copy.notes)


def test_a_copy_gives_nobody_more_power(source: Path, tmp_path: Path) -> None:
    (source / "run.sh").chmod(0o4755)
    copy = copy_workspace(source, tmp_path / "copy")
    assert stat.S_IMODE((copy.folder / "run.sh").stat().st_mode) == 0o755


def test_a_copy_does_not_take_a_place_that_is_taken(source: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    with pytest.raises(FileTrouble):
        copy_workspace(source, tmp_path / "copy")
    with pytest.raises(FileTrouble):
        copy_workspace(tmp_path / "missing", tmp_path / "copy2")
    assert not (tmp_path / "copy2").exists()


def test_every_change_is_seen(source: Path, tmp_path: Path) -> None:
    (source / "link").symlink_to("run.sh")
    (source / "gone").write_text("moved content")
    folder = copy_workspace(source, tmp_path / "copy").folder
    before = snapshot(folder)
    (folder / "src/main.py").write_text("print(2)\n")
    (folder / "run.sh").chmod(0o700)
    (folder / "link").unlink()
    (folder / "link").symlink_to("src")
    (folder / "gone").rename(folder / "Gone")
    (folder / "new").mkdir()
    (folder / "new/hard").hardlink_to(folder / "run.sh")
    changes = {c.path: c for c in diff_snapshots(before, snapshot(folder))}
    assert {path: change.kind for path, change in changes.items()} == {
        "Gone": "added", "gone": "removed", "link": "content", "new": "added",
        "new/hard": "added", "run.sh": "mode", "src/main.py": "content",
    }  # fmt: skip
    assert changes["Gone"].renamed_from == "gone"


def test_a_file_that_becomes_something_else_is_seen(source: Path, tmp_path: Path) -> None:
    before = snapshot(source)
    (source / "run.sh").unlink()
    (source / "run.sh").symlink_to("/etc/passwd")
    os.mkfifo(source / "pipe")
    changes = {c.path: c.kind for c in diff_snapshots(before, snapshot(source))}
    assert changes == {"run.sh": "kind", "pipe": "added"}
    assert read_contents(source, ["run.sh", "pipe", "src", "src/main.py", "no"]) == {
        "src/main.py": b"print(1)\n"
    }


def test_folders_deeper_than_any_path_are_no_trouble(tmp_path: Path) -> None:
    here, place = Path.cwd(), tmp_path / "deep"
    place.mkdir()
    try:
        os.chdir(place)
        for _ in range(30):
            Path("x" * 200).mkdir()
            os.chdir("x" * 200)
    finally:
        os.chdir(here)
    assert any("unreadable" in e.digest for e in snapshot(place).entries.values())
    assert remove_tree(place)
    assert not place.exists()


def test_removing_follows_no_link(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner/link").symlink_to(source)
    (folder / "inner").chmod(0o000)
    assert remove_tree(folder)
    assert (source / "run.sh").exists()
    assert remove_tree(folder)


def test_texts_are_written_into_a_workspace(source: Path) -> None:
    write_files(source, {"run.sh": "exit 1\n", "a/b/new.md": "né\r\n", "src/main.py": None})
    assert (source / "run.sh").read_text() == "exit 1\n"
    assert (source / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (source / "a/b/new.md").read_bytes() == "né\r\n".encode()
    assert not (source / "src/main.py").exists()
    assert not list(source.rglob("*.burnish-tmp"))


@pytest.mark.parametrize(
    "path",
    ["../out", "/etc/out", "a/../../out", "", ".", "a//b", "a/", "a\\b", "a\0b", "link/out",
     "to_file", "src", "run.sh/below", "C:x", "~/x", "a\nb"],
)  # fmt: skip
def test_nothing_is_written_elsewhere(source: Path, tmp_path: Path, path: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("theirs")
    (source / "link").symlink_to(outside)
    (source / "to_file").symlink_to(outside / "file")
    before = snapshot(source)
    with pytest.raises(FileTrouble):
        write_files(source, {"run.sh": "changed", path: "x"})
    assert diff_snapshots(before, snapshot(source)) == []
    assert (outside / "file").read_text() == "theirs"
    assert [p.name for p in outside.iterdir()] == ["file"]


def test_what_is_no_text_is_not_written(source: Path) -> None:
    with pytest.raises(FileTrouble, match="lone surrogate"):
        write_files(source, {"run.sh": "x", "bad": "\ud800"})
    assert (source / "run.sh").read_text() == "#!/bin/sh\n"


@pytest.mark.slow
def test_a_large_folder_is_copied_in_seconds(tmp_path: Path) -> None:
    folder = tmp_path / "large"
    for group in range(100):
        (folder / str(group)).mkdir(parents=True)
        for number in range(100):
            (folder / str(group) / str(number)).write_bytes(os.urandom(10_000))
    copy = copy_workspace(folder, tmp_path / "copy")
    assert (copy.files, copy.bytes) == (10_000, 100_000_000)
    assert kinds(folder, copy.folder) == {}
