"""Documents as text: what is in them, which part, and what is said of those that are broken."""

import io
import re
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import docx as python_docx
import openpyxl
import pptx as python_pptx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl.comments import Comment

from burnish.core.cases import Attachment
from burnish.core.content import Json, canonical
from burnish.core.errors import FileTrouble
from burnish.system.extras import install_command
from burnish.targets.agent.attachments import text_in, text_of
from tests.targets.office_files import (
    DRAWING_NS,
    PNG,
    SHOW_NS,
    WORD_NS,
    docx,
    package,
    paragraph,
    pdf,
    pptx,
    relations,
    shape,
    xlsx,
)


def read(kind: str, content: bytes, **options: Json) -> str:
    return text_in(Attachment(kind=kind, path="the file", options=options), content)


def complaint(kind: str, content: bytes, **options: Json) -> str:
    with pytest.raises(FileTrouble) as caught:
        read(kind, content, **options)
    assert caught.value.message.startswith("cannot read the file: ")
    assert caught.value.remedy
    return str(caught.value)


def cell(place: str, value: object, kind: str = "n", style: int = 0) -> str:
    return f'<c r="{place}" t="{kind}" s="{style}"><v>{value}</v></c>'


PRICES = xlsx(
    {
        "Prices": "<row r='1'>"
        + cell("A1", 0, "s")
        + cell("B1", 1, "s")
        + "</row><row r='2'>"
        + cell("A2", 2, "s")
        + cell("B2", "2.50")
        + "</row><row r='3'><c r='A3' t='inlineStr'><is><t>Käse 🧀</t></is></c>"
        + cell("B3", "7")
        + cell("D3", 1, "b")
        + "</row>",
        "Notes & more": f"<row r='9'>{cell('C9', 'closed', 'str')}</row>",
        "Secret": f"<row r='1'>{cell('A1', 42)}</row>",
    },
    shared=[
        "<t>item</t>",
        "<r><t>pri</t></r><r><t>ce</t></r>",
        "<t>tea</t><rPh><t>aloud</t></rPh>",
    ],
    hidden=["Secret"],
)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", ""),
        ("grüße 🧀\r\n".encode(), "grüße 🧀\r\n"),
        (b"\xef\xbb\xbfa;b\n", "a;b\n"),
        ("wide ∑".encode("utf-16"), "wide ∑"),
    ],
)
@pytest.mark.parametrize("kind", ["text", "csv"])
def test_plain_files_come_as_they_are(kind: str, content: bytes, text: str) -> None:
    assert read(kind, content) == text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("caf\xe9".encode("latin-1"), "it is not UTF-8 text (at byte 3)"),
        (b"a\0b", "it is not text (a null character at position 1)"),
        (pdf("x") + b"\xff", "it looks like a PDF"),
        (PNG, "it looks like a picture"),
        (PRICES, "it looks like an Office file"),
    ],
)
def test_what_is_no_text_is_said(content: bytes, words: str) -> None:
    assert words in complaint("text", content)


def test_a_text_that_no_model_reads_is_refused() -> None:
    assert "it has more than 10,000,000 characters" in complaint("text", b"x" * 10_000_001)


def test_a_workbook_shows_what_a_person_sees() -> None:
    assert read("excel", PRICES) == (
        "# Prices\nitem\tprice\ntea\t2.5\nKäse 🧀\t7\t\tTRUE\n\n# Notes & more\n\t\tclosed"
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"sheet": "notes & MORE"}, "\t\tclosed"),
        ({"sheet": "Secret"}, "42"),
        ({"range": "A1:B2"}, "item\tprice\ntea\t2.5"),
        ({"range": "b2"}, "2.5"),
        ({"range": "$B$3:$A$2"}, "tea\t2.5\nKäse 🧀\t7"),
        ({"range": "B:D"}, "price\n2.5\n7\t\tTRUE"),
        ({"range": "3:900"}, "Käse 🧀\t7\t\tTRUE"),
        ({"sheet": "Notes & more", "range": "C1:C10"}, "closed"),
    ],
)
def test_a_part_of_a_workbook(options: dict[str, Json], text: str) -> None:
    assert read("excel", PRICES, **options) == text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sheet": "Price"}, "Did you mean 'Prices'? Its sheets: Prices, Notes & more, Secret."),
        ({"sheet": 2}, "expected text for sheet, found 2"),
        ({"range": "A1-C3"}, "a range of cells such as A1:C10, found 'A1-C3'"),
        ({"range": "A0:B2"}, "such as A1:C10"),
        ({"range": "A:3"}, "such as A1:C10"),
        ({"range": "ZZZ1"}, "such as A1:C10"),
        ({"range": "F1:F9"}, "F1:F9 of sheet 'Prices' is empty"),
        ({"pages": [1]}, "a file of type excel has no 'pages'"),
    ],
)
def test_a_part_that_a_workbook_does_not_have(options: dict[str, Json], words: str) -> None:
    assert words in complaint("excel", PRICES, **options)


