"""Lines that several processes add to one file."""

from pathlib import Path

from burnish.system.files import add_lines, whole_lines


def test_lines_are_added_and_folders_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.jsonl"
    add_lines(path, [])
    assert not path.exists()
    add_lines(path, ["one"])
    add_lines(path, ["two", "three"])
    assert path.read_text(encoding="utf-8") == "one\ntwo\nthree\n"


def test_a_torn_line_is_cut_off_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text("one\ntw", encoding="utf-8")
    assert whole_lines(path) == ["one"]
    add_lines(path, ["two"])
    assert whole_lines(path) == ["one", "two"]


def test_a_file_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert whole_lines(tmp_path / "none") == []
