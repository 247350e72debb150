"""Links between pages lead somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.docs_pages import ROOT, all_pages, blocks

_LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    for link in _links(page):
        path, _, anchor = link.partition("#")
        assert "://" not in link, f"{page.name}: {link}: these docs are read offline"
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{page.name}: {link} leads nowhere"
        assert there.is_relative_to(ROOT), f"{page.name}: {link} leaves the repository"
        assert not anchor or anchor in _anchors(there), f"{page.name}: no heading for #{anchor}"


def test_every_page_is_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    ahead = [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        ahead += [(page.parent / link.partition("#")[0]).resolve() for link in _links(page)]
    lost = set(all_pages()) - seen
    assert not lost, f"no link leads to {sorted(map(str, lost))}"


def _links(page: Path) -> Iterator[str]:
    yield from _LINK.findall(_prose(page))


def _prose(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    for block in blocks(page):
        text = text.replace(block.text, "\n")
    return re.sub(r"`[^`\n]*`", lambda code: code[0] if "](" not in code[0] else "", text)


def _anchors(page: Path) -> set[str]:
    headings = _HEADING.findall(_prose(page))
    plain = (re.sub(r"[^\w\s-]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}
