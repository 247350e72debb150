"""What people need who see little, use no mouse or hear the page: contrast, headings, names."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from burnish.cli.browser_pages import ProjectAdopter
from burnish.delegation.runs import StoredDelegations
from burnish.pages.document import Place, render, static_file
from burnish.pages.library import Library, run_key
from burnish.pages.run_page import EvaluationPage, html_report
from burnish.pages.run_status import RunControls
from burnish.pages.served import ServedPages
from burnish.runs.directory import RunRecord
from tests.pages.shown_runs import DATASET
from tests.reports.measured import report, scored

_GROUNDS = ("back", "card")
_TINTED = ("good-back", "bad-back", "open-back", "same-back")
_WORDS = ("text", "muted", "accent", "good", "bad", "open")
TEXTS = [
    *((word, ground) for word in _WORDS for ground in _GROUNDS),
    *(("text", ground) for ground in _TINTED),
    ("back", "accent"),
]
"""Each colour of words with each ground it stands on."""
LINES = [
    *((f"chart-{n}", ground) for n in (1, 2, 3, 4) for ground in _GROUNDS),
    *(("muted", "back"), ("good", "back"), ("bad", "bad-back"), ("accent", "back")),
]
"""Lines, points and borders that carry a meaning."""


def _colours(mode: str) -> dict[str, str]:
    """The variables of the style in light or dark."""
    light, dark = re.findall(r":root \{(.*?)\}", static_file("page.css"), flags=re.DOTALL)
    chosen = f"{light} {dark}" if mode == "dark" else light
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", chosen))


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    dark, light = sorted(map(_luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_words_and_lines_stand_out_from_their_ground(mode: str) -> None:
    colours = _colours(mode)
    weak = {
        f"{front} on {ground}": round(contrast, 2)
        for pairs, least in ((TEXTS, 4.5), (LINES, 3.0))
        for front, ground in pairs
        if (contrast := _contrast(colours[front], colours[ground])) < least
    }
    assert weak == {}


def test_the_contrast_is_computed_as_wcag_says() -> None:
    assert _contrast("#000000", "#ffffff") == pytest.approx(21)
    assert _contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@dataclass
class _Outline(HTMLParser):
    """What a screen reader goes by."""

    headings: list[int] = field(default_factory=list[int])
    ids: list[str] = field(default_factory=list[str])
    references: list[str] = field(default_factory=list[str])
    troubles: list[str] = field(default_factory=list[str])
    _open: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name: value or "" for name, value in attrs}
        self.ids += [names["id"]] if "id" in names else []
        self.references += [names["aria-labelledby"]] if "aria-labelledby" in names else []
        self._open += [tag] if tag in ("label", "button") else []
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "th" and "scope" not in names:
            self.troubles.append("a head of a table that says not what it is the head of")
        named = "label" in self._open or "aria-label" in names or names.get("type") == "hidden"
        if tag in ("input", "select") and not named:
            self.troubles.append(f"a field without a name: {names}")
        if names.get("role") in ("img", "region") and not names.get("aria-label"):
            self.troubles.append(f"a {names['role']} without a name")
        if int(names.get("tabindex") or 0) > 0:
            self.troubles.append("an order of its own for the keyboard")
        if tag == "img" and "alt" not in names:
            self.troubles.append("a picture without words")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            self._open.remove(tag)


@pytest.fixture(scope="module")
def outline(shown: RunRecord) -> _Outline:
    """The outline of the page about a run, without its scripts."""
    return _outline_of(html_report(shown, DATASET))


def _outline_of(html: str) -> _Outline:
    outline = _Outline()
    outline.feed(re.sub(r"<script(?! type).*?</script>", "", html, flags=re.DOTALL))
    return outline


_CONTROLS = RunControls(
    key="k", status="running", live=True, action="stop", may_refine=True, why_not="Not now."
)


def _pages(shown: RunRecord, seed: Path, session: Path) -> Iterator[tuple[str, str]]:
    """Every page that is served, with what is loaded when its folds are opened."""
    folders = [shown.folder, seed, session]
    library = Library(
        folders=lambda: folders,
        cases=lambda _: DATASET,
        adopter=ProjectAdopter(),
        delegations=StoredDelegations(),
    )
    place = Place(alone=False, token="t", account="me", may_change=True, has_texts=True)
    pages = ServedPages(library=library, place=place)
    run = f"runs/{run_key(shown.folder)}"
    below = f"runs/{run_key(seed)}/refinements/{session.name}"
    two = {"run": [run_key(shown.folder)] * 2}
    opened = {"cases": "cases/train/fixed", "trials": "trials/2"}
    for path, query in (
        *(("", {}), ("compare", two), ("compare", {"run": two["run"] * 2}), ("experiments", {})),
        *(("policy", {}), ("policy/critique_rubric", {}), (below, {})),
        *((f"runs/{run_key(seed)}", {}), (run, {})),
    ):
        yield path, str(pages.at(path.split("/"), query))
    for name, inside in opened.items():
        page, part = (str(pages.at(f"{run}/{each}".split("/"), {})) for each in (name, inside))
        yield name, page + part
    controlled = ServedPages(library=library, place=replace(place, controls=_CONTROLS))
    yield "a run of the service", str(controlled.at(run.split("/"), {}))
    measured = report(scored("right", 1.0), scored("wrong", 0.0), scored("lost", None))
    yield "a measurement", EvaluationPage(report=measured).to_html(controlled.place)
    waiting: dict[str, object] = {"title": "r", "follow": True, "words": "Not yet."}
    yield "a run that waits", render("waiting.html.j2", waiting, place=controlled.place)
    chosen = {"app": "", "kind": "", "id": ""}
    form: dict[str, object] = {"title": "Start", "apps": ["a"], "limits": (), "chosen": chosen}
    yield "start", render("start.html.j2", form, place=place)
    yield "login", render("login.html.j2", {"title": "Log in", "to": ""}, place=place)
    yield "trouble", render("trouble.html.j2", {"title": "No", "words": "No."}, place=place)


@pytest.mark.slow
def test_every_page_has_one_title_first_and_no_level_is_left_out(
    shown: RunRecord, refined_seed: Path
) -> None:
    (header,) = refined_seed.glob("refinement_sessions/*/run.json")
    wrong: dict[str, object] = {}
    for name, html in _pages(shown, refined_seed, header.parent):
        outline = _outline_of(html)
        steps = zip(outline.headings, outline.headings[1:], strict=False)
        skipped = [step for step in steps if step[1] > step[0] + 1]
        if outline.headings[:1] != [1] or outline.headings.count(1) != 1 or skipped:
            wrong[name] = outline.headings
        if outline.troubles:
            wrong[f"{name}: troubles"] = outline.troubles
        if len(outline.ids) != len(set(outline.ids)):
            wrong[f"{name}: ids"] = outline.ids
    assert wrong == {}


def test_headings_go_down_one_step_at_a_time(outline: _Outline) -> None:
    assert outline.headings[0] == 1
    assert outline.headings.count(1) == 1
    steps = zip(outline.headings, outline.headings[1:], strict=False)
    assert [step for step in steps if step[1] > step[0] + 1] == []


def test_fields_tables_and_drawings_have_names(outline: _Outline) -> None:
    assert outline.troubles == []


def test_ids_are_unique_and_names_lead_somewhere(outline: _Outline) -> None:
    assert len(outline.ids) == len(set(outline.ids))
    assert set(outline.references) <= set(outline.ids)
