"""What every request passes, and how errors are reported."""

import json
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias

from burnish.core.content import Json
from burnish.core.errors import (
    BurnishError,
    ConfigError,
    FileTrouble,
    PriceUnknown,
    ResumeRefused,
    RunLocked,
    RunNotFound,
    SealedTestRead,
    TargetMismatch,
)
from burnish.models.errors import ModelRefused
from burnish.server.manager import Requests
from burnish.server.runs import (
    AppMissing,
    AppUnfit,
    DatasetMissing,
    FileMissing,
    ManagerClosed,
    NotAllowed,
    NotHere,
    TooManyRuns,
)
from burnish.server.security import Refusal, Security
from burnish.server.stores.records import RunExists, RunMissing, RunNotRunning, StoreTrouble

_KNOWN: tuple[tuple[type[BurnishError], int, str], ...] = (
    (ConfigError, 422, "invalid_request"),
    (PriceUnknown, 422, "price_unknown"),
    (TargetMismatch, 422, "target_mismatch"),
    (ModelRefused, 422, "model_refused"),
    (NotAllowed, 403, "not_allowed"),
    (AppMissing, 404, "app_not_found"),
    (AppUnfit, 409, "app_unfit"),
    (DatasetMissing, 404, "dataset_not_found"),
    (FileMissing, 404, "file_not_found"),
    (RunMissing, 404, "run_not_found"),
    (RunNotFound, 404, "run_not_found"),
    (RunExists, 409, "run_exists"),
    (RunNotRunning, 409, "run_not_running"),
    (RunLocked, 409, "run_locked"),
    (ResumeRefused, 409, "resume_refused"),
    (SealedTestRead, 409, "sealed_test_read"),
    (NotHere, 409, "not_here"),
    (TooManyRuns, 429, "too_many_runs"),
    (StoreTrouble, 503, "store_trouble"),
    (ManagerClosed, 503, "closing"),
    (FileTrouble, 500, "file_trouble"),
)
INTERNAL = (500, "internal")


def status_of(error: BurnishError) -> tuple[int, str]:
    """The HTTP status and the code of an error."""
    matches = (each[1:] for each in _KNOWN if isinstance(error, each[0]))
    return next(matches, INTERNAL)


def problem(code: str, message: str, *, remedy: str = "", problems: Json = None) -> dict[str, Json]:
    """The body of an error."""
    fields: dict[str, Json] = {"code": code, "message": message, "remedy": remedy}
    return {"error": {**fields, "problems": [] if problems is None else problems}}


def error_body(error: BurnishError) -> dict[str, Json]:
    """The body for an error of burnish."""
    details = error.problems if isinstance(error, ConfigError) else ()
    problems: list[Json] = [
        {"where": each.where, "message": each.message, "remedy": each.remedy} for each in details
    ]
    _, code = status_of(error)
    return problem(code, error.message, remedy=error.remedy, problems=problems)


# -- The guard before every route -----------------------------------------------------------------


_Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[_Message]]
Send: TypeAlias = Callable[[_Message], Awaitable[None]]
_Application: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_BODIES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_METHODS = "GET, POST, PUT, DELETE, OPTIONS"
_TOO_LARGE = Refusal(status=413, code="too_large", message="request body too large")


class Guard:
    """An ASGI middleware. What it refuses is refused in the words of the API that was asked."""

    def __init__(
        self,
        app: _Application,
        *,
        security: Security,
        requests: Requests,
        body_bytes: int,
        plain_under: str,
        open_paths: frozenset[str],
    ) -> None:
        self._app = app
        self._security = security
        self._requests = requests
        self._body_bytes = body_bytes
        self._plain_under = plain_under
        self._open_paths = open_paths

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        send = self._counted(scope["method"], self._shared(headers.get("origin", ""), send))
        path = path_of(scope)
        is_open = path in self._open_paths
        refusal = self._security.refusal(scope["method"], headers, open_to_all=is_open)
        if refusal is None and _is_preflight(scope["method"], headers):
            await _answer(send, 204, b"", ())
            return
        if refusal is None and scope["method"] in _BODIES:
            receive, refusal = await self._sized(headers, receive)
        if refusal is not None:
            await self._refuse(refusal, path, send)
            return
        await self._app(scope, receive, send)

    async def _sized(
        self, headers: Mapping[str, str], receive: Receive
    ) -> tuple[Receive, Refusal | None]:
        """The body, read whole, so that no route sees one that is too large."""
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > self._body_bytes:
            return receive, _TOO_LARGE
        parts: list[bytes] = []
        more, size = True, 0
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return _once(message, receive), None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
            if size > self._body_bytes:
                return receive, _TOO_LARGE
        whole = {"type": "http.request", "body": b"".join(parts), "more_body": False}
        return _once(whole, receive), None

    async def _refuse(self, refusal: Refusal, path: str, send: Send) -> None:
        plain = path.startswith(self._plain_under)
        document = {"error": refusal.message} if plain else problem(refusal.code, refusal.message)
        await _answer(send, refusal.status, json.dumps(document).encode() + b"\n", refusal.headers)

    def _shared(self, origin: str, send: Send) -> Send:
        """Answers that a page of another origin may read say so."""
        if not self._security.allows(origin):
            return send
        more = [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-allow-methods", _METHODS.encode()),
            (b"access-control-allow-headers", b"Authorization, Content-Type, Last-Event-ID"),
            (b"vary", b"Origin"),
        ]

        async def shared(message: _Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *more]
            await send(message)

        return shared

    def _counted(self, method: str, send: Send) -> Send:
        began = time.perf_counter()

        async def counted(message: _Message) -> None:
            if message["type"] == "http.response.start":
                self._requests.count(method, message["status"], time.perf_counter() - began)
            await send(message)

        return counted


def path_of(scope: Mapping[str, Any]) -> str:
    """The path inside the service, wherever it is mounted."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path[len(root) :] if root and path.startswith(root) else path


def _is_preflight(method: str, headers: Mapping[str, str]) -> bool:
    return method == "OPTIONS" and "access-control-request-method" in headers


def _once(first: _Message, receive: Receive) -> Receive:
    """Give a message that was read already, then what comes."""
    waiting = [first]

    async def again() -> _Message:
        return waiting.pop() if waiting else await receive()

    return again


async def _answer(
    send: Send, status: int, body: bytes, headers: tuple[tuple[str, str], ...]
) -> None:
    fields = [(key.encode(), value.encode()) for key, value in headers]
    fields += [(b"content-type", b"application/json")] if body else []
    fields.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})