STYLES = (
    '<numFmts><numFmt numFmtId="164" formatCode="[$-407]d\\.&#160;mmmm yyyy"/>'
    '<numFmt numFmtId="165" formatCode="[Red]0.00&quot; days&quot;"/>'
    '<numFmt numFmtId="166" formatCode="[h]:mm"/></numFmts>'
    '<cellStyleXfs><xf numFmtId="14"/></cellStyleXfs><cellXfs>'
    + "".join(f'<xf numFmtId="{n}"/>' for n in (0, 14, 22, 20, 164, 165, 166))
    + "</cellXfs>"
)


@pytest.mark.parametrize(
    ("style", "value", "text"),
    [
        (0, "45000", "45000"),
        (0, "0.30000000000000004", "0.3"),
        (0, "1E-7", "1e-07"),
        (1, "45000", "2023-03-15"),
        (1, "59", "1900-02-28"),
        (1, "61", "1900-03-01"),
        (1, "-3", "-3"),
        (1, "99999999999", "99999999999"),
        (2, "45000.75", "2023-03-15 18:00:00"),
        (3, "0.5", "12:00:00"),
        (4, "45000", "2023-03-15"),
        (5, "1.5", "1.5"),
        (6, "1.5", "36:00:00"),
        (99, "5", "5"),
    ],
)
def test_dates_are_numbers_with_a_format(style: int, value: str, text: str) -> None:
    book = xlsx({"S": f"<row>{cell('A1', value, style=style)}</row>"}, styles=STYLES)
    assert read("excel", book) == text


def test_a_workbook_that_counts_from_1904() -> None:
    rows = f"<row>{cell('A1', 1, style=1)}</row>"
    book = xlsx({"S": rows}, styles=STYLES, properties='date1904="1"')
    assert read("excel", book) == "1904-01-02"


def test_cells_and_rows_without_a_place_and_far_apart() -> None:
    rows = (
        "<row><c><v>1</v></c><c/><c><v>3</v></c></row>"
        "<row r='500000'><c t='e'><v>#DIV/0!</v></c></row>"
        "<row><c t='inlineStr'><is><t>two\nlines_x000D_\tand a tab</t></is></c></row>"
    )
    assert read("excel", xlsx({"S": rows})) == "1\t\t3\n\n#DIV/0!\ntwo lines and a tab"


def test_an_empty_workbook_is_empty() -> None:
    assert read("excel", xlsx({"S": ""})) == ""


def test_a_word_file_is_its_paragraphs_and_tables() -> None:
    row = "<w:tr><w:tc>{}</w:tc><w:tc>{}</w:tc></w:tr>"
    inner = f"<w:tbl>{row.format(paragraph('x'), paragraph('y'))}</w:tbl>"
    body = (
        paragraph("Straße & Co")
        + "<w:p/>"
        + f"<w:tbl>{row.format(paragraph('a'), paragraph('b') + paragraph('c'))}"
        + f"{row.format(inner, '')}</w:tbl>"
        + '<w:p><w:pPr><w:tabs><w:tab w:val="left"/></w:tabs></w:pPr><w:r><w:t>left</w:t><w:tab/>'
        "<w:t>right</w:t><w:br/><w:t>below</w:t></w:r></w:p>"
    )
    assert read("word", docx(body)) == "Straße & Co\na\tb c\nx y\nleft\tright\nbelow"


