"""The pages of the service: logging in, runs and what they do now, starting and stopping them."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, Response

from burnish.core.errors import BurnishError, ConfigError
from burnish.delegation.refine.loop import MOST_ITERATIONS
from burnish.delegation.refine.sessions import INTERRUPTED
from burnish.pages.document import (
    DOWNLOAD,
    DOWNLOADED,
    PAGE_HEADERS,
    STATIC,
    Place,
    render,
    static_file,
)
from burnish.pages.run_result import REFINEMENTS, is_refinement
from burnish.pages.run_status import LivePanel, RunControls
from burnish.pages.served import FIRST_PARTS, Query, ServedPages, first, joined
from burnish.projects.clients import NotAllowed
from burnish.runs.directory import LOCK
from burnish.runs.stoppers import STOP_FILE
from burnish.server.guards import (
    VISITOR,
    PageAccess,
    Sessions,
    Visitor,
    log_trouble,
    retry_after,
    session_cookie,
    status_of,
)
from burnish.server.library import (
    LIMITS,
    LiveRuns,
    ServiceLibrary,
    checked_name,
    form_of,
    job_of,
    known_visitor,
    led_to,
    limits_in,
    named_run,
    own_form,
    parts_of,
    place_of,
    query_of,
    rendered,
    root_of,
    trouble_page,
    visitor_of,
    whole_number,
    words_of,
)
from burnish.server.manager import RunManager
from burnish.server.routes.refinement import RefineBody, Refinements
from burnish.server.routes.runs import EventStream
from burnish.server.security import NameRefused, TooManyAttempts, address_of, public
from burnish.server.stores.records import RunStatus, StoredRun
from burnish.server.tokens import LOCAL
from burnish.system import is_held, place_inside, validate_config

_MESSAGES = {
    "stop": "It was asked to stop.",
    "resume": "It goes on.",
    "start": "The run is started.",
    "refine": "The refinement is started.",
}
_ELSEWHERE = "This process drives no runs; refine on the machine of a worker."


def pages_router(
    manager: RunManager, sessions: Sessions, refinements: Refinements | None
) -> APIRouter:
    """Every page."""
    router = APIRouter(include_in_schema=False)
    pages = _Pages(manager=manager, sessions=sessions, refinements=refinements)
    for path, answer in (
        ("/static/{name}", pages.static),
        ("/login", pages.login_form),
        ("/start", pages.start_form),
        ("/runs/{app}/{run_id}/live", pages.live),
        ("/runs/{app}/{run_id}/refinements/{session}/live", pages.refinement_live),
        *((f"/{part}", pages.page) for part in sorted(FIRST_PARTS)),
        *((f"/{part}/{{path:path}}", pages.page) for part in sorted(FIRST_PARTS) if part),
    ):
        router.add_api_route(path, _guarded(answer), methods=["GET"])
    for path, answer in (
        ("/login", pages.log_in),
        ("/logout", pages.log_out),
        ("/start", pages.start),
        ("/runs/{app}/{run_id}/stop", pages.stop),
        ("/runs/{app}/{run_id}/resume", pages.resume),
        ("/runs/{app}/{run_id}/refine", pages.refine),
        ("/runs/{app}/{run_id}/refinements/{session}/stop", pages.stop_refinement),
        ("/runs/{app}/{run_id}/refinements/{session}/resume", pages.resume_refinement),
    ):
        router.add_api_route(path, _guarded(answer), methods=["POST"])
    return router


def page_access(sessions: Sessions) -> PageAccess:
    """Who may see the pages."""
    own = {"login", "logout", "start", "static"}
    return PageAccess(sessions=sessions, first_parts=FIRST_PARTS | own)


_Answer = Callable[[Request], Awaitable[Response]]


def _guarded(answer: _Answer) -> _Answer:
    """A page for an error, too. Requests with a token of the API get no page at all."""

    async def guarded(request: Request) -> Response:
        if VISITOR not in request.scope:
            raise HTTPException(HTTPStatus.NOT_FOUND, "Not Found")
        try:
            response = await answer(request)
        except BurnishError as error:
            log_trouble(error)
            response = trouble_page(request, status_of(error)[0], words_of(error))
        for name, value in PAGE_HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return guarded


@dataclass
class _Pages:
    """Answers requests for pages."""

    manager: RunManager
    sessions: Sessions
    refinements: Refinements | None
    """None where runs are only accepted: who accepts a refinement drives it."""
    _live: LiveRuns | None = None

    async def static(self, request: Request) -> Response:
        """One of our own files."""
        name = request.path_params["name"]
        if name not in STATIC:
            raise HTTPException(HTTPStatus.NOT_FOUND, "Not Found")
        content = await asyncio.to_thread(static_file, name)
        headers = {"Cache-Control": "private, max-age=3600"}
        return Response(content, media_type=STATIC[name], headers=headers)

    # -- Sessions ----------------------------------------------------------------------------------

    async def login_form(self, request: Request) -> Response:
        """The form for a token; whoever needs none is led on."""
        to = first(query_of(request), "to")
        if visitor_of(request) is not None:
            return led_to(request, to)
        return _login(request, to)

    async def log_in(self, request: Request) -> Response:
        """Begin a session."""
        form = await form_of(request)
        to = first(form, "to")
        try:
            key = self.sessions.log_in(first(form, "key"), address_of(request.scope))
        except TooManyAttempts as error:
            answer = _login(request, to, words_of(error), HTTPStatus.TOO_MANY_REQUESTS)
            answer.headers.update(retry_after(error))
            return answer
        if (before := visitor_of(request)) is not None:
            self.sessions.log_out(before.key)
        if key is None and self.sessions.required:
            message = "This token is unknown, or it has expired."
            return _login(request, to, message, HTTPStatus.FORBIDDEN)
        return self._with_cookie(request, led_to(request, to), key or "")

    async def log_out(self, request: Request) -> Response:
        """End a session."""
        await own_form(request)
        self.sessions.log_out(known_visitor(request).key)
        return self._with_cookie(request, led_to(request, "login"), "")

    def _with_cookie(self, request: Request, response: Response, key: str) -> Response:
        cookie = session_cookie(request.scope, key, root=root_of(request))
        response.headers["Set-Cookie"] = cookie
        return response

    # -- Looking -----------------------------------------------------------------------------------

    async def page(self, request: Request) -> Response:
        """A page that `burnish view` has as well, with the state of its run above it."""
        live = self._runs()
        return await live.in_thread(lambda: self._page(request, live))

    def _page(self, request: Request, live: LiveRuns) -> Response:
        began, place = time.thread_time(), place_of(request)
        parts, query = joined(parts_of(request)), query_of(request)
        message = _MESSAGES.get(first(query, "done"), "")
        if len(parts) == 2 and parts[0] == "runs":
            visitor, key = known_visitor(request), parts[1]
            stored = live.library.stored(key, result=True)
            begun = live.library.begun(stored)
            make = self._refinement_controls if is_refinement(key) else self._run_controls
            place = replace(place, controls=make(visitor, key, stored, live))
            if not begun:
                return HTMLResponse(_waiting(place, stored, message))
        body = ServedPages(library=live.library, place=place).at(parts, query, message=message)
        if body is None:
            return trouble_page(request, HTTPStatus.NOT_FOUND, "There is no such page.")
        if place.controls is not None:
            live.page_seconds[place.controls.key] = time.thread_time() - began
        name, value = DOWNLOAD
        return HTMLResponse(body, headers={name: value} if parts[-1] == DOWNLOADED else {})

    def _run_controls(
        self, visitor: Visitor, key: str, stored: StoredRun, live: LiveRuns
    ) -> RunControls:
        owner = live.library.owner(stored)
        controls = _controls(visitor, stored, owner, live.panel(key, stored))
        if controls.live or self.refinements is None or not live.library.begun(stored):
            return controls
        part = live.library.delegations.part(live.library.folder(key))
        idle = part is not None and part.idle
        return replace(controls, may_refine=idle and _may_change(visitor, owner))

    def _refinement_controls(
        self, visitor: Visitor, key: str, stored: StoredRun, live: LiveRuns
    ) -> RunControls | None:
        """None for one with which nothing can be done: it has ended, or is somebody else's."""
        may_change = _may_change(visitor, live.library.owner(stored))
        if is_held(live.library.folder(key) / LOCK):
            return RunControls(
                key=key,
                status=RunStatus.RUNNING.value,
                live=True,
                panel=live.refinement_panel(key),
                action="stop" if may_change else "",
            )
        above, _, name = key.partition(f"/{REFINEMENTS}/")
        lines = live.library.delegations.refinements(live.library.folder(above))
        line = next((each for each in lines if each.name == name), None)
        if line is None or not line.can_have_more or not may_change or self.refinements is None:
            return None
        return RunControls(
            key=key,
            status=INTERRUPTED if line.resumable else RunStatus.SUCCEEDED.value,
            live=False,
            action="resume",
            limits=((_ITERATIONS, _LIMIT_WORDS),),
            limit_words=f"It may have {line.most_iterations} now, and {MOST_ITERATIONS} at most.",
        )

    async def refinement_live(self, request: Request) -> Response:
        """Tell the page of a refinement what it does, until it ends."""
        live, key = self._runs(), _refinement_key(request)
        await live.in_thread(lambda: live.library.folder(key))
        return EventStream(live.refinement_news(key, place_of(request)), self._listener(request))

    async def live(self, request: Request) -> Response:
        """Tell a page what its run does, until the run ends."""
        app, run_id = named_run(request)
        record = await self.manager.get(app, run_id, result=False)
        numbers = (first(query_of(request), "after"), request.headers.get("last-event-id", ""))
        begin = max(int(each) if each.isdecimal() and len(each) < 10 else 0 for each in numbers)
        frames = self._runs().news(record, begin, place_of(request))
        return EventStream(frames, self._listener(request))

    def _listener(self, request: Request) -> Callable[[], None]:
        """Take the place of a listener; the answer gives it back."""
        account = known_visitor(request).client.account
        return self.manager.tails.admit("" if account == LOCAL else account)

    def _runs(self) -> LiveRuns:
        """What pages read. It belongs to the loop of the service, which exists only by now."""
        loop = asyncio.get_running_loop()
        if self._live is None or self._live.library.loop is not loop:
            library = ServiceLibrary(self.manager, loop)
            self._live = LiveRuns(manager=self.manager, library=library)
        return self._live

    # -- Changing ----------------------------------------------------------------------------------

    async def start_form(self, request: Request) -> Response:
        """The form to start a run."""
        query = query_of(request)
        return self._start_page(request, {name: first(query, name) for name in _CHOSEN})

    def _start_page(
        self, request: Request, chosen: Mapping[str, str], message: str = ""
    ) -> Response:
        if not known_visitor(request).client.scope.may_change:
            raise NotAllowed("this token may only read")
        # An engine of a program has no request that a form could make.
        apps = sorted(name for name, app in self.manager.apps.items() if app.folder is not None)
        context: dict[str, object] = {
            "title": "Start a run",
            "apps": apps,
            "limits": tuple(LIMITS.items()),
            "chosen": chosen,
            "message": message,
        }
        status = HTTPStatus.UNPROCESSABLE_ENTITY if message else HTTPStatus.OK
        return rendered(request, "start.html.j2", context, status)

    async def start(self, request: Request) -> Response:
        """Start a run, and show it."""
        form = await own_form(request)
        chosen = {name: first(form, name) for name in _CHOSEN}
        client = known_visitor(request).client
        try:
            run_id = checked_name(chosen["id"]) if chosen["id"] else ""
            job = job_of(chosen["kind"], limits_in(form))
            record = await self.manager.start(chosen["app"], job, run_id=run_id, client=client)
        except (ConfigError, NameRefused) as error:
            return self._start_page(request, chosen, words_of(error))
        return led_to(request, f"runs/{record.app_name}/{record.run_id}", done="start")

    async def stop(self, request: Request) -> Response:
        """Stop a run; it can be resumed."""
        await own_form(request)
        app, run_id = named_run(request)
        await self.manager.cancel(app, run_id, client=known_visitor(request).client)
        return led_to(request, f"runs/{app}/{run_id}", done="stop")

    async def resume(self, request: Request) -> Response:
        """Resume a run, with other limits if the form has any."""
        limits = limits_in(await own_form(request))
        app, run_id = named_run(request)
        client = known_visitor(request).client
        await self.manager.resume(app, run_id, client=client, limits=limits)
        return led_to(request, f"runs/{app}/{run_id}", done="resume")

    async def refine(self, request: Request) -> Response:
        """Start a refinement of a delegation that has ended."""
        form = await own_form(request)
        if self.refinements is None:
            return trouble_page(request, HTTPStatus.NOT_FOUND, _ELSEWHERE)
        app, run_id = named_run(request)
        await self._refine(request, self.refinements, _refine_body(form))
        return led_to(request, f"runs/{app}/{run_id}", done="refine")

    async def resume_refinement(self, request: Request) -> Response:
        """Resume a refinement that was interrupted, or ran all iterations and may have more."""
        form = await own_form(request)
        if self.refinements is None:
            return trouble_page(request, HTTPStatus.NOT_FOUND, _ELSEWHERE)
        key = _refinement_key(request)
        session = key.rpartition("/")[2]
        await self._refine(request, self.refinements, _refine_body(form), resume=session)
        return led_to(request, f"runs/{key}", done="resume")

    async def _refine(
        self,
        request: Request,
        refinements: Refinements,
        body: RefineBody,
        *,
        resume: str | None = None,
    ) -> None:
        app, run_id = named_run(request)
        client, live = known_visitor(request).client, self._runs()
        await self.manager.accounting.check_owner(client, (app, run_id))

        def folder() -> Path:
            return live.library.folder(f"{app}/{run_id}")

        await refinements.start(folder, body, client, resume=resume)

    async def stop_refinement(self, request: Request) -> Response:
        """Stop a refinement; what it has found stays."""
        await own_form(request)
        live, key = self._runs(), _refinement_key(request)
        await self.manager.accounting.check_owner(known_visitor(request).client, named_run(request))
        folder = await live.in_thread(lambda: live.library.folder(key))
        if is_held(folder / LOCK):
            place_inside(folder, STOP_FILE).touch()
        return led_to(request, f"runs/{key}", done="stop")


