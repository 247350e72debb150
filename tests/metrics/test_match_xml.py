"""XML is well formed or not, and two documents say the same or not."""

import pytest

from burnish.metrics.document_matching import XmlRule, compare_xml

EXACT = XmlRule(match="exact")
BOMB = '<!DOCTYPE r [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><r>&b;</r>'


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ("<a/>", ""),
        (' <?xml version="1.0" encoding="latin-1"?>\n<a>é</a>\n', ""),
        ("<a>x<b/>y</a><!-- after -->", ""),
        ("", "expected XML, found nothing"),
        ("just words", "not well-formed XML"),
        ("Here: <a/>", "ask for one root with nothing around it"),
        ("<a/> and more", "junk after document element"),
        ("<a/><b/>", "junk after document element"),
        ("<a><b></a>", "mismatched tag"),
        ("<a>", "no element found"),
        ("<a>&nbsp;</a>", "undefined entity"),
        ("```xml\n<a/>\n```", "inside a ``` fence: ask for bare XML"),
        (BOMB, "declares a DOCTYPE, which is not accepted"),
        ('<!DOCTYPE r SYSTEM "file:///etc/passwd"><r/>', "DOCTYPE"),
        ("<a>" + "\ud800" + "</a>", "not well-formed"),
    ],
)
def test_well_formed(found: str, words: str) -> None:
    match = compare_xml(None, found, XmlRule())
    assert bool(match) == bool(words)
    assert words in match


@pytest.mark.parametrize(
    ("expected", "found", "words"),
    [
        ("<a x='1' y='2'><b/></a>", '<a y="2" x="1">\n  <b></b>\n</a>', ""),
        ("<a>text</a>", "<a>\n text <!-- note --></a>", ""),
        ("<a>x &amp; y</a>", "<a><![CDATA[x & y]]></a>", ""),
        ("<p:a xmlns:p='u'/>", "<q:a xmlns:q='u'/>", ""),
        (
            "<a><b>1</b></a>",
            "<a><b>2</b></a>",
            "at /a/b: expected the text '1', found the text '2'",
        ),
        ("<a><b/><b>1</b></a>", "<a><b/><b>2</b></a>", "at /a/b[2]: expected the text '1'"),
        ("<a><b/><c/></a>", "<a><c/><b/></a>", "at /a/b: expected <b>, found <c>"),
        ("<a><b/></a>", "<a/>", "at /a/b: expected <b>, found </a>"),
        ("<a/>", "<a>x</a>", "at /a: expected </a>, found the text 'x'"),
        ("<a x='1'/>", "<a x='2'/>", "at /a: expected <a x='1'>, found <a x='2'>"),
        ("<a x='1'/>", "<a/>", "expected <a x='1'>, found <a>"),
        ("oops", "<a/>", "the expected answer is not XML"),
        ("<a/>", "oops", "found 'oops', which is not well-formed"),
    ],
)
def test_the_same(expected: str, found: str, words: str) -> None:
    match = compare_xml(expected, found, EXACT)
    assert bool(match) == bool(words)
    assert words in match


def test_ignored_is_held() -> None:
    assert compare_xml(None, "no xml", XmlRule(ignore=True)) == ""
    assert compare_xml(None, "no xml", XmlRule(valid=False)) == ""


def test_deep_and_long_documents() -> None:
    deep = "<a>" * 4_000 + "{}" + "</a>" * 4_000
    assert compare_xml(deep, deep, EXACT) == ""
    match = compare_xml(deep.format("1"), deep.format("2"), EXACT)
    assert "expected the text '1'" in match
    assert len(match) < 300
    assert len(compare_xml(None, "x" * 100_000, XmlRule())) < 300