def test_what_was_struck_out_or_written_twice_is_left_out() -> None:
    body = (
        "<w:p><w:r><w:t>kept</w:t></w:r><w:del><w:r><w:delText>gone</w:delText><w:tab/></w:r></w:del>"
        "<w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom>"
        "<mc:AlternateContent><mc:Choice><w:r><w:t> box</w:t></w:r></mc:Choice>"
        "<mc:Fallback><w:r><w:t> box</w:t></w:r></mc:Fallback></mc:AlternateContent></w:p>"
    )
    assert read("word", docx(body)) == "kept box"


SLIDES = pptx(
    shape("second", role="body") + shape("7", role="sldNum"),
    shape("Our plan", "for tea", role="ctrTitle")
    + "<p:graphicFrame><a:tbl><a:tr><a:tc><a:txBody><a:p><a:r><a:t>a</a:t></a:r></a:p></a:txBody>"
    "</a:tc><a:tc><a:txBody><a:p><a:r><a:t>b</a:t></a:r></a:p></a:txBody></a:tc></a:tr></a:tbl>"
    "</p:graphicFrame>" + shape("point one", "Ünïcode"),
    order=[2, 1],
)


def test_slides_come_in_the_order_they_are_shown() -> None:
    first = "# Slide 1: Our plan for tea\na\tb\npoint one\nÜnïcode"
    assert read("powerpoint", SLIDES) == f"{first}\n\n# Slide 2\nsecond"
    assert read("powerpoint", SLIDES, pages=[2]) == "# Slide 2\nsecond"
    assert "there is no slide 3: it has 2 slides" in complaint("powerpoint", SLIDES, pages=[3])


@pytest.fixture(scope="module")
def letter() -> bytes:
    """A document of Word as python-docx writes it, reviewed and commented."""
    document = python_docx.Document()
    document.add_heading("Title", 0)
    table = document.add_table(rows=2, cols=3)
    for number, cell_ in enumerate(each for row in table.rows for each in row.cells):
        cell_.text = f"c{number}\nmore"
    table.cell(0, 0).merge(table.cell(0, 1))
    reviewed: Any = document.add_paragraph("see ")
    for xml in (
        '<w:hyperlink {} w:anchor="x"><w:r><w:t>the link</w:t></w:r></w:hyperlink>',
        '<w:ins {} w:id="1"><w:r><w:t xml:space="preserve"> inserted</w:t></w:r></w:ins>',
        '<w:del {} w:id="2"><w:r><w:delText>deleted</w:delText></w:r></w:del>',
        "<w:r {}><w:pict><w:txbxContent><w:p><w:r><w:t>boxed</w:t></w:r></w:p></w:txbxContent>"
        "</w:pict></w:r>",
    ):
        reviewed._p.append(parse_xml(xml.format(nsdecls("w"))))
    document.sections[0].header.paragraphs[0].text = "the header"
    document.sections[0].footer.paragraphs[0].text = "the footer"
    document.add_comment(document.add_paragraph("end").runs[0], text="a remark", author="Anna")
    buffer = io.BytesIO()
    document.save(buffer)
    return with_notes(buffer.getvalue())


def with_notes(content: bytes) -> bytes:
    notes = (
        f'<w:footnotes xmlns:w="{WORD_NS}"><w:footnote w:id="0" w:type="separator"><w:p><w:r>'
        '<w:separator/></w:r></w:p></w:footnote><w:footnote w:id="1"><w:p><w:r><w:t>at the foot'
        "</w:t></w:r></w:p></w:footnote></w:footnotes>"
    )
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    relation = f'<Relationship Id="n1" Type="{kind}/footnotes" Target="notes.xml"/>'
    # Word writes such a relation where a picture is gone.
    relation += f'<Relationship Id="n2" Type="{kind}/image" Target="NULL"/>'
    parts = parts_of(content)
    about = parts["word/_rels/document.xml.rels"].decode()
    parts["word/_rels/document.xml.rels"] = about.replace(
        "</Relationships>", f"{relation}</Relationships>"
    ).encode()
    return package({**parts, "word/notes.xml": notes})


