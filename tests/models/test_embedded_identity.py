"""Another file under the same name is another model."""

from pathlib import Path

from burnish.models.embedded.files import content_mark


def test_a_file_is_known_by_its_size_and_both_ends(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    marks: list[str] = []
    middle = bytes(3 * 1024 * 1024)
    for content in (b"GGUF" + middle + b"a", b"GGUF" + middle + b"b", b"GGUF" + middle + b"bb"):
        model.write_bytes(content)
        marks.append(content_mark(model))
    assert len(set(marks)) == 3
    model.write_bytes(b"GGUF" + middle + b"a")
    assert content_mark(model) == marks[0]
    model.write_bytes(b"")
    assert content_mark(model).startswith("0:")
