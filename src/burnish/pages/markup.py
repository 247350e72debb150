"""Sections of a report as HTML: the same Markdown that report.md has, with nothing live in it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from markdown_it import MarkdownIt

from burnish.core.formatting import Heading, Page, Section
from burnish.core.word_diff import CHANGED
from burnish.reports.rendering import to_markdown

if TYPE_CHECKING:
    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token
    from markupsafe import Markup

_MARKS = {"+": "ins", "-": "del", "@": "hunk", CHANGED: "changed"}
_WORDS = re.compile(r"\[-.*?-\]|\{\+.*?\+\}")
"""Words of a changed line that are only in its old or only in its new form."""


@dataclass(frozen=True, kw_only=True)
class Chapter:
    """A heading of a report with what stands below it, as HTML."""

    title: str
    body: "Markup"


def chapters(sections: Iterable[Section]) -> tuple[Chapter, ...]:
    """The chapters of a report below its title; what stands before the first one is left out."""
    groups: list[_Group] = []
    for section in sections:
        match section:
            case Heading(level=1):
                groups = []
            case Heading(level=2):
                groups.append(_Group(title=section.text))
            case Page():
                groups += _page_groups(section.lines)
            case _ if groups:
                groups[-1].sections.append(section)
            case _:
                pass
    return tuple(Chapter(title=_plain(g.title), body=to_html(g.sections)) for g in groups)


@dataclass(kw_only=True)
class _Group:
    title: str
    sections: list[Section] = field(default_factory=list[Section])


def _page_groups(lines: Iterable[str]) -> list["_Group"]:
    """The chapters of a page that the run has written itself."""
    groups: list[_Group] = []
    texts: list[list[str]] = []
    code = False
    for line in lines:
        code ^= line.startswith("```")
        if line.startswith("## ") and not code:
            groups.append(_Group(title=line.removeprefix("## ")))
            texts.append([])
        elif texts:
            texts[-1].append(line)
    for group, text in zip(groups, texts, strict=True):
        group.sections.append(Page(tuple(text)))
    return groups


def to_html(sections: Iterable[Section]) -> "Markup":
    """Sections as HTML. Raw HTML stays text, and links and images of agents stay words."""
    from markupsafe import Markup

    return Markup(html_text(sections))  # noqa: S704 - escaped by the renderer


def html_text(sections: Iterable[Section]) -> str:
    """The same as plain text, for those who have no templates."""
    return _markdown().render(to_markdown(sections))


def _plain(text: str) -> str:
    return text.replace("`", "").replace("\\|", "|").replace("&lt;", "<")


@cache
def _markdown() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.disable(["link", "image", "autolink", "reference", "html_inline", "html_block"])
    markdown.add_render_rule("fence", _fence)
    markdown.add_render_rule("table_open", _table_open)
    markdown.add_render_rule("table_close", _table_close)
    markdown.add_render_rule("th_open", _head_open)
    # Below the headings of the page, whatever level an agent gave to its own.
    markdown.add_render_rule("heading_open", lambda *_: "<h3>")
    markdown.add_render_rule("heading_close", lambda *_: "</h3>\n")
    return markdown


def _table_open(*_: object) -> str:
    return '<div class="scroll" tabindex="0"><table>\n'


def _head_open(*_: object) -> str:
    return '<th scope="col">'


def _table_close(*_: object) -> str:
    return "</table></div>\n"


def _fence(
    renderer: "RendererHTML", tokens: Sequence["Token"], index: int, options: Any, env: Any
) -> str:
    del renderer, options, env
    token = tokens[index]
    lines = _diff_lines(token.content) if token.info == "diff" else [_escaped(token.content)]
    return f'<pre class="scroll" tabindex="0"><code>{"".join(lines)}</code></pre>\n'


def _diff_lines(content: str) -> Iterator[str]:
    for line in content.splitlines(keepends=True):
        mark = _MARKS.get(line[:1])
        inside = _changed_words(line) if mark == "changed" else _escaped(line)
        yield f'<span class="{mark}">{inside}</span>' if mark else inside


def diff_html(lines: Iterable[str]) -> "Markup":
    """The lines of a diff, each in the colour of its mark."""
    from markupsafe import Markup

    content = "".join(f"{line}\n" for line in lines)
    return Markup("".join(_diff_lines(content)))  # noqa: S704 - every text in it is escaped


def _changed_words(line: str) -> str:
    """A line that is partly the same, with its old and new words marked."""
    pieces: list[str] = []
    end = 0
    for words in _WORDS.finditer(line):
        mark = "del" if words[0].startswith("[") else "ins"
        pieces += [_escaped(line[end : words.start()])]
        pieces += [f'<span class="{mark}">{_escaped(words[0])}</span>']
        end = words.end()
    return "".join([*pieces, _escaped(line[end:])])


def _escaped(text: str) -> str:
    from markupsafe import escape

    return str(escape(text))
