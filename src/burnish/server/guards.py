"""Checks on every request, the shape of errors, and sessions of browsers.

A token is sent once, in a form, and a cookie stands for it from then on. A session lives in the
memory of one process and stores the digest of its token, not the token. It ends when the token is
revoked or expires, when somebody logs out, after some hours, and when the service restarts. Its
cookie opens pages only: the API does not look at it, so a page of another site that makes a browser
send it can start nothing.
"""

import asyncio
import hmac
import json
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import urlencode

from burnish.core.content import Json
from burnish.core.errors import (
    BurnishError,
    ConfigError,
    FileTrouble,
    JournalTrouble,
    NotJournalable,
    PriceUnknown,
    Problem,
    ResumeRefused,
    RunLocked,
    RunNotFound,
    SealedTestRead,
    SeedRefused,
    TargetMismatch,
)
from burnish.models.errors import ModelRefused
from burnish.projects.clients import NotAllowed
from burnish.server.launcher import ServiceLimits
from burnish.server.manager import Requests
from burnish.server.runs import (
    AppMissing,
    AppUnfit,
    DatasetMissing,
    FileMissing,
    ManagerClosed,
    NotHere,
    TooManyListeners,
    TooManyRuns,
)
from burnish.server.security import (
    READ_ONLY,
    UNKNOWN,
    NameRefused,
    Refusal,
    Security,
    TooManyAttempts,
    address_of,
    public,
)
from burnish.server.stores.accounts import MEGABYTE, LimitReached
from burnish.server.stores.records import (
    RunExists,
    RunMissing,
    RunNotRunning,
    RunSucceeded,
    StoreTrouble,
)
from burnish.server.tokens import Client, token_digest

VISITOR = "burnish.visitor"
"""Where the scope of a request for a page has its visitor; None for a stranger."""
HOURS = 12.0
"""How long a session lasts."""
_MOST = 1_000
"""Sessions of one process; the oldest one ends when there are more."""
_OF_TOKEN = 20
"""The same for one token, so that nobody ends the sessions of others by logging in."""


@dataclass(frozen=True, kw_only=True)
class BrowserSession:
    """A browser that has logged in."""

    digest: str
    """Of the token it logged in with; empty where no token is required."""
    form_token: str
    """Proves that a form was filled in on a page of this session."""
    until: float

    def has_sent(self, form_token: str) -> bool:
        """Whether a form is from a page of this session."""
        return hmac.compare_digest(form_token.encode(), self.form_token.encode())


@dataclass(frozen=True, kw_only=True)
class Visitor:
    """Who looks at a page."""

    client: Client
    session: BrowserSession
    key: str = ""
    """The value of the session's cookie; empty where no token is required."""


@dataclass
class Sessions:
    """The sessions of a service, by the value of their cookie."""

    security: Security
    clock: Callable[[], float] = time.monotonic
    _sessions: "OrderedDict[str, BrowserSession]" = field(
        default_factory=OrderedDict[str, BrowserSession], init=False
    )
    _everybody: BrowserSession = field(init=False)

    def __post_init__(self) -> None:
        self._everybody = self._new("")

    @property
    def required(self) -> bool:
        """Whether visitors have to log in."""
        return self.security.tokens is not None

    def log_in(self, token: str, address: str = "") -> str | None:
        """A new session for a valid token, as the value of its cookie; None for any other.

        TooManyAttempts if too many wrong tokens came from the address.
        """
        tokens, token = self.security.tokens, token.strip()
        if tokens is None or self.security.attempts.client(tokens, address, token) is None:
            return None
        key, digest = secrets.token_urlsafe(32), token_digest(token)
        own = [name for name, each in self._sessions.items() if each.digest == digest]
        for name in own[: len(own) + 1 - _OF_TOKEN]:
            del self._sessions[name]
        self._sessions[token_digest(key)] = self._new(digest)
        while len(self._sessions) > _MOST:
            self._sessions.popitem(last=False)
        return key

    def log_out(self, key: str) -> None:
        """End a session."""
        self._sessions.pop(token_digest(key), None)

    def visitor(self, scope: Mapping[str, object], cookies: str) -> Visitor | None:
        """Who sends a request; None if it has to log in first."""
        tokens = self.security.tokens
        if tokens is None:
            return Visitor(client=Client(limits=self.security.limits), session=self._everybody)
        key = _cookie(cookies, cookie_name(scope))
        session = self._sessions.get(token_digest(key)) if key else None
        client = None if session is None else tokens.client_with(session.digest)
        if session is None or client is None or self.clock() >= session.until:
            self.log_out(key)
            return None
        return Visitor(client=client, session=session, key=key)

    def _new(self, digest: str) -> BrowserSession:
        until = self.clock() + HOURS * 3600
        return BrowserSession(digest=digest, form_token=secrets.token_urlsafe(32), until=until)


