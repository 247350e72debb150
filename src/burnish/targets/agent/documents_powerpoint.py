"""PowerPoint files as text: the slides in order, each under its title."""

from collections.abc import Iterable, Iterator, Sequence

from burnish.targets.agent.documents_bounds import Allowance, allowed_text
from burnish.targets.agent.documents_package import Package, part_behind
from burnish.targets.agent.documents_pages import chosen
from burnish.targets.agent.documents_paragraphs import Paragraphs
from burnish.targets.agent.documents_xml import Mark

_TITLES = ("title", "ctrTitle")
_FURNITURE = ("sldNum", "dt", "ftr", "hdr")
"""The number, date and footer that every slide has."""


def powerpoint_text(content: bytes, *, pages: Sequence[int] = ()) -> str:
    """The text of the slides, or of those whose numbers are given."""
    package = Package(content)
    show = package.main("presentation")
    related = package.related(show)
    slides = [
        part_behind(mark, related)
        for mark in package.marks(show)
        if mark.kind == "start" and mark.name == "sldId"
    ]
    allowance = allowed_text()
    numbers = chosen(pages, len(slides), "slide")
    texts = (_slide(n, package.marks(slides[n - 1]), allowance) for n in numbers)
    return "\n\n".join(texts)


def _slide(number: int, marks: Iterable[Mark], allowance: Allowance) -> str:
    title: list[str] = []
    body: list[str] = []
    for role, lines in _shapes(marks, allowance):
        if role in _TITLES:
            title += lines
        elif role not in _FURNITURE:
            body += lines
    head = " ".join(" ".join(title).split())
    return "\n".join([f"# Slide {number}: {head}" if head else f"# Slide {number}", *body])


def _shapes(marks: Iterable[Mark], allowance: Allowance) -> Iterator[tuple[str, list[str]]]:
    """What each shape of a slide is there for, and its lines."""
    shape, role = Paragraphs(allowance=allowance), ""
    for mark in marks:
        if mark.name in ("sp", "graphicFrame"):
            if mark.kind == "end":
                yield role, shape.lines
            shape, role = Paragraphs(allowance=allowance), ""
        elif mark.name == "ph" and mark.kind == "start":
            role = mark.attributes.get("type", "")
        else:
            shape.take(mark)