def parts_of(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def strict(content: bytes) -> bytes:
    """The same file with the namespaces of the strict form of the standard."""
    usual = re.compile(rb"http://schemas\.openxmlformats\.org/(\w+)/2006/(main|relationships)")
    parts = parts_of(content)
    types = parts.pop("[Content_Types].xml")
    there = {
        name: usual.sub(rb"http://purl.oclc.org/ooxml/\1/\2", part) for name, part in parts.items()
    }
    return package({**there, "[Content_Types].xml": types})


def as_template(content: bytes) -> bytes:
    """The same file with the types of templates with macros, and a main part in upper case."""
    parts = parts_of(content)
    types = re.sub(
        rb"[\w.-]+\.main\+xml", b"vnd.ms-x.template.main+xml", parts.pop("[Content_Types].xml")
    )
    named = {
        name.replace("word/document.xml", "Word/DOCUMENT.xml"): part for name, part in parts.items()
    }
    return package({**named, "[Content_Types].xml": types})


LETTER_TEXT = """\
Title
c0 more c1 more\tc2 more
c3 more\tc4 more\tc5 more
boxed
see the link inserted
end

# Footnotes
at the foot

# Comments
Anna: a remark

# Headers
the header

# Footers
the footer"""


@pytest.mark.parametrize("form", [bytes, strict, as_template])
def test_a_word_file_with_all_that_belongs_to_it(
    letter: bytes, form: Callable[[bytes], bytes]
) -> None:
    assert read("word", form(letter)) == LETTER_TEXT


@pytest.fixture(scope="module")
def book() -> bytes:
    """A workbook as openpyxl writes it."""
    workbook = openpyxl.Workbook()
    sheet: Any = workbook.active
    sheet.title = "Größen"
    sheet.append(["name", "day", "time", "price", "share", "ok", "both", "long"])
    moment = datetime(2024, 2, 29, 23, 59, 58)
    sheet.append(
        ["tea", moment.date(), moment.time(), 1234.5, 0.125, True, moment, timedelta(hours=30)]
    )
    sheet["D2"].number_format = "#,##0.00 €"
    sheet["E2"].number_format = "0%"
    sheet["A4"] = "merged\nlines"
    sheet.merge_cells("A4:C5")
    sheet["B7"], sheet["C7"], sheet["D9"] = 12345678901234567, 1e-9, "#N/A"
    sheet["A2"].comment = Comment("ask Bob", "Anna")
    workbook.create_chartsheet("Chart")
    buffer = io.BytesIO()
    workbook.save(buffer)
    return buffer.getvalue()


BOOK_TEXT = """\
# Größen
name\tday\ttime\tprice\tshare\tok\tboth\tlong
tea\t2024-02-29\t23:59:58\t1234.5\t0.125\tTRUE\t2024-02-29 23:59:58\t30:00:00

merged lines

\t1.23456789012346e+16\t1e-09

\t\t\t#N/A

## Comments
A2: ask Bob

# Chart
"""


@pytest.mark.parametrize("form", [bytes, strict, as_template])
def test_a_workbook_with_all_that_belongs_to_it(
    book: bytes, form: Callable[[bytes], bytes]
) -> None:
    assert read("excel", form(book)) == BOOK_TEXT
    assert "ask Bob" not in read("excel", form(book), range="A4:D9")


def test_what_stands_for_other_signs_in_a_cell_is_read_once() -> None:
    rows = f"<row>{cell('A1', 0, 's')}<c t='inlineStr'><is><t>_x0041_</t></is></c></row>"
    assert read("excel", xlsx({"S": rows}, shared=["<t>_x005F_x0041_</t>"])) == "_x0041_\tA"


def test_looks_that_openpyxl_would_refuse_are_no_hindrance() -> None:
    looks = '<r><rPr><family val="99"/></rPr><t>te</t></r><r><t>a</t></r>'
    rows = f"<row>{cell('A1', 0, 's')}<c t='inlineStr'><is>{looks}</is></c></row>"
    more = "</sheetData><autoFilter ref='?'/><extLst><ext uri='x'/></extLst><sheetData>"
    assert read("excel", xlsx({"S": rows + more}, shared=[looks])) == "tea\ttea"


def test_slides_with_notes_groups_and_comments() -> None:
    show = python_pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[5])
    title: Any = slide.shapes.title
    title.text = "First\nslide"
    group: Any = slide.shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, 1, 1).text_frame.text = "grouped\vbelow"
    notes: Any = slide.notes_slide.notes_text_frame
    notes.text = "say hello"
    buffer = io.BytesIO()
    show.save(buffer)
    parts = parts_of(buffer.getvalue())
    about = parts["ppt/slides/_rels/slide1.xml.rels"].decode()
    relation = relations(("comments", "/ppt/remarks.xml")).partition("<Relationship ")[2]
    parts["ppt/slides/_rels/slide1.xml.rels"] = about.replace(
        "</Relationships>", f"<Relationship {relation.replace('rId1', 'rId99')}"
    ).encode()
    parts["ppt/remarks.xml"] = (
        f'<p:cmLst xmlns:p="{SHOW_NS}" xmlns:a="{DRAWING_NS}"><p:cm><p:text>older</p:text></p:cm>'
        "<p:cm><p:txBody><a:p><a:r><a:t>newer</a:t></a:r></a:p></p:txBody></p:cm></p:cmLst>"
    ).encode()
    text = (
        "# Slide 1: First slide\ngrouped\nbelow\n\n## Notes\nsay hello\n\n## Comments\nolder\nnewer"
    )
    assert read("powerpoint", package(parts)) == text
    assert read("powerpoint", strict(package(parts))) == text