_OPEN = "/login"
_ANYBODY = ("/login", "/logout")
"""What a token that may only read may send."""


@dataclass(frozen=True, kw_only=True)
class PageAccess:
    """Who may see pages; asked before any page is made."""

    sessions: Sessions
    first_parts: frozenset[str]
    """The first parts of the addresses of pages."""

    def covers(self, path: str, headers: Mapping[str, str]) -> bool:
        """Whether a request is for a page. One with a token of the API is not."""
        return path[1:].partition("/")[0] in self.first_parts and "authorization" not in headers

    def is_own_file(self, path: str) -> bool:
        """Whether it is a style or a script of ours, which tells nothing about this service."""
        return path.startswith("/static/")

    def admitted(
        self, scope: MutableMapping[str, Any], path: str, headers: Mapping[str, str]
    ) -> Client | Refusal | None:
        """Who asks for a page, or why it is refused; None for a stranger who may log in."""
        changes = scope["method"] not in ("GET", "HEAD", "OPTIONS")
        if (refusal := self.sessions.security.foreign(headers)) is not None:
            return refusal
        if changes and headers.get("sec-fetch-site", "") in ("cross-site", "same-site"):
            return _FOREIGN
        visitor = self.sessions.visitor(scope, headers.get("cookie", ""))
        scope[VISITOR] = visitor
        if visitor is None:
            return (
                None if path == _OPEN or self.is_own_file(path) else _log_in(scope, path, headers)
            )
        if changes and path not in _ANYBODY and not visitor.client.scope.may_change:
            return READ_ONLY
        return visitor.client


_FOREIGN = Refusal(
    status=403, code="foreign_site", message="pages of other sites may not send forms"
)


def _log_in(scope: Mapping[str, Any], path: str, headers: Mapping[str, str]) -> Refusal:
    """Send a browser to the form for its token, and say so to everybody else."""
    if "text/html" not in headers.get("accept", ""):
        return UNKNOWN
    to = f"?{urlencode({'to': path.strip('/')})}" if path.strip("/") else ""
    address = f"{str(scope.get('root_path', '')).rstrip('/')}{_OPEN}{to}"
    headers_of = (("location", address), ("cache-control", "no-store"))
    return Refusal(status=303, code="log_in", message="log in first", headers=headers_of)


def cookie_name(scope: Mapping[str, object]) -> str:
    """The name of the cookie: two services on one machine do not overwrite each other's."""
    server = scope.get("server")
    port = server[1] if isinstance(server, tuple | list) and len(server) == 2 else None  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return f"burnish_{port or 'session'}"


def session_cookie(scope: Mapping[str, object], key: str, *, root: str) -> str:
    """The header that stores a session in the browser; without a key, the one that removes it."""
    hours = HOURS if key else 0
    secure = "; Secure" if scope.get("scheme") == "https" else ""
    return (
        f"{cookie_name(scope)}={key}; Path={root}; Max-Age={int(hours * 3600)}; HttpOnly; "
        f"SameSite=Strict{secure}"
    )


def _cookie(header: str, name: str) -> str:
    # Not http.cookies: a cookie of another program on this host that it cannot read hides ours.
    pairs = (each.strip().partition("=") for each in header.split(";"))
    return next((value for key, _, value in pairs if key == name), "")


