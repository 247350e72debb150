"""What a source means: files, folders, globs; and what is refused."""

import os
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.retrieval import SourceSettings
from burnish.retrieval.documents import find_files
from tests.models.test_embedded_files import as_nobody, open_to_all
from tests.retrieval.corpus import chunks_of, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, a_md="alpha", b_txt="beta", notes_html="<p>gamma</p>", tool_py="print()")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    write(tmp_path / "deep" / "er", c_md="delta")
    (tmp_path / ".hidden").mkdir()
    write(tmp_path / ".hidden", d_md="never")
    return tmp_path


FOUND = {
    "a.md": ["a.md"],
    "tool.py": ["tool.py"],
    "*.md": ["a.md"],
    "**/*.md": ["a.md", "deep/er/c.md"],
    "deep": ["deep/er/c.md"],
    ".": ["a.md", "b.txt", "deep/er/c.md", "notes.html"],
    "[ab].*": ["a.md", "b.txt"],
    "./deep/../b.txt": ["b.txt"],
}


@pytest.mark.parametrize("source", FOUND)
def test_a_source_is_a_file_a_folder_or_a_glob(folder: Path, source: str) -> None:
    found = find_files(SourceSettings(source=source, folder=folder))
    assert [os.path.normpath(file.name) for file in found] == FOUND[source]


def test_absolute_paths_globs_and_file_addresses_are_taken_as_they_are(folder: Path) -> None:
    elsewhere = folder / "deep"
    for source in (f"{folder}/a.md", f"{folder}/a.*", f"file://{folder}/a.md"):
        (found,) = find_files(SourceSettings(source=source, folder=elsewhere))
        assert found.path.resolve() == folder / "a.md"
        assert found.name == "../a.md"


def test_a_name_with_brackets_is_a_name_where_there_is_such_a_file(tmp_path: Path) -> None:
    (tmp_path / "a[1].txt").write_text("one", encoding="utf-8")
    assert [chunk.text for chunk in chunks_of(tmp_path, "a[1].txt")] == ["one"]


@pytest.mark.parametrize("scheme", ["s3", "az", "http", "https", "gs", "S3"])
def test_sources_elsewhere_are_refused_by_name(tmp_path: Path, scheme: str) -> None:
    with pytest.raises(ConfigError, match=f"sources at {scheme}:// are not supported") as refused:
        chunks_of(tmp_path, f"{scheme}://bucket/docs/*.md")
    assert "copy the files" in str(refused.value)


@pytest.mark.parametrize("source", ["no.md", "no/*.md", "**/*.pdf", ""])
def test_a_source_without_a_file_says_where_it_looked(tmp_path: Path, source: str) -> None:
    with pytest.raises(ConfigError, match="matches this pattern") as refused:
        chunks_of(tmp_path, source)
    assert str(tmp_path) in str(refused.value)


def test_a_file_that_is_no_text_is_refused_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "photo.txt").write_bytes(b"fine so far \xff\xd8")
    with pytest.raises(ConfigError, match=r"photo\.txt: the file is not UTF-8 text \(at byte 12\)"):
        chunks_of(tmp_path, "photo.txt")


def test_a_file_that_may_not_be_read_is_refused_with_its_path(tmp_path: Path) -> None:
    open_to_all(tmp_path)
    write(tmp_path, secret_md="x")
    (tmp_path / "secret.md").chmod(0)
    with as_nobody(), pytest.raises(ConfigError, match=r"secret\.md: cannot read .* denied"):
        chunks_of(tmp_path, "secret.md")


def test_empty_files_give_no_chunks(tmp_path: Path) -> None:
    write(tmp_path, a_md="", b_txt=" \n\t\n", c_html="<html></html>", d_csv="", e_json="")
    for chunking in ("structure", "token"):
        assert chunks_of(tmp_path, ".", chunking=chunking) == []


@pytest.mark.parametrize("wrong", [{"max_chunk_tokens": 0}, {"chunk_overlap": -1}])
def test_sizes_that_cannot_be_are_refused(tmp_path: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="invalid chunk size"):
        chunks_of(tmp_path, "a.md", **wrong)