LETTER = pdf("Grüße", "second page", "third")


@pytest.mark.parametrize(
    ("pages", "text"),
    [
        (None, "# Page 1\nGrüße\n\n# Page 2\nsecond page\n\n# Page 3\nthird"),
        ([2], "second page"),
        ([3, 1, 3], "# Page 3\nthird\n\n# Page 1\nGrüße"),
    ],
)
def test_a_pdf_page_by_page(pages: Json, text: str) -> None:
    assert read("pdf", LETTER, **({} if pages is None else {"pages": pages})) == text


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (LETTER, {"pages": [0, 4]}, "there is no page 0, 4: it has 3 pages"),
        (LETTER, {"pages": "1-2"}, "such as [1, 3], found '1-2'"),
        (LETTER, {"pages": [1, "2"]}, "such as [1, 3], found [1, '2']"),
        (LETTER, {"pages": []}, "such as [1, 3], found []"),
        (LETTER, {"cache": "yes"}, "expected true or false for cache, found 'yes'"),
        (b"", {}, "it is empty"),
        (LETTER[: len(LETTER) // 2], {}, "it is damaged"),
        (b"%PDF-1.7\nnothing more", {}, "it is damaged"),
        (PRICES, {}, "it is not a PDF: it looks like an Office file"),
        (b"<!DOCTYPE html><p>Log in", {}, "it is not a PDF: it looks like a web page"),
        (pdf(""), {}, "it contains no text: its pages may be pictures"),
        (pdf("x", password="geheim"), {}, "it has a password"),
        (pdf("x", password="geheim", algorithm="AES-256"), {}, "it has a password"),
    ],
)
def test_what_is_wrong_with_a_pdf_is_said(
    content: bytes, options: dict[str, Json], words: str
) -> None:
    assert words in complaint("pdf", content, **options)


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-256"])
def test_a_pdf_that_is_only_locked_against_changes_is_read(algorithm: str) -> None:
    assert read("pdf", pdf("open to all", password="", algorithm=algorithm)) == "open to all"


def test_without_pypdf_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf.errors", None)
    assert install_command("documents") in complaint("pdf", LETTER)


@pytest.mark.parametrize(
    ("kind", "module", "package"),
    [("word", "docx", "python-docx"), ("excel", "openpyxl", "openpyxl"),
     ("powerpoint", "pptx", "python-pptx")],
)  # fmt: skip
def test_without_a_library_of_office_files_the_extra_is_named(
    kind: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    words = complaint(kind, SAMPLES[kind])
    assert f"need {package}, which is not installed" in words
    assert install_command("documents") in words


def without(content: bytes, part: str) -> bytes:
    return package({name: text for name, text in parts_of(content).items() if name != part})


def with_doctype(content: bytes, part: str) -> bytes:
    parts = parts_of(content)
    entity = b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
    head, _, rest = parts[part].partition(b"?>")
    return package({**parts, part: head + b"?>" + entity + rest})


OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500)


