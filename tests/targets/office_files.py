"""Small Office and PDF files, written by hand for the tests."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from html import escape

from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
_STATES = ("visible", "hidden")
SHEET_NS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
WORD_NS = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SHOW_NS = "http://schemas.openxmlformats.org/presentationml/2006/main"
DRAWING_NS = "http://schemas.openxmlformats.org/drawingml/2006/main"


def package(parts: Mapping[str, str | bytes]) -> bytes:
    """A zip of parts."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def relations(*targets: tuple[str, str]) -> str:
    """The relations of a part, rId1 first: the kind of each and where it leads."""
    each = "".join(
        f'<Relationship Id="rId{n}" Type="{_OFFICE}/relationships/{kind}" Target="{target}"/>'
        for n, (kind, target) in enumerate(targets, start=1)
    )
    return f'{_HEAD}<Relationships xmlns="{_RELATIONS}">{each}</Relationships>'


def xlsx(
    sheets: Mapping[str, str],
    *,
    shared: Sequence[str] = (),
    styles: str = "",
    properties: str = "",
    hidden: Sequence[str] = (),
) -> bytes:
    """A workbook; a sheet is the XML of its rows, a shared string the XML inside its `si`."""
    listed = "".join(
        f'<sheet name="{escape(name)}" sheetId="{n}" r:id="rId{n}" '
        f'state="{_STATES[name in hidden]}"/>'
        for n, name in enumerate(sheets, start=1)
    )
    targets = [("worksheet", f"worksheets/sheet{n}.xml") for n in range(1, len(sheets) + 1)]
    targets += [("sharedStrings", "sharedStrings.xml"), ("styles", "/xl/styles.xml")]
    strings = "".join(f"<si>{text}</si>" for text in shared)
    parts = {
        "_rels/.rels": relations(("officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'{_HEAD}<workbook xmlns="{SHEET_NS}" xmlns:r="{_OFFICE}/relationships">'
        f"<workbookPr {properties}/><sheets>{listed}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": relations(*targets),
        "xl/sharedStrings.xml": f'{_HEAD}<sst xmlns="{SHEET_NS}">{strings}</sst>',
        "xl/styles.xml": f'{_HEAD}<styleSheet xmlns="{SHEET_NS}">{styles}</styleSheet>',
    }
    for n, rows in enumerate(sheets.values(), start=1):
        parts[f"xl/worksheets/sheet{n}.xml"] = (
            f'{_HEAD}<worksheet xmlns="{SHEET_NS}"><sheetData>{rows}</sheetData></worksheet>'
        )
    return package(parts)


def docx(body: str) -> bytes:
    """A document with this XML as its body."""
    return package(
        {
            "_rels/.rels": relations(("officeDocument", "/word/document.xml")),
            "word/document.xml": f'{_HEAD}<w:document xmlns:w="{WORD_NS}" xmlns:mc="urn:mc">'
            f"<w:body>{body}</w:body></w:document>",
        }
    )


def paragraph(text: str) -> str:
    """A paragraph of Word."""
    return f"<w:p><w:r><w:t>{escape(text)}</w:t></w:r></w:p>"


def pptx(*slides: str, order: Sequence[int] = ()) -> bytes:
    """A presentation; a slide is the XML of its shapes, `order` tells how they are shown."""
    shown = order or range(1, len(slides) + 1)
    ids = "".join(f'<p:sldId id="{255 + n}" r:id="rId{n}"/>' for n in shown)
    targets = [("slide", f"slides/slide{n}.xml") for n in range(1, len(slides) + 1)]
    parts = {
        "_rels/.rels": relations(("officeDocument", "ppt/presentation.xml")),
        "ppt/presentation.xml": f'{_HEAD}<p:presentation xmlns:p="{SHOW_NS}" '
        f'xmlns:r="{_OFFICE}/relationships"><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>',
        "ppt/_rels/presentation.xml.rels": relations(*targets),
    }
    for n, shapes in enumerate(slides, start=1):
        parts[f"ppt/slides/slide{n}.xml"] = (
            f'{_HEAD}<p:sld xmlns:p="{SHOW_NS}" xmlns:a="{DRAWING_NS}">'
            f"<p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:sld>"
        )
    return package(parts)


def shape(*lines: str, role: str = "") -> str:
    """A shape of a slide."""
    place = f'<p:nvPr><p:ph type="{role}"/></p:nvPr>' if role else ""
    texts = "".join(f"<a:p><a:r><a:t>{escape(line)}</a:t></a:r></a:p>" for line in lines)
    return f"<p:sp><p:nvSpPr>{place}</p:nvSpPr><p:txBody>{texts}</p:txBody></p:sp>"


def pdf(*pages: str, password: str | None = None, algorithm: str = "RC4-128") -> bytes:
    """A PDF with one line of text a page; a password, also an empty one, locks it."""
    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
            NameObject("/Encoding"): NameObject("/WinAnsiEncoding"),
        }
    )
    for text in pages:
        page = writer.add_blank_page(300, 200)
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode("cp1252"))
        page[NameObject("/Contents")] = writer._add_object(stream)  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType]
    if password is not None:
        writer.encrypt(password, owner_password="owner", algorithm=algorithm)
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


PNG = b"\x89PNG\r\n\x1a\n" + bytes(32)
JPEG = b"\xff\xd8\xff\xe0" + bytes(32)
GIF = b"GIF89a" + bytes(32)
WEBP = b"RIFF\x20\x00\x00\x00WEBPVP8 " + bytes(16)
