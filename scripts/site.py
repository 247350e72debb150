"""A hook of mkdocs: README, examples and project pages join the docs, and links follow them.

A page of the repository keeps its path on the site, but for `docs/`, which is its root, and
README.md, which is the first page. Files that pages link to, such as the YAML of an example, are
copied, so that no link leaves the site.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
_DOCS = "docs/"
_FIRST = "README.md"
_PROJECT = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
_LINK = re.compile(r"(?P<open>\]\()(?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")
_ITEM = re.compile(r"(?:[-*]|\d+\.) ")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the sections of the navigation that are lists of files."""
    nav = cast("list[dict[str, Any]]", config["nav"] or [])
    named = set(_named(nav))
    rest = [page for page in _in_docs("*.md") if page not in named]
    filled = {
        "Guides": rest,
        "Reference": _in_docs("reference/*.md"),
        "Examples": [_site_path(page) for page in _examples()],
        "Decisions": sorted(_in_docs("adr/*.md"), key=lambda page: page != "adr/README.md"),
    }
    for section in nav:
        for title, pages in section.items():
            if title in filled:
                section[title] = [*pages, *filled[title]]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside docs/, and the files that any page links to."""
    pages = [_FIRST, *_PROJECT, *_examples()]
    for path in pages:
        _add(files, path, config)
    written = [*pages, *(f"{_DOCS}{page}" for page in _in_docs("**/*.md"))]
    for page in written:
        text = (ROOT / page).read_text(encoding="utf-8")
        for link in _LINK.finditer("".join(text for text, code in _parts(text) if not code)):
            path = _repository_path(page, link["path"])
            if (ROOT / path).is_file():
                _add(files, path, config)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at the site, and set lists apart as this Markdown wants it."""
    del config, files
    source = _source(page.file.src_uri)
    parts = _parts(markdown)
    return "".join(text if code else _apart(_relinked(text, source)) for text, code in parts)


def _relinked(text: str, source: str) -> str:
    here = posixpath.dirname(_site_path(source))

    def link(match: re.Match[str]) -> str:
        path = _repository_path(source, match["path"])
        if not (ROOT / path).is_file():
            return match[0]  # the strict build says so
        there = posixpath.relpath(_site_path(path), here or ".")
        return f"{match['open']}{there}{match['anchor'] or ''})"

    return _LINK.sub(link, text)


def _apart(text: str) -> str:
    """A list right below a paragraph needs an empty line above it."""
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        above = lines[-1] if lines else "\n"
        begins = _ITEM.match(line) and above.strip() and not _ITEM.match(above)
        if begins and not above.startswith((" ", "#", "|", ">")):
            lines.append("\n")
        lines.append(line)
    return "".join(lines)


def _parts(markdown: str) -> Iterator[tuple[str, bool]]:
    """The text in parts, and whether each is a block of code."""
    for number, part in enumerate(re.split(r"(?ms)^(```.*?^```$)", markdown)):
        yield part, number % 2 == 1


def _add(files: Files, path: str, config: MkDocsConfig) -> None:
    uri = _site_path(path)
    if files.get_file_from_path(uri) is None:
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))


def _repository_path(page: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def _site_path(path: str) -> str:
    return "index.md" if path == _FIRST else path.removeprefix(_DOCS)


def _source(uri: str) -> str:
    """The path in the repository of a page of the site."""
    if uri == "index.md":
        return _FIRST
    outside = uri in _PROJECT or uri.startswith("examples/")
    return uri if outside else f"{_DOCS}{uri}"


def _examples() -> list[str]:
    return [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("examples/*/README.md"))]


def _in_docs(pattern: str) -> list[str]:
    docs = ROOT / _DOCS
    return [str(path.relative_to(docs)) for path in sorted(docs.glob(pattern))]


def _named(nav: Any) -> Iterator[str]:
    """The pages that a part of the navigation names."""
    if isinstance(nav, str):
        yield nav
    below: list[Any] = []
    if isinstance(nav, dict):
        below = list(cast("dict[str, Any]", nav).values())
    elif isinstance(nav, list):
        below = cast("list[Any]", nav)
    for each in below:
        yield from _named(each)
