"""Renders templates and sections of reports to HTML, for files and served pages.

A strict policy holds for both, and nothing in a section is live.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from markdown_it import MarkdownIt

from burnish.core.content import Json
from burnish.core.formatting import CHANGED, Heading, Page, Section
from burnish.reports.rendering import to_markdown
from burnish.system import write_atomic
from burnish.system.extras import is_importable

if TYPE_CHECKING:
    from jinja2 import Environment
    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token
    from markupsafe import Markup

    from burnish.pages.run_status import RunControls

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


_HERE = Path(__file__).parent
_PLOTLY = "plotly.js"
_SCRIPT = "text/javascript"
STATIC = {
    "page.css": "text/css",
    **({_PLOTLY: _SCRIPT} if is_importable("plotly") else {}),
    "page.js": _SCRIPT,
}
"""The files that served pages load, with their types."""
_HAS_CHARTS = _PLOTLY in STATIC
"""Whether charts are drawn; without the extra `view`, a page has their tables alone."""
_STYLE_ID = re.compile(rb'getElementById\("([0-9a-f]{64})"\)')
_EMPTY = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
"""The hash of nothing: plotly makes an empty style element and fills it rule by rule."""
_SERVED_POLICY = (
    f"default-src 'none'; script-src 'self'; style-src 'self' {_EMPTY}; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The content security policy of served pages."""
PAGE_HEADERS = {
    "Content-Security-Policy": _SERVED_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not `no-referrer`: with that, browsers send forms without saying where they come from.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of every served page."""
DOWNLOADED = "report.html"
DOWNLOAD = ("Content-Disposition", f'attachment; filename="{DOWNLOADED}"')
"""The header of a page that browsers store instead of showing it."""


@cache
def static_file(name: str) -> str:
    """The content of one of the files of `STATIC`."""
    script = _script() if name == _PLOTLY else _HERE / "static" / name
    return script.read_text(encoding="utf-8")


def _script() -> Path:
    """plotly's, without importing the package: that takes most of a second."""
    package = find_spec("plotly")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "package_data" / "plotly.min.js"


@cache
def _unwanted_styles() -> tuple[str, ...]:
    """Ids of style elements that plotly adds for maps, unless the page has elements of that id.

    The policy would block them, with an error in the console of every reader.
    """
    found = set(_STYLE_ID.findall(_script().read_bytes())) if _HAS_CHARTS else set[bytes]()
    return tuple(sorted(each.decode() for each in found))


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a page is shown, which decides what it may offer."""

    alone: bool = True
    """A file by itself: no links to other pages, and everything inside it."""
    bare: bool = False
    """Whether plotly's script is left out of such a file, for `write_document` to put it in."""
    root: str = "/"
    """The address below which served pages are."""
    token: str = ""
    """Proves that a form was filled in on one of our pages; without it nothing can be changed."""
    home: str = ""
    """The name of the list of runs; empty if there is no list."""
    account: str = ""
    """Who has logged in, and may log out."""
    has_texts: bool = False
    """Whether experiments and policy texts of this machine are shown here."""
    may_change: bool = False
    """Whether the visitor may start runs here."""
    controls: "RunControls | None" = None
    """What the service shows above a run."""


ALONE = Place()
BARE = Place(bare=True)
_MARK = "<!--plotly.js-->"
"""Where the script belongs in a bare document; no text of a page has it, as all are escaped."""


def write_document(path: Path, bare: str) -> None:
    """Write a bare document as a file by itself.

    The script is larger than everything else. As bytes it is in memory once, and not in a text of
    two bytes a character that is copied with every piece around it.
    """
    before, mark, after = bare.partition(_MARK)
    write_atomic(path, [before, _script().read_bytes() if mark else "", after])


def render(template: str, context: Mapping[str, object], *, place: Place = ALONE) -> str:
    """A whole document. Every text in the context is escaped."""
    environment = _environment()
    shared: dict[str, object] = {
        "key": "",
        "above": "",
        "message": "",
        **context,
        "place": place,
    }
    if place.alone:
        shared["policy"] = _alone_policy()
    return environment.get_template(template).render(shared)


def _alone_policy() -> str:
    """The policy of a stand-alone file: exactly our own scripts and styles, and no connection."""
    scripts = " ".join(_digest(name) for name, kind in STATIC.items() if kind == _SCRIPT)
    style = _digest("page.css")
    return (
        f"default-src 'none'; script-src {scripts}; style-src {style} {_EMPTY}; img-src data:; "
        "form-action 'none'; base-uri 'none'"
    )


@cache
def _digest(name: str) -> str:
    content = _script().read_bytes() if name == _PLOTLY else static_file(name).encode()
    # Browsers hash a script as they read it, with every line end as a line feed.
    content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return f"'sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode()}'"


def data_block(value: Json) -> str:
    """JSON that can stand inside of a script element, whatever its texts hold."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

    from burnish.core import formatting
    from burnish.pages.run_details import shown
    from burnish.reports.cases import GROUPS
    from burnish.reports.evaluation_cases import CaseRow

    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    def data(value: Any) -> Markup:
        return Markup(data_block(value))  # noqa: S704 - it has no sign that HTML knows

    def cells(row: Iterable[object]) -> Markup:
        # A loop of the template takes ten times as long, and a heat map has thousands of cells.
        return Markup("".join(f"<td>{escape(cell)}</td>" for cell in row))  # noqa: S704 - escaped

    def verbatim(name: str, place: Place) -> Markup:
        left_out = place.bare and name == _PLOTLY
        return Markup(_MARK if left_out else static_file(name))  # noqa: S704 - our own files

    # Jinja's own types allow only what it brings itself.
    filters, tests, shared = (
        cast("dict[str, Any]", table)
        for table in (environment.filters, environment.tests, environment.globals)
    )
    filters.update(
        cells=cells,
        data=data,
        number=formatting.number,
        moment=formatting.moment,
        money=formatting.money,
        duration=formatting.duration,
        spending=formatting.spending,
        visible=formatting.visible,
        counted=formatting.counted,
        diff_lines=diff_html,
    )

    def failing(metric: str, row: CaseRow) -> bool:
        return row.passed(metric) is False

    tests["failing"] = failing
    shared.update(
        verbatim=verbatim,
        shown=shown,
        group_names=GROUPS,
        has_charts=_HAS_CHARTS,
        unwanted_styles=_unwanted_styles,
    )
    return environment
