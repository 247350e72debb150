"""How files become chunks: headings, pages, records, and texts cut to size."""

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.core.errors import ConfigError
from burnish.retrieval.chunks import count_tokens, pieces
from burnish.retrieval.documents import html_sections, html_text, markdown_sections
from tests.retrieval.corpus import chunks_of, write
from tests.targets.office_files import pdf

GUIDE = """\
---
title: A guide
---
Before any heading.

# Guide

## Install

Run it.

```sh
# not a heading
```

### Linux ###

Use the package.

## Empty

Setext
======

Under it
- a list
---

Small
-----
Last words.
"""


def test_markdown_is_cut_at_its_headings(tmp_path: Path) -> None:
    write(tmp_path, guide_md=GUIDE)
    found = chunks_of(tmp_path, "guide.md", chunking="structure")
    assert [(chunk.place, chunk.text.split("\n")[0]) for chunk in found] == [
        ("", "---"),
        ("Guide > Install", "Run it."),
        ("Guide > Install > Linux", "Use the package."),
        ("Guide > Empty", "Empty"),
        ("Setext", "Under it"),
        ("Setext > Small", "Last words."),
    ]
    assert found[2].passage == "Guide > Install > Linux\nUse the package."
    assert "# not a heading" in found[1].text
    assert [chunk.id for chunk in found[:2]] == ["guide.md#000001", "guide.md#000002"]


TRICKY = {
    "~~~\n# code\n```\n# code\n~~~\n# A\nx": [("", "~~~"), ("A", "x")],
    "```\ncode\n```\n---\nx": [("", "```")],
    "- item\n\n  # in a list\n  - deeper\n\n# A\nx": [("", "- item"), ("A", "x")],
    "> # quoted\n\nA\n=\nx": [("", "> # quoted"), ("A", "x")],
    "one\ntwo\n---\nx": [("", "one"), ("two", "x")],
    "- item\n===\n===": [("", "- item")],
    "| a | b |\n|---|---|\n| 1 | 2 |\n---\nx": [("", "| a | b |")],
    "<div>\n# A\n</div>": [("", "<div>"), ("A", "</div>")],
    "    # code\n#no\n####### seven\n#\nx": [("", "    # code"), ("", "x")],
    "## A ##\n#### B\n### C\nx": [("A > B", "B"), ("A > C", "x")],
    "[ref]: http://a\n\n# A\n***\nx": [("", "[ref]: http://a"), ("A", "***")],
}
"""Markdown, and the place and first line of each of its sections."""


@pytest.mark.parametrize("text", TRICKY)
def test_what_only_looks_like_a_heading_is_none(text: str) -> None:
    found = markdown_sections(text)
    assert [(each.place, each.text.split("\n")[0]) for each in found] == TRICKY[text]


def test_token_chunking_leaves_markdown_as_it_stands(tmp_path: Path) -> None:
    write(tmp_path, guide_md=GUIDE)
    (chunk,) = chunks_of(tmp_path, "guide.md", chunking="token")
    assert chunk.text == GUIDE.strip()
    assert (chunk.place, chunk.headings) == ("", ())


PAGE = """\
<!DOCTYPE html><html><head><title>Never seen</title><style>p { color: red }</style>
<script>var hidden = "<h1>no</h1>";</script></head><body>
<p>Up front &amp; first.<h1>Top <em>one</em></h1><p>Some
   text<br>and more</p>
<![if IE]><h2>Table</h2><table><tr><th>Year</th><td>2014</td></tr></table><![endif]>
<pre>kept
  as is</pre><h2>Alone</h2></body></html>"""


def test_html_keeps_what_a_reader_sees(tmp_path: Path) -> None:
    write(tmp_path, page_html=PAGE)
    found = chunks_of(tmp_path, "page.html", chunking="structure")
    assert [(chunk.place, chunk.text) for chunk in found] == [
        ("", "Up front & first."),
        ("Top one", "Some text\nand more"),
        ("Top one > Table", "Year | 2014\nkept\n  as is"),
        ("Top one > Alone", "Alone"),
    ]
    (whole,) = chunks_of(tmp_path, "page.html", chunking="token")
    assert whole.text.startswith("Up front & first.\n\nTop one\n\nSome text\nand more\n\nTable")
    for unseen in ("Never seen", "color", "hidden"):
        assert unseen not in whole.text


@given(page=st.text(alphabet="<>/!-[]&;\"'= hpre1sctylCDATA\n", max_size=80))
@settings(max_examples=50)
def test_any_html_and_markdown_can_be_read(page: str) -> None:
    html_sections(page)
    html_text(page)
    markdown_sections(page)