_log = logging.getLogger("burnish.server")
_KNOWN: tuple[tuple[type[BurnishError], int, str], ...] = (
    (NameRefused, 400, "invalid_name"),
    (LimitReached, 429, "limit_reached"),
    (TooManyAttempts, 429, "too_many_attempts"),
    (ConfigError, 422, "invalid_request"),
    (NotJournalable, 422, "invalid_request"),
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
    (RunSucceeded, 409, "run_succeeded"),
    (RunLocked, 409, "run_locked"),
    (ResumeRefused, 409, "resume_refused"),
    (SealedTestRead, 409, "sealed_test_read"),
    (SeedRefused, 409, "seed_refused"),
    (NotHere, 409, "not_here"),
    (TooManyRuns, 429, "too_many_runs"),
    (TooManyListeners, 429, "too_many_listeners"),
    (StoreTrouble, 503, "store_trouble"),
    (JournalTrouble, 503, "journal_trouble"),
    (ManagerClosed, 503, "closing"),
    (FileTrouble, 503, "file_trouble"),
)
INTERNAL = (500, "internal")
_OURS = {
    "store_trouble": "the store of runs does not answer",
    "journal_trouble": "the journal of this run cannot be read",
    "file_trouble": "a file of the service cannot be read or written",
    "internal": "an error in the service",
}
"""What clients read instead of errors whose messages are about this machine."""
_LATER = "try again later; the log of the service says more"


def status_of(error: BurnishError) -> tuple[int, str]:
    """The HTTP status and the code of an error."""
    matches = (each[1:] for each in _KNOWN if isinstance(error, each[0]))
    return next(matches, INTERNAL)


def retry_after(error: BurnishError) -> dict[str, str]:
    """The header that says when to try again, for an error that knows it."""
    return {"Retry-After": str(error.seconds)} if isinstance(error, TooManyAttempts) else {}


def problem(
    code: str, message: str, *, remedy: str = "", problems: Iterable[Problem] = ()
) -> dict[str, Json]:
    """The body of an error."""
    details: list[Json] = [
        {
            "where": public(each.where),
            "message": public(each.message),
            "remedy": public(each.remedy),
        }
        for each in problems
    ]
    return {"error": {"code": code, "message": message, "remedy": remedy, "problems": details}}


def error_body(error: BurnishError) -> dict[str, Json]:
    """The body for a BurnishError."""
    details = error.problems if isinstance(error, ConfigError) else ()
    _, code = status_of(error)
    if code in _OURS:
        return problem(code, _OURS[code], remedy=_LATER)
    return problem(code, public(error.message), remedy=public(error.remedy), problems=details)


def plain_message(error: BurnishError) -> str:
    """The message for APIs whose errors are a sentence."""
    return _OURS.get(status_of(error)[1]) or public(error.message)


def log_trouble(error: BaseException) -> None:
    """Log what the client is not told."""
    if not isinstance(error, BurnishError) or status_of(error)[1] in _OURS:
        _log.warning("a request failed: %s: %s", type(error).__name__, error)


def as_bytes(document: Json) -> bytes:
    """JSON that can always be sent, also if it repeats half of a surrogate pair."""
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")


_Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[_Message]]
Send: TypeAlias = Callable[[_Message], Awaitable[None]]
_Application: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

CLIENT = "burnish.client"
"""Where a request's scope has the client; None for a stranger."""
_FORM_BYTES = 64 * 1024
"""The largest form of a page."""
_METHODS = "GET, POST, PUT, DELETE, OPTIONS"
_TOO_LARGE = Refusal(status=413, code="too_large", message="request body too large")
_TOO_SLOW = Refusal(
    status=408, code="request_timeout", message="the request did not arrive in time"
)
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
"""Of every answer that does not set them itself."""


