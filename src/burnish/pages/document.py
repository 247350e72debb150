"""Renders templates to HTML: stand-alone files and served pages, under a strict policy."""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from burnish.core.content import Json
from burnish.core.errors import MissingExtra

if TYPE_CHECKING:
    from jinja2 import Environment

    from burnish.pages.live import RunControls

_HERE = Path(__file__).parent
_LIBRARIES = ("jinja2", "plotly")
STATIC = {"page.css": "text/css", "page.js": "text/javascript", "plotly.js": "text/javascript"}
"""The files that served pages load, with their types."""
_STYLE_ID = re.compile(r'getElementById\("([0-9a-f]{64})"\)')
_EMPTY = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
"""The hash of nothing: plotly makes an empty style element and fills it rule by rule."""
SERVED_POLICY = (
    f"default-src 'none'; script-src 'self'; style-src 'self' {_EMPTY}; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The content security policy of served pages."""
PAGE_HEADERS = {
    "Content-Security-Policy": SERVED_POLICY,
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


def can_render() -> bool:
    """Whether the extra `view` is installed."""
    return all(find_spec(name) is not None for name in _LIBRARIES)


def require_view() -> None:
    """Raise if the extra `view` is not installed."""
    if not can_render():
        raise MissingExtra(
            "pages for the browser need jinja2 and plotly", remedy="pip install 'burnish[view]'"
        )


@cache
def static_file(name: str) -> str:
    """The content of one of the files of `STATIC`."""
    if name != "plotly.js":
        return (_HERE / "static" / name).read_text(encoding="utf-8")
    # Without importing the package: it takes most of a second, and only the script is used.
    package = find_spec("plotly")
    assert package is not None
    assert package.origin is not None
    script = Path(package.origin).parent / "package_data" / "plotly.min.js"
    return script.read_text(encoding="utf-8")


@cache
def unwanted_styles() -> tuple[str, ...]:
    """Ids of style elements that plotly adds for maps, unless the page has elements of that id.

    The policy would block them, with an error in the console of every reader.
    """
    return tuple(sorted(set(_STYLE_ID.findall(static_file("plotly.js")))))


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a page is shown, which decides what it may offer."""

    alone: bool = True
    """A file by itself: no links to other pages, and everything inside it."""
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
    may_label: bool = False
    """Whether there are cases to label here."""
    may_change: bool = False
    """Whether the visitor may start runs here."""
    controls: "RunControls | None" = None
    """What the service shows above a run."""


ALONE = Place()


def render(template: str, context: Mapping[str, object], *, place: Place = ALONE) -> str:
    """A whole document. Every text in the context is escaped."""
    require_view()
    environment = _environment()
    shared: dict[str, object] = {
        "key": "",
        "above": "",
        "message": "",
        "steering": None,
        **context,
        "place": place,
    }
    if place.alone:
        shared["policy"] = _alone_policy()
    return environment.get_template(template).render(shared)


def _alone_policy() -> str:
    """The policy of a stand-alone file: exactly our own scripts and styles, and no connection."""
    scripts = " ".join(_digest(static_file(name)) for name in ("plotly.js", "page.js"))
    style = _digest(static_file("page.css"))
    return (
        f"default-src 'none'; script-src {scripts}; style-src {style} {_EMPTY}; img-src data:; "
        "form-action 'none'; base-uri 'none'"
    )


@cache
def _digest(content: str) -> str:
    # Browsers hash a script as they read it, with every line end as a line feed.
    text = content.replace("\r\n", "\n").replace("\r", "\n")
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


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
    from burnish.pages.cases import shown
    from burnish.pages.markup import diff_html
    from burnish.reports.case_lines import GROUPS
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

    def verbatim(name: str) -> Markup:
        return Markup(static_file(name))  # noqa: S704 - our own files

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
        verbatim=verbatim, shown=shown, group_names=GROUPS, unwanted_styles=unwanted_styles
    )
    return environment