_CHOSEN = ("app", "kind", "id")
_ITERATIONS, _LIMIT_WORDS = "iterations", "iterations at most"


def _refine_body(form: Query) -> RefineBody:
    iterations = whole_number(first(form, _ITERATIONS), _LIMIT_WORDS)
    fields = {} if iterations is None else {_ITERATIONS: iterations}
    return validate_config(fields, RefineBody, source="form")


def _refinement_key(request: Request) -> str:
    app, run_id = named_run(request)
    return f"{app}/{run_id}/{REFINEMENTS}/{checked_name(request.path_params['session'])}"


def _may_change(visitor: Visitor, owner: str | None) -> bool:
    return visitor.client.scope.may_change and visitor.client.owns(owner)


def _login(
    request: Request, to: str, message: str = "", status: HTTPStatus = HTTPStatus.OK
) -> Response:
    context = {"title": "Log in", "to": to, "message": message}
    return rendered(request, "login.html.j2", context, status)


def _controls(
    visitor: Visitor, stored: StoredRun, owner: str | None, panel: LivePanel | None
) -> RunControls:
    controls = RunControls(
        key=f"{stored.app_name}/{stored.run_id}",
        status=stored.status.value,
        live=not stored.status.finished,
        error=public(stored.error),
        events=stored.events,
        panel=panel,
        limits=tuple(LIMITS.items()),
    )
    if not visitor.client.scope.may_change:
        return controls
    if not visitor.client.owns(owner):
        return replace(controls, why_not="This run belongs to another token.")
    if not stored.status.finished:
        return replace(controls, action="stop")
    return replace(controls, action="resume") if _can_go_on(stored) else controls


def _can_go_on(stored: StoredRun) -> bool:
    """Whether a finished run may be resumed: one that succeeded only if a limit ended it."""
    if stored.status is not RunStatus.SUCCEEDED:
        return True
    result = stored.result if isinstance(stored.result, dict) else {}
    # After its sealed test, nothing may be tried any more.
    return str(result.get("ended")).startswith("max_") and result.get("sealed") is None


def _waiting(place: Place, stored: StoredRun, message: str) -> str:
    """The page of a run of which there is nothing to read."""
    over = "It has ended before anything was measured."
    soon = "Nothing is measured yet. What it finds is shown here."
    context = {
        "title": stored.run_id,
        "key": f"{stored.app_name}/{stored.run_id}",
        "message": message,
        "follow": not stored.status.finished,
        "words": over if stored.status.finished else soon,
    }
    return render("waiting.html.j2", context, place=place)