class Guard:
    """An ASGI middleware; its refusals have the shape that the requested API uses for errors."""

    def __init__(
        self,
        app: _Application,
        *,
        security: Security,
        requests: Requests,
        limits: ServiceLimits,
        plain_under: str,
        open_paths: frozenset[str],
        pages: PageAccess | None = None,
    ) -> None:
        self._pages = pages
        self._app = app
        self._security = security
        self._requests = requests
        self._limits = limits
        self._plain_under = plain_under
        self._open_paths = open_paths

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        send = self._counted(scope["method"], self._shared(headers.get("origin", ""), send))
        path = path_of(scope)
        pages = self._pages_for(path, headers)
        admitted = self._admitted(scope, path, headers, pages)
        refusal = admitted if isinstance(admitted, Refusal) else None
        client = None if isinstance(admitted, Refusal) else admitted
        scope[CLIENT] = client
        preflight = scope["method"] == "OPTIONS" and "access-control-request-method" in headers
        if refusal is None and preflight:
            await _answer(send, 204, b"", ())
            return
        if refusal is None and scope["method"] in ("POST", "PUT", "PATCH", "DELETE"):
            most = self._most(client) if pages is None else (_FORM_BYTES, _TOO_LARGE)
            body = await self._body(headers, receive, most)
            if body is None:
                return  # the client has gone
            if isinstance(body, Refusal):
                refusal = body
            else:
                receive = _once(body, receive)
        if refusal is None:
            still = partial(self._admitted, scope, path, headers, pages)
            await self._app(scope, receive, _while_admitted(still, send))
            return
        plain = path.startswith(self._plain_under)
        sentence: dict[str, Json] = {"error": refusal.message}
        whole = problem(refusal.code, refusal.message, problems=refusal.problems)
        document = sentence if plain else whole
        await _answer(send, refusal.status, as_bytes(document) + b"\n", refusal.headers)

    def _pages_for(self, path: str, headers: Mapping[str, str]) -> PageAccess | None:
        """Who decides about a request for a page; None if it is for an API."""
        covers = self._pages is not None and self._pages.covers(path, headers)
        return self._pages if covers and not path.startswith(self._plain_under) else None

    def _admitted(
        self,
        scope: MutableMapping[str, Any],
        path: str,
        headers: Mapping[str, str],
        pages: PageAccess | None,
    ) -> Client | Refusal | None:
        try:
            if pages is not None:
                return pages.admitted(scope, path, headers)
            is_open = path in self._open_paths
            return self._security.admitted(
                scope["method"], headers, open_to_all=is_open, address=address_of(scope)
            )
        except BurnishError as error:  # such as a file of tokens that cannot be read
            log_trouble(error)
            status, code = status_of(error)
            return Refusal(
                status=status,
                code=code,
                message=plain_message(error),
                headers=tuple(retry_after(error).items()),
            )

    def _most(self, client: Client | None) -> tuple[int, Refusal]:
        """The largest body that a client may send, and the refusal of a larger one."""
        most = self._limits.body_bytes
        own = None if client is None else client.limits.max_upload
        if own is None or own * MEGABYTE >= most:
            return most, _TOO_LARGE
        message = f"request body too large: max_upload is {own} megabytes"
        return own * MEGABYTE, replace(_TOO_LARGE, message=message, limit="max_upload")

    async def _body(
        self, headers: Mapping[str, str], receive: Receive, limit: tuple[int, Refusal]
    ) -> _Message | Refusal | None:
        """The whole body, so that no route sees one that is too large or still on its way."""
        length, (most, too_large) = headers.get("content-length", "0"), limit
        if length.isdigit() and int(length[:20]) > most:
            return too_large
        parts: list[bytes] = []
        more, size = True, 0
        try:
            async with asyncio.timeout(self._limits.connection.body_seconds):
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        return None
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    more = message.get("more_body", False)
                    if size > most:
                        return too_large
        except TimeoutError:
            return _TOO_SLOW
        return {"type": "http.request", "body": b"".join(parts), "more_body": False}

    def _shared(self, origin: str, send: Send) -> Send:
        """Add what browsers need to know: security, and CORS for the page of an allowed origin."""
        more = _HEADERS
        if self._security.allows(origin):
            more = (
                *(each for each in _HEADERS if each[0] != b"cross-origin-resource-policy"),
                (b"access-control-allow-origin", origin.encode("latin-1")),
                (b"access-control-allow-methods", _METHODS.encode()),
                (b"access-control-allow-headers", b"Authorization, Content-Type, Last-Event-ID"),
                (b"vary", b"Origin"),
            )

        async def shared(message: _Message) -> None:
            if message["type"] == "http.response.start":
                own = message.get("headers", ())
                names = {name.lower() for name, _ in own}
                added = [each for each in more if each[0] not in names]
                message["headers"] = [*own, *added]
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


def _while_admitted(admitted: Callable[[], Client | Refusal | None], send: Send) -> Send:
    """Ends an answer that goes on for long, such as events, when its client is refused by now."""
    over = False

    async def sending(message: _Message) -> None:
        nonlocal over
        if over:
            return
        if message.get("more_body") and isinstance(admitted(), Refusal):
            over, message = True, {**message, "body": b"", "more_body": False}
        await send(message)

    return sending


def _once(first: _Message, receive: Receive) -> Receive:
    """A `receive` that repeats a message which was read already, then passes on the rest."""
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
