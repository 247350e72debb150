"""Requests for pages and answers to them: who asks, what a form has, where a visitor is led."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError
from burnish.pages.document import Place, render
from burnish.pages.served import Query, first
from burnish.projects.clients import NotAllowed
from burnish.server.apps.projects import JobRequest
from burnish.server.guards import VISITOR, Visitor, error_body
from burnish.server.security import NameRefused, is_plain

LIMITS = {
    "max_trials": "trials at most",
    "max_usd": "US dollars at most",
    "max_minutes": "minutes at most",
    "max_calls": "calls at most",
}
"""The limits that forms may set, with what they count."""
_WHOLE = ("max_trials", "max_calls")
_NAMES = "use letters, digits, '.', '-' and '_'"


def visitor_of(request: Request) -> Visitor | None:
    """Who asks; None for a stranger."""
    visitor = request.scope.get(VISITOR)
    return visitor if isinstance(visitor, Visitor) else None


def known_visitor(request: Request) -> Visitor:
    """Who has logged in: the guard sends everybody else away."""
    visitor = visitor_of(request)
    assert visitor is not None
    return visitor


def root_of(request: Request) -> str:
    """The address of the list of runs, wherever the service is mounted."""
    return f"{str(request.scope.get('root_path', '')).rstrip('/')}/"


def place_of(request: Request) -> Place:
    """Where a page is shown, and to whom."""
    visitor = visitor_of(request)
    if visitor is None:
        return Place(alone=False, root=root_of(request))
    client = visitor.client
    return Place(
        alone=False,
        root=root_of(request),
        token=visitor.session.form_token,
        account=f"{client.account} ({client.scope.value})" if visitor.key else "",
        may_change=client.scope.may_change,
    )


def parts_of(request: Request) -> list[str]:
    """The parts of an address; an app and the name of its run are one."""
    # As it was sent: the name of a case may have a slash in it.
    sent = bytes(request.scope["raw_path"]).decode("latin-1").partition("?")[0]
    parts = [unquote(part) for part in sent.removeprefix(root_of(request)).split("/")]
    if parts[0] == "runs" and len(parts) > 2:
        parts = ["runs", f"{parts[1]}/{parts[2]}", *parts[3:]]
    return parts


def named_run(request: Request) -> tuple[str, str]:
    """The app and the name of the run in an address."""
    app, run_id = request.path_params["app"], request.path_params["run_id"]
    return checked_name(app), checked_name(run_id)


def checked_name(name: str) -> str:
    """A name that is safe as a part of a path; NameRefused for any other."""
    if not is_plain(name):
        raise NameRefused("this cannot name a run", remedy=_NAMES)
    return name


# -- Forms -----------------------------------------------------------------------------------------


def query_of(request: Request) -> Query:
    """What an address has after its question mark."""
    return _fields(request.scope.get("query_string", b""))


async def form_of(request: Request) -> Query:
    """What a form has."""
    return _fields(await request.body())


async def own_form(request: Request) -> Query:
    """The same, if it was filled in on a page of the visitor's session; NotAllowed if not."""
    form = await form_of(request)
    if not known_visitor(request).session.has_sent(first(form, "token")):
        remedy = "go back, load the page again, and try once more"
        raise NotAllowed("this form is not from a page of your session", remedy=remedy)
    return form


def _fields(content: bytes) -> Query:
    try:
        return parse_qs(content.decode(errors="replace"), max_num_fields=40)
    except ValueError:
        return {}


def limits_in(form: Query) -> dict[str, float]:
    """The limits that a form sets."""
    limits: dict[str, float] = {}
    for name, words in LIMITS.items():
        read = whole_number if name in _WHOLE else _any_number
        if (number := read(first(form, name), words)) is not None:
            limits[name] = number
    return limits


def whole_number(text: str, words: str) -> int | None:
    """A whole number in a form; None if the field is empty. `words` name the field."""
    try:
        return int(text) if text.strip() else None
    except ValueError:
        raise _no_number(text, words, "write a whole number") from None


def _any_number(text: str, words: str) -> float | None:
    try:
        return float(text) if text.strip() else None
    except ValueError:
        raise _no_number(text, words, "write a number") from None


def _no_number(text: str, words: str, remedy: str) -> ConfigError:
    return ConfigError.of(words, f"'{text.strip()[:40]}' is no number", remedy)


def job_of(kind: str, limits: Mapping[str, float]) -> Json:
    """The request that a form makes."""
    evaluates = kind == "evaluate"
    request: dict[str, Any] = {"kind": "evaluate" if evaluates else "optimize"}
    settings = "evaluation" if evaluates else "settings"
    return JobRequest.read({**request, settings: dict(limits)}).to_json()


# -- Answers ---------------------------------------------------------------------------------------


def led_to(request: Request, path: str, **query: str) -> Response:
    """Lead on to another page of ours, and never elsewhere."""
    ours = all(is_plain(part) for part in path.split("/"))
    more = f"?{urlencode(query)}" if query else ""
    address = root_of(request) + (path if ours else "") + more
    return RedirectResponse(address, HTTPStatus.SEE_OTHER)


def rendered(
    request: Request, template: str, context: Mapping[str, object], status: int = HTTPStatus.OK
) -> Response:
    """A page made of a template."""
    return HTMLResponse(render(template, context, place=place_of(request)), status)


def trouble_page(request: Request, status: int, words: str) -> Response:
    """A page about an error."""
    context = {"title": HTTPStatus(status).phrase, "words": words}
    return rendered(request, "trouble.html.j2", context, status)


def words_of(error: BurnishError) -> str:
    """What a visitor may read about an error."""
    body: Any = error_body(error)["error"]
    problems = [
        f"{each['where']}: {each['message']}. {each['remedy']}" for each in body["problems"]
    ]
    if problems:  # each begins with the name of a file, a field or a flag
        return f"{' '.join(problems).strip().rstrip('.')}."
    text = f"{body['message']}. {body['remedy']}".strip().rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."