def test_a_pdf_is_read_page_by_page(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf("Revenue rose.", "", "Costs fell."))
    found = chunks_of(tmp_path, "a.pdf")
    assert [(chunk.place, chunk.text) for chunk in found] == [
        ("page 1", "Revenue rose."),
        ("page 3", "Costs fell."),
    ]


@pytest.mark.parametrize("content", [b"", b"no pdf", b"%PDF-1.7\n%%EOF", pdf("x")[:-120]])
def test_a_pdf_that_cannot_be_read_is_refused_with_its_path(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.pdf").write_bytes(content)
    with pytest.raises(ConfigError, match=r"bad\.pdf: the file cannot be read as PDF"):
        chunks_of(tmp_path, "bad.pdf")


def test_a_pdf_that_is_only_locked_against_changes_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf("open to all", password=""))
    assert [chunk.text for chunk in chunks_of(tmp_path, "a.pdf")] == ["open to all"]


def test_without_pypdf_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF")
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(ConfigError, match=r"pip install .*\[documents\]"):
        chunks_of(tmp_path, "a.pdf")


FIELDS: dict[str, Any] = {
    "id_field": "id",
    "vector_fields": ("title", "body"),
    "meta_fields": ("year",),
}
FILES = {
    "a.csv": 'id,title,body,year\n1,Cats,"purr, and\nsleep",2014\n2,Dogs,,2015\n',
    "a.tsv": "id\ttitle\tbody\tyear\n1\tCats\tpurr, and\nsleep\t2014\n2\tDogs\t\t2015\n",
    "b.csv": '\ufeffid;title;body;year\n1;Cats;"purr, and\nsleep";2014\n2;Dogs;;2015\n',
    "c.json": '[{"id": 1, "title": "Cats", "body": "purr, and\\nsleep", "year": "2014"},'
    '{"id": 2, "title": "Dogs", "year": "2015"}]',
    "d.jsonl": '{"id": "1", "title": "Cats", "body": "purr, and\\nsleep", "year": "2014"}\n\n'
    '{"id": "2", "title": "Dogs", "body": null, "year": "2015"}\n',
}
FILES["a.tsv"] = FILES["a.tsv"].replace("purr, and\nsleep", '"purr, and\nsleep"')


@pytest.mark.parametrize("name", FILES)
def test_records_are_read_by_their_fields(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FILES[name], encoding="utf-8")
    found = chunks_of(tmp_path, name, **FIELDS, field_separator=" | ")
    assert [(c.id, c.text, c.place, c.metadata) for c in found] == [
        (f"{name}#1", "Cats | purr, and\nsleep", "1", {"year": "2014"}),
        (f"{name}#2", "Dogs", "2", {"year": "2015"}),
    ]


def test_records_may_lie_deep_in_a_document(tmp_path: Path) -> None:
    write(tmp_path, a_json='{"payload": {"items": [{"id": "x", "text": {"en": "Hello"}}]}}')
    (chunk,) = chunks_of(
        tmp_path, "a.json", id_field="id", vector_fields=("text.en",), record_path="payload.items"
    )
    assert chunk.text == "Hello"


def test_a_long_record_becomes_several_chunks_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, a_jsonl='{"id": "long", "t": "' + "word " * 300 + '"}')
    found = chunks_of(
        tmp_path, "a.jsonl", id_field="id", vector_fields=("t",), max_chunk_tokens=100
    )
    assert [chunk.id for chunk in found[:2]] == ["a.jsonl#long", "a.jsonl#long/000002"]
    assert {chunk.place for chunk in found} == {"long"}


