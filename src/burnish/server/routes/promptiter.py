"""PromptIter's five routes, with its status codes, headers and error shapes, and its results."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, cast
from urllib.parse import quote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from burnish.compat.promptiter import RunResult, Slimming, read_request
from burnish.compat.promptiter.requests import run_key, unknown_fields
from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError
from burnish.core.formatting import shorten
from burnish.server.apps import assembled
from burnish.server.guards import (
    CLIENT,
    Receive,
    Send,
    log_trouble,
    path_of,
    plain_message,
    status_of,
)
from burnish.server.manager import RunManager
from burnish.server.runs import AppMissing, ManagerClosed
from burnish.server.security import is_plain, public
from burnish.server.stores.records import (
    RunEvent,
    RunMissing,
    RunNotRunning,
    RunStatus,
    RunStore,
    StoredRun,
    json_pieces,
)
from burnish.server.work import App
from burnish.system.settings import too_many_keys

# -- The result of a run ---------------------------------------------------------------------------


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ESCAPED = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
_LEVELS = 7
"""Down to one case of one evaluation of one round: deeper parts are small."""


async def run_result(
    store: RunStore, record: StoredRun, slim: Slimming | None = None
) -> dict[str, Json]:
    """The result of a run, or its state so far."""
    if isinstance(record.result, dict) and record.status.finished:
        result = record.result
    else:
        events: list[RunEvent] = []
        key = (record.app_name, record.run_id)
        while page := await store.events(*key, after=len(events), limit=500):
            events += page
        result = await asyncio.to_thread(assembled, events, RunResult())
    result = result if slim is None else slim.slimmed(result)
    assert isinstance(result, dict)
    # The record is what was decided: a cancel wins over whatever the engine said last.
    return result | {
        "AppName": record.app_name,
        "ID": record.run_id,
        "Status": record.status.value,
        "CurrentRound": record.current_round,
        "ErrorMessage": public(record.error),
    }


def _go_json(value: Json) -> bytes:
    """JSON as Go's encoder writes it, which PromptIter's clients may rely on.

    Encoded in pieces, because the codec blocks other threads and results may be large.
    """
    # These characters occur only inside strings, so escaping them afterwards is safe.
    pieces = json_pieces(value, _LEVELS, lambda inner: _ENCODER.encode(inner).translate(_ESCAPED))
    return "".join([*pieces, "\n"]).encode("utf-8", "replace")


# -- The routes ------------------------------------------------------------------------------------


log = logging.getLogger("burnish.server")
_CLOSED = "promptiter manager is closed"
_SHOWN = 128
"""The characters of an id that an answer repeats."""


class _Refused(Exception):
    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status, self.text, self.headers = status, text, dict(headers or {})


@dataclass(frozen=True, kw_only=True)
class SubPaths:
    """What the three resources of an app are called in its addresses."""

    structure: str = "structure"
    runs: str = "runs"
    async_runs: str = "async-runs"

    @classmethod
    def parse(cls, flags: Sequence[str]) -> "SubPaths":
        """The names from `NAME=PATH` each; raises ConfigError if two would be the same."""
        names = {each.name.replace("_", "-"): each.name for each in fields(cls)}
        chosen: dict[str, str] = {}
        for flag in flags:
            name, _, path = flag.partition("=")
            path = path.strip("/")
            if name not in names or not is_plain(path):
                remedy = f"names are: {', '.join(names)}; a path is one short plain name"
                raise ConfigError.of("--sub-path", f"'{flag}' is not NAME=PATH", remedy)
            chosen[names[name]] = path
        paths = cls(**chosen)
        if len({paths.structure, paths.runs, paths.async_runs}) < len(names):
            raise ConfigError.of("--sub-path", "two resources have the same path")
        return paths


@dataclass(frozen=True, kw_only=True)
class PromptIterRoutes:
    """An ASGI application for the paths below the base path."""

    manager: RunManager
    base_path: str
    paths: SubPaths = SubPaths()
    serve_async: bool = True
    """Whether asynchronous runs are available."""
    slimming: Slimming | None = None
    """What answers leave out."""

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._answered(request)
        except ClientDisconnect:
            response = Response(status_code=499)  # client closed request
        except _Refused as refused:
            response = await _json(refused.status, {"error": refused.text}, refused.headers)
        except BurnishError as error:
            log_trouble(error)
            message = _CLOSED if isinstance(error, ManagerClosed) else plain_message(error)
            response = await _json(_status(error), {"error": message})
        except OSError as error:  # a full disk, a folder that has gone
            log_trouble(error)
            response = await _json(503, {"error": "a file of the service cannot be used"})
        except Exception:  # the client gets an answer, the log the traceback
            log.exception("a request failed")
            response = await _json(500, {"error": "internal error"})
        await response(scope, receive, send)

    async def _answered(self, request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=204)
        path = path_of({"path": request.scope["path"], "root_path": request.scope["root_path"]})
        if path.endswith("/") and path != "/":
            place = quote(request.scope["path"].rstrip("/"), safe="/:@!$&'()*+,;=~")
            query = f"?{request.url.query}" if request.url.query else ""
            return Response(status_code=308, headers={"Location": f"{place}{query}"})
        app_name, _, rest = path.strip("/").partition("/")
        if app_name not in self.manager.apps:
            raise _Refused(404, "not found")
        return await self._routed(request, rest)(request, self.manager.apps[app_name])

    def _routed(self, request: Request, rest: str) -> Callable[[Request, App], Awaitable[Response]]:
        """The handler of a path below an app."""
        paths = self.paths
        collections = {
            paths.structure: ("GET", self._structure),
            paths.runs: ("POST", self._run),
        }
        if self.serve_async:
            collections[paths.async_runs] = ("POST", self._start)
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
        if not (self.serve_async and head == paths.async_runs and run_id and routed):
            raise _Refused(404, "not found")
        return routed

    async def _structure(self, request: Request, app: App) -> Response:
        del request
        return await _json(200, {"structure": await self.manager.structure(app.name)})

    async def _run(self, request: Request, app: App) -> Response:
        """Block until the run has ended; a disconnect or a timeout cancels it."""
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
                with suppress(RunNotRunning):  # it ended just now
                    await self.manager.cancel(*key)
                raise ClientDisconnect if gone in done else _Refused(504, "deadline exceeded")
            record = await ended
        finally:
            gone.cancel()
            ended.cancel()
        if record.status is RunStatus.CANCELED:
            raise _Refused(408, record.error)
        if record.status is not RunStatus.SUCCEEDED:
            raise _Refused(500, public(record.error) or _CLOSED)
        result = await run_result(self.manager.store, record, self.slimming)
        return await _json(200, {"result": {**result, "ID": ""}})

    async def _start(self, request: Request, app: App) -> Response:
        record = await self._begun(request, app)
        # The answer says that it is queued, however far it is by now.
        result = await run_result(self.manager.store, record, self.slimming)
        place = f"{request.scope['path']}/{record.run_id}"
        return await _json(201, {"result": result}, {"Location": quote(place)})

    async def _get(self, request: Request, app: App) -> Response:
        run_id = request.state.run_id
        if not is_plain(run_id):
            raise RunMissing(app.name, run_id[:_SHOWN])
        record = await self.manager.get(app.name, run_id)
        result = await run_result(self.manager.store, record, self.slimming)
        return await _json(200, {"result": result})

    async def _cancel(self, request: Request, app: App) -> Response:
        run_id = request.state.run_id
        if not is_plain(run_id):
            raise RunNotRunning(run_id[:_SHOWN])
        try:
            await self.manager.cancel(app.name, run_id, client=request.scope.get(CLIENT))
        except RunMissing:
            raise RunNotRunning(run_id) from None
        return Response(status_code=202)

    async def _begun(self, request: Request, app: App) -> StoredRun:
        data = _run_of(await request.body())
        _, warnings = read_request(data, strict=False)
        for warning in warnings:
            log.warning("a request for the app %s: %r", app.name, warning)
        # Mounted without the guard, there are only programs that have the manager anyway.
        client = request.scope.get(CLIENT)
        job: Json = {"kind": "promptiter", "promptiter": data}
        return await self.manager.start(app.name, job, client=client)


def _run_of(body: bytes) -> Json:
    """The request inside the envelope, whose key may have any letter case."""
    try:
        data = cast("Json", json.loads(body, parse_constant=_no_number))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise _Refused(400, f"invalid request body: not JSON at {place}") from None
    except (ValueError, RecursionError):
        raise _Refused(400, "invalid request body: not JSON") from None
    if not isinstance(data, dict):
        raise _Refused(400, "invalid request body: an object is expected")
    if message := too_many_keys(data):
        raise _Refused(400, f"invalid request body: {message}")
    name = run_key(data)
    if unknown := [shorten(key, 60) for key in data if key != name]:
        log.warning("a request: %r", unknown_fields(unknown))
    if name is None or (run := data[name]) is None:
        raise _Refused(400, "run request is empty")
    return run


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")


_AS_IS = (400, 403, 409, 413, 429, 503)
"""Statuses that are the same in both dialects."""


def _status(error: BurnishError) -> int:
    status, _ = status_of(error)
    if status == 422:
        return 400
    if isinstance(error, RunMissing | RunNotRunning | AppMissing):
        return 404
    return status if status in _AS_IS and not isinstance(error, ManagerClosed) else 500


async def _json(status: int, data: Json, headers: Mapping[str, str] | None = None) -> Response:
    body = await asyncio.to_thread(_go_json, data)
    return Response(
        body, status_code=status, media_type="application/json", headers=dict(headers or {})
    )


async def _disconnected(request: Request) -> None:
    """Return when the client disconnects; its body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
