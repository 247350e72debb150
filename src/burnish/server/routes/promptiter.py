"""PromptIter's five routes, with its status codes, headers and error shapes."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast
from urllib.parse import quote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from burnish.compat.promptiter import read_request
from burnish.core.content import Json
from burnish.core.errors import BurnishError
from burnish.server.go_json import go_json
from burnish.server.guards import Receive, Send, path_of, status_of
from burnish.server.manager import RunManager
from burnish.server.results import run_result
from burnish.server.runs import AppMissing, ManagerClosed, TooManyRuns
from burnish.server.stores.documents import Slimming
from burnish.server.stores.records import RunMissing, RunNotRunning, RunStatus, StoredRun
from burnish.server.work import App

log = logging.getLogger("burnish.server")
CLOSED = "promptiter manager is closed"
_CLIENT_GONE, _UNFIT = 499, 422
Handler: TypeAlias = Callable[[Request, App], Awaitable[Response]]


class _Refused(Exception):
    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status, self.text, self.headers = status, text, dict(headers or {})


@dataclass(frozen=True, kw_only=True)
class PromptIterRoutes:
    """An ASGI application for the paths below the base path."""

    manager: RunManager
    base_path: str
    serve_async: bool = True
    """Whether there are asynchronous runs."""
    slimming: Slimming | None = None
    """What answers leave out."""

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        try:
            response = await self._answered(request)
        except ClientDisconnect:
            response = Response(status_code=_CLIENT_GONE)
        except _Refused as refused:
            response = await _json(refused.status, {"error": refused.text}, refused.headers)
        except BurnishError as error:
            response = await _json(_status(error), {"error": _text(error)})
        except Exception:
            log.exception("a request failed")
            response = await _json(500, {"error": "internal error"})
        await response(scope, receive, send)

    async def _answered(self, request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=204)
        path = path_of({"path": request.scope["path"], "root_path": request.scope["root_path"]})
        if path.endswith("/") and path != "/":
            return _moved(request)
        app_name, _, rest = path.strip("/").partition("/")
        if app_name not in self.manager.apps:
            raise _Refused(404, "not found")
        return await self._routed(request, rest)(request, self.manager.apps[app_name])

    def _routed(self, request: Request, rest: str) -> Handler:
        """The handler of a path below an app."""
        collections = {"structure": ("GET", self._structure), "runs": ("POST", self._run)}
        if self.serve_async:
            collections["async-runs"] = ("POST", self._start)
        if rest in collections:
            method, handler = collections[rest]
            if request.method != method:
                allow = {"Allow": f"{method}, OPTIONS"}
                raise _Refused(405, "method not allowed", allow)
            return handler
        head, _, run = rest.partition("/")
        run_id, _, action = run.partition("/")
        request.state.run_id = run_id
        actions = {("GET", ""): self._get, ("POST", "cancel"): self._cancel}
        routed = actions.get((request.method, action))
        if not (self.serve_async and head == "async-runs" and run_id and routed):
            raise _Refused(404, "not found")
        return routed

    # -- the five ----------------------------------------------------------------------------

    async def _structure(self, request: Request, app: App) -> Response:
        del request
        return await _json(200, {"structure": await self.manager.structure(app.name)})

    async def _run(self, request: Request, app: App) -> Response:
        """Block until the run has ended; a client that goes away, or a timeout, ends it."""
        record = await self._begun(request, app)
        key = (app.name, record.run_id)
        ended = asyncio.ensure_future(self.manager.wait(*key))
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            done, _ = await asyncio.wait(
                [ended, gone],
                timeout=self.manager.limits.sync_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if ended not in done:
                await self._give_up(*key)
                raise ClientDisconnect if gone in done else _Refused(504, "deadline exceeded")
            return await self._ended(await ended)
        finally:
            gone.cancel()
            ended.cancel()

    async def _ended(self, record: StoredRun) -> Response:
        if record.status is RunStatus.CANCELED:
            raise _Refused(408, record.error)
        if record.status is not RunStatus.SUCCEEDED:
            raise _Refused(500, record.error or CLOSED)
        result = await run_result(self.manager.store, record, self.slimming)
        return await _json(200, {"result": {**result, "ID": ""}})

    async def _give_up(self, app_name: str, run_id: str) -> None:
        try:
            await self.manager.cancel(app_name, run_id)
        except RunNotRunning:
            return  # it ended just now

    async def _start(self, request: Request, app: App) -> Response:
        record = await self._begun(request, app)
        # What is told is that it is queued, however far it is by now.
        result = await run_result(self.manager.store, record, self.slimming)
        place = f"{request.scope['path']}/{record.run_id}"
        return await _json(201, {"result": result}, {"Location": quote(place)})

    async def _get(self, request: Request, app: App) -> Response:
        record = await self.manager.get(app.name, request.state.run_id)
        return await _json(
            200, {"result": await run_result(self.manager.store, record, self.slimming)}
        )

    async def _cancel(self, request: Request, app: App) -> Response:
        run_id = request.state.run_id
        try:
            await self.manager.cancel(app.name, run_id)
        except RunMissing:
            raise RunNotRunning(run_id) from None
        return Response(status_code=202)

    async def _begun(self, request: Request, app: App) -> StoredRun:
        data = _run_of(await request.body())
        _, warnings = read_request(data, strict=False)
        for warning in warnings:
            log.warning("a request for the app %s: %s", app.name, warning)
        return await self.manager.start(app.name, {"kind": "promptiter", "promptiter": data})


def _run_of(body: bytes) -> Json:
    """The request in the envelope, whose key may have any letter case."""
    try:
        data = cast("Json", json.loads(body, parse_constant=_no_number))
    except (ValueError, RecursionError) as error:
        raise _Refused(400, f"invalid request body: {error}") from None
    if not isinstance(data, dict):
        raise _Refused(400, "invalid request body: an object is wanted")
    run = next((value for key, value in data.items() if key.lower() == "run"), None)
    for key in data:
        if key.lower() != "run":
            log.warning("unknown field '%s' is ignored", key)
    if run is None:
        raise _Refused(400, "run request is empty")
    return run


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _status(error: BurnishError) -> int:
    if status_of(error)[0] == _UNFIT:
        return 400
    if isinstance(error, RunMissing | RunNotRunning | AppMissing):
        return 404
    return 429 if isinstance(error, TooManyRuns) else 500


def _text(error: BurnishError) -> str:
    return CLOSED if isinstance(error, ManagerClosed) else error.message


def _moved(request: Request) -> Response:
    """To the same address without the slash, the query kept."""
    place = quote(request.scope["path"].rstrip("/"), safe="/:@!$&'()*+,;=~")
    query = request.url.query
    return Response(status_code=308, headers={"Location": f"{place}?{query}" if query else place})


async def _json(status: int, data: Json, headers: Mapping[str, str] | None = None) -> Response:
    body = await asyncio.to_thread(go_json, data)
    return Response(
        body, status_code=status, media_type="application/json", headers=dict(headers or {})
    )


async def _disconnected(request: Request) -> None:
    """Return when the client goes away; its body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