WRONG = {
    "misspelled": ("a.csv", "id,titel,body,year\n1,a,b,c\n", "no field 'title'.*did you mean"),
    "no id": ("a.csv", "id,title,body,year\n,a,b,c\n", "record 1 has no id"),
    "same id": ("a.csv", "id,title,body,year\n7,a,b,c\n7,d,e,f\n", "two records have the id '7'"),
    "no json": ("a.json", "[{", r"a\.json: not valid JSON"),
    "no json line": ("a.jsonl", '{"id":1,"title":"","body":"","year":1}\n{', r"a\.jsonl:2: not"),
    "no list": ("a.json", '{"id": 1}', "expected a list of records"),
    "no mapping": ("a.json", "[1]", "record 1 is not a record"),
    "half a character": ("a.json", '[{"id": "\\ud800"}]', "not valid JSON"),
    "no number": ("a.json", '[{"id": NaN}]', "not valid JSON"),
    "no table": ("a.md", "# hello", "no records with fields"),
    "quotes": ("a.csv", 'id,title,body,year\n1,"' + "x" * 140_000, "not valid CSV"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_records_is_said_with_the_file(tmp_path: Path, name: str) -> None:
    file, text, words = WRONG[name]
    (tmp_path / file).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=words) as refused:
        chunks_of(tmp_path, file, **FIELDS)
    assert file in str(refused.value)


def test_a_record_path_that_leads_nowhere_is_said(tmp_path: Path) -> None:
    write(tmp_path, a_json='{"payload": []}')
    with pytest.raises(ConfigError, match=r"nothing at 'payload\.items'"):
        chunks_of(tmp_path, "a.json", **FIELDS, record_path="payload.items")


def test_fields_need_an_id(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no id_field"):
        chunks_of(tmp_path, "a.csv", vector_fields=("title",))


def test_a_table_without_fields_is_text_that_names_its_columns(tmp_path: Path) -> None:
    write(tmp_path, a_csv="name,price\nTea,3\nMilk,\n")
    (chunk,) = chunks_of(tmp_path, "a.csv")
    assert chunk.text == "name: Tea, price: 3\n\nname: Milk"


@given(
    text=st.text(alphabet="ab .\n\t東京é!", max_size=600),
    most=st.integers(20, 60),
    overlap=st.integers(0, 80),
)
@settings(max_examples=50)
def test_pieces_cover_the_text_and_keep_their_size(text: str, most: int, overlap: int) -> None:
    found = list(pieces(text, most=most, overlap=overlap))
    assert all(count_tokens(piece) <= most + 1 for piece in found)
    at = end = 0
    for piece in found:
        at = text.index(piece, at)
        assert not text[end:at].strip(), "nothing lies between two pieces"
        assert at + len(piece) > end, "each piece brings something new"
        at, end = at + 1, at + len(piece)
    assert not text[end:].strip()


def test_a_piece_repeats_the_end_of_the_one_before() -> None:
    words = " ".join(f"w{number}" for number in range(300))
    plain = list(pieces(words, most=100, overlap=0))
    lapped = list(pieces(words, most=100, overlap=20))
    assert plain[1].split()[0] not in plain[0].split()
    shared = [word for word in lapped[0].split() if word in lapped[1].split()]
    assert lapped[1].split()[: len(shared)] == shared
    assert 10 <= len(shared) <= 15
    assert len(lapped) > len(plain)


def test_a_text_is_cut_where_a_sentence_or_a_paragraph_ends() -> None:
    sentence = "One two three four five six seven. "
    assert next(pieces(sentence * 40, most=100, overlap=0)).endswith("seven.")
    paragraphs = (sentence * 8 + "\n\n") * 6
    assert next(pieces(paragraphs, most=85, overlap=0)) == (sentence * 8).strip()


def test_a_smaller_chunk_size_gives_more_chunks(tmp_path: Path) -> None:
    write(tmp_path, a_txt="A short sentence stands here. " * 200)
    counts = [len(chunks_of(tmp_path, "a.txt", max_chunk_tokens=n)) for n in (100, 200, 400)]
    assert counts == sorted(counts, reverse=True)
    assert len(set(counts)) == 3
    parts = chunks_of(tmp_path, "a.txt", max_chunk_tokens=400)
    assert [chunk.place for chunk in parts[:2]] == ["part 1", "part 2"]


TOKENS = {"": 0, "hello": 1, "one two three": 4, "x" * 320: 80, "東京都": 3, "สวัสดี": 6}


@pytest.mark.parametrize("text", TOKENS)
def test_tokens_are_estimated_by_words_long_words_and_signs(text: str) -> None:
    assert count_tokens(text) == TOKENS[text]


def test_a_huge_file_without_a_space_is_cut_too(tmp_path: Path) -> None:
    write(tmp_path, a_txt="x" * 2_000_000)
    found = chunks_of(tmp_path, "a.txt", max_chunk_tokens=2000, chunk_overlap=0)
    assert sum(len(chunk.text) for chunk in found) == 2_000_000
    assert max(len(chunk.text) for chunk in found) <= 8000


def test_windows_line_ends_and_byte_order_marks_make_no_difference(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes("\ufeff# One\r\n\r\ntext\r\n".encode())
    (chunk,) = chunks_of(tmp_path, "a.md", chunking="structure")
    assert (chunk.place, chunk.text) == ("One", "text")
