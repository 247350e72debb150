"""Mutated, deep, long and packed files: one message, no traceback, no wait."""

import io
import time
import zipfile
import zlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from burnish.core.cases import Attachment
from burnish.core.errors import BurnishError, ConfigError, FileTrouble
from burnish.system.files import read_bytes
from burnish.system.yaml import parse_tree
from burnish.targets.agent.attachments import text_in
from tests.security.fuzz import fuzz
from tests.security.fuzz_readers import READERS
from tests.targets.office_files import docx

_SLOW = ("run.json", "events.jsonl", "trials.jsonl", "journal.db")
"""Readers that start six commands for each file."""


@pytest.mark.parametrize("name", READERS)
def test_mutants_of_every_file_end_in_a_message(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNISH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    broken = fuzz(name, tmp_path, seed="suite", count=4 if name in _SLOW else 60)
    assert not broken, "\n".join(f"{each.what}\n{each.trace}" for each in broken[:3])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 10_000, "a.yaml:1:102: its values are nested too deeply"),
        ("{a: " * 10_000, "nested too deeply"),
        ("- " * 5_000, "nested too deeply"),
        ("".join(" " * n + "a:\n" for n in range(150)), "a.yaml:101:102: its values are nested"),
        ("a: &a x\nb: [" + "*a," * 101 + "]", "more than 100 aliases"),
        ("? " * 40 + "a", "a key is not a single text"),
        ("{" * 40 + "a" + "}: b" * 40, "a key is not a single text"),
        ("a: " + "9" * 5_000, "a number has too many digits"),
        ("a: 0x" + "f" * 5_000, "a number has too many digits"),
    ],
)  # fmt: skip
def test_yaml_that_would_take_long_is_refused_at_once(text: str, words: str) -> None:
    began = time.process_time()
    with pytest.raises(ConfigError) as refused:
        parse_tree(Path("a.yaml"), text)
    assert words in str(refused.value)
    assert time.process_time() - began < 2


def test_laughs_without_end_are_refused() -> None:
    names = "abcdefghi"
    lines = [f"{names[0]}: &{names[0]} [x, x, x, x, x, x, x, x]"]
    for above, name in pairwise(names):
        lines.append(f"{name}: &{name} [{', '.join([f'*{above}'] * 8)}]")
    with pytest.raises(ConfigError, match="unfold into too much"):
        parse_tree(Path("a.yaml"), "\n".join(lines))


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 400 + "1" + "}" * 400, "[" + "9" * 400 + "]"]
)
def test_json_has_the_same_bounds(text: str) -> None:
    with pytest.raises(ConfigError, match=r"nested too deeply|too many digits"):
        parse_tree(Path("a.json"), text)


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b", "x" * 5_000])
def test_a_name_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileTrouble) as refused:
        read_bytes(tmp_path / name)
    assert refused.value.remedy
    str(refused.value).encode()


def _bombed(document: bytes, part: str, body: bytes) -> bytes:
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(document)) as old,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, body if name == part else old.read(name))
    return buffer.getvalue()


def test_a_zip_bomb_is_refused_before_it_unpacks() -> None:
    head = b'<?xml version="1.0"?><w:document xmlns:w="urn:w"><w:body>'
    bomb = _bombed(docx(""), "word/document.xml", head + b" " * 101_000_000)
    assert len(bomb) < 1_000_000
    with pytest.raises(BurnishError, match="unpacks to more than"):
        text_in(Attachment(kind="word", path="a.docx"), bomb)


def test_a_zip_in_a_zip_is_no_document() -> None:
    nested = _bombed(docx(""), "word/document.xml", docx(""))
    with pytest.raises(BurnishError):
        text_in(Attachment(kind="word", path="a.docx"), nested)


def test_a_pdf_of_very_many_pages_is_refused_unless_some_are_chosen() -> None:
    content = repeated_page(2_001)
    whole = Attachment(kind="pdf", path="a.pdf")
    with pytest.raises(FileTrouble, match="2,001 of its pages would be read; the limit is 2,000"):
        text_in(whole, content)
    with pytest.raises(FileTrouble, match="it contains no text"):
        text_in(replace(whole, options={"pages": [1, 2]}), content)


def repeated_page(count: int) -> bytes:
    """A PDF whose tree of pages names one empty page so many times."""
    kids = b" ".join([b"3 0 R"] * count)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count %d /Kids [%s] >>" % (count, kids),
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] >>",
    ]
    content, places = b"%PDF-1.4\n", list[int]()
    for number, each in enumerate(objects, 1):
        places.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"xref\n0 4\n0000000000 65535 f \n%strailer\n<< /Size 4 /Root 1 0 R >>\n" % table
    return content + end + b"startxref\n%d\n%%%%EOF\n" % len(content)


def test_a_pdf_whose_stream_unpacks_to_a_lot_is_refused() -> None:
    body = zlib.compress(b"BT " + b" " * 120_000_000 + b"ET", 9)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<<>>>>",
        b"<</Filter/FlateDecode/Length %d>>stream\n%s\nendstream" % (len(body), body),
    ]
    listed = b"".join(b"%d 0 obj%s endobj\n" % each for each in enumerate(objects, start=1))
    content = b"%PDF-1.7\n" + listed + b"trailer<</Root 1 0 R/Size 5>>\n%%EOF"
    assert len(content) < 200_000
    with pytest.raises(BurnishError) as refused:
        text_in(Attachment(kind="pdf", path="a.pdf"), content)
    assert "damaged" in str(refused.value)
