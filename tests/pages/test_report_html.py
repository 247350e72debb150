"""report.html: what it shows, in which order, and that no text in it comes to life."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from burnish.pages.document import BARE, data_block, static_file, write_document
from burnish.pages.run_page import html_report
from burnish.runs.directory import RunRecord
from tests.pages.shown_runs import DATASET, HARM, case


class Document(HTMLParser):
    """The scripts, styles, ids and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.styles: list[str] = []
        self.ids: list[str] = []
        self.policy = ""
        self.live: list[str] = []
        """Handlers, addresses and styles in attributes: none of them is allowed."""
        self.text: list[str] = []
        self._open = ""
        self._attributes: dict[str, str | None] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self._open, self._attributes = tag, values
        self.ids += [values["id"] or ""] if "id" in values else []
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"] or ""
        self.live += [f"{tag} {name}" for name in values if name.startswith("on")]
        self.live += [f"{tag} {name}" for name in ("src", "style", "srcdoc") if name in values]
        self.live += [tag] if tag in ("img", "iframe", "object", "embed", "base") else []

    def handle_data(self, data: str) -> None:
        if self._open == "script":
            self.scripts.append((self._attributes, data))
        elif self._open == "style":
            self.styles.append(data)
        else:
            self.text.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._open = ""


@pytest.fixture(scope="module")
def page(shown: RunRecord) -> str:
    return html_report(shown, DATASET)


@pytest.fixture(scope="module")
def document(page: str) -> Document:
    return Document(page)


def test_no_text_of_agents_cases_or_proposers_comes_to_life(document: Document) -> None:
    assert document.live == []
    code = [text for attributes, text in document.scripts if "type" not in attributes]
    assert [len(text) for text in code] == [len(static_file(n)) for n in ("plotly.js", "page.js")]
    words = "".join(document.text)
    assert words.count(HARM) > 20, "it is shown as text: answers, cases, notes, proposals"


def test_the_file_is_the_whole_page_though_its_script_never_becomes_a_text(
    shown: RunRecord, page: str, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    write_document(path, html_report(shown, DATASET, place=BARE))
    assert path.read_text(encoding="utf-8") == page


def test_the_policy_allows_these_scripts_and_this_style_and_nothing_else(
    document: Document,
) -> None:
    rules = dict(rule.split(" ", 1) for rule in document.policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in document.policy
    code = [text for attributes, text in document.scripts if "type" not in attributes]
    assert rules["script-src"].split() == [_hash(text) for text in code]
    (style,) = document.styles
    assert _hash(style) in rules["style-src"].split()


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_it_has_everything_in_the_order_in_which_it_is_read(document: Document) -> None:
    order = [name for name in document.ids if name in SECTIONS]
    assert order == SECTIONS
    words = re.sub(r"\s+", " ", "".join(document.text))
    for expected in (
        "Improved",
        "Adopt it: cases that the search never saw show a gain.",
        "0.5 → 0.2",
        "3 fixed",
        "1 broken",
        "1 still failing",
        "1 still passing",
        "as planned",
        "noise_bar",
        "look_up",
        "sealed: read once, after the search",
    ):
        assert expected in words


SECTIONS = ["verdict", "changes", "cases", "search", "money", "data"]


def test_sealed_cases_are_not_shown_one_by_one(document: Document) -> None:
    words = "".join(document.text)
    assert "sealed-3" not in words
    assert "a test that people read is no test any more" in words


def test_the_text_of_a_case_that_was_edited_since_is_not_shown(
    shown: RunRecord, document: Document
) -> None:
    edited = replace(DATASET, train=tuple(case(each.id, "no") for each in DATASET.train))
    words = "".join(Document(html_report(shown, edited)).text)
    assert words.count("has changed since") == len(DATASET.train)
    assert "has changed since" not in "".join(document.text)


def test_charts_are_figures_that_plotly_accepts(document: Document) -> None:
    from plotly.graph_objects import Figure  # pyright: ignore[reportMissingTypeStubs]

    figures = {
        attributes["id"]: json.loads(text)
        for attributes, text in document.scripts
        if attributes.get("type") == "application/json"
    }
    assert {"chart-scores", "chart-tree", "chart-heat", "chart-roles"} <= set(figures)
    for figure in figures.values():
        Figure(data=figure["data"])  # raises for an unknown or wrong property
    scores = figures["chart-scores"]["data"]
    assert [trace["name"] for trace in scores] == [
        *("train", "holdout", "best so far", "noise bar", "accepted")
    ]


def test_data_in_a_script_element_cannot_end_it() -> None:
    block = data_block({"text": f"</script>{HARM}<!--"})
    assert "<" not in block
    assert json.loads(block)["text"].startswith("</script>")
