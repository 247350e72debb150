"""Sections of a report as HTML."""

from burnish.core.formatting import Code, Diff, Heading, Listing, Page, Table, Text, cell
from burnish.pages.document import chapters, diff_html, to_html


def test_tables_lists_and_diffs_become_html() -> None:
    html = str(
        to_html(
            [
                Table(("name", "value"), (("a", "**1**"),)),
                Listing(("first", "second")),
                Diff(("--- a", "+++ a", "-old", "+new", " same")),
            ]
        )
    )
    assert "<td><strong>1</strong></td>" in html
    assert "<li>second</li>" in html
    assert '<span class="ins">+new\n</span>' in html
    assert '<span class="del">-old\n</span>' in html


def test_nothing_in_a_section_comes_to_life() -> None:
    harm = "<script>x</script> [a](https://example.com) ![b](https://example.com/b) <b>"
    sections = [
        Text.of(harm),
        Table(("a",), ((cell(harm, 200),),)),
        Code((harm,), "html"),
        Diff((f"+{harm}",)),
        Page((harm, "", "[ref]: https://example.com", "[ref]", "<https://example.com>")),
    ]
    html = str(to_html(sections)).lower()
    for tag in ("<script", "<img", "<a ", "<b>", "href"):
        assert tag not in html
    assert html.count("&lt;script&gt;") == 5


def test_chapters_are_what_stands_below_the_headings_of_the_second_level() -> None:
    parts = chapters(
        [
            Heading("run", level=1),
            Text.of("the claim"),
            Heading("Result `x`"),
            Text.of("words"),
            Heading("Inside", level=3),
            Heading("Method"),
        ]
    )
    assert [each.title for each in parts] == ["Result x", "Method"]
    assert "words" in parts[0].body
    assert "<h3>Inside</h3>" in parts[0].body


def test_a_line_that_changed_in_part_has_its_own_colour_and_marks_its_words() -> None:
    html = str(to_html([Diff(("~ be [-rude-] {+<b>kind+}", " same"))]))
    assert '<span class="changed">~ be <span class="del">[-rude-]</span>' in html
    assert '<span class="ins">{+&lt;b&gt;kind+}</span>' in html
    assert str(diff_html(["+new", "~a"])) == (
        '<span class="ins">+new\n</span><span class="changed">~a\n</span>'
    )


def test_the_chapters_of_a_page_that_a_run_wrote_are_shown() -> None:
    page = Page(
        ("# Title", "left out", "## First", "words", "```", "## no heading", "```", "## Second")
    )
    parts = chapters([Heading("run", level=1), page])
    assert [each.title for each in parts] == ["First", "Second"]
    assert "## no heading" in parts[0].body