@pytest.mark.parametrize(
    ("kind", "content", "words"),
    [
        ("excel", b"", "it is not an Office file, or it is damaged"),
        ("excel", b"a,b\n1,2", "it is not an Office file"),
        ("word", PRICES[:-40], "it is not an Office file, or it is damaged"),
        ("powerpoint", OLD_OFFICE, "it looks like an Office file that is old or has a password"),
        ("excel", docx(""), "it is a file of type word, not excel\nSet `type: word`."),
        ("word", SLIDES, "it is a file of type powerpoint, not word"),
        ("word", package({"a.txt": "hello"}), "it contains no document"),
        ("excel", without(PRICES, "xl/worksheets/sheet2.xml"), "sheet2.xml is missing"),
        (
            "excel",
            without(PRICES, "xl/_rels/workbook.xml.rels"),
            "the content of a sheet is missing",
        ),
        ("excel", xlsx({"S": f"<row>{cell('A1', 5, 's')}</row>"}), "a missing text"),
        ("word", with_doctype(docx(""), "word/document.xml"), "declares a DOCTYPE"),
        ("excel", with_doctype(PRICES, "xl/sharedStrings.xml"), "declares a DOCTYPE"),
        ("word", docx("<w:p>"), "its XML is damaged"),
        ("word", docx("<w:p>" * 2000), "its XML has too many elements"),
        ("word", docx("<w:p/>" * 12_000_000), "its XML has too many elements"),
        ("powerpoint", pptx(*[""] * 10_000), "it has more than 10,000 parts"),
    ],
)
def test_a_broken_or_boundless_office_file_is_refused(
    kind: str, content: bytes, words: str
) -> None:
    assert words in complaint(kind, content)


@pytest.mark.slow
def test_what_a_small_file_unpacks_to_is_bounded() -> None:
    bomb = docx(" " * 101_000_000)
    assert len(bomb) < 1_000_000
    assert "it unpacks to more than 100,000,000 bytes" in complaint("word", bomb)


def test_what_few_cells_spread_out_to_is_bounded() -> None:
    far = xlsx({"S": '<row><c r="XFD1"><v>1</v></c></row>' * 700})
    assert "it has more than 10,000,000 characters" in complaint("excel", far)
    long = xlsx({"S": f"<row>{cell('A1', 0, 's') * 700}</row>"}, shared=[f"<t>{'x' * 20_000}</t>"])
    assert "it has more than 10,000,000 characters" in complaint("excel", long)


def test_a_picture_that_unpacks_to_anything_is_not_unpacked() -> None:
    parts = parts_of(docx(paragraph("x")))
    parts["word/_rels/document.xml.rels"] = relations(("image", "media/big.png")).encode()
    parts["word/media/big.png"] = bytes(101_000_000)
    assert read("word", package(parts)) == "x"


def test_a_relation_cannot_lead_out_of_the_file() -> None:
    outside = package({"_rels/.rels": relations(("officeDocument", "../../../etc/passwd"))})
    assert "etc/passwd is missing" in complaint("word", outside)


def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "letter.docx"
    attachment = Attachment(kind="word", path="letter.docx")
    path.write_bytes(docx(paragraph("before")))
    assert text_of(attachment, path) == "before"
    path.write_bytes(docx(paragraph("afterwards")))
    assert text_of(attachment, path) == "afterwards"


SAMPLES = {"excel": PRICES, "word": docx(paragraph("x")), "powerpoint": SLIDES, "pdf": LETTER}


@settings(max_examples=50, deadline=None)
@given(
    kind=st.sampled_from(sorted(SAMPLES)),
    edits=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=6)), max_size=5),
)
def test_whatever_is_damaged_gives_text_or_a_reason(
    kind: str, edits: list[tuple[float, bytes]]
) -> None:
    content = bytearray(SAMPLES[kind])
    for place, noise in edits:
        at = int(place * len(content))
        content[at : at + 3] = noise
    with suppress(FileTrouble):
        canonical(read(kind, bytes(content)))
